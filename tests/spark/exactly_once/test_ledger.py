"""The comparison itself, without Spark: it sees what is missing, what is there twice, and what nobody published."""

from __future__ import annotations

from tests.spark.exactly_once.ledger import Ledger


def test_the_same_ids_in_any_order_are_no_difference() -> None:
    ledger = Ledger()
    ledger.confirm(range(5))
    assert not ledger.compare([4, 2, 0, 1, 3])


def test_each_kind_of_difference_is_seen_and_told() -> None:
    ledger = Ledger()
    ledger.confirm(range(5))
    difference = ledger.compare([0, 1, 1, 1, 3, 4, 9])
    assert (difference.missing, difference.repeated, difference.unknown) == ([2], {1: 3}, [9])
    assert str(difference) == "missing: 1 (2); more than once: 1 (1 3x); never published: 1 (9)"


def test_each_kind_alone_is_a_difference() -> None:
    ledger = Ledger()
    ledger.confirm(range(2))
    assert ledger.compare([0])
    assert ledger.compare([0, 1, 1])
    assert ledger.compare([0, 1, 2])
