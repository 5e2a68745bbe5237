"""The walk over everything there is: on a loop by itself, in short slices, and small."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterator

import pytest

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import QueueRecord, Vhost
from leveret.core import tally
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.operations.statistics import sampler
from leveret.operations.statistics.series import Series
from leveret.operations.statistics.statistics import Statistics
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from tests.unit.operations.statistics.observed import Observed
from tests.unit.queues.dataplane import message

MANY = 10_000
# Interpreted, the sums over all queues alone take longer: that is for people who look for mistakes.
STEP_S_MAX = 0.25 if (tally.__file__ or "").endswith(".py") else 0.008


@pytest.fixture
def crowd() -> Iterator[Observed]:
    """Very many queues."""
    observed = Observed()
    for number in range(MANY):
        observed.queue(f"q{number}")
    yield observed
    observed.close()


def longest_step_s(observed: Observed) -> float:
    """How long the walk works at most before it looks at the clock: the thread's own time, since others run beside."""
    observed.clock.ms += 5000
    longest, last = 0.0, time.thread_time()
    for _ in observed.statistics._sampler._steps(observed.clock.ms // 5000):
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return longest


def test_ten_thousand_queues_hold_nobody_up(crowd: Observed) -> None:
    gc.disable()
    try:
        assert longest_step_s(crowd) < STEP_S_MAX, "nothing happens"
        for _ in range(2):
            for queue in crowd.broker.vhosts["/"].queues.values():
                queue.publish(message(b"x"))
            assert longest_step_s(crowd) < STEP_S_MAX, "something happens to each"
    finally:
        gc.enable()


def test_a_series_is_small(crowd: Observed) -> None:
    queues = list(crowd.broker.vhosts["/"].queues.values())
    for queue in queues:
        queue.publish(message(b"x"))
    crowd.after(5)
    assert all(isinstance(queue.series, Series) for queue in queues)

    def octets(series: Series) -> int:
        rings = [ring for column in series._columns if column is not None for ring in column]
        whole = [series, series.values, series._columns, *filter(None, series._columns), *rings]
        return sum(map(sys.getsizeof, whole))

    first = octets(queues[0].series)
    assert first < 3000, "two numbers have changed: published and ready"
    for _ in range(200):
        crowd.publish(queues[0])
        crowd.after(5)
    assert octets(queues[0].series) == first, "it never grows"


def test_on_a_loop_it_samples_by_itself_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "SLICE_S", 0.0)
    monkeypatch.setattr(sampler, "AT_A_TIME", 1)
    turns = 0

    async def watch(queue: ClassicQueue, statistics: Statistics, busy: bool) -> None:
        """Until the rate is there, or gone."""
        nonlocal turns
        deadline = time.monotonic() + 20
        while (statistics.rate(queue, "publish") > 0) != busy:
            assert time.monotonic() < deadline
            turns += 1
            if busy:
                queue.publish(message(b"x"))
            await asyncio.sleep(0.001)

    async def run() -> None:
        broker = Broker(Dice(), Clock())
        broker.apply(commands.PutVhost(Vhost("/")))
        for number in range(5):
            broker.apply(commands.DeclareQueue(QueueRecord("/", f"q{number}", "classic", False, False, 0, {}, 0)))
        statistics = Statistics(broker, 0.1)
        statistics.start(asyncio.get_running_loop())
        for busy in (True, False):
            await watch(broker.vhosts["/"].queues[b"q3"], statistics, busy)
        assert statistics.totals().times["event_loop_lag"].count > 0
        statistics.stop()
        statistics.stop()
        broker.close()

    asyncio.run(run())
    assert turns > 5, "others had their turn meanwhile"


def test_what_comes_or_goes_during_a_walk_does_no_harm() -> None:
    observed = Observed()
    first = observed.queue("first")
    for number in range(20):
        observed.queue(f"q{number}")
    observed.publish(first)
    observed.clock.ms += 5000
    steps = observed.statistics._sampler._steps(observed.clock.ms // 5000)
    for _ in range(3):
        next(steps)
    for number in range(20):
        observed.delete(f"q{number}")
    observed.queue("new")
    for _ in steps:
        pass
    observed.after(5)
    assert [queue.name for queue in observed.broker.vhosts["/"].queues.values()] == [b"first", b"new"]
    observed.close()
