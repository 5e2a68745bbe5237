"""One condition of a headers binding: equality as RabbitMQ 3.10.8 answered when it was asked, and our predicates."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from leveret.core.codec.tables import Float32, Int8, Int64, Timestamp, UInt32
from leveret.core.matching.header_condition import NUMBER_CHARS_MAX, HeaderCondition, exact_key, match_key


def holds(asked: Any, value: Any) -> bool:
    return bool(HeaderCondition("h", asked).holds(value))


@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [
        (1, 1.0, True),
        (1, Int64(1), True),
        (Int8(1), UInt32(1), True),
        (1.5, Float32(1.5), True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (False, 0, False),
        (False, False, True),
        (True, False, False),
        ("x", b"x", True),
        (b"x", "x", True),
        ("x", "X", False),
        ("1", 1, False),
        (1, 2**40, False),
        (Timestamp(1577836800), 1577836800, True),
        (Decimal("1"), 1, False),
        (Decimal("1.5"), Decimal("1.5"), True),
        (None, None, True),
        (None, 5, True),
        (None, False, True),
        (5, None, False),
        ("", None, False),
        ("", "", True),
        ([1, "x"], [1, "x"], True),
        ([1, "x"], [1, b"x"], False),
        ([1], [1.0], False),
        ([1], [True], False),
        ([1], [Int64(1)], True),
        ([], {}, True),
        ({}, [], True),
        ([], "", False),
        ([[]], [{}], False),
        ({"b": 1, "c": [None, 2]}, {"c": [None, 2], "b": 1}, True),
        ({"b": 1}, {"b": 1, "c": 2}, False),
        ({"b": 1}, {"b": True}, False),
    ],
)
def test_equality(asked: Any, value: Any, expected: bool) -> None:
    assert holds(asked, value) is expected
    assert expected or asked is None or match_key(asked) != match_key(value)


@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [
        (">1000", 1500, True),
        (">1000", 1000, False),
        (">1000", 1000.5, True),
        (">1000", "1500", True),
        (">1000", b"1500", True),
        (">1000", "500", False),
        (">1000", "9", False),
        (">1000", ">1000", True),  # equality first: RabbitMQ's meaning is kept
        (">1000", "abc", False),
        (">1000", True, False),
        (">1000", None, False),
        (">1000", [1500], False),
        (">1000", Decimal("1000.01"), True),
        (">=5", 5, True),
        (">=5", 4.999, False),
        (">= 5 ", 5, True),
        ("<10", 9, True),
        ("<10", 10, False),
        ("<-1.5e3", -1501, True),
        ("<=2.5", 2.5, True),
        ("<=2.5", "2.50001", False),
        ("!=x", "y", True),
        ("!=x", "x", False),
        ("!=x", b"x", False),
        ("!=x", 5, True),
        ("!=x", True, False),
        ("!=x", None, False),
        ("!=x", {}, False),
        ("!=5", 5, False),
        ("!=5", 5.0, False),
        ("!=5", "5.0", False),
        ("!=5", 6, True),
        ("!=5", "five", True),
        # No number behind the sign, or nothing at all: a plain text.
        (">abc", "abd", False),
        (">abc", ">abc", True),
        (">", 1, False),
        ("!=", "x", False),
        ("!=", "!=", True),
        ("=>5", 6, False),
        ("> =5", 6, False),
        (">nan", 1, False),
        ("<inf", 1, False),
        (">1_0", 11, False),
        (">0x10", 17, False),
        (">\u0661", 5, False),
        (">5\n", 6, False),
    ],
)
def test_predicates(asked: str, value: Any, expected: bool) -> None:
    assert holds(asked, value) is expected


def test_numbers_beyond_floats_compare_exactly() -> None:
    assert holds(f">{2**53}", 2**53 + 1)
    assert not holds(f">{2**53 + 1}", 2**53 + 1)
    assert holds("<1e999", 10**30)


def test_a_very_long_text_is_no_number() -> None:
    assert holds(">0", "9" * NUMBER_CHARS_MAX)
    assert not holds(">0", "9" * (NUMBER_CHARS_MAX + 1))
    # More digits than Python converts; it must neither raise nor take its time.
    assert not holds(">0", "9" * 1_000_000)
    assert holds("!=0", "9" * 1_000_000)


def test_texts_that_are_not_utf8_compare_by_their_octets() -> None:
    assert holds(b"\xff\xfe", b"\xff\xfe".decode("utf-8", "surrogateescape"))
    assert not holds(b"\xff\xfe", b"\xff\xfd")


def test_exact_keys_keep_kinds_apart() -> None:
    values = [1, 1.0, True, "1", b"1", Decimal(1), None, [1], [1.0], {"a": 1}, {"a": True}, [], {}, "", float("nan")]
    keys = [exact_key(value) for value in values]
    assert len(set(keys)) == len(values)
    assert exact_key(float("nan")) == exact_key(float("nan"))
    assert exact_key(Int64(1)) == exact_key(1)
    assert exact_key({"a": 1, "b": [2]}) == exact_key({"b": [2], "a": 1})
