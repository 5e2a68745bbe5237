"""A broker whose machine starts with a wrong date: messages neither expire for that, nor are they held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.recovery import recover
from leveret.catalog import commands
from leveret.catalog.records import QueueRecord
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.store import Store, StoreSettings
from tests.unit.queues.dataplane import message

NOW = 1_800_000_000_000
HOUR = 3_600_000
YEARS = 5 * 365 * 24 * HOUR
WRONG = pytest.mark.parametrize("wrong_ms", [-YEARS, YEARS], ids=["behind", "ahead"])


class SetClock(Clock):
    """A wall clock that can be set, and time that goes on evenly beside it."""

    def __init__(self, wall_ms: int) -> None:
        self.wall_ms = self.ms = wall_ms

    def wall(self) -> float:
        return self.wall_ms / 1000

    def now_ms(self) -> int:
        return self.ms

    def resume(self, now_ms: int) -> None:
        self.ms = now_ms

    def pass_time(self, ms: int) -> None:
        self.wall_ms += ms
        self.ms += ms


Live = Callable[[Broker, SetClock, Any], Awaitable[None]]


def run(root: Path, wall_ms: int, live: Live) -> None:
    """One run of a broker with a queue whose messages live for an hour."""

    async def life() -> None:
        store = Store(root, StoreSettings(), lambda: 7)
        clock = SetClock(wall_ms)
        broker = Broker(Dice(), clock, store)
        recover(broker)
        store.start(asyncio.get_running_loop())
        if "q" not in broker.catalog.topologies["/"].queues:
            record = QueueRecord("/", "q", "classic", True, False, 0, {"x-message-ttl": HOUR}, broker.new_queue_id())
            broker.apply(commands.DeclareQueue(record))
        await live(broker, clock, broker.vhosts["/"].queues[b"q"])
        broker.close()
        await store.close()

    asyncio.run(life())


def publish(broker: Broker, queue: Any, delay_ms: int = 0) -> None:
    broker.tick()
    made = message(b"x", delivery_mode=2)
    made.stamp = broker.office.now + delay_ms
    queue.receive(made)


async def fill(broker: Broker, _: SetClock, queue: Any) -> None:
    publish(broker, queue)
    publish(broker, queue, 2 * HOUR)


async def until(broker: Broker, queue: Any, ready: int, delayed: int) -> None:
    """So many are ready and delayed, when everything that must be read from disk was read."""
    for _ in range(1000):
        broker.tick()
        queue.dispatch()
        if queue.delays is not None:
            queue.delays.ring()
        await asyncio.sleep(0.01)
        loaded = queue.ready.count == 0 or queue.ready.has_next()
        if loaded and (queue.ready_count(), queue.delayed_count()) == (ready, delayed):
            return
    raise AssertionError(f"{queue.ready_count()} are ready and {queue.delayed_count()} delayed")


@WRONG
def test_a_wrong_date_at_the_start_neither_expires_nor_holds(tmp_path: Path, wrong_ms: int) -> None:
    async def watch(broker: Broker, clock: SetClock, queue: Any) -> None:
        await until(broker, queue, 1, 1)
        clock.pass_time(HOUR + 1)
        await until(broker, queue, 0, 1)
        clock.pass_time(HOUR)
        await until(broker, queue, 1, 0)

    run(tmp_path, NOW, fill)
    run(tmp_path, NOW + wrong_ms, watch)


@WRONG
def test_what_came_under_a_wrong_date_lives_on_under_the_right_one(tmp_path: Path, wrong_ms: int) -> None:
    async def fill_and_set(broker: Broker, clock: SetClock, queue: Any) -> None:
        await fill(broker, clock, queue)
        clock.wall_ms = NOW

    async def watch(broker: Broker, clock: SetClock, queue: Any) -> None:
        assert clock.ms == NOW + wrong_ms + 1000, "it was down for a second"
        await until(broker, queue, 1, 1)
        clock.pass_time(2 * HOUR)
        await until(broker, queue, 1, 0)

    run(tmp_path, NOW + wrong_ms, fill_and_set)
    run(tmp_path, NOW + 1000, watch)


def test_a_broker_that_begins_in_1970_lets_delayed_messages_go(tmp_path: Path) -> None:
    async def watch(broker: Broker, clock: SetClock, queue: Any) -> None:
        publish(broker, queue, 2 * HOUR)
        clock.pass_time(HOUR)
        await until(broker, queue, 0, 1)
        clock.pass_time(HOUR)
        await until(broker, queue, 1, 0)

    run(tmp_path, 5000, watch)


@WRONG
def test_an_empty_broker_believes_its_clock_again(tmp_path: Path, wrong_ms: int) -> None:
    async def set_right(_: Broker, clock: SetClock, __: Any) -> None:
        clock.wall_ms = NOW

    async def look(broker: Broker, _: SetClock, __: Any) -> None:
        assert broker.office.now == NOW + 1000

    run(tmp_path, NOW + wrong_ms, set_right)
    run(tmp_path, NOW + 1000, look)
