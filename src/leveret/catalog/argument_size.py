"""What an arguments table counts for: its octets, or more if Python needs much more memory for it.

Limits and budgets of arguments are in octets, but what the catalog keeps is the decoded table. A table of many tiny
fields costs thirty times its octets; it is counted as larger than it is, so that no table ever costs more than
COST_FACTOR times what it was counted for. Pure: only looks. Called by the catalog, and by those who check limits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["COST_FACTOR", "argument_bytes", "memory_cost"]

# Bytes of memory that one counted octet stands for at most.
COST_FACTOR = 16
# The letter of a value's type; with the length of a text, table or array.
_LETTER, _LENGTH = 1, 4
# The most that a number takes.
_NUMBER = 8


def argument_bytes(arguments: Mapping[str, Any]) -> int:
    """What this table counts for against limits; 0 for an empty one, which costs nothing of its own."""
    if not arguments:
        return 0
    return max(_octets(arguments) - _LENGTH, -(-memory_cost(arguments) // COST_FACTOR))


def _octets(value: Any) -> int:
    """What it takes on the wire, a number as the largest. Never refuses: not every table that is counted is one that
    AMQP could carry."""
    if isinstance(value, str):
        return _LENGTH + len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return _LENGTH + sum(1 + _LETTER + _octets(name) - _LENGTH + _octets(inner) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return _LENGTH + sum(_LETTER + _octets(inner) for inner in value)
    if isinstance(value, bytes | bytearray):
        return _LENGTH + len(value)
    return 1 if isinstance(value, bool) else 0 if value is None else _NUMBER


def memory_cost(value: Any) -> int:
    """The bytes that a decoded value takes. Values that Python shares, such as small numbers, count in each place."""
    cost = sys.getsizeof(value)
    if isinstance(value, Mapping):
        for name, inner in value.items():
            cost += sys.getsizeof(name) + memory_cost(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            cost += memory_cost(inner)
    return cost
