"""The timer queue: everybody is rung at the moment he asked for last, with one timer for all."""

from __future__ import annotations

import random

import pytest

from leveret.broker.timer_queue import RUNG_A_TURN, STALE_MIN, TimerQueue
from tests.unit.broker.turns import NOW, HandClock, HandLoop


class Bench:
    def __init__(self, started: bool = True) -> None:
        self.clock, self.loop = HandClock(), HandLoop()
        self.events: list[str] = []
        self.timers = TimerQueue(
            self.clock.now_ms, lambda: self.events.append("begin"), lambda: self.events.append("end")
        )
        if started:
            self.timers.start(self.loop.as_loop())

    def timer(self, name: str) -> Timer:
        return Timer(name, self.events)

    def at(self, after_ms: int) -> list[str]:
        """One turn at this moment: who was rung."""
        self.clock.ms = NOW + after_ms
        self.events.clear()
        self.loop.turn()
        if self.events:
            assert (self.events[0], self.events[-1]) == ("begin", "end")
        return self.events[1:-1]


class Timer:
    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self._events = events

    def ring(self) -> None:
        self._events.append(self.name)


def test_everybody_is_rung_at_his_time_and_once() -> None:
    bench = Bench()
    for name, after_ms in (("b", 20), ("a", 10), ("c", 30)):
        bench.timers.put(bench.timer(name), NOW + after_ms)
    assert len(bench.timers) == 3
    assert bench.at(9) == []
    assert bench.at(20) == ["a", "b"]
    assert bench.at(30) == ["c"]
    assert len(bench.timers) == 0
    assert bench.loop.waiting() == []


def test_those_of_one_moment_are_rung_as_they_came() -> None:
    bench = Bench()
    for name in "abc":
        bench.timers.put(bench.timer(name), NOW + 5)
    assert bench.at(5) == ["a", "b", "c"]


def test_the_one_timer_is_for_the_earliest() -> None:
    bench = Bench()
    for after_ms in (3000, 1000, 2000):
        bench.timers.put(bench.timer(str(after_ms)), NOW + after_ms)
    assert bench.loop.waiting() == [1.0]
    bench.at(1000)
    assert bench.loop.waiting() == [1.0]


def test_what_is_overdue_is_rung_as_soon_as_possible() -> None:
    bench = Bench()
    bench.timers.put(bench.timer("late"), NOW - 5)
    assert bench.loop.waiting() == [0]
    assert bench.at(0) == ["late"]


def test_who_asks_again_is_rung_at_the_new_time_alone() -> None:
    bench, timer = Bench(), None
    timer = bench.timer("a")
    bench.timers.put(timer, NOW + 10)
    bench.timers.put(timer, NOW + 30)
    bench.timers.put(timer, NOW + 20)
    assert len(bench.timers) == 1
    assert bench.at(10) == []
    assert bench.at(20) == ["a"]
    assert bench.at(30) == []


def test_who_is_forgotten_is_not_rung() -> None:
    bench = Bench()
    timer = bench.timer("a")
    bench.timers.put(timer, NOW + 10)
    bench.timers.forget(timer)
    bench.timers.forget(timer)
    assert len(bench.timers) == 0
    assert bench.at(10) == []


def test_who_asks_while_he_is_rung_is_rung_again() -> None:
    bench = Bench()

    class Again(Timer):
        def ring(self) -> None:
            super().ring()
            bench.timers.put(self, bench.clock.ms + 10)

    bench.timers.put(Again("a", bench.events), NOW + 10)
    assert bench.at(10) == ["a"]
    assert bench.loop.waiting() == [0.01]
    assert bench.at(20) == ["a"]


def test_one_that_fails_when_it_is_rung_stops_no_other() -> None:
    bench = Bench()

    class Failing(Timer):
        def ring(self) -> None:
            raise RuntimeError("a mistake of ours")

    bench.timers.put(Failing("a", bench.events), NOW + 10)
    bench.timers.put(bench.timer("b"), NOW + 10)
    with pytest.raises(RuntimeError):
        bench.at(10)
    assert bench.events == ["begin", "end"]
    assert bench.at(10) == ["b"]


def test_many_are_rung_in_several_turns() -> None:
    bench = Bench()
    for number in range(RUNG_A_TURN + 5):
        bench.timers.put(bench.timer(str(number)), NOW + 1)
    assert len(bench.at(1)) == RUNG_A_TURN
    assert bench.loop.waiting() == [0]
    assert len(bench.at(1)) == 5


def test_nobody_is_rung_before_the_start_or_after_the_stop() -> None:
    bench = Bench(started=False)
    bench.timers.put(bench.timer("a"), NOW + 10)
    assert bench.loop.waiting() == []
    bench.timers.start(bench.loop.as_loop())
    assert bench.loop.waiting() == [0.01]
    bench.timers.stop()
    assert bench.at(10) == []


def test_entries_that_were_overtaken_do_not_pile_up() -> None:
    bench, rolls = Bench(), random.Random(1)
    timers = [bench.timer(str(number)) for number in range(10)]
    last = {}
    for _ in range(5000):
        timer = rolls.choice(timers)
        last[timer.name] = rolls.randrange(1, 1000)
        bench.timers.put(timer, NOW + last[timer.name])
    assert len(bench.timers._heap) <= 2 * len(timers) + STALE_MIN
    assert bench.at(1000) == sorted(last, key=lambda name: last[name])
