"""Time: monotonic seconds for deadlines, wall-clock seconds for people. Handed in, so that a test can move it."""

from __future__ import annotations

import time


class Clock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
