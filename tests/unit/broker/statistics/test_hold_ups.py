"""How many publishers are held up, how often that began, and for how long they were."""

from __future__ import annotations

from leveret.broker.statistics.hold_ups import HoldUps


def test_time_counts_for_each_while_it_lasts() -> None:
    now = 100.0
    hold_ups = HoldUps(lambda: now)
    hold_ups.note(1, False)
    assert (hold_ups.count, hold_ups.begun_total, hold_ups.seconds_total) == (0, 0, 0.0)
    hold_ups.note(1, True)
    now = 103.0
    hold_ups.note(1, True)
    hold_ups.note(2, True)
    now = 104.0
    assert (hold_ups.count, hold_ups.begun_total, hold_ups.seconds_total) == (2, 2, 5.0)
    hold_ups.note(1, False)
    now = 110.0
    hold_ups.note(1, False)
    assert (hold_ups.count, hold_ups.seconds_total) == (1, 11.0)
    hold_ups.note(1, True)
    assert (hold_ups.count, hold_ups.begun_total) == (2, 3)
