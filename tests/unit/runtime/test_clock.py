"""Time: one that never goes back, and one that people read."""

from __future__ import annotations

import time

from leveret.runtime.clock import Clock


def test_monotonic_time_never_goes_back() -> None:
    clock = Clock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_wall_time_is_seconds_since_1970() -> None:
    before = time.time()
    assert before <= Clock().wall() <= time.time()
