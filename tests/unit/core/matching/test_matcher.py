"""The direct and fanout matchers, and what every matcher promises."""

from __future__ import annotations

import pytest

from leveret.core.matching.hash_matcher import ConsistentHashMatcher, ModulusHashMatcher, RandomMatcher
from leveret.core.matching.headers_matcher import HeadersMatcher
from leveret.core.matching.matcher import DirectMatcher, FanoutMatcher, Matcher
from leveret.core.matching.topic_trie import TopicMatcher


class Destination:
    def __init__(self, name: bytes) -> None:
        self.name = name


class Equal(Destination):
    """Says it equals everything: matchers must go by identity."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def found(matcher: Matcher, key: bytes = b"1", properties: object = None) -> list[object]:
    destinations: list[object] = []
    matcher.collect(key, properties, destinations)
    return destinations


def all_matchers() -> list[Matcher]:
    return [
        DirectMatcher(),
        FanoutMatcher(),
        TopicMatcher(),
        HeadersMatcher(),
        ConsistentHashMatcher(None, None),
        ModulusHashMatcher(),
        RandomMatcher(lambda count: 0),
    ]


def kind(matcher: Matcher) -> str:
    return type(matcher).__name__


@pytest.mark.parametrize("matcher", all_matchers(), ids=kind)
def test_a_matcher_without_bindings_finds_nothing(matcher: Matcher) -> None:
    assert matcher.count == 0
    assert found(matcher) == []


@pytest.mark.parametrize("matcher", all_matchers(), ids=kind)
def test_a_binding_comes_and_goes(matcher: Matcher) -> None:
    orders = Destination(b"orders")
    matcher.add(b"1", {}, orders)
    assert matcher.count == 1
    assert found(matcher) == [orders]
    matcher.remove(b"1", {}, orders)
    assert matcher.count == 0
    assert found(matcher) == []


@pytest.mark.parametrize("matcher", all_matchers(), ids=kind)
def test_removing_what_is_not_bound_is_a_key_error_and_changes_nothing(matcher: Matcher) -> None:
    orders = Destination(b"orders")
    with pytest.raises(KeyError):
        matcher.remove(b"1", {}, orders)
    matcher.add(b"1", {}, orders)
    with pytest.raises(KeyError):
        matcher.remove(b"1", {}, Destination(b"orders"))
    assert matcher.count == 1
    assert found(matcher) == [orders]


@pytest.mark.parametrize("matcher", all_matchers(), ids=kind)
def test_destinations_are_told_apart_by_identity(matcher: Matcher) -> None:
    first, second = Equal(b"orders"), Equal(b"orders")
    matcher.add(b"1", {}, first)
    matcher.add(b"1", {}, second)
    assert matcher.count == 2
    matcher.remove(b"1", {}, second)
    remaining = found(matcher)
    assert len(remaining) == 1
    assert remaining[0] is first


@pytest.mark.parametrize("matcher", all_matchers(), ids=kind)
def test_bindings_that_differ_in_arguments_go_one_by_one(matcher: Matcher) -> None:
    orders = Destination(b"orders")
    matcher.add(b"1", {}, orders)
    matcher.add(b"1", {"x-match": "all"}, orders)
    assert matcher.count == 2
    matcher.remove(b"1", {}, orders)
    assert set(found(matcher)) == {orders}
    matcher.remove(b"1", {"x-match": "all"}, orders)
    assert found(matcher) == []
    assert matcher.count == 0


@pytest.mark.parametrize("matcher", all_matchers(), ids=kind)
def test_what_was_found_before_stays_in_the_list(matcher: Matcher) -> None:
    earlier, orders = object(), Destination(b"orders")
    matcher.add(b"1", {}, orders)
    destinations: list[object] = [earlier]
    matcher.collect(b"1", None, destinations)
    assert destinations == [earlier, orders]


def test_who_may_be_cached_by_key() -> None:
    assert {kind(matcher) for matcher in all_matchers() if matcher.by_key_only} == {
        "DirectMatcher",
        "FanoutMatcher",
        "TopicMatcher",
        "ConsistentHashMatcher",
        "ModulusHashMatcher",
    }


def test_who_is_asked_for_each_cc_key() -> None:
    assert {kind(matcher) for matcher in all_matchers() if not matcher.first_key_only} == {
        "DirectMatcher",
        "TopicMatcher",
    }


def test_direct_takes_equal_keys_only() -> None:
    matcher = DirectMatcher()
    one, two, empty = object(), object(), object()
    matcher.add(b"a.b", {}, one)
    matcher.add(b"a.b", {}, two)
    matcher.add(b"", {}, empty)
    assert found(matcher, b"a.b") == [one, two]
    assert found(matcher, b"") == [empty]
    assert found(matcher, b"A.B") == []
    assert found(matcher, b"a.*") == []


def test_fanout_ignores_the_key() -> None:
    matcher = FanoutMatcher()
    one, two = object(), object()
    matcher.add(b"a", {}, one)
    matcher.add(b"", {}, two)
    assert found(matcher, b"whatever") == [one, two]


def test_the_bare_contract_does_nothing_by_itself() -> None:
    matcher = Matcher()
    for call in (matcher.add, matcher.remove):
        with pytest.raises(NotImplementedError):
            call(b"", {}, object())
    with pytest.raises(NotImplementedError):
        matcher.collect(b"", None, [])
