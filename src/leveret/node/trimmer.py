"""Gives memory back to the system that was freed and is not used again.

glibc keeps what is freed for later, and what lies between live pieces it never returns unasked: a broker whose queues
are empty would look as large as they once were, and a memory alarm would never end. Giving back takes 0.2 to 0.4 s for
each GB, and nothing else runs meanwhile; so it happens soon, a little at a time. Called by the watch only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

# While memory is short: not more often than this, and not for more than a twentieth of the time; ten times as seldom
# without an alarm.
TRIM_INTERVAL_S = 0.5
TRIM_REST_FACTOR = 20
TRIM_CALM_FACTOR = 10
# Otherwise when so much was freed: it takes about 5 ms. Whoever uses it again at once is left more the next time.
FREED_BYTES = 16 * 1024 * 1024
FREED_BYTES_MAX = 256 * 1024 * 1024
# How often to look while something is being freed, and which part of the time may be spent on that.
BUSY_INTERVAL_S = 0.05
BUSY_REST_FACTOR = 4


class Memory(Protocol):
    def resident_bytes(self) -> int: ...

    def free_bytes(self) -> int:
        """What the C library keeps that is not in use; 0 if it does not say."""

    def give_back(self) -> bool: ...


class Trimmer:
    def __init__(self, memory: Memory, monotonic: Callable[[], float]) -> None:
        self._memory = memory
        self._monotonic = monotonic
        self.trims_total = 0
        self.returned_bytes_total = 0
        # Whether something is being freed, so that the next look is to come soon.
        self.busy = False
        self._ended = -math.inf
        self._rest_s = 0.0
        # The least that was free since memory was last given back, and what was free then: both may have been returned.
        self._floor = self._left = self._memory.free_bytes()
        self._step = FREED_BYTES
        self._look_again = -math.inf

    def look(self, pressed: bool, alarm: bool) -> None:
        """As long as an alarm lasts memory is given back, also below the watermark: what ends the alarm lies lower.
        After that as long as there is pressure, else messages would be paged out for good once memory was short."""
        now = self._monotonic()
        if not pressed and not alarm:
            self._look_for_freed(now)
        elif now >= self._ended + self._rest_s * (1 if alarm else TRIM_CALM_FACTOR):
            self.trim()

    def trim(self) -> None:
        began, before = self._monotonic(), self._memory.resident_bytes()
        if self._memory.give_back():
            self.trims_total += 1
            self.returned_bytes_total += max(0, before - self._memory.resident_bytes())
        self._ended = self._monotonic()
        self._rest_s = max(TRIM_INTERVAL_S, (self._ended - began) * TRIM_REST_FACTOR)
        self._floor = self._left = self._memory.free_bytes()

    def _look_for_freed(self, now: float) -> None:
        if now < self._look_again:
            return
        free = self._memory.free_bytes()
        self._floor = min(self._floor, free)
        freed = free - self._floor
        self.busy = freed >= FREED_BYTES
        if freed >= self._step:
            used_again = self._left - self._floor >= self._step // 2
            self._step = min(self._step * 2, FREED_BYTES_MAX) if used_again else FREED_BYTES
            self.trim()
        # Asking takes time as well, if there are many pieces.
        self._look_again = now + (self._monotonic() - now) * BUSY_REST_FACTOR
