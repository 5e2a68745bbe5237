"""Heartbeats, in a time that the test makes: beats when nothing was sent, the end when nothing was heard."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any, cast

from leveret.client.transport.heartbeat import Heartbeat

INTERVAL_S = 10.0


class Timer:
    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def __lt__(self, other: Timer) -> bool:
        return self.due < other.due


class Clock:
    """What Heartbeat needs of a loop: the time and timers."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        timer = Timer(when, call)
        heapq.heappush(self.timers, timer)
        return timer

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0].due <= end:
            timer = heapq.heappop(self.timers)
            if not timer.is_cancelled:
                self.now = timer.due
                timer.call()
        self.now = end

    def stand_still(self, seconds: float) -> None:
        """The loop does nothing for so long, then all that is due."""
        self.now += seconds
        while self.timers and self.timers[0].due <= self.now:
            timer = heapq.heappop(self.timers)
            if not timer.is_cancelled:
                timer.call()


class Scene:
    def __init__(self) -> None:
        self.clock = Clock()
        self.beats: list[float] = []
        self.silences: list[float] = []
        self.received = 0
        self.heartbeat = Heartbeat(
            cast(asyncio.AbstractEventLoop, cast(Any, self.clock)),
            INTERVAL_S,
            self.beat,
            self.silences.append,
            lambda: self.received,
        )

    def beat(self) -> None:
        self.beats.append(self.clock.now)
        # As the link does: what is written is sent, and that is noticed.
        self.clock.call_at(self.clock.now, self.heartbeat.sent)


def test_somebody_who_sends_nothing_beats_at_least_once_in_an_interval() -> None:
    scene = Scene()
    for _ in range(10):
        scene.received += 1
        scene.clock.pass_time(INTERVAL_S)
    times = [1000.0, *scene.beats, scene.clock.now]
    assert max(after - before for before, after in itertools.pairwise(times)) <= INTERVAL_S
    assert 9 <= len(scene.beats) <= 11
    assert not scene.silences


def test_somebody_who_sends_anyway_does_not_beat() -> None:
    scene = Scene()
    for _ in range(40):
        scene.received += 1
        scene.heartbeat.sent()
        scene.clock.pass_time(INTERVAL_S / 4)
    assert scene.beats == []


def test_silence_for_two_intervals_is_the_end() -> None:
    scene = Scene()
    scene.clock.pass_time(INTERVAL_S)
    scene.received += 1
    scene.clock.pass_time(2 * INTERVAL_S - 1)
    assert not scene.silences
    scene.clock.pass_time(INTERVAL_S)
    [seconds] = scene.silences
    assert 2 * INTERVAL_S <= seconds <= 3 * INTERVAL_S
    scene.clock.pass_time(10 * INTERVAL_S)
    assert len(scene.silences) == 1, "it is told of once"


def test_any_octet_is_a_sign_of_life() -> None:
    scene = Scene()
    for _ in range(20):
        scene.clock.pass_time(1.4 * INTERVAL_S)
        scene.received += 1
    assert not scene.silences


def test_who_does_not_read_cannot_complain_of_silence() -> None:
    scene = Scene()
    scene.heartbeat.is_deaf = True
    scene.clock.pass_time(20 * INTERVAL_S)
    assert not scene.silences
    assert len(scene.beats) >= 19, "but goes on to beat"
    scene.heartbeat.listen_again()
    scene.clock.pass_time(1.9 * INTERVAL_S)
    assert not scene.silences
    scene.clock.pass_time(INTERVAL_S)
    assert len(scene.silences) == 1


def test_a_loop_that_stood_still_is_no_silence_of_the_broker() -> None:
    scene = Scene()
    scene.clock.stand_still(50 * INTERVAL_S)
    assert not scene.silences
    scene.clock.pass_time(1.4 * INTERVAL_S)
    assert not scene.silences
    scene.clock.pass_time(2 * INTERVAL_S)
    assert len(scene.silences) == 1, "now it is"


def test_a_stopped_one_is_quiet() -> None:
    scene = Scene()
    scene.heartbeat.stop()
    scene.clock.pass_time(10 * INTERVAL_S)
    assert (scene.beats, scene.silences) == ([], [])
