"""The time of messages over restarts, with clocks that are right, wrong and set right."""

from __future__ import annotations

import pytest

from leveret.storage.timekeeping import AGREEMENT_MS, DOWNTIME_MS_MAX, EARLIEST_MS, Moment, resumed_ms

NOW = 1_800_000_000_000
HOUR = 3_600_000
YEARS = 5 * 365 * 24 * HOUR


def resumed(last: Moment | None, wall_ms: int, holds: bool = True) -> int:
    return resumed_ms(last, wall_ms, lambda: holds)


def test_without_a_moment_it_is_what_the_clock_says() -> None:
    assert resumed(None, NOW) == NOW


@pytest.mark.parametrize("last", [None, Moment(EARLIEST_MS, 5000)])
def test_it_is_never_earlier_than_2020(last: Moment | None) -> None:
    for holds in (False, True):
        assert resumed(last, 4000, holds) == EARLIEST_MS


@pytest.mark.parametrize("down_ms", [0, 5000, HOUR, DOWNTIME_MS_MAX])
def test_time_passes_while_the_broker_is_down(down_ms: int) -> None:
    assert resumed(Moment(NOW, NOW), NOW + down_ms) == NOW + down_ms


@pytest.mark.parametrize("wrong_ms", [-YEARS, -2 * HOUR, YEARS])
def test_a_clock_that_cannot_be_right_is_not_believed(wrong_ms: int) -> None:
    """The machine has no clock of its own: it starts with any date, and learns the right one later."""
    assert resumed(Moment(NOW, NOW), NOW + wrong_ms) == NOW


@pytest.mark.parametrize("wrong_ms", [-YEARS, YEARS])
def test_what_came_while_the_clock_was_wrong_keeps_its_time(wrong_ms: int) -> None:
    """The first start of all was with a wrong clock, which was set right while the broker ran."""
    assert resumed(Moment(NOW + wrong_ms, NOW), NOW + HOUR) == NOW + wrong_ms + HOUR
    # Nor if it ended before that could be noted.
    assert resumed(Moment(NOW + wrong_ms, NOW + wrong_ms), NOW + HOUR) == NOW + wrong_ms


@pytest.mark.parametrize("wrong_ms", [-YEARS, -HOUR, HOUR, YEARS])
def test_without_messages_the_clock_is_believed_again(wrong_ms: int) -> None:
    assert resumed(Moment(NOW + wrong_ms, NOW), NOW + 1000, holds=False) == NOW + 1000


@pytest.mark.parametrize("set_ms", [-AGREEMENT_MS // 2, AGREEMENT_MS // 2])
def test_a_clock_that_was_set_by_little_is_followed_but_never_back(set_ms: int) -> None:
    assert resumed(Moment(NOW, NOW + set_ms), NOW + set_ms + 1000) == max(NOW, NOW + set_ms + 1000)
