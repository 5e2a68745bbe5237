"""The x-delay header: what counts as a delay, and what the message goes on with."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from leveret.core.codec.field_types import Int64
from leveret.core.codec.properties import Properties, encode_properties, parse_properties
from leveret.errors import SoftError
from leveret.queues.delay import DELAY_MS_MAX, delayed


def properties(delay: Any) -> Properties:
    return parse_properties(encode_properties(headers={"x-delay": delay, "other": "o"}, message_id="m"))


@pytest.mark.parametrize(
    ("value", "delay_ms"), [(1, 1), (5000, 5000), (Int64(7), 7), (1.9, 1), (DELAY_MS_MAX, DELAY_MS_MAX)]
)
def test_a_number_of_milliseconds_is_a_delay_and_goes_on_negated(value: Any, delay_ms: int) -> None:
    changed, found = delayed(properties(value))
    assert found == delay_ms
    assert changed.fields() == {"headers": {"x-delay": -delay_ms, "other": "o"}, "message_id": "m"}


@pytest.mark.parametrize(
    "value", [0, -1, -5000, 0.9, "5000", b"5", True, None, [5], {"a": 1}, float("nan"), float("inf"), Decimal(5)]
)
def test_anything_else_is_no_delay_and_stays(value: Any) -> None:
    given = properties(value)
    assert delayed(given) == (given, 0)


def test_what_went_on_once_asks_for_no_delay_again() -> None:
    changed, _ = delayed(properties(5000))
    assert delayed(changed) == (changed, 0)


def test_without_the_header_there_is_no_delay() -> None:
    given = parse_properties(encode_properties())
    assert delayed(given) == (given, 0)


def test_more_than_ten_years_are_refused() -> None:
    with pytest.raises(SoftError) as refused:
        delayed(properties(DELAY_MS_MAX + 1))
    assert refused.value.code == 406
    assert (
        refused.value.text == f"invalid header 'x-delay': {DELAY_MS_MAX + 1} is more than {DELAY_MS_MAX} milliseconds"
    )
