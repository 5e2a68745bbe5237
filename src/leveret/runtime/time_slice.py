"""Long work in the broker's loop, done in slices between which its clients have their turn."""

from __future__ import annotations

import asyncio
from time import perf_counter, thread_time
from typing import Any, Final

# How long one piece of work may keep the loop. Messages pass in less than this, and are to notice nothing.
SLICE_S: Final = 0.00025
RELEASED_AT_ONCE: Final = 256


class TimeSlice:
    """Measured by the clock: the loop's own idea of the time stands still within a turn."""

    __slots__ = ("_begun", "_used", "spent_s")

    def __init__(self) -> None:
        # Of the processor, in slices that are over.
        self.spent_s = 0.0
        self._begun = perf_counter()
        self._used = thread_time()

    @property
    def is_over(self) -> bool:
        return perf_counter() - self._begun >= SLICE_S

    async def rest(self) -> None:
        """Lets others have their turn, if this one's is over."""
        if perf_counter() - self._begun >= SLICE_S:
            self.spent_s += thread_time() - self._used
            await asyncio.sleep(0)
            self._begun = perf_counter()
            self._used = thread_time()

    async def release(self, things: list[Any]) -> None:
        """Empties a list whose things nobody else has: to free ten thousand of them takes its time, too."""
        while things:
            del things[-RELEASED_AT_ONCE:]
            await self.rest()
