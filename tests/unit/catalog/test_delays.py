"""Lists of delays: every way to write one, and what is said of those that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from leveret.catalog.delays import DELAY_MS_MAX, DELAYS_MAX, parse_delays
from leveret.errors import InvalidPolicy

DAY = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("value", "delays"),
    [
        ("1s, 5s, 30s, 5min", (1000, 5000, 30_000, 300_000)),
        ("500ms,2m,1h,30d", (500, 120_000, 3_600_000, 30 * DAY)),
        (" 1 s ,2s ", (1000, 2000)),
        (["1s", "5min"], (1000, 300_000)),
        ([1000, "2s", 3000], (1000, 2000, 3000)),
        ([1], (1,)),
        ("5s, 1s", (5000, 1000)),
        (["1s"] * DELAYS_MAX, (1000,) * DELAYS_MAX),
    ],
)
def test_delays_are_read_in_the_order_given(value: Any, delays: tuple[int, ...]) -> None:
    assert parse_delays(value) == delays


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("1s, soon, 3s", "'soon'"),
        ("1s,,3s", "''"),
        ("", "''"),
        ("5", "'5'"),
        ("1.5s", "'1.5s'"),
        ("-1s", "'-1s'"),
        ("1S", "'1S'"),
        ("\u0661s", "'\u0661s'"),
        ("0s", "'0s'"),
        ("31d", "'31d'"),
        ("99999999999999999999d", "'99999999999999999999d'"),
        ("1s\n2s", "'1s\\n2s'"),
        ([0], "0"),
        ([-5], "-5"),
        ([DELAY_MS_MAX + 1], str(DELAY_MS_MAX + 1)),
        ([True], "True"),
        ([1.5], "1.5"),
        ([None], "None"),
        (["1s", ["2s"]], "['2s']"),
        (["1s, 2s"], "'1s, 2s'"),
        ([], "no delay"),
        (5, "5"),
        (None, "None"),
        ({}, "{}"),
        (["1s"] * (DELAYS_MAX + 1), f"more than {DELAYS_MAX}"),
        ("1s," * DELAYS_MAX + "1s", f"more than {DELAYS_MAX}"),
    ],
)
def test_the_part_that_cannot_be_used_is_named(value: Any, named: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parse_delays(value)
    assert refused.value.key == "retry-delays"
    assert named in refused.value.text


def test_the_key_that_holds_the_delays_is_the_one_to_blame() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parse_delays("x", "x-retry-delays")
    assert refused.value.key == "x-retry-delays"
    assert refused.value.text.startswith("x-retry-delays: 'x'")


def test_a_long_part_is_not_quoted_whole() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parse_delays("x" * 100_000)
    assert len(refused.value.text) < 200


@given(some.lists(some.integers(1, DELAY_MS_MAX), min_size=1, max_size=DELAYS_MAX))
def test_milliseconds_and_their_text_are_the_same(delays: list[int]) -> None:
    assert parse_delays(delays) == tuple(delays)
    assert parse_delays(", ".join(f"{delay}ms" for delay in delays)) == tuple(delays)
