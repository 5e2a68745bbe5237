"""Heartbeats: something is sent at least once in an interval, and silence for two of them is the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Heartbeat:
    """Looks twice in each interval. `received` counts what came, in any unit."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        beat: Callable[[], None],
        silent: Callable[[float], None],
        received: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._beat = beat
        self._silent = silent
        self._received = received
        self._seen = received()
        self._seen_at = loop.time()
        self._has_sent = False
        # Nobody reads at present: what comes cannot be heard.
        self.is_deaf = False
        self._plan(self._seen_at)

    def sent(self) -> None:
        self._has_sent = True

    def listen_again(self) -> None:
        self.is_deaf = False
        self._seen_at = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()

    def _plan(self, now: float) -> None:
        self._due = now + self._interval_s / 2
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        received = self._received()
        # A look that comes late is our own silence: the loop stood still, and what came meanwhile is not read yet.
        was_asleep = now - self._due >= self._interval_s
        if received != self._seen or self.is_deaf or was_asleep:
            self._seen, self._seen_at = received, now
        elif now - self._seen_at >= 2 * self._interval_s:
            self._silent(now - self._seen_at)
            return
        if not self._has_sent:
            self._beat()
        self._has_sent = False
        self._plan(now)
