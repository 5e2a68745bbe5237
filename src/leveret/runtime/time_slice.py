"""Long work in the broker's loop, done in slices between which its clients have their turn.

However many such works there are, a turn of the loop has one slice: they stand in line, the one that rested longest
first. So a hundred lists that are asked for at once take longer, and hold clients up no longer than one does."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter, thread_time
from typing import Any, Final
from weakref import WeakKeyDictionary

# How long one piece of work may keep the loop. Messages pass in less than this, and are to notice nothing.
SLICE_S: Final = 0.00025
RELEASED_AT_ONCE: Final = 256


class Line:
    """The works of one loop that wait for their next slice."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def stand(self) -> asyncio.Future[None]:
        place = self._loop.create_future()
        self._waiting.append(place)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)
        return place

    def _next(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                # One that was cancelled has no turn.
                place.set_result(None)
                break
        if self._waiting:
            self._loop.call_soon(self._next)


# Of each loop that runs; several brokers in one process do not know of each other.
_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()


def line_of(loop: asyncio.AbstractEventLoop) -> Line:
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = Line(loop)
    return line


class TimeSlice:
    """Measured by the clock: the loop's own idea of the time stands still within a turn."""

    __slots__ = ("_begun", "_slice_s", "_used", "spent_s")

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        # Of the processor, in slices that are over.
        self.spent_s = 0.0
        self._begun = perf_counter()
        self._used = thread_time()

    @property
    def is_over(self) -> bool:
        return perf_counter() - self._begun >= self._slice_s

    async def rest(self) -> None:
        """Lets others have their turn, if this one's is over."""
        if perf_counter() - self._begun >= self._slice_s:
            self.spent_s += thread_time() - self._used
            await line_of(asyncio.get_running_loop()).stand()
            self._begun = perf_counter()
            self._used = thread_time()

    async def release(self, things: list[Any]) -> None:
        """Empties a list whose things nobody else has: to free ten thousand of them takes its time, too."""
        while things:
            del things[-RELEASED_AT_ONCE:]
            await self.rest()
