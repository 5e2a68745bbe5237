"""What keeps the loop from its work: how late a timer rings, and how long the garbage collector takes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

from leveret.core.observe.histogram import Histogram

LAG_INTERVAL_S = 0.1
# Microseconds
PAUSE_BOUNDS = (100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000)


class Pauses:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.loop_lags = Histogram(PAUSE_BOUNDS)
        self.gc_pauses = Histogram(PAUSE_BOUNDS)
        # The last one, in seconds.
        self.loop_lag_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._gc_began: float | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        gc.callbacks.append(self._collecting)
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop is not None:
            self._loop = None
            gc.callbacks.remove(self._collecting)

    def _wait(self) -> None:
        assert self._loop is not None
        self._due = self._monotonic() + LAG_INTERVAL_S
        self._timer = self._loop.call_later(LAG_INTERVAL_S, self._rung)

    def _rung(self) -> None:
        self.loop_lag_s = max(0.0, self._monotonic() - self._due)
        self.loop_lags.note(round(self.loop_lag_s * 1_000_000))
        self._wait()

    def _collecting(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_began = self._monotonic()
        elif self._gc_began is not None:
            self.gc_pauses.note(max(0, round((self._monotonic() - self._gc_began) * 1_000_000)))
            self._gc_began = None
