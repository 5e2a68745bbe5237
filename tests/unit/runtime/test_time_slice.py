"""Slices of time: work that takes long lets others have their turn, work that does not goes on."""

from __future__ import annotations

import asyncio
import time

import uvloop

from leveret.runtime.time_slice import SLICE_S, TimeSlice


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
