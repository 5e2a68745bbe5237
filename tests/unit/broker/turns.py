"""Time in the hand of a test: a clock that stands still, and a loop that calls nobody by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leveret.runtime.clock import Clock

NOW = 1_700_000_000_000


class HandClock(Clock):
    def __init__(self, now_ms: int = NOW) -> None:
        super().__init__()
        self.ms = now_ms

    def wall(self) -> float:
        return self.ms / 1000

    def now_ms(self) -> int:
        return self.ms


class Handle:
    def __init__(self, delay_s: float, call: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """Remembers what is to be called."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        self.handles.append(Handle(delay_s, call))
        return self.handles[-1]

    def call_soon(self, call: Callable[[], None]) -> Handle:
        return self.call_later(0, call)

    def waiting(self) -> list[float]:
        """In how many seconds something is to be called."""
        return [handle.delay_s for handle in self.handles if not handle.cancelled]

    def turn(self) -> None:
        """Calls everything that waits now, whatever its time."""
        handles, self.handles = self.handles, []
        for handle in handles:
            if not handle.cancelled:
                handle.call()

    def as_loop(self) -> Any:
        return self
