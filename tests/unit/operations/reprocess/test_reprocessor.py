"""Jobs on a broker without disk or clients: limits of what is held, failures in the middle, stops and resumptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import ReplayArchive, ReplayFilter
from leveret.errors import ReplayConflict
from leveret.operations.reprocess import run
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.reprocess.spec import JobView, ReplaySpec
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from tests.unit.catalog.naming import job, queue
from tests.unit.queues.dataplane import message

TO_B = ReplaySpec(to="target", routing_key="b")


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited in vain")


class Bench:
    """Queues a, with messages, and b, in the virtual host /."""

    def __init__(self, count: int = 0) -> None:
        self.broker = Broker(Dice(), Clock())
        self.broker.create_defaults()
        for name in ("a", "b"):
            self.broker.apply(commands.DeclareQueue(queue(name)))
        self.reprocessor = Reprocessor(self.broker)
        for number in range(count):
            self.queue("a").publish(message(b"%d" % number))

    def queue(self, name: str) -> Any:
        return self.broker.vhosts["/"].queues[name.encode()]

    def bodies(self, name: str) -> list[bytes]:
        return [entry.message.body for entry in self.queue(name).ready_entries()]

    def run(self, *actions: Callable[[], object]) -> None:
        """Opens the reprocessor, does these things one after the other, waits until no job runs, and closes it."""

        async def live() -> None:
            self.reprocessor.open(asyncio.get_running_loop())
            for action in actions:
                action()
                for _ in range(3):
                    await asyncio.sleep(0)
            await until(lambda: not self.reprocessor.is_running("/", "a"))
            await self.reprocessor.close()

        asyncio.run(live())
        assert not self.broker.movers

    def start(self, spec: ReplaySpec = TO_B) -> None:
        self.reprocessor.start("/", "a", spec)

    def last(self) -> JobView:
        (found,) = self.reprocessor.jobs()
        return found


def test_a_job_that_would_hold_too_much_ends_and_puts_all_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "KEPT_MAX", 300)
    monkeypatch.setattr(run, "PUT_BACK_A_STEP", 7)
    bench = Bench(2000)
    bench.run(lambda: bench.start(ReplaySpec(filter=ReplayFilter(body_contains=b"never"))))
    assert (bench.last().state, bench.last().moved) == ("failed", 0)
    assert bench.last().last_error.startswith("more than 300 messages were passed over")
    assert bench.bodies("a") == [b"%d" % number for number in range(2000)]
    assert bench.queue("a").unacked_count == 0


def test_others_have_their_turn_between_the_steps_of_all_jobs() -> None:
    """Two jobs, one loop: in each of its turns at most one of them takes a step."""
    bench = Bench(1000)
    for number in range(1000):
        bench.queue("b").publish(message(b"%d" % number))
    looked: list[int] = []

    async def live() -> None:
        bench.reprocessor.open(asyncio.get_running_loop())
        for name in ("a", "b"):
            bench.reprocessor.start("/", name, ReplaySpec(dry_run=True))
        while bench.reprocessor.is_running("/", "a") or bench.reprocessor.is_running("/", "b"):
            looked.append(sum(found.matched for found in bench.reprocessor.jobs()))
            await asyncio.sleep(0)
        await bench.reprocessor.close()

    asyncio.run(live())
    assert max(after - before for before, after in pairwise(looked)) <= run.LOOKED_A_STEP
    assert [found.matched for found in bench.reprocessor.jobs()] == [1000, 1000]


def test_a_mistake_in_the_middle_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(5)
    carried = []

    def stumble(self: Any, letter: Any) -> None:
        carried.append(letter.message.body)
        if len(carried) == 3:
            raise RuntimeError("stumbled")

    monkeypatch.setattr("leveret.operations.reprocess.carrier.Carrier.replay", stumble)
    bench.run(bench.start)
    assert (bench.last().state, bench.last().moved) == ("failed", 2)
    assert "stumbled" in bench.last().last_error
    assert bench.bodies("a") == [b"2", b"3", b"4"]


def test_an_odd_message_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(3)

    def stumble(self: Any, letter: Any) -> None:
        if letter.message.body == b"1":
            raise ValueError("what a header")

    monkeypatch.setattr("leveret.operations.reprocess.carrier.Carrier.replay", stumble)
    bench.run(bench.start)
    assert (bench.last().state, bench.last().moved, bench.last().failed) == ("done", 2, 1)
    assert bench.last().last_error == "it cannot be sent: what a header"
    assert bench.bodies("a") == [b"1"]


def test_a_job_on_a_failing_disk_is_not_over() -> None:
    bench = Bench(2)

    async def fail() -> None:
        raise OSError("the disk failed")

    bench.broker.store = SimpleNamespace(  # type: ignore[assignment]
        flush=fail, journal=SimpleNamespace(congested=False), append_command=lambda _command: None
    )
    bench.run(bench.start)
    (record,) = bench.broker.catalog.jobs.values()
    assert (record.state, record.moved) == ("running", 0)


def test_a_stop_interrupts_and_the_next_start_goes_on() -> None:
    bench = Bench(50)
    spec = msgspec.structs.replace(TO_B, rate=5.0, filter=ReplayFilter(body_contains=b"3"))

    async def stop_soon() -> None:
        bench.reprocessor.open(asyncio.get_running_loop())
        bench.start(spec)
        await until(lambda: bench.last().moved > 0)
        await bench.reprocessor.close()

    asyncio.run(stop_soon())
    (record,) = bench.broker.catalog.jobs.values()
    assert (record.state, record.moved >= 1) == ("running", True)
    assert bench.queue("a").unacked_count == 0
    with pytest.raises(ReplayConflict, match="stopping"):
        bench.start()
    bench.broker.apply(commands.PutJob(msgspec.structs.replace(record, rate=0.0)))
    bench.queue("a").publish(message(b"333 came later"))
    bench.reprocessor = Reprocessor(bench.broker)
    bench.run()
    threes = [b"%d" % number for number in range(50) if "3" in str(number)]
    assert (bench.last().state, bench.last().moved, bench.last().matched) == ("done", len(threes), len(threes))
    assert bench.bodies("b") == threes
    assert bench.bodies("a")[-1] == b"333 came later"


def test_a_job_whose_queue_is_lost_is_dropped() -> None:
    bench = Bench()
    bench.broker.apply(commands.PutJob(job("gone")))
    bench.run()
    assert bench.reprocessor.jobs() == []


def test_ids_are_never_given_twice() -> None:
    bench = Bench(1)
    seen = set()

    def note() -> None:
        bench.start(ReplaySpec(dry_run=True))
        seen.add(bench.last().id)

    for _ in range(5):
        bench.run(note)
    assert len(seen) == 5


def test_alerts_are_kept_up_to_a_number() -> None:
    bench = Bench()
    archive = ReplaySpec(archive=ReplayArchive(0, "", "b"))
    for number in range(3):
        bench.queue("a").publish(message(b"%d" % number))
        bench.run(lambda: bench.start(archive))
    alerts = bench.reprocessor.alerts
    assert [(alert.queue, alert.kind, alert.count) for alert in alerts.recent] == [("a", "archived", 1)] * 3
    assert (alerts.totals["archived"], bench.reprocessor.archived_total) == (3, 3)
    assert alerts.recent.maxlen is not None
