"""From a queue's arguments to its rules."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.queues.rules import rules_from


def test_no_arguments_are_no_rules() -> None:
    assert rules_from({}).plain


@pytest.mark.parametrize(
    ("argument", "value", "field", "expected"),
    [
        ("x-message-ttl", 0, "ttl_ms", 0),
        ("x-max-length", 5, "length_max", 5),
        ("x-max-length-bytes", 6, "bytes_max", 6),
        ("x-overflow", "drop-head", "overflow", 0),
        ("x-overflow", "reject-publish", "overflow", 1),
        ("x-overflow", "reject-publish-dlx", "overflow", 2),
        ("x-delivery-limit", 7, "delivery_limit", 7),
        ("x-dead-letter-exchange", "", "dead_letter_exchange", b""),
        ("x-dead-letter-exchange", "größe", "dead_letter_exchange", "größe".encode()),
        ("x-dead-letter-routing-key", "\udcff", "dead_letter_key", b"\xff"),
        ("x-retry-delays", "1s, 5min", "retry_delays", (1000, 300_000)),
        ("x-parking-lot", "lot", "parking_lot", b"lot"),
    ],
)
def test_each_argument_is_a_rule_of_its_own(argument: str, value: Any, field: str, expected: Any) -> None:
    rules, none = rules_from({argument: value}), rules_from({})
    assert getattr(rules, field) == expected
    others = ["ttl_ms", "length_max", "bytes_max", "overflow", "delivery_limit", "dead_letter_exchange"]
    others += ["dead_letter_key", "retry_delays", "parking_lot"]
    others.remove(field)
    assert [getattr(rules, other) for other in others] == [getattr(none, other) for other in others]


def test_arguments_that_are_no_rules_are_left_alone() -> None:
    assert rules_from({"x-max-priority": 5, "x-expires": 9, "x-anything": "y"}).plain
