"""Series of samples: every level has what was there at its moments, whatever was written and left out in between."""

from __future__ import annotations

import random

import pytest

from leveret.operations.statistics.series import Level, Series, Shape, levels

SMALL = Shape(("a", "b"), ("length",), (Level(1, 8), Level(4, 5)), {"both": ("a", "b")})


def test_levels_are_what_rabbitmq_keeps() -> None:
    spans = ((605, 5), (3660, 60), (29400, 600), (86400, 1800))
    assert levels(5, spans) == (Level(1, 122), Level(12, 62), Level(120, 50), Level(360, 49))
    assert levels(2, spans[:2]) == (Level(2, 152), Level(30, 62))
    assert levels(3600, spans[:2]) == (Level(1, 2), Level(1, 2)), "a rate takes two"


def test_what_was_before_the_first_sample_stays_what_it_was() -> None:
    series = Series(SMALL, 10, (5, 0, 1))
    series.write(11, (6, 0, 3))
    assert [series.value("a", 0, number) for number in (9, 10, 11, 12)] == [5, 5, 6, 6]
    assert [series.value("length", 0, number) for number in (10, 11)] == [1, 3]
    assert [series.value("both", 1, number) for number in (2, 3)] == [5, 6]


def test_a_coarse_sample_is_the_one_at_its_moment() -> None:
    series = Series(SMALL, 0, (0, 0, 0))
    for tick in range(1, 15):
        series.write(tick, (tick * 10, 0, 0))
    assert [series.value("a", 1, number) for number in range(4)] == [0, 40, 80, 120]
    assert series.value("a", 1, 4) == 140, "which is not yet over"


def test_the_same_sample_is_not_written_twice() -> None:
    series = Series(SMALL, 0, (0, 0, 0))
    series.write(3, (1, 0, 0))
    series.write(3, (2, 0, 0))
    series.write(2, (2, 0, 0))
    assert (series.value("a", 0, 3), series.tick) == (1, 3)


def test_counters_beyond_32_bits_are_put_together_again() -> None:
    series = Series(SMALL, 0, (2**32 - 3, 7 * 2**40, 0))
    for tick in range(1, 6):
        series.write(tick, (2**32 - 3 + tick, 7 * 2**40 + tick * 10**8, 0))
    assert [series.value("a", 0, number) for number in range(6)] == [2**32 - 3 + number for number in range(6)]
    assert [series.value("b", 0, number) for number in range(6)] == [7 * 2**40 + at * 10**8 for at in range(6)]


def test_it_is_over_when_nothing_changed_for_as_long_as_anything_is_kept() -> None:
    series = Series(SMALL, 0, (0, 0, 0))
    series.write(5, (1, 0, 0))
    series.write(15, (1, 0, 0))
    assert [series.is_over(tick) for tick in (6, 25, 26)] == [False, False, True]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_any_history_is_told_as_it_was(seed: int, wide: bool) -> None:
    dice = random.Random(seed)
    shape = Shape(("a", "b"), ("length",), (Level(1, 8), Level(4, 5), Level(6, 3)), {}, wide)
    start = dice.randrange(1000)
    now = (dice.randrange(2**40), 0, dice.randrange(100))
    series = Series(shape, start, now)
    # What really was, at every moment.
    truth = dict.fromkeys(range(start - 40, start + 1), now)
    tick = start
    for _ in range(60):
        following = tick + dice.choice((1, 1, 1, 2, 5, 30))
        for missed in range(tick, following):
            truth[missed] = now
        tick = following
        if dice.randrange(3):
            now = (now[0] + dice.randrange(2**20), now[1] + dice.randrange(2), dice.randrange(100))
        truth[tick] = now
        series.write(tick, now)
        for level, (step, slots) in enumerate((each.step, each.slots) for each in shape.levels):
            last = tick // step
            for number in range(last - slots + 1, last + 1):
                expected = truth[number * step]
                found = tuple(series.value(name, level, number) for name in ("a", "b", "length"))
                assert found == expected, (tick, level, number)
