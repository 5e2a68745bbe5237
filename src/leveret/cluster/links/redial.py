"""When to dial again: pauses that double from one failure to the next, with jitter, and begin small after a connection
that has lasted. Pure."""

from __future__ import annotations

PAUSE_MIN_S = 0.05
PAUSE_MAX_S = 5.0
# A connection that lasted so long was a good one.
STEADY_S = 5.0
_DOUBLINGS_MAX = 16


class Redial:
    def __init__(self, pause_min_s: float = PAUSE_MIN_S, pause_max_s: float = PAUSE_MAX_S) -> None:
        self._pause_min_s = pause_min_s
        self._pause_max_s = pause_max_s
        self.failures = 0

    def pause_s(self, lasted_s: float, dice: float) -> float:
        """The pause after a connection that lasted so long, 0 if there was none. `dice` is from 0 to 1: two nodes that
        lost each other do not meet in the same moment for ever."""
        if lasted_s >= STEADY_S:
            self.failures = 0
        self.failures += 1
        pause = min(self._pause_max_s, self._pause_min_s * 2.0 ** min(self.failures - 1, _DOUBLINGS_MAX))
        return pause * (0.5 + dice / 2)
