"""The headers matcher: x-match, with x- as any other name or as RabbitMQ 3.10.8 has it; an index that loses nothing."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from leveret.core.codec.tables import Int64
from leveret.core.matching.headers_matcher import HeadersMatcher
from leveret.core.observe.meter import Meter


class Properties:
    def __init__(self, headers: dict[str, Any]) -> None:
        self._headers = headers

    def headers(self) -> dict[str, Any]:
        return self._headers


def over() -> Meter:
    """A meter that is over with the first unit of work."""
    meter = Meter()
    meter.allow(1)
    return meter


def found(matcher: HeadersMatcher, headers: dict[str, Any] | None) -> set[object]:
    properties = None if headers is None else Properties(headers)
    destinations: list[object] = []
    matcher.collect(b"ignored", properties, destinations)
    # In steps, left as often as possible, it finds the same.
    in_steps: list[object] = []
    steps = matcher.start(b"ignored", properties, in_steps, over())
    while steps is not None and not steps.go_on(over(), in_steps):
        pass
    assert in_steps == destinations
    return set(destinations)


def matches(arguments: dict[str, Any], headers: dict[str, Any] | None, ignore_x: bool = False) -> bool:
    matcher = HeadersMatcher(ignore_x)
    matcher.add(b"", arguments, "bound")
    return bool(found(matcher, headers))


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, {}, True),
        ({}, None, True),
        ({}, {"a": 1}, True),
        ({"x-match": "all"}, None, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "any"}, None, False),
        ({"a": 1}, None, False),
        ({"a": 1}, {}, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1, "b": 2, "x-match": "any"}, {"b": 2}, True),
        ({"a": 1, "b": 2, "x-match": "any"}, {"a": 2, "b": 1}, False),
        ({"a": None}, {"a": 7}, True),
        ({"a": None, "b": 2}, {"a": 7, "b": 2}, True),
        ({"a": None, "b": 2}, {"b": 2}, False),
        ({"a": None, "x-match": "any"}, {"b": 2}, False),
        # x-match is no condition, whatever a message has under that name.
        ({"x-match": "any", "b": 1}, {"x-match": "any"}, False),
        ({"x-foo": 1}, {}, False),
        ({"x-foo": 1}, {"x-foo": 1}, True),
        ({"x-foo": 1, "x-match": "any"}, {"x-foo": 1}, True),
        ({"x-foo": 1, "x-match": "any"}, {"x-foo": 2}, False),
        ({"x-foo": 1, "b": 1, "x-match": "all"}, {"b": 1}, False),
        ({"x-foo": 1, "x-match": "all-with-x"}, {}, False),
        ({"x-foo": 1, "x-match": "all-with-x"}, {"x-foo": 1}, True),
        ({"x-foo": 1, "x-match": "any-with-x"}, {"x-foo": 1}, True),
        ({"x-match": "all-with-x"}, {}, True),
        ({"x-match": "all-with-x", "x-match2": 1}, {"x-match2": 1}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"X-foo": 1}, {}, False),
        # A missing header satisfies no predicate.
        ({"a": "!=x"}, {}, False),
        ({"a": "!=x", "b": ">1"}, {"a": "y", "b": 2}, True),
        ({"a": "!=x", "b": ">1"}, {"a": "y", "b": 1}, False),
        ({"a": "!=x", "b": ">1", "x-match": "any"}, {"a": "x", "b": 2}, True),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, True),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, False),
    ],
)
def test_x_match(arguments: dict[str, Any], headers: dict[str, Any] | None, expected: bool) -> None:
    assert matches(arguments, headers) is expected


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-foo": 1}, {}, True),
        ({"x-foo": 1}, {"x-foo": 2}, True),
        ({"x-foo": 1, "x-match": "any"}, {"x-foo": 1}, False),
        ({"x-foo": 1, "b": 1, "x-match": "any"}, {"b": 1}, True),
        ({"x-foo": 1, "x-match": "all-with-x"}, {}, False),
        ({"x-foo": 1, "x-match": "all-with-x"}, {"x-foo": 1}, True),
        ({"x-foo": 1, "x-match": "any-with-x"}, {"x-foo": 1}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"X-foo": 1}, {}, False),
    ],
)
def test_arguments_with_x_are_ignored_where_the_exchange_says_so(
    arguments: dict[str, Any], headers: dict[str, Any], expected: bool
) -> None:
    assert matches(arguments, headers, ignore_x=True) is expected


def test_two_values_that_python_confuses_are_two_bindings() -> None:
    matcher = HeadersMatcher()
    matcher.add(b"", {"a": 1}, "number")
    matcher.add(b"", {"a": True}, "boolean")
    assert found(matcher, {"a": 1}) == {"number"}
    assert found(matcher, {"a": True}) == {"boolean"}
    with pytest.raises(KeyError):
        matcher.remove(b"", {"a": True}, "number")
    matcher.remove(b"", {"a": 1}, "number")
    assert found(matcher, {"a": 1}) == set()
    assert found(matcher, {"a": True}) == {"boolean"}


def test_bindings_alike_but_for_the_key() -> None:
    matcher = HeadersMatcher()
    matcher.add(b"one", {"a": 1}, "bound")
    matcher.add(b"two", {"a": 1}, "bound")
    matcher.remove(b"one", {"a": 1}, "bound")
    with pytest.raises(KeyError):
        matcher.remove(b"one", {"a": 1}, "bound")
    assert found(matcher, {"a": 1}) == {"bound"}
    assert matcher.count == 1


def test_bindings_alike_but_for_the_width_of_a_number() -> None:
    """The catalog tells them apart by their octets, and a match does not."""
    matcher = HeadersMatcher()
    matcher.add(b"", {"a": 1}, "bound")
    matcher.add(b"", {"a": Int64(1)}, "bound")
    assert matcher.count == 2
    matcher.remove(b"", {"a": 1}, "bound")
    assert found(matcher, {"a": 1}) == {"bound"}
    matcher.remove(b"", {"a": Int64(1)}, "bound")
    assert found(matcher, {"a": 1}) == set()


def test_the_arguments_may_change_after_the_binding() -> None:
    matcher = HeadersMatcher()
    arguments = {"a": 1}
    matcher.add(b"", arguments, "bound")
    arguments["a"] = 2
    assert found(matcher, {"a": 1}) == {"bound"}
    matcher.remove(b"", {"a": 1}, "bound")
    assert matcher.count == 0


def test_an_any_binding_leaves_all_its_places() -> None:
    matcher = HeadersMatcher()
    arguments = {"x-match": "any", "a": 1, "b": None, "c": ">5", "d": [1]}
    matcher.add(b"", arguments, "bound")
    for headers in ({"a": 1}, {"b": "x"}, {"c": 6}, {"d": [1]}):
        assert found(matcher, headers) == {"bound"}
    matcher.remove(b"", arguments, "bound")
    for headers in ({"a": 1}, {"b": "x"}, {"c": 6}, {"d": [1]}):
        assert found(matcher, headers) == set()


def test_a_shared_condition_does_not_gather_all_bindings() -> None:
    """Each binding asks for type and route, and all for the same type: a match must not try them all."""
    matcher = HeadersMatcher()
    for number in range(5000):
        matcher.add(b"", {"type": "order", "route": f"k.{number}"}, number)
    properties = Properties({"type": "order", "route": "k.17"})
    destinations: list[object] = []
    started = process_time()
    for _ in range(1000):
        matcher.collect(b"", properties, destinations)
    # Five million conditions would take seconds even compiled, and minutes interpreted.
    assert process_time() - started < 1
    assert set(destinations) == {17}


def test_a_search_is_charged_by_its_conditions_and_left_when_the_meter_is_over() -> None:
    """However many bindings an exchange has, others have their turn between two steps of one message."""
    matcher = HeadersMatcher()
    for number in range(1000):
        matcher.add(b"%d" % number, {f"h{at}": None for at in range(20)}, number)
    headers = Properties({f"h{at}": 1 for at in range(20)})
    destinations: list[object] = []
    turns, most = 0, 0
    meter = Meter()
    meter.allow(500)
    steps = matcher.start(b"", headers, destinations, meter)
    while steps is not None:
        turns += 1
        before = meter.spent
        meter.allow(500)
        if steps.go_on(meter, destinations):
            steps = None
        most = max(most, meter.spent - before)
    assert sorted(destinations, key=repr) == sorted(range(1000), key=repr)
    assert turns > 10 and most < 2000
    assert meter.spent > 5_000, "20,000 conditions are about 1 ms of work"


def test_a_search_finds_what_stays_while_other_bindings_go() -> None:
    matcher = HeadersMatcher()
    targets = [f"queue {number}" for number in range(300)]
    for target in targets:
        matcher.add(b"", {"a": None, "b": None}, target)
    destinations: list[object] = []
    steps = matcher.start(b"", Properties({"a": 1, "b": 1}), destinations, over())
    assert steps is not None
    for target in targets[::2]:
        matcher.remove(b"", {"a": None, "b": None}, target)
    while not steps.go_on(over(), destinations):
        pass
    assert set(targets[1::2]) <= set(destinations)
    assert len(destinations) == len(set(destinations))
