"""Policies reach many queues in slices, first those that wait longest, and clients have their turn in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leveret.broker import policy_application
from leveret.broker.broker import Broker
from leveret.broker.policies import Policies
from leveret.broker.policy_application import PolicyApplication
from leveret.catalog import commands
from leveret.core.queue.office import Office
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from tests.unit.broker.turns import HandLoop
from tests.unit.catalog.naming import exchange, queue


class Thing:
    def __init__(self) -> None:
        self.deleted = False


class Slice:
    """Over after so many questions."""

    questions = 10

    def __init__(self, slice_s: float) -> None:
        self._left = float("inf") if slice_s == float("inf") else self.questions

    @property
    def is_over(self) -> bool:
        self._left -= 1
        return self._left <= 0


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_application, "TimeSlice", Slice)
    monkeypatch.setattr(policy_application, "FIRST_COUNT_MIN", 1)


class Bench:
    def __init__(self) -> None:
        self.office = Office()
        self.done: list[tuple[Any, int]] = []
        self.ends = 0
        self.policy_application = PolicyApplication(
            self.office, lambda thing, since_ms: self.done.append((thing, since_ms)), self._end
        )

    def _end(self) -> None:
        self.ends += 1

    def turn(self) -> None:
        for worker in self.office.take_unfinished():
            worker.go_on()


def test_a_slice_is_done_at_once_and_the_rest_in_turns() -> None:
    bench, things = Bench(), [Thing() for _ in range(25)]
    bench.policy_application.begin(things, 7)
    assert [len(bench.done), bench.ends, bench.policy_application.is_done] == [10, 0, False]
    bench.turn()
    assert [len(bench.done), bench.ends] == [20, 0]
    bench.turn()
    assert bench.done == [(thing, 7) for thing in things]
    assert [bench.ends, bench.policy_application.is_done, bench.office.unfinished] == [1, True, {}]


def test_at_a_start_all_is_done_at_once() -> None:
    bench = Bench()
    bench.policy_application.begin([Thing() for _ in range(25)], 0, at_once=True)
    assert [len(bench.done), bench.ends] == [25, 1]


def test_a_change_before_the_end_puts_everything_behind_what_waits() -> None:
    bench, things = Bench(), [Thing() for _ in range(25)]
    bench.policy_application.begin(things, 7)
    bench.policy_application.begin(things, 8)
    while not bench.policy_application.is_done:
        bench.turn()
    assert bench.done == [(thing, 7) for thing in things[:10]] + [(thing, 8) for thing in (*things[10:], *things[:10])]
    assert bench.ends == 1


def test_a_small_virtual_host_is_done_at_once_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_application, "FIRST_COUNT_MIN", 12)
    bench = Bench()
    bench.policy_application.begin([Thing() for _ in range(12)], 7)
    assert bench.policy_application.is_done and bench.ends == 1


def test_the_end_can_be_waited_for() -> None:
    bench = Bench()
    bench.policy_application.begin([Thing() for _ in range(25)], 7)

    async def run() -> None:
        waiting = asyncio.create_task(bench.policy_application.done())
        for _ in range(2):
            await asyncio.sleep(0)
            assert not waiting.done()
            bench.turn()
        await waiting

    asyncio.run(run())


def test_what_was_deleted_meanwhile_is_passed_over() -> None:
    bench, things = Bench(), [Thing() for _ in range(12)]
    bench.policy_application.begin(things, 7)
    things[10].deleted = True
    bench.turn()
    assert [thing for thing, _ in bench.done] == things[:10] + things[11:]


def test_every_queue_and_exchange_of_a_broker_is_reached() -> None:
    broker, loop = Broker(Dice(), Clock()), HandLoop()
    broker.create_defaults()
    for number in range(30):
        broker.apply(commands.DeclareQueue(queue(f"q{number}")))
    broker.apply(commands.DeclareExchange(exchange("e")))
    broker.dead_letter_worker.start(loop.as_loop(), lambda: None)
    told: list[str] = []
    broker._tell = lambda call: told.append("ack timeouts")  # type: ignore[method-assign]
    Policies(broker).put("/", "p", "^[qe]", {"max-length": 3, "alternate-exchange": "other"})
    live = broker.vhosts["/"]
    queues = list(live.queues.values())
    assert not live.policy_application.is_done and queues[-1].rules.length_max != 3 and told == []
    # A queue that comes meanwhile is as the policy says from the beginning.
    broker.apply(commands.DeclareQueue(queue("qlate")))
    assert live.queues[b"qlate"].rules.length_max == 3
    turns = 0
    while not live.policy_application.is_done:
        loop.turn()
        turns += 1
    assert turns == 3 and told == ["ack timeouts"]
    assert {one.rules.length_max for one in queues} == {3} and live.exchanges[b"e"].alternate == b"other"
