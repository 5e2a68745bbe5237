"""Filters: each of their fields alone, all of them together, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.catalog.records import ReplayFilter
from leveret.core.codec.message import new_message
from leveret.errors import InvalidReplay
from leveret.operations.reprocess.filter import CompiledFilter
from leveret.operations.reprocess.letter import Letter
from leveret.queues.death import died
from tests.unit.queues.dataplane import message

NOW_MS = 200_000


def dead_letter(deaths: int = 1, **headers: Any) -> Letter:
    """Died in queue "orders" in second 100, expired, published to "shop" with key "new.eu"."""
    current = message(b"a red apple", "new.eu", "shop", headers=headers or None)
    for _ in range(deaths):
        properties, _ = died(current, "orders", "expired", None, 100)
        current = new_message(b"shop", b"new.eu", properties, b"a red apple")
    current.stamp = 150_000
    return Letter(current)


def passes(letter: Letter, **fields: Any) -> bool:
    return CompiledFilter(ReplayFilter(**fields)).matches(letter, NOW_MS)


def test_without_conditions_everything_passes() -> None:
    assert passes(dead_letter())
    assert passes(dead_letter(deaths=0))


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ({"reason": "expired"}, {"reason": "rejected"}),
        ({"queue": "orders"}, {"queue": "order"}),
        ({"queue_pattern": "^ord"}, {"queue_pattern": "^rd"}),
        ({"exchange": "shop"}, {"exchange": ""}),
        ({"exchange_pattern": "sh.p"}, {"exchange_pattern": "s$"}),
        ({"routing_key": "new.eu"}, {"routing_key": "new"}),
        ({"routing_key_pattern": r"\.eu$"}, {"routing_key_pattern": r"\.us$"}),
        ({"age_s_min": 100}, {"age_s_min": 100.5}),
        ({"age_s_max": 100}, {"age_s_max": 99.5}),
        ({"deaths_min": 2}, {"deaths_min": 3}),
        ({"deaths_max": 2}, {"deaths_max": 1}),
        ({"replays_max": 4}, {"replays_max": 3}),
        ({"body_contains": b"red"}, {"body_contains": b"green"}),
        ({"headers": {"text": "a", "number": 5, "true": True, "none": None}}, {"headers": {"text": "b"}}),
        ({"headers": {"number": 5.0}}, {"headers": {"number": True}}),
        ({"headers": {}}, {"headers": {"missing": None}}),
        ({"headers": {"true": True}}, {"headers": {"true": 1}}),
    ],
)
def test_each_condition(yes: dict[str, Any], no: dict[str, Any]) -> None:
    letter = dead_letter(2, **{"text": "a", "number": 5, "true": True, "none": None, "x-replay-count": 4})
    assert passes(letter, **yes)
    assert not passes(letter, **no)


def test_all_conditions_must_hold() -> None:
    assert passes(dead_letter(), reason="expired", body_contains=b"red", queue="orders")
    assert not passes(dead_letter(), reason="expired", body_contains=b"green", queue="orders")


def test_what_never_died_has_no_origin_but_an_age() -> None:
    fresh = dead_letter(deaths=0)
    assert not passes(fresh, reason="expired")
    assert not passes(fresh, queue_pattern="")
    assert not passes(fresh, deaths_min=1)
    assert passes(fresh, deaths_max=0, age_s_min=50, age_s_max=50)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"reason": "murdered"}, "filter.reason"),
        ({"queue_pattern": "("}, "filter.queue_pattern"),
        ({"exchange_pattern": "(?=a)"}, "filter.exchange_pattern"),
        ({"routing_key_pattern": "a" * 1025}, "filter.routing_key_pattern"),
        ({"age_s_min": -1}, "filter.age_s_min"),
        ({"age_s_max": float("nan")}, "filter.age_s_max"),
        ({"deaths_min": -1}, "filter.deaths_min"),
        ({"replays_max": -1}, "filter.replays_max"),
        ({"headers": {"a": [1]}}, "filter.headers"),
        ({"headers": {str(number): 1 for number in range(33)}}, "filter.headers"),
        ({"body_contains": bytes(4097)}, "filter.body_contains"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidReplay) as refusal:
        CompiledFilter(ReplayFilter(**fields))
    assert refusal.value.field == field
