"""Arithmetic of ranges: nothing is lost, nothing is twice, limits hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from leveret.spark.ranges import Range, cut, limited

STREAMS = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(0, 1 << 50), st.integers(0, 10_000)), max_size=6
)


@given(STREAMS, st.integers(1, 20_000))
def test_a_batch_takes_as_much_as_it_may(streams: dict[str, tuple[int, int]], most: int) -> None:
    start = {name: first for name, (first, _) in streams.items()}
    end = {name: first + count for name, (first, count) in streams.items()}
    found = limited(start, end, most)
    assert list(found) == list(end)
    assert all(start[name] <= found[name] <= end[name] for name in found)
    total = sum(count for _, count in streams.values())
    assert sum(found[name] - start[name] for name in found) == min(total, most)
    if most >= len(streams) and total > most:
        # Nobody starves: whoever has a fair share of what waits gets some of it.
        assert all(found[name] > start[name] for name, (_, count) in streams.items() if count * most >= total)


def test_a_stream_that_shrank_stays_where_it_is() -> None:
    assert limited({"a": 5, "b": 0}, {"a": 3, "b": 10}, 100) == {"a": 5, "b": 10}
    assert limited({"a": 5, "b": 0}, {"a": 3, "b": 10}, 4) == {"a": 5, "b": 4}


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 300)), max_size=5),
    st.integers(1, 200),
    st.none() | st.integers(1, 40),
)
def test_cutting(lengths: list[tuple[int, int]], most: int, at_least: int | None) -> None:
    ranges = [Range(f"s{number}", number, first, first + count) for number, (first, count) in enumerate(lengths)]
    made = cut(ranges, most, at_least)
    assert all(0 < len(one) <= most for one in made)
    whole = [(one.stream, one.partition, offset) for one in ranges for offset in range(one.start, one.end)]
    assert [(one.stream, one.partition, offset) for one in made for offset in range(one.start, one.end)] == whole
    if at_least is not None:
        assert len(made) >= min(at_least, len(whole))
