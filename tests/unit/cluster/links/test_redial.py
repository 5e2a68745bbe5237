"""Pauses between attempts."""

from __future__ import annotations

from leveret.cluster.links.redial import STEADY_S, Redial


def test_pauses_double_up_to_the_longest_with_jitter_below() -> None:
    redial = Redial(0.1, 1.0)
    assert [round(redial.pause_s(0, 1.0), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert redial.pause_s(0, 0.0) == 0.5
    for _ in range(100_000):
        redial.failures += 1
    assert redial.pause_s(0, 1.0) == 1.0


def test_a_connection_that_lasted_begins_anew() -> None:
    redial = Redial(0.1, 1.0)
    for _ in range(5):
        redial.pause_s(0, 1.0)
    assert redial.pause_s(STEADY_S / 2, 1.0) == 1.0
    assert redial.pause_s(STEADY_S, 1.0) == 0.1
