"""How a command of the pipeline ends when it does not succeed: with one line, never a Java stack."""

from __future__ import annotations

import re

import click

from leveret.spark.pipeline.job_errors import short_error

__all__ = ["Failed", "told"]

# What Spark writes behind its own words: a code of the standard, and where it was.
_CODES = re.compile(r"\s*SQLSTATE: \w+.*")


class Failed(click.ClickException):
    """Ends a command with one line."""

    exit_code = 1

    def show(self, file: object = None) -> None:
        # What a broker or a table holds may be repeated here, and is not to reach the terminal as a command.
        text = "".join(
            letter if letter.isprintable() or letter == "\n" else f"\\x{ord(letter):02x}" for letter in self.message
        )
        click.echo(f"leveret: {text}", err=True)


def told(error: BaseException) -> str:
    """The part of an error that a person can act on."""
    return _CODES.sub("", short_error(error))
