"""Who has how many of the places for HTTP connections, and how many of these are at work.

One address has no more than its limit of connections. Of all places, and of those of one address, a quarter is never at
work: requests beyond that are told to come back. So there is always a connection that only waits, which can be closed
for a new one, and a health check gets in whatever is sent or not sent by others. The unix socket has places of its own,
reserved for the broker's own user. Opens and closes nothing itself."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Final, Generic, TypeVar

from leveret.runtime.descriptors import Share

# Of four places three may be at work.
WORKING, OF = 3, 4
CONNECTIONS_PER_ADDRESS_MAX: Final = 500


class Places:
    def __init__(self, per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX) -> None:
        self.per_address_max = per_address_max
        self._connected: dict[str, int] = {}
        self._working: dict[str, int] = {}
        self._working_in: dict[str, int] = {}
        # Connections, and requests, that were turned away because there were too many.
        self.refused_total = 0

    def connected(self, address: str) -> int:
        return self._connected.get(address, 0)

    def is_full(self, address: str) -> bool:
        """Whether this address has as many connections as it may have."""
        return bool(address) and self.connected(address) >= self.per_address_max

    def enter(self, address: str) -> None:
        _count(self._connected, address, 1)

    def leave(self, address: str) -> None:
        _count(self._connected, address, -1)

    def may_work(self, share: Share, address: str) -> bool:
        """Whether one more request may be at work."""
        if not address:
            return True
        return self._working_in.get(share.name, 0) < _part(share.limit) and self._working.get(address, 0) < _part(
            self.per_address_max
        )

    def begin(self, share: Share, address: str) -> None:
        _count(self._working, address, 1)
        _count(self._working_in, share.name, 1)

    def end(self, share: Share, address: str) -> None:
        _count(self._working, address, -1)
        _count(self._working_in, share.name, -1)


T = TypeVar("T")


class Queue(Generic[T]):
    """Connections in the order in which they came in, of each kind of socket and of each address there."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str | None], OrderedDict[T, None]] = {}

    def add(self, share: Share | None, address: str, one: T) -> None:
        if share is not None:
            for key in ((share.name, None), (share.name, address)):
                self._lines.setdefault(key, OrderedDict())[one] = None

    def remove(self, share: Share | None, address: str, one: T) -> None:
        if share is not None:
            for key in ((share.name, None), (share.name, address)):
                line = self._lines[key]
                line.pop(one, None)
                if not line:
                    del self._lines[key]

    def count(self, share: Share, address: str | None) -> int:
        return len(self._lines.get((share.name, address), ()))

    def first(self, share: Share, address: str | None, count: int) -> list[T]:
        return list(islice(self._lines.get((share.name, address), ()), count))


def _part(limit: int) -> int:
    return max(1, limit * WORKING // OF)


def _count(counts: dict[str, int], name: str, more: int) -> None:
    left = counts.get(name, 0) + more
    assert left >= 0
    if left:
        counts[name] = left
    else:
        del counts[name]
