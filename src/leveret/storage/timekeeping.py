"""What time it is for messages, from one run of the broker to the next.

Messages carry the moment at which they came or are due, so the time of one run must go on where that of the run before
ended, whatever the clock of the machine says in between. The log has moments: the time of messages, and what the wall
clock said at the same time. A start adds to the last one how long the broker was down by the wall clock, if that can
be. Knows no clock; the store asks, with what the wall clock says now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from leveret.core.log.journal import Journal

# Nobody is down for longer: then the clock is wrong now, or was when the last moment was noted.
DOWNTIME_MS_MAX = 30 * 24 * 3600 * 1000
# Clocks that are set by so little agree.
AGREEMENT_MS = 5 * 60 * 1000
# 2020: no clock that is right says less, and the index of delayed messages counts from there.
EARLIEST_MS = 1_577_836_800_000
# How often a moment is noted in the log.
MOMENT_S = 60.0


class Moments:
    """Notes in the log what time it is, at the start, from time to time and at the end. `now` says nothing (0) until
    somebody has given it a clock."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.now: Callable[[], Moment] = lambda: Moment(0, 0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.note()
        self._timer = loop.call_later(MOMENT_S, self.start, loop)

    def note(self) -> None:
        moment = self.now()
        if moment.now_ms:
            self._journal.add_moment(*moment)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Moment(NamedTuple):
    """Milliseconds since 1970: for messages, and by the wall clock."""

    now_ms: int
    wall_ms: int


def resumed_ms(last: Moment | None, wall_ms: int, holds_messages: Callable[[], bool]) -> int:
    """What time it is for messages at a start at which the wall clock says this."""
    if last is None:
        return max(wall_ms, EARLIEST_MS)
    down_ms = wall_ms - last.wall_ms
    resumed = last.now_ms + (down_ms if 0 <= down_ms <= DOWNTIME_MS_MAX else 0)
    if abs(resumed - wall_ms) <= AGREEMENT_MS:
        # Never back: what was due stays due.
        return max(wall_ms, last.now_ms)
    # Without messages nothing can expire too early or be held too long.
    return max(resumed if holds_messages() else wall_ms, EARLIEST_MS)
