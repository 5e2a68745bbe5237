"""The headers matcher: bindings are conditions on a message's headers, and the routing key plays no part.

Owns x-match and the index that finds a message's candidates without looking at every binding: a binding is filed
under a header name and, where it asks for equality, under the value too. 'any' is filed under each of its
conditions; 'all' under one, the one with the fewest bindings so far, so that a condition that all bindings share
does not gather them in one place. What a single condition means stands in core.matching.header_condition. Never
validates arguments. Made by routing/headers.py, called by the data plane."""

from __future__ import annotations

from typing import Any

import cython

from leveret.core.matching.header_condition import HeaderCondition, HeaderValue
from leveret.core.matching.matcher import Matcher, Steps

if not cython.compiled:
    from leveret.core.matching.header_condition import EQUAL, exact_key, match_key
    from leveret.core.matching.matcher import discard_one
    from leveret.core.observe.meter import NODES_SHIFT

__all__ = ["X_MATCH_VALUES", "HeadersMatcher"]

# What a binding's x-match may say; without one it is 'all'. With and without -with-x are the same unless the exchange
# ignores arguments that begin with x-.
X_MATCH_VALUES = ("all", "any", "all-with-x", "any-with-x")

# What a header, a binding and a condition cost, in nodes of a trie.
HEADER_COST = 8
BINDING_COST = 1
CONDITION_COST = 2
# So many bindings are tried before the meter is looked at.
TRIED_A_STEP = 64


class HeadersBinding:
    """One binding: its conditions, and whether one of them is enough."""

    if not cython.compiled:
        __slots__ = ("anchor", "any", "conditions", "destination", "sure")

    def __init__(self, arguments, destination, ignore_x):
        x_match = arguments.get("x-match", "all")
        with_x = not ignore_x or x_match == "all-with-x" or x_match == "any-with-x"
        self.destination = destination
        self.any = x_match == "any" or x_match == "any-with-x"
        self.conditions = [
            HeaderCondition(name, value)
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        ]
        self.sure = self.any or len(self.conditions) == 1
        self.anchor = None

    def cost(self):
        """How many conditions one message may have it look at: one of 'any' is filed under each of its conditions."""
        return len(self.conditions) * len(self.conditions) if self.any else len(self.conditions)

    def matches(self, headers, seen, matcher):
        """`seen` has what was found out about some of the headers, and gets what is; `matcher` is charged."""
        for condition in self.conditions:
            matcher.visited += CONDITION_COST
            value = seen.get(condition.name)
            if value is None and condition.name in headers:
                value = HeaderValue(headers[condition.name])
                seen[condition.name] = value
            if (value is not None and condition.accepts(value)) == self.any:
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

    def equal_to(self, value):
        """The bindings that ask for just this value, or None."""
        return self.by_value.get(match_key(value)) if self.by_value else None

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
        __slots__ = ("always", "by_name", "held", "ignore_x")

    def __init__(self, ignore_x: bool = False) -> None:
        """`ignore_x` is RabbitMQ's way: arguments that begin with x- count only with all-with-x and any-with-x."""
        Matcher.__init__(self)
        self.ignore_x = ignore_x
        self.by_key_only = False
        self.first_key_only = True
        self.by_name: dict[str, HeaderIndex] = {}
        self.always: list[object] = []
        self.held: dict[Any, list[HeadersBinding]] = {}

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        binding = HeadersBinding(arguments, destination, self.ignore_x)
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
        self.steps_max += binding.cost()

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
        self.steps_max -= binding.cost()

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
        seen = {}
        for name, value in headers.items():
            self.visited += HEADER_COST
            index = self.by_name.get(name)
            if index is not None:
                bindings = index.equal_to(value)
                if bindings is not None:
                    self.try_some(bindings, 0, len(bindings), True, headers, seen, found)
                self.try_some(index.by_presence, 0, len(index.by_presence), False, headers, seen, found)

    def try_some(self, bindings, start, end, equal, headers, seen, found):
        """Appends the destinations of those between `start` and `end` that match; with `equal` they are filed under the
        value that the message has."""
        self.visited += BINDING_COST * (end - start)
        for at in range(start, end):
            binding = bindings[at]
            if (equal and binding.sure) or binding.matches(headers, seen, self):
                found.append(binding.destination)
        return 0

    def start(self, routing_key: bytes, properties: Any, found: list[object], meter: Any) -> Any:
        found.extend(self.always)
        if properties is None or not self.by_name:
            return None
        steps = HeadersSteps(self, properties.headers())
        return None if steps.go_on(meter, found) else steps


class HeadersSteps(Steps):
    """A search that is left between two bindings. The bindings may change meanwhile: those that are there all the time
    are found, those that come or go may be."""

    if not cython.compiled:
        __slots__ = ("at", "bindings", "equal", "headers", "matcher", "name_at", "names", "seen")

    def __init__(self, matcher, headers):
        self.matcher = matcher
        self.headers = headers
        self.seen = {}
        self.names = list(headers)
        # The next header to be looked at.
        self.name_at = 0
        # The bindings to be tried, from `at` on: those filed under the value of the last header or under its name.
        self.bindings = None
        self.at = 0
        self.equal = False

    def go_on(self, meter: Any, found: list[object]) -> bool:
        matcher = self.matcher
        while self.bindings is not None or self.find_bindings():
            end = min(self.at + TRIED_A_STEP, len(self.bindings))
            matcher.try_some(self.bindings, self.at, end, self.equal, self.headers, self.seen, found)
            self.at = end
            if end == len(self.bindings):
                self.bindings = None
            meter.spent += matcher.visited >> NODES_SHIFT
            matcher.visited = 0
            if meter.spent >= meter.limit:
                if self.bindings is not None:
                    # A copy, because the matcher's own list may change.
                    self.bindings = self.bindings[self.at :]
                    self.at = 0
                return False
        return True

    def find_bindings(self):
        """Whether there are more to be tried."""
        self.at = 0
        if self.equal:
            self.equal = False
            index = self.matcher.by_name.get(self.names[self.name_at - 1])
            if index is not None and index.by_presence:
                self.bindings = index.by_presence
                return True
        while self.name_at < len(self.names):
            name = self.names[self.name_at]
            self.name_at += 1
            self.matcher.visited += HEADER_COST
            index = self.matcher.by_name.get(name)
            if index is not None:
                self.bindings = index.equal_to(self.headers[name])
                self.equal = self.bindings is not None
                if self.equal:
                    return True
                if index.by_presence:
                    self.bindings = index.by_presence
                    return True
        return False
