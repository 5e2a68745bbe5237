"""Time: monotonic seconds for deadlines, wall-clock seconds for people, and milliseconds for messages. Handed in, so
that a test can move it."""

from __future__ import annotations

import time


class Clock:
    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def now_ms(self) -> int:
        """The wall clock's milliseconds as they were when the broker started, going on evenly: nobody's messages expire
        because somebody has set the clock."""
        return int((self._offset_s + time.monotonic()) * 1000)

    def resume(self, now_ms: int) -> None:
        """For messages it is so late now: the time goes on where it was before the start."""
        self._offset_s = now_ms / 1000 - time.monotonic()
