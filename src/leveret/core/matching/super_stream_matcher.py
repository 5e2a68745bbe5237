"""The matcher of super streams: the hash of the routing key picks one partition.

Owns the order of the partitions and which one a key belongs to. Stream clients do the same sum over the same list, so a
key goes to the same partition whoever publishes it. A destination needs a `name` here (bytes). Made by routing/, called
by the data plane."""

from __future__ import annotations

import re
from typing import Any

import cython

from leveret.core.matching.hash_matcher import OrderedMatcher

if not cython.compiled:
    from leveret.core.codec.murmur3 import murmur3_32

__all__ = ["PARTITION_ORDER", "SEED", "SuperStreamMatcher", "partition_order"]

# The argument of a binding that says which partition it leads to.
PARTITION_ORDER = "x-stream-partition-order"
# That of RabbitMQ and of the stream clients.
SEED = 104729

_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")


def partition_order(key: bytes, arguments: dict[str, Any]) -> int:
    """The number of the partition that a binding leads to: its argument, or else its key. ValueError if it has none."""
    given = arguments.get(PARTITION_ORDER, key)
    if isinstance(given, str):
        given = given.encode("utf-8", "surrogateescape")
    if isinstance(given, bytes):
        if _INTEGER.fullmatch(given) is None:
            raise ValueError(given)
    elif isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(given)
    return int(given)


class SuperStreamMatcher(OrderedMatcher):
    """x-super-stream: MurmurHash3 of the routing key modulo the number of bindings, in the order of the partitions.

    Partitions of one number are in the order of their names."""

    if not cython.compiled:
        __slots__ = ()

    def place(self, key: bytes, arguments: dict[str, Any], destination: Any) -> tuple[Any, ...]:
        return (partition_order(key, arguments), destination.name, key)

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        size = len(self.destinations)
        if size > 0:
            found.append(self.destinations[murmur3_32(routing_key, SEED) % size])
