"""Rates: how many may go at a given moment, and how long to wait for the next."""

from __future__ import annotations

import pytest

from leveret.operations.reprocess.pace import UNLIMITED, Pace


def test_without_a_rate_everything_may_go() -> None:
    pace = Pace(0, 0.0)
    pace.spend(1000)
    assert (pace.allowance(0.0), pace.wait_s()) == (UNLIMITED, 0.0)


def test_a_slow_pace_lets_one_go_at_a_time() -> None:
    pace = Pace(2, 10.0)
    assert pace.allowance(10.0) == 1
    pace.spend(1)
    assert pace.allowance(10.1) == 0
    assert pace.wait_s() == pytest.approx(0.4)
    assert pace.allowance(10.5) == 1
    assert pace.allowance(99.0) == 1, "what was not used is not saved up"


def test_a_fast_pace_keeps_to_its_rate() -> None:
    pace, moved = Pace(1000, 0.0), 0
    for tick in range(1001):
        allowed = pace.allowance(tick / 100)
        assert allowed <= 100
        pace.spend(allowed)
        moved += allowed
    assert 9_990 <= moved <= 10_001
