"""The headers matcher: x-match as RabbitMQ 3.10.8 answered when it was asked, and an index that loses nothing."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from leveret.core.headers_matcher import HeadersMatcher
from leveret.core.tables import Int64


class Properties:
    def __init__(self, headers: dict[str, Any]) -> None:
        self._headers = headers

    def headers(self) -> dict[str, Any]:
        return self._headers


def found(matcher: HeadersMatcher, headers: dict[str, Any] | None) -> set[object]:
    destinations: list[object] = []
    matcher.collect(b"ignored", None if headers is None else Properties(headers), destinations)
    return set(destinations)


def matches(arguments: dict[str, Any], headers: dict[str, Any] | None) -> bool:
    matcher = HeadersMatcher()
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
        # x- headers take part only with -with-x, and x-match never does.
        ({"x-foo": 1}, {}, True),
        ({"x-foo": 1, "x-match": "any"}, {"x-foo": 1}, False),
        ({"x-foo": 1, "x-match": "all-with-x"}, {}, False),
        ({"x-foo": 1, "x-match": "all-with-x"}, {"x-foo": 1}, True),
        ({"x-foo": 1, "x-match": "any-with-x"}, {"x-foo": 1}, True),
        ({"x-match": "all-with-x"}, {}, True),
        ({"x-match": "all-with-x", "x-match2": 1}, {"x-match2": 1}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"X-foo": 1}, {}, False),
        # The specification's own example, with the x- that RabbitMQ asks for.
        ({"x-customer-tier": "premium", "x-match": "all-with-x"}, {"x-customer-tier": "premium"}, True),
        ({"x-order-value": ">1000", "x-match": "any-with-x"}, {"x-order-value": "500"}, False),
        ({"x-order-value": ">1000", "x-match": "any-with-x"}, {"x-order-value": "1500"}, True),
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
