"""The exchange types there are."""

from __future__ import annotations

import pytest

from leveret.catalog.records import ExchangeRecord
from leveret.core.matching.hash_matcher import ConsistentHashMatcher, ModulusHashMatcher, RandomMatcher
from leveret.core.matching.headers_matcher import HeadersMatcher
from leveret.core.matching.matcher import DirectMatcher, FanoutMatcher
from leveret.core.matching.super_stream_matcher import SuperStreamMatcher
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.errors import HardError
from leveret.routing.registry import EXCHANGE_TYPE_NAMES, exchange_type, routing_type

MATCHERS = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "headers": HeadersMatcher,
    "topic": TopicMatcher,
    "x-consistent-hash": ConsistentHashMatcher,
    "x-delayed-message": TopicMatcher,
    "x-message-deduplication": FanoutMatcher,
    "x-modulus-hash": ModulusHashMatcher,
    "x-random": RandomMatcher,
    "x-super-stream": SuperStreamMatcher,
}
# For those that cannot do without.
ARGUMENTS = {"x-delayed-message": {"x-delayed-type": "topic"}}


def never(count: int) -> int:
    raise AssertionError(f"nobody asked for one of {count}")


def test_the_known_types_are_listed_in_order() -> None:
    assert list(EXCHANGE_TYPE_NAMES) == sorted(MATCHERS)


@pytest.mark.parametrize("name", sorted(MATCHERS))
def test_each_type_has_its_matcher_and_a_new_one_each_time(name: str) -> None:
    kind = exchange_type(name)
    assert kind.name == name
    assert kind.description
    arguments = ARGUMENTS.get(name, {})
    first, second = kind.matcher(arguments, never), kind.matcher(arguments, never)
    assert type(first) is MATCHERS[name]
    assert first is not second
    assert first.count == 0


@pytest.mark.parametrize("name", ["foo", "", "DIRECT", "direct ", "x-delayed"])
def test_an_unknown_type_ends_the_connection(name: str) -> None:
    with pytest.raises(HardError) as caught:
        exchange_type(name)
    assert caught.value.reply_text == f"COMMAND_INVALID - unknown exchange type '{name}'"
    assert caught.value.code == 503


@pytest.mark.parametrize("name", ["direct", "fanout", "topic", "x-modulus-hash", "x-random"])
def test_types_without_rules_take_every_binding(name: str) -> None:
    for key in ("", "#.#.*", "a" * 255):
        exchange_type(name).validate_binding(key, {"x-match": 5, "anything": None})


def test_the_random_type_hands_its_dice_on() -> None:
    matcher = exchange_type("x-random").matcher({}, lambda count: count - 1)
    matcher.add(b"", {}, "first")
    matcher.add(b"", {}, "last")
    found: list[object] = []
    matcher.collect(b"", None, found)
    assert found == ["last"]


def test_a_delayed_exchange_routes_by_the_type_it_was_given_and_others_by_their_own() -> None:
    delayed = ExchangeRecord("/", "x", "x-delayed-message", True, False, False, {"x-delayed-type": "headers"})
    assert routing_type(delayed) is exchange_type("headers")
    assert routing_type(ExchangeRecord("/", "x", "fanout", True, False, False, {})) is exchange_type("fanout")
