"""What went wrong in Spark, in the words of whoever said it first: one or two lines, never a Java stack."""

from __future__ import annotations

import re

import click

__all__ = ["Failed", "told"]

# A Python worker's error reaches us as the text of a traceback within the text of a Java exception.
_OURS = re.compile(r"leveret\.spark\.(?:pipeline\.)?\w*errors\.\w+: (.+)")
_PYTHONS = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CAUSED_BY = re.compile(r"Caused by: [\w.$]+: (.+)")
_NOISE = re.compile(r"\s*SQLSTATE: \w+;?.*|;\s*$", re.DOTALL)
LINES_MAX = 4


class Failed(click.ClickException):
    """Ends a command with one line."""

    exit_code = 1

    def show(self, file: object = None) -> None:
        # What a broker or a table holds may be repeated here, and is not to reach the terminal as a command.
        text = "".join(letter if letter.isprintable() or letter == "\n" else f"\\x{ord(letter):02x}" for letter in self.message)
        click.echo(f"leveret: {text}", err=True)


def told(error: BaseException) -> str:
    """The part of an error that a person can act on."""
    text = str(error)
    for pattern in (_OURS, _CAUSED_BY):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    pythons = _PYTHONS.findall(text)
    if pythons and "Traceback" in text:
        kind, said = pythons[-1]
        return f"{kind}: {said}"
    lines = [line for line in _NOISE.sub("", text).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return "\n".join(lines[:LINES_MAX]) or type(error).__name__
