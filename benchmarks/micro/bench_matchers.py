"""Nanoseconds per match, for each matcher: `python -m benchmarks.micro.bench_matchers`.

Each figure is the best of several rounds over many different keys, and includes the call from Python and the
clearing of the list (the first row shows how much that is); the data plane calls in C and pays neither. Also how long
one bind and one unbind take on the exchange where they are dearest."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from leveret import PURE
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.matching import matcher
from leveret.core.matching.hash_matcher import ConsistentHashMatcher, ModulusHashMatcher, RandomMatcher
from leveret.core.matching.headers_matcher import HeadersMatcher
from leveret.core.matching.matcher import DirectMatcher, FanoutMatcher, Matcher
from leveret.core.matching.topic_trie import TopicMatcher

ROUNDS = 60
MATCHES = 20_000

Messages = Sequence[tuple[bytes, Any]]


class Destination:
    def __init__(self, name: bytes) -> None:
        self.name = name


DESTINATIONS = [Destination(b"queue-%d" % number) for number in range(10)]


def by_key(keys: Sequence[bytes]) -> Messages:
    """Messages with random keys of these, each its own object, as they come from a socket."""
    dice = random.Random(1)
    return [(bytes(bytearray(dice.choice(keys))), None) for _ in range(MATCHES)]


def bound(made: Matcher, bindings: Sequence[tuple[bytes, dict[str, Any]]]) -> Matcher:
    for number, (key, arguments) in enumerate(bindings):
        made.add(key, arguments, DESTINATIONS[number % len(DESTINATIONS)])
    return made


def topic_case(count: int, *more: bytes) -> tuple[Matcher, Messages]:
    keys = [b"dev.%d.evt" % number for number in range(count)]
    return bound(TopicMatcher(), [(key, {}) for key in (*keys, *more)]), by_key(keys)


def headers_case(asked: dict[str, Any], sent: dict[str, Any]) -> tuple[Matcher, Messages]:
    """A thousand bindings, each to a route of its own; all of them ask for, and all messages have, the same besides."""
    bindings = [(b"", {"x-match": "all", **asked, "route": f"k.{number}"}) for number in range(1000)]
    dice = random.Random(1)
    messages = []
    for _ in range(MATCHES):
        headers = {"route": f"k.{dice.randrange(1000)}", **sent}
        properties = parse_properties(encode_properties(headers=headers))
        # Decoded beforehand: that is core.codec.properties' time, not the matcher's.
        properties.headers()
        messages.append((b"", properties))
    return bound(HeadersMatcher(), bindings), messages


def cases() -> dict[str, Callable[[], tuple[Matcher, Messages]]]:
    few = [b"key.%d" % number for number in range(10)]
    many = [b"key.%d" % number for number in range(10_000)]
    weights: list[tuple[bytes, dict[str, Any]]] = [(b"%d" % (1 + number), {}) for number in range(10)]
    return {
        "no binding (the cost of measuring)": lambda: (DirectMatcher(), by_key(few)),
        "direct, 10 bindings": lambda: (bound(DirectMatcher(), [(key, {}) for key in few]), by_key(few)),
        "direct, 10,000 bindings": lambda: (bound(DirectMatcher(), [(key, {}) for key in many]), by_key(many)),
        "fanout, 10 bindings": lambda: (bound(FanoutMatcher(), [(key, {}) for key in few]), by_key(few)),
        "topic, 10 bindings dev.N.evt": lambda: topic_case(10),
        "topic, 10,000 bindings dev.N.evt": lambda: topic_case(10_000),
        "topic, 10,000 and #, *.*.evt, dev.#": lambda: topic_case(10_000, b"#", b"*.*.evt", b"dev.#"),
        "headers, 1,000 bindings on route": lambda: headers_case({}, {}),
        "headers, 1,000 on route, type and size >5": lambda: headers_case(
            {"type": "order", "size": ">5"}, {"type": "order", "size": 6}
        ),
        "x-consistent-hash, 10 queues": lambda: (bound(ConsistentHashMatcher(None, None), weights), by_key(many)),
        "x-modulus-hash, 10 queues": lambda: (bound(ModulusHashMatcher(), weights), by_key(many)),
        "x-random, 10 queues": lambda: (bound(RandomMatcher(random.Random(1).randrange), weights), by_key(many)),
    }


def nanoseconds(made: Matcher, messages: Messages) -> float:
    collect = made.collect
    found: list[object] = []
    clear = found.clear
    best = 0
    for _ in range(ROUNDS):
        started = perf_counter_ns()
        for key, properties in messages:
            collect(key, properties, found)
            clear()
        taken = perf_counter_ns() - started
        best = taken if best == 0 else min(best, taken)
    return best / len(messages)


def binding_microseconds(count: int) -> tuple[float, float]:
    """One more binding to a consistent hash exchange that has this many, and its removal."""
    made = ConsistentHashMatcher(None, None)
    for number in range(count):
        made.add(b"10", {}, Destination(b"queue-%d" % number))
    newcomer = Destination(b"newcomer")
    started = perf_counter_ns()
    made.add(b"10", {}, newcomer)
    between = perf_counter_ns()
    made.remove(b"10", {}, newcomer)
    return (between - started) / 1000, (perf_counter_ns() - between) / 1000


def main() -> None:
    compiled = not PURE and not (matcher.__file__ or "").endswith(".py")
    print(f"ns per match, best of {ROUNDS} rounds of {MATCHES:,}, {'compiled' if compiled else 'interpreted'}\n")
    for name, make in cases().items():
        made, messages = make()
        print(f"{name:45}{nanoseconds(made, messages):8.0f}")
    print("\nus per binding")
    for count in (10, 100):
        bind, unbind = binding_microseconds(count)
        print(f"x-consistent-hash, {count} queues: bind {bind:.0f}, unbind {unbind:.0f}")


if __name__ == "__main__":
    main()
