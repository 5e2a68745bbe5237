"""Numbers and what stands beside them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from leveret.management.api.numbers import LENGTHS, MESSAGE_RATES, detailed, idle_since, message_stats, moves, span
from leveret.management.http.errors import HttpError
from leveret.management.http.request import Request
from leveret.operations.statistics.series import Level, Series, Shape

SHAPE = Shape(("publish",), (), (Level(1, 4),), {})


class Statistics:
    """Remembers what was asked."""

    interval_s = 5.0

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def details(self, *question: Any) -> dict[str, Any]:
        self.asked.append(question[1:])
        return {"rate": 1.5}


def ask(statistics: Statistics, **query: str) -> Request:
    clock = SimpleNamespace(now_ms=lambda: 1_000_000)
    services = SimpleNamespace(statistics=statistics, broker=SimpleNamespace(clock=clock))
    return Request(cast(Any, services), cast(Any, None), "", "GET", {}, query)


def moving(changed_at: int = 199) -> Any:
    series = Series(SHAPE, changed_at, (0,))
    return SimpleNamespace(series=series)


def test_what_moves_is_looked_up_and_what_rests_is_not() -> None:
    statistics = Statistics()
    still = SimpleNamespace(series=None)
    assert detailed(ask(statistics), still, {"publish": 3}, MESSAGE_RATES) == {
        "publish": 3,
        "publish_details": {"rate": 0.0},
    }
    assert statistics.asked == []
    assert detailed(ask(statistics), moving(), {"publish": 3}, MESSAGE_RATES)["publish_details"] == {"rate": 1.5}
    assert statistics.asked == [("publish",)]
    assert not moves(SimpleNamespace(series=(1, 2)))
    assert moves(object()), "what cannot say may have"


def test_samples_of_what_rests_are_given_if_they_are_asked_for() -> None:
    statistics = Statistics()
    query = {"lengths_age": "60", "lengths_incr": "5"}
    detailed(ask(statistics, **query), SimpleNamespace(series=None), {"messages": 0}, LENGTHS)
    assert statistics.asked == [("messages", 60, 5)]


@pytest.mark.parametrize(("age", "incr"), [("x", "1"), ("0", "1"), ("5", "0"), ("5", "6"), ("86401", "5")])
def test_a_span_must_make_sense(age: str, incr: str) -> None:
    with pytest.raises(HttpError) as refusal:
        span(ask(Statistics(), lengths_age=age, lengths_incr=incr), LENGTHS)
    assert refusal.value.status == 400


def test_half_a_span_is_none() -> None:
    assert span(ask(Statistics(), lengths_age="5"), LENGTHS) is None
    assert span(ask(Statistics(), lengths_incr="5"), LENGTHS) is None
    assert span(ask(Statistics(), lengths_age="60", lengths_incr="5"), LENGTHS) == (60, 5)


def test_nothing_counted_is_no_key() -> None:
    assert message_stats(ask(Statistics()), moving(), {}) == {}
    assert message_stats(ask(Statistics()), moving(), {"publish": 1}).keys() == {"message_stats"}


def test_idle_since_the_last_change() -> None:
    # It is 1000 s after the beginning of time: sample 200.
    assert idle_since(ask(Statistics()), moving(199)) == {}
    assert idle_since(ask(Statistics()), moving(100)) == {"idle_since": "1970-01-01T00:08:20.000+00:00"}
    assert idle_since(ask(Statistics()), cast(Any, SimpleNamespace(series=None))) == {}
