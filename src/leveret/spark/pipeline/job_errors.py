"""What went wrong in a job, in a few words: the sentence that says it, out of pages of stack traces."""

from __future__ import annotations

import re

__all__ = ["short_error"]

# What the connector raised, wherever in the text it is: the class says that it is meant for people.
_OURS = re.compile(r"leveret\.spark\.[\w.]*errors\.(\w+): (.+)|leveret\.spark\.pipeline\.[\w.]+\.(\w+): (.+)")
# The last line of a Python stack trace.
_PYTHONS = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt|Failed|Refused|Conflict)): (.+)$", re.MULTILINE)
_CODE = re.compile(r"^\[[A-Z_.0-9]+\] ")
LENGTH_MAX = 500


def short_error(error: BaseException | str) -> str:
    """One line, without passwords as the connector's texts have none."""
    text = str(error)
    ours = _OURS.search(text)
    if ours is not None:
        name, what = (ours[1], ours[2]) if ours[1] else (ours[3], ours[4])
        return _cut(f"{name}: {what}")
    found = _PYTHONS.findall(text)
    if found:
        name, what = found[-1]
        return _cut(f"{name}: {what}")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # Spark says which query it was, and then what the matter is.
    return _cut(_CODE.sub("", lines[0]))


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= LENGTH_MAX else f"{text[:LENGTH_MAX]} ..."
