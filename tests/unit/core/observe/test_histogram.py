"""The histogram: which bucket a value belongs to, sums, and many at once."""

from __future__ import annotations

import bisect
import random

import pytest

from leveret.core.observe.histogram import Histogram


def test_a_bound_belongs_to_its_bucket_and_what_is_larger_to_the_next() -> None:
    histogram = Histogram((1, 10, 100))
    for value in (0, 1, 2, 10, 11, 100, 101, 10**15):
        histogram.note(value)
    assert histogram.counts() == [2, 2, 2, 2]
    assert (histogram.count, histogram.sum, histogram.bounds) == (8, 225 + 10**15, (1, 10, 100))


def test_many_alike_count_as_so_many() -> None:
    histogram = Histogram((5,))
    histogram.note_many(7, 1000)
    histogram.note_many(5, 2)
    histogram.note_many(3, 0)
    assert (histogram.counts(), histogram.sum) == ([2, 1000], 7010)


def test_any_values_are_spread_as_a_sorted_list_says() -> None:
    dice = random.Random(7)
    bounds = tuple(sorted(dice.sample(range(1, 10_000), 16)))
    histogram, expected, total = Histogram(bounds), [0] * 17, 0
    for _ in range(2000):
        value = dice.choice((dice.randrange(12_000), dice.choice(bounds)))
        histogram.note(value)
        expected[bisect.bisect_left(bounds, value)] += 1
        total += value
    assert (histogram.counts(), histogram.sum) == (expected, total)


@pytest.mark.parametrize("count", [0, 17])
def test_it_has_room_for_sixteen_bounds(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 16 bounds"):
        Histogram(range(count))
