"""How a broker differs from what was declared: the result, and the comparison of two full lists.

Pure: diff_live.py asks the broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from leveret.client.topology.methods import Thing
from leveret.client.topology.records import Binding, Exchange, Queue, describe

__all__ = ["Diff", "Difference", "compare"]

_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    Exchange: ("type", "durable", "auto_delete", "internal"),
    Queue: ("durable", "exclusive", "auto_delete"),
}
QUEUE_TYPE: Final = "x-queue-type"


class Difference(msgspec.Struct, frozen=True):
    """One field or argument of a thing that is there. A value is None where there is none."""

    thing: Exchange | Queue
    field: str
    here: Any
    there: Any

    def __str__(self) -> str:
        return f"{describe(self.thing)}: {self.field} is {_shown(self.there)} on the broker, {_shown(self.here)} here"


class Diff(msgspec.Struct, frozen=True):
    """Nothing missing, different or unexpected: `is_clean`. `unchecked` could not be asked for."""

    missing: list[Thing] = msgspec.field(default_factory=list)
    different: list[Difference] = msgspec.field(default_factory=list)
    unexpected: list[Thing] = msgspec.field(default_factory=list)
    unchecked: list[Thing] = msgspec.field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.different or self.unexpected)

    def __str__(self) -> str:
        lines = [f"missing: {describe(thing)}" for thing in self.missing]
        lines += [f"different: {difference}" for difference in self.different]
        lines += [f"unexpected: {describe(thing)}" for thing in self.unexpected]
        lines += [f"not checked, AMQP cannot ask for it: {describe(thing)}" for thing in self.unchecked]
        return "\n".join(lines) or "no difference"


def compare(wanted: Sequence[Thing], found: Sequence[Thing]) -> Diff:
    """`found` is all that the broker has. Bindings of an exchange or queue that is missing or unexpected go without
    saying, so they are not listed."""
    ours = {_identity(thing): thing for thing in wanted}
    theirs = {_identity(thing): thing for thing in found}
    missing = [thing for key, thing in ours.items() if key not in theirs]
    unexpected = [thing for key, thing in theirs.items() if key not in ours]
    different = [
        difference
        for key, thing in ours.items()
        if not isinstance(thing, Binding) and key in theirs
        for difference in _differences(thing, theirs[key])
    ]
    return Diff(_telling(missing), different, _telling(unexpected))


def _telling(things: Iterable[Thing]) -> list[Thing]:
    things = list(things)
    ends = {_identity(thing) for thing in things}
    return [
        thing
        for thing in things
        if not isinstance(thing, Binding)
        or not ({("exchange", thing.source), (thing.to, str(thing.destination))} & ends)
    ]


def _differences(here: Exchange | Queue, there: Thing) -> Iterable[Difference]:
    assert not isinstance(there, Binding)
    for field in _FIELDS[type(here)]:
        # Brokers make no queue durable that goes with its connection, and do not mind being asked.
        if field == "durable" and isinstance(here, Queue) and here.exclusive:
            continue
        if getattr(here, field) != getattr(there, field):
            yield Difference(here, field, getattr(here, field), getattr(there, field))
    for name in sorted({*here.arguments, *there.arguments}):
        ours, theirs = here.arguments.get(name), there.arguments.get(name)
        # Newer brokers write down the type that a queue got by default.
        if name == QUEUE_TYPE and {ours, theirs} == {None, "classic"}:
            continue
        if _plain_text(ours) != _plain_text(theirs):
            yield Difference(here, name, ours, theirs)


def _identity(thing: Thing) -> tuple[str, ...]:
    match thing:
        case Exchange():
            return ("exchange", thing.name)
        case Queue():
            return ("queue", thing.name)
        case Binding():
            arguments = _plain_text(thing.arguments)
            return ("binding", thing.source, thing.to, str(thing.destination), thing.routing_key, arguments)


def _plain_text(value: Any) -> str:
    """The value as the management API would write it, which knows no octets and no widths of numbers."""
    return json.dumps(value, default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():
            return int(value.timestamp())
        case Decimal():
            return float(value)
    raise TypeError(f"cannot compare {type(value).__name__}")


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
