"""Paging: bodies are let go while memory is short, a bounded step at a time.

Queues go first, then what consumers hold without acknowledging it. Transient messages get a record in pages/ for that,
so that a step follows only when the disk has the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from leveret.core.log.journal import Journal
from leveret.core.log.paging_context import WINDOW_COUNT, PagingContext

# What a queue keeps in memory at its head, in octets and in messages, in peace and when memory is short.
WINDOW_BYTES = 2 * 1024 * 1024
WINDOW_BYTES_PRESSED = 64 * 1024
WINDOW_COUNT_PRESSED = 8192
# What one step lets go at most, so that the loop goes on.
BYTES_A_STEP = 4 * 1024 * 1024
QUEUES_A_STEP = 4096
# How long a message was with its consumer at least before its body is let go.
UNACKED_ROUND_S = 1.0


class Paging:
    def __init__(self, pager: Journal, want: Callable[[Any], None]) -> None:
        """`want` has the loader fetch what a queue lacks."""
        self._pager = pager
        self.paging_context = PagingContext(pager, WINDOW_BYTES, want)
        self.all_queues: Callable[[], Iterable[Any]] = lambda: ()
        self.all_channels: Callable[[], Iterable[Any]] = lambda: ()
        # The loop's clock, once it runs.
        self.time: Callable[[], float] = lambda: 0.0
        self._queues: list[Any] = []
        # Channels whose unacknowledged messages are still to be paged in this round, and when the next one may begin.
        self._channels: list[Any] = []
        self._next_round = 0.0

    def press(self, pressed: bool) -> None:
        """Memory is short, or no longer."""
        self.paging_context.pressed = pressed
        self.paging_context.window_bytes = WINDOW_BYTES_PRESSED if pressed else WINDOW_BYTES
        self.paging_context.window_count = WINDOW_COUNT_PRESSED if pressed else WINDOW_COUNT
        self.step()

    def step(self) -> None:
        """One step if memory is short, unless the disk still has the last one: then the next follows when that is
        written."""
        if not self.paging_context.pressed or self._pager.end > 0 or self._pager.in_flight_bytes > 0:
            return
        if not self._queues:
            self._queues = list(self.all_queues())
        left = BYTES_A_STEP
        # Goes on where the last step ended: there may be a hundred thousand queues.
        for _ in range(min(QUEUES_A_STEP, len(self._queues))):
            left -= self._queues.pop().page_out(left)
            if left <= 0:
                return
        self._page_unacked(left)

    def _page_unacked(self, left: int) -> None:
        """The same for what consumers have and do not acknowledge. Each round lets go of what was there in the last."""
        if not self._channels and self.time() >= self._next_round:
            self._next_round = self.time() + UNACKED_ROUND_S
            self._channels = list(self.all_channels())
        for _ in range(min(QUEUES_A_STEP, len(self._channels))):
            left -= self._channels[-1].page_out(left)
            if left <= 0:
                return
            self._channels.pop()
