"""The hash and random matchers: one destination per message, the same one in every process."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import Any

import pytest

from leveret.core.codec.tables import Timestamp
from leveret.core.matching.hash_matcher import (
    SLOTS,
    ConsistentHashMatcher,
    ModulusHashMatcher,
    RandomMatcher,
    stable_hash,
)
from leveret.core.matching.matcher import Matcher


class Destination:
    def __init__(self, name: bytes) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name.decode()


class Properties:
    def __init__(self, headers: dict[str, Any] | None = None, **fields: Any) -> None:
        self._headers = headers or {}
        self._fields = fields

    def headers(self) -> dict[str, Any]:
        return self._headers

    def fields(self) -> dict[str, Any]:
        return self._fields


KEYS = [b"order.%d" % number for number in range(10_000)]
QUEUES = [Destination(b"queue-%d" % number) for number in range(10)]


def only(matcher: Matcher, key: bytes = b"", properties: object = None) -> Any:
    destinations: list[object] = []
    matcher.collect(key, properties, destinations)
    assert len(destinations) == 1
    return destinations[0]


def consistent(weights: dict[Destination, bytes]) -> ConsistentHashMatcher:
    matcher = ConsistentHashMatcher(None, None)
    for destination, weight in weights.items():
        matcher.add(weight, {}, destination)
    return matcher


def test_the_hash_never_changes() -> None:
    """Pinned: another hash would send every key of every existing exchange somewhere else after an upgrade."""
    assert stable_hash(b"") == 0xF52A15E9A9B5E89B
    assert stable_hash(b"a") == 0x02C0BDBF481420F8
    assert stable_hash(b"order.1") == 0x33DC496063F81947
    assert stable_hash(bytes(range(256))) == 0xEF2687F0D4371FE2


def test_routes_never_change() -> None:
    matcher = consistent({queue: b"%d" % (1 + at) for at, queue in enumerate(QUEUES)})
    expected = [8, 7, 2, 9, 9, 9, 3, 4, 2, 5, 3, 9]
    assert [QUEUES.index(only(matcher, key)) for key in KEYS[:12]] == expected


def test_shares_follow_the_weights() -> None:
    weights = {QUEUES[0]: 1, QUEUES[1]: 2, QUEUES[2]: 7, QUEUES[3]: 40}
    matcher = consistent({queue: b"%d" % weight for queue, weight in weights.items()})
    counts = Counter(only(matcher, key) for key in KEYS)
    total = sum(weights.values())
    for queue, weight in weights.items():
        share = weight / total
        # Chance has two parts: which slots the queue got, and which slots the keys fell in. Five sigma.
        slack = 5 * sqrt(share * (1 - share) * (1 / SLOTS + 1 / len(KEYS)))
        assert abs(counts[queue] / len(KEYS) - share) < slack


def test_a_weight_written_oddly_is_the_same_weight() -> None:
    plain = consistent({QUEUES[0]: b"5", QUEUES[1]: b"3"})
    odd = consistent({QUEUES[0]: b"+5", QUEUES[1]: b"003"})
    assert [only(plain, key) for key in KEYS[:500]] == [only(odd, key) for key in KEYS[:500]]


def test_a_second_binding_has_no_effect_until_the_first_goes() -> None:
    first = consistent({QUEUES[0]: b"1", QUEUES[1]: b"5"})
    first.add(b"20", {}, QUEUES[0])
    assert first.count == 3
    light = consistent({QUEUES[0]: b"1", QUEUES[1]: b"5"})
    assert [only(first, key) for key in KEYS[:1000]] == [only(light, key) for key in KEYS[:1000]]
    first.remove(b"1", {}, QUEUES[0])
    heavy = consistent({QUEUES[0]: b"20", QUEUES[1]: b"5"})
    assert [only(first, key) for key in KEYS[:1000]] == [only(heavy, key) for key in KEYS[:1000]]
    with pytest.raises(KeyError):
        first.remove(b"1", {}, QUEUES[0])
    first.remove(b"20", {}, QUEUES[0])
    assert {only(first, key) for key in KEYS[:1000]} == {QUEUES[1]}


def test_a_queue_and_an_exchange_of_one_name_share_the_keys() -> None:
    queue, exchange = Destination(b"orders"), Destination(b"orders")
    matcher = consistent({queue: b"1", exchange: b"1"})
    counts = Counter(only(matcher, key) for key in KEYS[:2000])
    assert min(counts[queue], counts[exchange]) > 850


def test_a_header_is_hashed_instead_of_the_key() -> None:
    matcher = ConsistentHashMatcher("customer", None)
    by_key = consistent(dict.fromkeys(QUEUES, b"1"))
    for queue in QUEUES:
        matcher.add(b"1", {}, queue)
    assert not matcher.by_key_only
    for number in range(200):
        customer = f"c{number}"
        expected = only(by_key, customer.encode())
        assert only(matcher, b"any", Properties({"customer": customer})) is expected
        assert only(matcher, b"other", Properties({"customer": customer.encode(), "x": 1})) is expected
    assert len({only(matcher, b"", Properties({"customer": number})) for number in range(200)}) == len(QUEUES)


@pytest.mark.parametrize("properties", [None, Properties(), Properties({"other": 1}, message_id="m")])
@pytest.mark.parametrize("source", [("customer", None), (None, "correlation_id")])
def test_messages_without_what_is_hashed_go_to_one_place(
    source: tuple[str | None, str | None], properties: Properties | None
) -> None:
    matcher = ConsistentHashMatcher(*source)
    for queue in QUEUES:
        matcher.add(b"1", {}, queue)
    first = only(matcher, b"", None)
    assert {only(matcher, key, properties) for key in KEYS[:100]} == {first}


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_is_hashed_instead_of_the_key(name: str) -> None:
    matcher = ConsistentHashMatcher(None, name)
    for queue in QUEUES:
        matcher.add(b"1", {}, queue)
    values = [Timestamp(number) if name == "timestamp" else str(number) for number in range(300)]
    chosen = [only(matcher, b"k", Properties(**{name: value})) for value in values]
    assert chosen == [only(matcher, b"l", Properties(**{name: value})) for value in values]
    assert set(chosen) == set(QUEUES)


@pytest.mark.parametrize("value", [True, 5, 1.5, None, [1, {"a": 2}], {"a": [1]}, b"\xff", "\udcff", "\u00e9"])
def test_headers_of_every_type_are_hashed(value: Any) -> None:
    matcher = ConsistentHashMatcher("h", None)
    matcher.add(b"1", {}, QUEUES[0])
    matcher.add(b"1", {}, QUEUES[1])
    assert only(matcher, b"", Properties({"h": value})) in QUEUES


def test_modulus_counts_bindings_in_order_of_name() -> None:
    matcher = ModulusHashMatcher()
    for queue in reversed(QUEUES):
        matcher.add(b"", {}, queue)
    for key in KEYS[:500]:
        assert only(matcher, key) is QUEUES[stable_hash(key) % 10]
    # Bound under a second key, a queue counts twice.
    matcher.add(b"again", {}, QUEUES[0])
    order = [QUEUES[0], *QUEUES]
    for key in KEYS[:500]:
        assert only(matcher, key) is order[stable_hash(key) % 11]


def test_random_goes_where_the_dice_point() -> None:
    asked: list[int] = []
    throws = iter([2, 0, 1])

    def pick(count: int) -> int:
        asked.append(count)
        return next(throws)

    matcher = RandomMatcher(pick)
    matcher.add(b"", {}, QUEUES[0])
    assert only(matcher) is QUEUES[0]
    assert asked == []
    matcher.add(b"", {}, QUEUES[1])
    matcher.add(b"", {}, QUEUES[2])
    assert [only(matcher), only(matcher), only(matcher)] == [QUEUES[2], QUEUES[0], QUEUES[1]]
    assert asked == [3, 3, 3]


@pytest.mark.parametrize("throw", [-1, 2, 1 << 40])
def test_crooked_dice_are_caught(throw: int) -> None:
    matcher = RandomMatcher(lambda count: throw)
    matcher.add(b"", {}, QUEUES[0])
    matcher.add(b"", {}, QUEUES[1])
    with pytest.raises(AssertionError):
        only(matcher)


def test_a_failing_pick_comes_through() -> None:
    matcher = RandomMatcher(lambda count: 1 // 0)
    matcher.add(b"", {}, QUEUES[0])
    matcher.add(b"", {}, QUEUES[1])
    with pytest.raises(ZeroDivisionError):
        only(matcher)
