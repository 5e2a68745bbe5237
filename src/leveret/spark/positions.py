"""How far a query is in each stream, as its checkpoint keeps it: Spark's offsets, which are JSON.

    {"orders": {"offset": 120, "id": "7-1763400000000", "planned": 80, "lost": 40}}

The id is the stream's identity, if the broker tells it: another stream of the same name has another one. Checkpoints of
versions before this have numbers alone, {"orders": 120}, and are read as positions in whichever stream there is. Only
makes and reads positions; what a loss means is decided elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Position", "as_json", "count_planned", "read_positions"]


@dataclass(frozen=True)
class Position:
    """The next message that is to be read, and what happened on the way there since the query began."""

    offset: int
    # None where the broker does not tell, and in a checkpoint of an older version.
    identity: str | None = None
    # Messages that batches were to read; None in a checkpoint of an older version.
    planned: int | None = None
    # Messages that were gone before a batch could be planned for them.
    lost: int = 0
    # How often the stream was deleted, or made anew, with a rest that nobody can count.
    vanished: int = 0
    # The stream is not there, or not read any more.
    is_missing: bool = False

    def is_of(self, identity: str | None) -> bool:
        """Whether it may be a place in the stream with this identity."""
        return self.identity is None or identity is None or self.identity == identity

    def up_to(self, offset: int) -> Position:
        """Behind a batch that reads everything before this offset."""
        return replace(self, offset=offset, planned=(self.planned or 0) + offset - self.offset)


def as_json(positions: Mapping[str, Position]) -> dict[str, Any]:
    return {stream: _entry(one) for stream, one in positions.items()}


def _entry(one: Position) -> dict[str, Any]:
    entry: dict[str, Any] = {"offset": one.offset, "planned": one.planned or 0}
    if one.identity is not None:
        entry["id"] = one.identity
    # What is rare stands there only if it happened.
    more = {"lost": one.lost, "vanished": one.vanished, "missing": one.is_missing}
    return entry | {name: value for name, value in more.items() if value}


def read_positions(value: Any) -> dict[str, Position] | None:
    """Of JSON, as text or read already; None if it is not of streams."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    found = {stream: _position(entry) for stream, entry in value.items()}
    return None if None in found.values() else {stream: one for stream, one in found.items() if one is not None}


def _position(entry: Any) -> Position | None:
    if isinstance(entry, int) and not isinstance(entry, bool):
        return Position(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("offset"), int):
        return None
    counts = (entry.get("planned"), entry.get("lost", 0), entry.get("vanished", 0))
    return Position(entry["offset"], entry.get("id"), *counts, entry.get("missing", False))


def count_planned(start: Position | None, end: Position) -> int:
    """How many messages the batch between the two is to read."""
    if end.planned is None:
        return max(0, end.offset - (0 if start is None else start.offset))
    return end.planned - (0 if start is None else start.planned or 0)
