"""How late the loop's timers ring, and how long garbage is collected."""

from __future__ import annotations

import asyncio
import gc
import time

from leveret.operations.statistics.loop_pauses import Pauses


def be_busy() -> None:
    time.sleep(0.3)


def test_a_loop_that_is_busy_is_seen_to_be_late() -> None:
    pauses = Pauses(time.monotonic)

    async def run() -> None:
        pauses.start(asyncio.get_running_loop())
        await asyncio.sleep(0.05)
        be_busy()
        await asyncio.sleep(0.05)
        pauses.stop()
        await asyncio.sleep(0.15)

    asyncio.run(run())
    assert pauses.loop_lags.count == 1, "after the stop there is none"
    assert 0.2 < pauses.loop_lag_s < 5
    assert pauses.loop_lags.sum == round(pauses.loop_lag_s * 1_000_000)


def test_collections_are_timed_while_it_runs() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.004
        return now

    pauses = Pauses(clock)
    before = len(gc.callbacks)

    async def run() -> None:
        pauses.start(asyncio.get_running_loop())
        noted = pauses.gc_pauses.count
        gc.collect()
        assert pauses.gc_pauses.count == noted + 1
        assert pauses.gc_pauses.sum == 4000 * (noted + 1)
        pauses.stop()

    asyncio.run(run())
    noted = pauses.gc_pauses.count
    gc.collect()
    assert (pauses.gc_pauses.count, len(gc.callbacks)) == (noted, before)
