"""How many messages a job may move now: a bucket that fills at the job's rate."""

from __future__ import annotations

import sys

# A bucket holds what this much time brings, and at least one.
BURST_S = 0.1
UNLIMITED = sys.maxsize


class Pace:
    """`rate` is messages a second, 0 for no limit."""

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST_S)
        self._tokens = 1.0
        self._filled_s = now_s

    def allowance(self, now_s: float) -> int:
        if self._rate == 0:
            return UNLIMITED
        self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self._rate)
        self._filled_s = now_s
        return int(self._tokens)

    def spend(self, count: int) -> None:
        if self._rate > 0:
            self._tokens -= count

    def wait_s(self) -> float:
        """How long until there is something again."""
        return 0.0 if self._rate == 0 or self._tokens >= 1 else (1 - self._tokens) / self._rate
