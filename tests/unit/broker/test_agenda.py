"""The agenda: everybody is rung at the moment he asked for last, with one timer for all."""

from __future__ import annotations

import random

import pytest

from leveret.broker.agenda import RUNG_A_TURN, STALE_MIN, Agenda
from tests.unit.broker.turns import NOW, HandClock, HandLoop


class Bench:
    def __init__(self, started: bool = True) -> None:
        self.clock, self.loop = HandClock(), HandLoop()
        self.events: list[str] = []
        self.agenda = Agenda(self.clock.now_ms, lambda: self.events.append("begin"), lambda: self.events.append("end"))
        if started:
            self.agenda.start(self.loop.as_loop())

    def sleeper(self, name: str) -> Sleeper:
        return Sleeper(name, self.events)

    def at(self, after_ms: int) -> list[str]:
        """One turn at this moment: who was rung."""
        self.clock.ms = NOW + after_ms
        self.events.clear()
        self.loop.turn()
        if self.events:
            assert (self.events[0], self.events[-1]) == ("begin", "end")
        return self.events[1:-1]


class Sleeper:
    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self._events = events

    def ring(self) -> None:
        self._events.append(self.name)


def test_everybody_is_rung_at_his_time_and_once() -> None:
    bench = Bench()
    for name, after_ms in (("b", 20), ("a", 10), ("c", 30)):
        bench.agenda.put(bench.sleeper(name), NOW + after_ms)
    assert len(bench.agenda) == 3
    assert bench.at(9) == []
    assert bench.at(20) == ["a", "b"]
    assert bench.at(30) == ["c"]
    assert len(bench.agenda) == 0
    assert bench.loop.waiting() == []


def test_those_of_one_moment_are_rung_as_they_came() -> None:
    bench = Bench()
    for name in "abc":
        bench.agenda.put(bench.sleeper(name), NOW + 5)
    assert bench.at(5) == ["a", "b", "c"]


def test_the_one_timer_is_for_the_earliest() -> None:
    bench = Bench()
    for after_ms in (3000, 1000, 2000):
        bench.agenda.put(bench.sleeper(str(after_ms)), NOW + after_ms)
    assert bench.loop.waiting() == [1.0]
    bench.at(1000)
    assert bench.loop.waiting() == [1.0]


def test_what_is_overdue_is_rung_as_soon_as_possible() -> None:
    bench = Bench()
    bench.agenda.put(bench.sleeper("late"), NOW - 5)
    assert bench.loop.waiting() == [0]
    assert bench.at(0) == ["late"]


def test_who_asks_again_is_rung_at_the_new_time_alone() -> None:
    bench, sleeper = Bench(), None
    sleeper = bench.sleeper("a")
    bench.agenda.put(sleeper, NOW + 10)
    bench.agenda.put(sleeper, NOW + 30)
    bench.agenda.put(sleeper, NOW + 20)
    assert len(bench.agenda) == 1
    assert bench.at(10) == []
    assert bench.at(20) == ["a"]
    assert bench.at(30) == []


def test_who_is_forgotten_is_not_rung() -> None:
    bench = Bench()
    sleeper = bench.sleeper("a")
    bench.agenda.put(sleeper, NOW + 10)
    bench.agenda.forget(sleeper)
    bench.agenda.forget(sleeper)
    assert len(bench.agenda) == 0
    assert bench.at(10) == []


def test_who_asks_while_he_is_rung_is_rung_again() -> None:
    bench = Bench()

    class Again(Sleeper):
        def ring(self) -> None:
            super().ring()
            bench.agenda.put(self, bench.clock.ms + 10)

    bench.agenda.put(Again("a", bench.events), NOW + 10)
    assert bench.at(10) == ["a"]
    assert bench.loop.waiting() == [0.01]
    assert bench.at(20) == ["a"]


def test_one_that_fails_when_it_is_rung_stops_no_other() -> None:
    bench = Bench()

    class Failing(Sleeper):
        def ring(self) -> None:
            raise RuntimeError("a mistake of ours")

    bench.agenda.put(Failing("a", bench.events), NOW + 10)
    bench.agenda.put(bench.sleeper("b"), NOW + 10)
    with pytest.raises(RuntimeError):
        bench.at(10)
    assert bench.events == ["begin", "end"]
    assert bench.at(10) == ["b"]


def test_many_are_rung_in_several_turns() -> None:
    bench = Bench()
    for number in range(RUNG_A_TURN + 5):
        bench.agenda.put(bench.sleeper(str(number)), NOW + 1)
    assert len(bench.at(1)) == RUNG_A_TURN
    assert bench.loop.waiting() == [0]
    assert len(bench.at(1)) == 5


def test_nobody_is_rung_before_the_start_or_after_the_stop() -> None:
    bench = Bench(started=False)
    bench.agenda.put(bench.sleeper("a"), NOW + 10)
    assert bench.loop.waiting() == []
    bench.agenda.start(bench.loop.as_loop())
    assert bench.loop.waiting() == [0.01]
    bench.agenda.stop()
    assert bench.at(10) == []


def test_entries_that_were_overtaken_do_not_pile_up() -> None:
    bench, rolls = Bench(), random.Random(1)
    sleepers = [bench.sleeper(str(number)) for number in range(10)]
    last = {}
    for _ in range(5000):
        sleeper = rolls.choice(sleepers)
        last[sleeper.name] = rolls.randrange(1, 1000)
        bench.agenda.put(sleeper, NOW + last[sleeper.name])
    assert len(bench.agenda._heap) <= 2 * len(sleepers) + STALE_MIN
    assert bench.at(1000) == sorted(last, key=lambda name: last[name])
