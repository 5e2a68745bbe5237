"""Which messages of a queue a request wants to see: by names, headers, properties, and what is in the body.

Every part has a declared limit, and a long body is searched in pieces between which others have their turn. Knows
nothing of queues; called for each message by the code that walks through one."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.core.codec.names import name_text
from leveret.core.codec.properties import PROPERTY_BITS
from leveret.operations.browsing import Seen
from leveret.runtime.time_slice import TimeSlice

# Conditions on headers, and on properties.
CONDITIONS_MAX = 32
BODY_PART_BYTES_MAX = 4096
# A body is searched in pieces of this size. Above the sizes up to which a search may take the product of both lengths.
PIECE_BYTES = 64 * 1024
# What a condition may compare with.
SCALARS = (str, int, float, bool, type(None))
# Headers are a table, with conditions of their own.
PROPERTY_NAMES = tuple(name for name in PROPERTY_BITS if name != "headers")


class MessageFilter(msgspec.Struct, frozen=True):
    """All that is given must hold; without anything every message is wanted."""

    exchange: str | None = None
    routing_key: str | None = None
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    body_contains: bytes = b""

    @property
    def is_empty(self) -> bool:
        return self == _EMPTY

    def problem(self) -> str | None:
        """What is wrong with it; None if it can be used."""
        for name, conditions in (("headers", self.headers), ("properties", self.properties)):
            if len(conditions) > CONDITIONS_MAX:
                return f"{name} has more than {CONDITIONS_MAX} conditions"
            for key, wanted in conditions.items():
                if not isinstance(wanted, SCALARS):
                    return f"{name}: the value of {key[:64]!r} is neither text nor a number nor true, false or null"
        for key in self.properties:
            if key not in PROPERTY_NAMES:
                return f"properties: there is no property {key[:64]!r}; there are {', '.join(PROPERTY_NAMES)}"
        if len(self.body_contains) > BODY_PART_BYTES_MAX:
            return f"body_contains is longer than {BODY_PART_BYTES_MAX} bytes"
        return None

    async def wants(self, seen: Seen, turn: TimeSlice) -> bool:
        message = seen.message
        if self.exchange is not None and name_text(message.exchange) != self.exchange:
            return False
        if self.routing_key is not None and name_text(message.routing_key) != self.routing_key:
            return False
        if self.properties and not _holds(self.properties, message.properties.fields()):
            return False
        if self.headers and not _holds(self.headers, message.properties.headers()):
            return False
        return not self.body_contains or await _contains(seen.body, self.body_contains, turn)


_EMPTY = MessageFilter()


def _holds(conditions: dict[str, Any], found: dict[str, Any]) -> bool:
    for name, wanted in conditions.items():
        if name not in found:
            return False
        value = found[name]
        if isinstance(value, bytes):
            value = name_text(value)
        # In a header as in JSON, true is no number.
        if value != wanted or isinstance(value, bool) != isinstance(wanted, bool):
            return False
    return True


async def _contains(body: bytes, part: bytes, turn: TimeSlice) -> bool:
    for begin in range(0, max(len(body), 1), PIECE_BYTES):
        # What lies across the end of a piece is found with the piece.
        if body.find(part, begin, begin + PIECE_BYTES + len(part) - 1) >= 0:
            return True
        await turn.rest()
    return False
