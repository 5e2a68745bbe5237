"""Filters that are pushed down: what is read less for them, and never too little."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from leveret.spark.pushed_filters import PushedFilters

OFFSET, TIMESTAMP, KEY = ("offset",), ("timestamp",), ("routing_key",)
TESTS: dict[Any, Any] = {
    EqualTo: lambda a, b: a == b,
    EqualNullSafe: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
    In: lambda a, b: a in b,
}
SMALL = st.integers(-3, 30)
FILTERS = st.lists(
    st.one_of(
        st.builds(
            lambda kind, value: (kind, value), st.sampled_from([kind for kind in TESTS if kind is not In]), SMALL
        ),
        st.builds(lambda values: (In, tuple(values)), st.lists(SMALL, min_size=1, max_size=3)),
    ),
    max_size=4,
)


def wishes_for(*filters: Any) -> PushedFilters:
    made = PushedFilters()
    made.take(filters)
    return made


@given(FILTERS)
def test_no_offset_is_passed_over_that_is_wanted(filters: list[tuple[Any, Any]]) -> None:
    pushed_filters = wishes_for(*(kind(OFFSET, value) for kind, value in filters))
    for offset in range(30):
        if all(TESTS[kind](offset, value) for kind, value in filters):
            assert pushed_filters.offset_from is None or offset >= pushed_filters.offset_from
            assert pushed_filters.offset_to is None or offset <= pushed_filters.offset_to


def test_offsets_are_narrowed() -> None:
    pushed_filters = wishes_for(GreaterThan(OFFSET, 10), LessThan(OFFSET, 20), GreaterThanOrEqual(OFFSET, 5))
    assert (pushed_filters.offset_from, pushed_filters.offset_to) == (11, 19)
    assert (wishes_for(In(OFFSET, (7, 3))).offset_from, wishes_for(EqualTo(OFFSET, 4)).offset_to) == (3, 4)


def test_moments() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    pushed_filters = wishes_for(
        GreaterThan(TIMESTAMP, early),
        LessThanOrEqual(TIMESTAMP, late),
        LessThan(TIMESTAMP, datetime(2027, 1, 1, tzinfo=UTC)),
    )
    assert (pushed_filters.moment_from, pushed_filters.moment_to) == (early, late)
    exact = wishes_for(EqualTo(TIMESTAMP, early))
    assert exact.moment_from == exact.moment_to == early
    assert wishes_for(GreaterThan(TIMESTAMP, date(2026, 1, 1))).moment_from == early
    assert wishes_for(EqualNullSafe(TIMESTAMP, None)).moment_from is None


def test_routing_keys() -> None:
    assert wishes_for(EqualTo(KEY, "ä")).routing_keys == frozenset({"ä".encode()})
    assert wishes_for(In(KEY, ("a", "b")), EqualTo(KEY, "b")).routing_keys == frozenset({b"b"})
    assert wishes_for(EqualTo(KEY, "a"), EqualTo(KEY, "b")).routing_keys == frozenset()
    assert wishes_for(StringStartsWith(KEY, "a."), StringStartsWith(KEY, "a.b")).routing_key_prefixes == (b"a.",)


def test_what_is_of_no_use_changes_nothing() -> None:
    pushed_filters = wishes_for(
        IsNotNull(OFFSET),
        Not(EqualTo(OFFSET, 5)),
        EqualNullSafe(OFFSET, None),
        In(OFFSET, (1, None)),
        EqualTo(("headers", "offset"), 3),
        EqualTo(("stream",), "s"),
        EqualTo(KEY, None),
        In(KEY, ("a", None)),
        StringContains(KEY, "x"),
        # A key that is no UTF-8 has such a sign in its row and other octets in the stream.
        EqualTo(KEY, "a\ufffd"),
        In(KEY, ("a\ufffd", "b")),
        StringStartsWith(KEY, "\ufffd"),
    )
    assert vars(pushed_filters) == vars(PushedFilters())
