"""Who wants to be rung when: queues whose head expires, delayed messages, queues that nobody uses.

One timer of the loop for all of them, for the earliest. Whoever is rung looks for himself whether there is something to
do, so it does no harm to be rung in vain."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Protocol

# How many are rung before others have their turn.
RUNG_A_TURN = 256
# Entries that were overtaken by earlier ones are thrown away when there are more of them than this and than good ones.
STALE_MIN = 64


class Timer(Protocol):
    def ring(self) -> None: ...


class TimerQueue:
    """`now_ms` is the clock; `begin` and `end` are called around a turn in which something rings."""

    def __init__(self, now_ms: Callable[[], int], begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._now_ms = now_ms
        self._begin = begin
        self._end = end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._heap: list[tuple[int, int, Timer]] = []
        # The one entry of each that counts.
        self._due: dict[Timer, int] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._due)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._set_timer()

    def stop(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def put(self, timer: Timer, due_ms: int) -> None:
        """Rings it at this moment, and no longer at another one."""
        self._due[timer] = due_ms
        self._order += 1
        heapq.heappush(self._heap, (due_ms, self._order, timer))
        self._drop_stale()
        if self._timer is None or due_ms < self._timer_due:
            self._set_timer()

    def forget(self, timer: Timer) -> None:
        self._due.pop(timer, None)
        self._drop_stale()

    def _drop_stale(self) -> None:
        if len(self._heap) > 2 * len(self._due) + STALE_MIN:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def _set_timer(self) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer_due = self._heap[0][0]
            self._timer = self._loop.call_later(max(0, self._timer_due - self._now_ms()) / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._begin()
        now = self._now_ms()
        rung = 0
        try:
            while self._heap and self._heap[0][0] <= now and rung < RUNG_A_TURN:
                due, _, timer = heapq.heappop(self._heap)
                if self._due.get(timer) == due:
                    del self._due[timer]
                    timer.ring()
                    rung += 1
        finally:
            # Whatever went wrong with one, the others are rung.
            self._set_timer()
            self._end()
