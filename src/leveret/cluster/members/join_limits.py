"""How often somebody without a certificate may ask: each host now and then, all together not much more often. Pure."""

from __future__ import annotations

from collections import OrderedDict

HOSTS_MAX = 1024


class Bucket:
    """So many at once, so many a second in the long run."""

    __slots__ = ("_burst", "_filled_at", "_left", "_rate")

    def __init__(self, burst: int, rate: float, now: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left = float(burst)
        self._filled_at = now

    def take(self, now: float) -> bool:
        self._left = min(self._burst, self._left + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class JoinLimits:
    def __init__(
        self, now: float, host_burst: int = 20, host_rate: float = 1.0, burst: int = 50, rate: float = 10.0
    ) -> None:
        self._host_burst = host_burst
        self._host_rate = host_rate
        self._all = Bucket(burst, rate, now)
        # The latest last; a flood of addresses is forgotten from its oldest on, and is held by the bucket of all.
        self._hosts: OrderedDict[str, Bucket] = OrderedDict()
        self.refused_total = 0

    def take(self, host: str, now: float) -> bool:
        bucket = self._hosts.get(host)
        if bucket is None:
            bucket = self._hosts[host] = Bucket(self._host_burst, self._host_rate, now)
            if len(self._hosts) > HOSTS_MAX:
                self._hosts.popitem(last=False)
        self._hosts.move_to_end(host)
        # A host that has no more of its own takes none of the others'.
        if bucket.take(now) and self._all.take(now):
            return True
        self.refused_total += 1
        return False
