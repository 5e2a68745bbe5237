"""The headers matcher: bindings are conditions on a message's headers, and the routing key plays no part.

Owns x-match and the index that finds a message's candidates without looking at every binding: a binding is filed
under a header name and, where it asks for equality, under the value too. 'any' is filed under each of its
conditions; 'all' under one, the one with the fewest bindings so far, so that a condition that all bindings share
does not gather them in one place. What a single condition means stands in core.header_condition. Never validates
arguments. Made by routing/headers.py, called by the data plane."""

from __future__ import annotations

from typing import Any

import cython

from leveret.core.header_condition import HeaderCondition
from leveret.core.matcher import Matcher

if not cython.compiled:
    from leveret.core.header_condition import EQUAL, exact_key, match_key
    from leveret.core.matcher import discard_one

__all__ = ["X_MATCH_VALUES", "HeadersMatcher"]

# What a binding's x-match may say; without one it is 'all'.
X_MATCH_VALUES = ("all", "any", "all-with-x", "any-with-x")


class HeadersBinding:
    """One binding: its conditions, and whether one of them is enough."""

    if not cython.compiled:
        __slots__ = ("anchor", "any", "conditions", "destination", "sure")

    def __init__(self, arguments, destination):
        x_match = arguments.get("x-match", "all")
        with_x = x_match == "all-with-x" or x_match == "any-with-x"
        self.destination = destination
        self.any = x_match == "any" or x_match == "any-with-x"
        self.conditions = [
            HeaderCondition(name, value)
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        ]
        self.sure = self.any or len(self.conditions) == 1
        self.anchor = None

    def matches(self, headers):
        for condition in self.conditions:
            if (condition.name in headers and condition.holds(headers[condition.name])) == self.any:
                return self.any
        return not self.any


class HeaderIndex:
    """The bindings filed under one header name."""

    if not cython.compiled:
        __slots__ = ("by_presence", "by_value")

    def __init__(self):
        self.by_value = {}
        self.by_presence = []

    def size_at(self, condition):
        """How many bindings are filed where this condition would go."""
        if condition.kind != EQUAL:
            return len(self.by_presence)
        bindings = self.by_value.get(condition.key)
        return 0 if bindings is None else len(bindings)

    def put(self, condition, binding):
        if condition.kind != EQUAL:
            self.by_presence.append(binding)
            return 0
        bindings = self.by_value.get(condition.key)
        if bindings is None:
            self.by_value[condition.key] = [binding]
        else:
            bindings.append(binding)
        return 0

    def take_out(self, condition, binding):
        if condition.kind != EQUAL:
            discard_one(self.by_presence, binding)
        else:
            bindings = self.by_value[condition.key]
            if discard_one(bindings, binding) == 0:
                del self.by_value[condition.key]
        return 0


class HeadersMatcher(Matcher):
    """Bindings by their header conditions."""

    if not cython.compiled:
        __slots__ = ("always", "by_name", "held")

    def __init__(self) -> None:
        self.by_key_only = False
        self.first_key_only = True
        self.count = 0
        self.by_name: dict[str, HeaderIndex] = {}
        self.always: list[object] = []
        self.held: dict[Any, list[HeadersBinding]] = {}

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        binding = HeadersBinding(arguments, destination)
        self.held.setdefault((key, exact_key(arguments), id(destination)), []).append(binding)
        if binding.any:
            for condition in binding.conditions:
                self.put(condition, binding)
        elif binding.conditions:
            binding.anchor = self.choose_anchor(binding.conditions)
            self.put(binding.anchor, binding)
        else:
            self.always.append(destination)
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        identity = (key, exact_key(arguments), id(destination))
        alike = self.held[identity]
        binding = alike.pop()
        if not alike:
            del self.held[identity]
        if binding.any:
            for condition in binding.conditions:
                self.take_out(condition, binding)
        elif binding.conditions:
            self.take_out(binding.anchor, binding)
        else:
            discard_one(self.always, destination)
        self.count -= 1

    def put(self, condition, binding):
        index = self.by_name.get(condition.name)
        if index is None:
            index = HeaderIndex()
            self.by_name[condition.name] = index
        return index.put(condition, binding)

    def take_out(self, condition, binding):
        index = self.by_name[condition.name]
        index.take_out(condition, binding)
        if not index.by_value and not index.by_presence:
            del self.by_name[condition.name]
        return 0

    def choose_anchor(self, conditions):
        """The condition that will bring up the binding least often, as far as one can tell: equality before
        presence, then the place with the fewest bindings."""
        best = None
        best_size = 0
        for condition in conditions:
            index = self.by_name.get(condition.name)
            size = 0 if index is None else index.size_at(condition)
            if best is None:
                better = True
            elif (condition.kind == EQUAL) != (best.kind == EQUAL):
                better = condition.kind == EQUAL
            else:
                better = size < best_size
            if better:
                best = condition
                best_size = size
        return best

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        found.extend(self.always)
        if properties is None or not self.by_name:
            return
        headers = properties.headers()
        for name, value in headers.items():
            index = self.by_name.get(name)
            if index is None:
                continue
            if index.by_value:
                bindings = index.by_value.get(match_key(value))
                if bindings is not None:
                    for binding in bindings:
                        if binding.sure or binding.matches(headers):
                            found.append(binding.destination)
            for binding in index.by_presence:
                if binding.matches(headers):
                    found.append(binding.destination)
