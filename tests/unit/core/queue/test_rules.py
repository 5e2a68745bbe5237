"""A queue's rules: which of them make it look at its messages, and what goes on to somewhere."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.queue.rules import Rules

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = 1, 2, 3, 4


def test_without_anything_said_there_are_no_limits_and_nothing_goes_anywhere() -> None:
    rules = Rules()
    assert (rules.ttl_ms, rules.length_max, rules.bytes_max, rules.delivery_limit) == (-1, -1, -1, -1)
    assert (rules.overflow, rules.dead_letter_exchange, rules.dead_letter_key) == (0, None, None)
    assert (rules.retry_delays, rules.parking_lot) == ((), None)
    assert rules.plain and not rules.buries and not rules.retries
    assert not any(rules.carries(reason) for reason in (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT))


@pytest.mark.parametrize(
    "said",
    [
        {"ttl_ms": 0},
        {"length_max": 0},
        {"bytes_max": 0},
        {"delivery_limit": 0},
        {"dead_letter_exchange": b""},
        {"retry_delays": (1,)},
        {"parking_lot": b"lot"},
    ],
    ids=lambda said: next(iter(said)),
)
def test_anything_said_makes_a_queue_look_at_its_messages(said: dict[str, Any]) -> None:
    rules = Rules(**said)
    assert not rules.plain
    for name, value in said.items():
        assert getattr(rules, name) == value


def test_an_overflow_rule_alone_says_nothing() -> None:
    assert Rules(overflow=1).plain


def test_with_a_dead_letter_exchange_everything_goes_on() -> None:
    rules = Rules(dead_letter_exchange=b"", dead_letter_key=b"k")
    assert rules.buries and not rules.retries
    assert all(rules.carries(reason) for reason in (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT))


@pytest.mark.parametrize("said", [{"retry_delays": (5, 10)}, {"parking_lot": b"lot"}])
def test_retries_are_for_what_a_client_gave_back(said: dict[str, Any]) -> None:
    rules = Rules(**said)
    assert rules.retries and not rules.buries
    assert [reason for reason in (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT) if rules.carries(reason)] == [
        REJECTED,
        DELIVERY_LIMIT,
    ]
