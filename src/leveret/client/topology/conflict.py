"""What a broker says when a thing is there and is not as it was declared: text into an exception with fields."""

from __future__ import annotations

import re
from typing import Final

from leveret.client.errors import ChannelClosed

__all__ = ["TopologyConflict", "conflict_from"]

PRECONDITION_FAILED: Final = 406
# A name may have quotes in it, so the parts that follow are looked for from the end.
_TEXT: Final = re.compile(
    r"inequivalent arg '(?P<argument>.+?)' for .*: received (?P<declared>.+) but current is (?P<existing>.+)$",
    re.DOTALL,
)
_VALUES: Final = (
    re.compile(r"^the value '(?P<value>.*)' of type '\w+'$", re.DOTALL),
    re.compile(r"^'(?P<value>.*)'$", re.DOTALL),
)


class TopologyConflict(ChannelClosed):
    """A queue or exchange exists and differs from what was declared.

    `thing` is the object as text; `argument` is what differs, `declared` and `existing` the two values as the broker
    wrote them, None where there is none. `argument` is None if the broker's text was cut off before it. `text` is all
    that the broker said."""

    def __init__(
        self,
        thing: str,
        text: str,
        argument: str | None = None,
        declared: str | None = None,
        existing: str | None = None,
        method: str | None = None,
    ) -> None:
        super().__init__(PRECONDITION_FAILED, text, method)
        self.thing = thing
        self.argument = argument
        self.declared = declared
        self.existing = existing

    def __str__(self) -> str:
        if self.argument is None:
            return f"{self.thing} exists and is different: {self.text}"
        return f"{self.thing} exists with {_shown(self.argument, self.existing)}, but is declared with " + (
            _shown(self.argument, self.declared)
        )


def conflict_from(thing: str, error: ChannelClosed) -> TopologyConflict | None:
    """The conflict that the error tells of, or None if it is about something else."""
    if error.code != PRECONDITION_FAILED or "inequivalent arg" not in error.text:
        return None
    found = _TEXT.search(error.text)
    if found is None:
        return TopologyConflict(thing, error.text, method=error.method)
    values = _value(found["declared"]), _value(found["existing"])
    return TopologyConflict(thing, error.text, found["argument"], *values, error.method)


def _value(text: str) -> str | None:
    """The value without the broker's words around it; its word for no value is none."""
    for form in _VALUES:
        found = form.match(text)
        if found is not None:
            return found["value"]
    return None if text == "none" else text


def _shown(argument: str, value: str | None) -> str:
    return f"no {argument}" if value is None else f"{argument} {value}"
