"""Time: one that never goes back, one that people read, and one for messages that is a little of both."""

from __future__ import annotations

import time

import pytest

from leveret.runtime.clock import Clock


def test_monotonic_time_never_goes_back() -> None:
    clock = Clock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_wall_time_is_seconds_since_1970() -> None:
    before = time.time()
    assert before <= Clock().wall() <= time.time()


def test_the_time_of_messages_is_the_wall_clocks_in_milliseconds() -> None:
    clock = Clock()
    assert abs(clock.now_ms() - time.time() * 1000) < 1000


def test_the_time_of_messages_goes_on_evenly_when_somebody_sets_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    clock = Clock()
    assert clock.now_ms() == 1_700_000_000_000
    monkeypatch.setattr(time, "time", lambda: 1_600_000_000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 50.25)
    assert clock.now_ms() == 1_700_000_000_250
    assert clock.wall() == 1_600_000_000.0
