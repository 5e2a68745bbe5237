"""The super stream's matcher: one partition for each key, the one that stream clients choose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from leveret.core.codec.field_types import Int64
from leveret.core.codec.murmur3 import murmur3_32
from leveret.core.matching.super_stream_matcher import PARTITION_ORDER, SuperStreamMatcher, partition_order


class Stream:
    def __init__(self, name: bytes) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name.decode()


STREAMS = [Stream(b"s-%d" % number) for number in range(12)]

# What RabbitMQ's client for .NET expects of three partitions, in its tests.
CHOSEN_BY_CLIENTS = {b"hello7": 0, b"hello8": 1, b"hello9": 0, b"hello10": 2, b"hello88": 1}


def only(matcher: SuperStreamMatcher, key: bytes) -> Any:
    found: list[object] = []
    matcher.collect(key, None, found)
    assert len(found) == 1
    return found[0]


def of(count: int) -> SuperStreamMatcher:
    """Bound as RabbitMQ binds partitions, the last one first."""
    matcher = SuperStreamMatcher()
    for number in reversed(range(count)):
        matcher.add(b"%d" % number, {PARTITION_ORDER: Int64(number)}, STREAMS[number])
    return matcher


@pytest.mark.parametrize(("key", "expected"), CHOSEN_BY_CLIENTS.items())
def test_keys_go_where_clients_send_them(key: bytes, expected: int) -> None:
    assert only(of(3), key) is STREAMS[expected]


def test_the_hash_counts_partitions_by_number_and_not_by_name() -> None:
    matcher = of(12)
    for number in range(500):
        key = b"order.%d" % number
        assert only(matcher, key) is STREAMS[murmur3_32(key, 104729) % 12]


def test_keys_are_spread_evenly() -> None:
    counts = Counter(only(of(10), b"customer-%d" % number) for number in range(10_000))
    # Binomial: a tenth of ten thousand, six sigma.
    assert len(counts) == 10 and all(820 < count < 1180 for count in counts.values())


def test_without_an_order_the_key_is_the_number() -> None:
    matcher = SuperStreamMatcher()
    for number in (10, 9, 2):
        matcher.add(b"%d" % number, {}, STREAMS[number])
    order = [STREAMS[2], STREAMS[9], STREAMS[10]]
    for number in range(50):
        key = b"%d" % number
        assert only(matcher, key) is order[murmur3_32(key, 104729) % 3]


def test_copies_do_not_make_it_pick_again() -> None:
    assert of(1).first_key_only
    assert of(1).by_key_only


def test_what_is_not_bound_cannot_go() -> None:
    matcher = of(2)
    with pytest.raises(KeyError):
        matcher.remove(b"0", {PARTITION_ORDER: 0}, STREAMS[1])
    with pytest.raises(KeyError):
        matcher.remove(b"0", {PARTITION_ORDER: 1}, STREAMS[0])
    assert matcher.count == 2
    matcher.remove(b"0", {PARTITION_ORDER: 0}, STREAMS[0])
    assert (matcher.count, only(matcher, b"any")) == (1, STREAMS[1])


def test_a_queue_and_an_exchange_of_one_name_are_told_apart() -> None:
    one, other = Stream(b"s"), Stream(b"s")
    matcher = SuperStreamMatcher()
    matcher.add(b"0", {}, one)
    matcher.add(b"0", {}, other)
    matcher.remove(b"0", {}, other)
    assert only(matcher, b"any") is one


def test_without_partitions_nothing_is_found() -> None:
    found: list[object] = []
    SuperStreamMatcher().collect(b"key", None, found)
    assert found == []


@pytest.mark.parametrize(
    ("key", "arguments", "expected"),
    [
        (b"7", {}, 7),
        (b"-1", {}, -1),
        (b"+3", {}, 3),
        (b"emea", {PARTITION_ORDER: 2}, 2),
        (b"7", {PARTITION_ORDER: Int64(2)}, 2),
        (b"7", {PARTITION_ORDER: "2"}, 2),
        (b"7", {PARTITION_ORDER: b"2"}, 2),
    ],
)
def test_the_number_of_a_partition(key: bytes, arguments: dict[str, Any], expected: int) -> None:
    assert partition_order(key, arguments) == expected


@pytest.mark.parametrize(
    ("key", "order"),
    [(b"", None), (b"emea", None), (b"1_0", None), (b" 1", None), (b"1.5", None), (b"9" * 19, None)]
    + [(b"1", order) for order in (True, 1.5, None, "x", "", [1], {"a": 1}, "\udcff")],
)
def test_what_is_no_number(key: bytes, order: Any) -> None:
    arguments = {} if len(key) != 1 else {PARTITION_ORDER: order}
    with pytest.raises(ValueError):
        partition_order(key, arguments)
