"""Arguments: what is refused and in which words, and when two declarations mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.catalog import arguments as check
from leveret.catalog.arguments import (
    assert_same_argument,
    assert_same_property,
    check_expiration,
    same,
)
from leveret.core.codec.field_types import Int8, Int64, Timestamp, UInt32
from leveret.errors import SoftError

WHAT = "queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("checker", "value", "reason"),
    [
        (check.integer, 1, None),
        (check.integer, Int64(1), None),
        (check.integer, -1, None),
        (check.integer, "1", '"expected integer, got longstr"'),
        (check.integer, True, '"expected integer, got bool"'),
        (check.integer, 1.0, '"expected integer, got double"'),
        (check.integer, Timestamp(1), '"expected integer, got timestamp"'),
        (check.integer, None, '"expected integer, got void"'),
        (check.non_negative, 0, None),
        (check.non_negative, -1, "{value_negative,-1}"),
        (check.non_negative, "x", '"expected integer, got longstr"'),
        (check.duration, 315360000000, None),
        (check.duration, 315360000001, "{value_too_large,315360000001}"),
        (check.duration, 0, None),
        (check.duration, -5, "{value_negative,-5}"),
        (check.positive_duration, 1, None),
        (check.positive_duration, 0, "{value_zero,0}"),
        (check.positive_duration, -1, "{value_negative,-1}"),
        (check.priority_range, 255, None),
        (check.priority_range, 256, "{max_value_exceeded,256}"),
        (check.priority_range, -1, "{value_negative,-1}"),
        (check.boolean, False, None),
        (check.boolean, 1, "{unacceptable_type,signedint}"),
        (check.string, "", None),
        (check.string, b"", "{unacceptable_type,binary}"),
        (check.string, 5, "{unacceptable_type,signedint}"),
    ],
)
def test_a_check_gives_rabbitmqs_reason_or_none(checker: check.Check, value: Any, reason: str | None) -> None:
    assert checker(value) == reason


def test_one_of_a_few_is_checked_by_type_and_then_by_value() -> None:
    checker = check.one_of(("a", "b"), "\"unsupported '{}'\"")
    assert checker("a") is None
    assert checker("c") == "\"unsupported 'c'\""
    assert checker(1) == "{unacceptable_type,signedint}"


@pytest.mark.parametrize("expiration", [b"0", b"1", b"00012", b"315360000000", b"+5", b"-0"])
def test_good_expirations(expiration: bytes) -> None:
    check_expiration(expiration)


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        (b"", "no_integer"),
        (b"x", "no_integer"),
        (b" 5", "no_integer"),
        (b"-", "no_integer"),
        (b"5s", '{leftover_string,"s"}'),
        (b"1.5", '{leftover_string,".5"}'),
        (b"-1", "{value_negative,-1}"),
        (b"315360000001", "{value_too_large,315360000001}"),
        (b"9" * 200, "{value_too_large," + "9" * 200 + "}"),
    ],
)
def test_bad_expirations(expiration: bytes, reason: str) -> None:
    with pytest.raises(SoftError) as refusal:
        check_expiration(expiration)
    assert refusal.value.code == 406
    assert refusal.value.text == f"invalid expiration '{expiration.decode()}': {reason}"


@pytest.mark.parametrize(
    ("ours", "theirs", "equal"),
    [
        (1, 1, True),
        (1, Int8(1), True),
        (Int64(5), UInt32(5), True),
        (1, 2, False),
        (1, True, False),
        (0, False, False),
        (1, 1.0, False),
        (1, "1", False),
        (1, Timestamp(1), True),
        ("a", "a", True),
        ("a", b"a", True),
        ("a", b"b", False),
        (None, None, True),
        ([1], [1], True),
        ([1], [2], False),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_integers_are_compared_by_value_and_all_else_by_type_too(ours: Any, theirs: Any, equal: bool) -> None:
    assert same(ours, theirs) is equal
    assert same(theirs, ours) is equal


def test_arguments_that_are_equal_or_both_absent_pass() -> None:
    assert_same_argument("x-max-length", WHAT, {"x-max-length": 5}, {"x-max-length": Int64(5)})
    assert_same_argument("x-max-length", WHAT, {}, {})
    assert_same_argument("x-max-length", WHAT, {"other": 1}, {"other": 2})


@pytest.mark.parametrize(
    ("current", "received", "detail"),
    [
        ({"x": 1}, {"x": 2}, "received '2' but current is '1'"),
        ({"x": True}, {"x": False}, "received 'false' but current is 'true'"),
        ({"x": "lazy"}, {"x": "default"}, "received 'default' but current is 'lazy'"),
        ({}, {"x": 2}, "received the value '2' of type 'signedint' but current is none"),
        ({"x": "a"}, {}, "received none but current is the value 'a' of type 'longstr'"),
    ],
)
def test_unequal_arguments_are_refused_in_rabbitmqs_words(
    current: dict[str, Any], received: dict[str, Any], detail: str
) -> None:
    with pytest.raises(SoftError) as refusal:
        assert_same_argument("x", WHAT, current, received)
    assert refusal.value.code == 406
    assert refusal.value.text == f"inequivalent arg 'x' for {WHAT}: {detail}"


def test_unequal_properties_are_refused_in_rabbitmqs_words() -> None:
    assert_same_property("durable", WHAT, True, True)
    with pytest.raises(SoftError) as refusal:
        assert_same_property("durable", WHAT, False, True)
    assert str(refusal.value) == (
        "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'"
    )
