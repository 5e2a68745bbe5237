"""Topic exchanges: `*` is one word, `#` any number of words. A word may be empty, but an empty key has no word."""

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain

KEYS = [
    "",
    ".",
    "..",
    "a",
    "b",
    "a.",
    ".a",
    "a.b",
    "a..b",
    "a.b.c",
    "b.a",
    "a.a.a.a",
    "a.b.b.c",
    "*",
    "#",
    "a.*",
    "ä.ö",
]

# Binding key: the routing keys among KEYS that it matches.
MATCHES = {
    "#": set(KEYS),
    "#.#": set(KEYS),
    "#.#.#": set(KEYS),
    "*": {"a", "b", "*", "#"},
    "": {""},
    "*.#": set(KEYS) - {""},
    "#.*": set(KEYS) - {""},
    "*.*": {".", "a.", ".a", "a.b", "b.a", "a.*", "ä.ö"},
    "*.#.*": set(KEYS) - {"", "a", "b", "*", "#"},
    "#.*.*": set(KEYS) - {"", "a", "b", "*", "#"},
    "a": {"a"},
    "a.#": {"a", "a.", "a.b", "a..b", "a.b.c", "a.a.a.a", "a.b.b.c", "a.*"},
    "#.a": {"a", ".a", "b.a", "a.a.a.a"},
    "#.a.#": {"a", "a.", ".a", "a.b", "a..b", "a.b.c", "b.a", "a.a.a.a", "a.b.b.c", "a.*"},
    "a.*": {"a.", "a.b", "a.*"},
    "a.*.b": {"a..b"},
    "a..b": {"a..b"},
    "*.b.*": {"a.b.c"},
    "a.#.c": {"a.b.c", "a.b.b.c"},
    "a.#.b": {"a.b", "a..b"},
    "#.b.#.b.#": {"a.b.b.c"},
    "a.*.#.*.c": {"a.b.b.c"},
    ".": {"."},
    "*.": {".", "a."},
    ".*": {".", ".a"},
    "ä.*": {"ä.ö"},
    "a*": set(),
    "a.b#": set(),
}


def published_to(client: RawClient, exchange: str, queue: str) -> list[str]:
    for key in KEYS:
        client.publish(1, exchange, key, key.encode())
    return [body.decode() for body in drain(client, queue)]


@pytest.mark.parametrize("pattern", MATCHES)
def test_patterns(client: RawClient, topology: Topology, pattern: str) -> None:
    exchange = topology.exchange(client, "topic")
    queue = topology.bound_queue(client, exchange, pattern)
    assert published_to(client, exchange, queue) == [key for key in KEYS if key in MATCHES[pattern]]


def test_patterns_side_by_side(client: RawClient, topology: Topology) -> None:
    """All patterns in one exchange, so that they share branches of whatever holds them; then half of them go."""
    exchange = topology.exchange(client, "topic")
    queues = {pattern: topology.bound_queue(client, exchange, pattern) for pattern in MATCHES}
    for pattern in list(MATCHES)[::2]:
        client.call(1, "queue.unbind", queue=queues[pattern], exchange=exchange, routing_key=pattern)
    for key in KEYS:
        client.publish(1, exchange, key, key.encode())
    for number, (pattern, queue) in enumerate(queues.items()):
        expected = [key for key in KEYS if key in MATCHES[pattern] and number % 2]
        assert [body.decode() for body in drain(client, queue)] == expected, pattern


def test_one_queue_with_overlapping_patterns_gets_each_message_once(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "topic")
    queue = topology.bound_queue(client, exchange, *MATCHES)
    assert published_to(client, exchange, queue) == KEYS
