"""Slices of time: work that takes long lets others have their turn, work that does not goes on."""

from __future__ import annotations

import asyncio
import time

import uvloop

from leveret.runtime.time_slice import SLICE_S, TimeSlice, line_of


def busy(seconds: float) -> None:
    """By the processor's time: somebody else may have it meanwhile."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_others_have_their_turn_when_a_slice_is_over() -> None:
    async def main() -> None:
        seen: list[str] = []
        turn = TimeSlice()
        asyncio.get_running_loop().call_soon(seen.append, "other")
        busy(2 * SLICE_S)
        assert turn.is_over
        await turn.rest()
        assert seen == ["other"]
        assert turn.spent_s > SLICE_S
        asyncio.get_running_loop().call_soon(seen.append, "another")
        turn = TimeSlice()
        if not turn.is_over:
            await turn.rest()
            assert turn.spent_s > 0 or seen == ["other"]

    # Its own time stands still within a turn.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_works_stand_in_line_and_have_one_slice_a_turn() -> None:
    turns: list[int] = []
    order: list[int] = []
    turn = 0

    def count() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(count)

    async def work(number: int) -> None:
        own = TimeSlice(0.0)
        for _ in range(5):
            await own.rest()
            turns.append(turn)
            order.append(number)

    async def run() -> None:
        count()
        await asyncio.gather(*(work(number) for number in range(10)))
        assert len(line_of(asyncio.get_running_loop())) == 0

    asyncio.run(run())
    assert len(turns) == 50 and len(set(turns)) == 50
    # Each has its turn before one has its second.
    assert order == list(range(10)) * 5


def test_one_that_is_cancelled_gives_its_place_up() -> None:
    async def run() -> None:
        async def work() -> None:
            await TimeSlice(0.0).rest()

        tasks = [asyncio.create_task(work()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[1].cancel()
        await tasks[2]
        assert [task.cancelled() for task in tasks] == [True, True, False]

    asyncio.run(run())


def test_a_slice_that_is_not_over_goes_on_at_once() -> None:
    async def run() -> None:
        own = TimeSlice(1000.0)
        await own.rest()
        assert not own.is_over and own.spent_s == 0.0

    asyncio.run(run())
