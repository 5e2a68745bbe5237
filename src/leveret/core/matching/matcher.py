"""The contract every matcher keeps, and the direct and fanout matchers.

A matcher holds the bindings of one exchange and says which destinations a message goes to. It never validates
arguments (routing/ does that at the bind), never removes duplicate destinations (the caller does), and knows
neither queues nor exchanges: a destination is an opaque object compared by identity. Made by routing/, called
by the data plane once per message whose route is not cached."""

from __future__ import annotations

from typing import Any

import cython

__all__ = ["DirectMatcher", "FanoutMatcher", "Matcher", "Steps"]


class Steps:
    """A search for destinations that was left before its end."""

    if not cython.compiled:
        __slots__ = ()

    def go_on(self, meter: Any, found: list[object]) -> bool:
        """Goes on with it until it is over, which is the answer, or the meter is; with one step at least."""
        raise NotImplementedError


class Matcher:
    """One exchange's bindings. `by_key_only` tells that `collect` looks at nothing but the routing key."""

    if not cython.compiled:
        __slots__ = ("by_key_only", "count", "first_key_only", "steps_max", "visited")

    def __init__(self) -> None:
        self.by_key_only = True
        self.first_key_only = False
        self.count = 0
        self.steps_max = 0
        self.visited = 0

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        """Hold one more binding. The caller has made sure that it is not held yet."""
        raise NotImplementedError

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        """Let exactly this binding go; KeyError, and nothing changed, if it is not held."""
        raise NotImplementedError

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        """Append every destination that matches, perhaps more than once. What it looked at is added to `visited`,
        beside the destinations themselves; the caller charges both and sets it to 0."""
        raise NotImplementedError

    def start(self, routing_key: bytes, properties: Any, found: list[object], meter: Any) -> Any:
        """The same, but left when the meter is over: None if there is no need, else the Steps to go on with."""
        self.collect(routing_key, properties, found)


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
        Matcher.__init__(self)
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
        Matcher.__init__(self)
        self.first_key_only = True
        self.destinations: dict[object, int] = {}

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        self.destinations[destination] = self.destinations.get(destination, 0) + 1
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        left = self.destinations[destination] - 1
        if left > 0:
            self.destinations[destination] = left
        else:
            del self.destinations[destination]
        self.count -= 1

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        found.extend(self.destinations)
