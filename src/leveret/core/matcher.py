"""The contract every matcher keeps, and the direct and fanout matchers.

A matcher holds the bindings of one exchange and says which destinations a message goes to. It never validates
arguments (routing/ does that at the bind), never removes duplicate destinations (the caller does), and knows
neither queues nor exchanges: a destination is an opaque object compared by identity. Made by routing/, called
by the data plane once per message whose route is not cached."""

from __future__ import annotations

from typing import Any

import cython

__all__ = ["DirectMatcher", "FanoutMatcher", "Matcher"]


class Matcher:
    """One exchange's bindings. `by_key_only` tells that `collect` looks at nothing but the routing key."""

    if not cython.compiled:
        __slots__ = ("by_key_only", "count", "first_key_only")

    def __init__(self) -> None:
        self.by_key_only = True
        self.first_key_only = False
        self.count = 0

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        """Hold one more binding. The caller has made sure that it is not held yet."""
        raise NotImplementedError

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        """Let exactly this binding go; KeyError, and nothing changed, if it is not held."""
        raise NotImplementedError

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        """Append every destination that matches, perhaps more than once."""
        raise NotImplementedError


def discard_one(destinations, destination):
    """Take one entry out by identity and return how many are left; KeyError if there is none."""
    for at in range(len(destinations)):
        if destinations[at] is destination:
            del destinations[at]
            return len(destinations)
    raise KeyError(destination)


class DirectMatcher(Matcher):
    """Binding key equals routing key. Arguments take no part, so bindings that differ in them are alike here."""

    if not cython.compiled:
        __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key_only = True
        self.first_key_only = False
        self.count = 0
        self.by_key: dict[bytes, list[object]] = {}

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        destinations = self.by_key.get(key)
        if destinations is None:
            self.by_key[key] = [destination]
        else:
            destinations.append(destination)
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        destinations = self.by_key[key]
        if discard_one(destinations, destination) == 0:
            del self.by_key[key]
        self.count -= 1

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        destinations = self.by_key.get(routing_key)
        if destinations is not None:
            found.extend(destinations)


class FanoutMatcher(Matcher):
    """Every binding matches every message."""

    if not cython.compiled:
        __slots__ = ("destinations",)

    def __init__(self) -> None:
        self.by_key_only = True
        self.first_key_only = True
        self.count = 0
        self.destinations: list[object] = []

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        self.destinations.append(destination)
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        discard_one(self.destinations, destination)
        self.count -= 1

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        found.extend(self.destinations)
