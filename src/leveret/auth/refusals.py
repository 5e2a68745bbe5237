"""What the audit log keeps of requests that were refused: some of every user, however often one of them tries.

Refused requests cost their sender nothing, unlike changes. So each user may have a few in a row noted and then one in a
while, and the ring that the API shows gives way at the user who has most in it. Pure: the moment comes in."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

# Of one user: so many at once, then one in so many seconds. A line has some 300 octets.
AT_ONCE_MAX = 100
ANOTHER_S = 10.0
USERS_MAX = 10_000


class _Share:
    __slots__ = ("left", "left_at", "unheard")

    def __init__(self, now: float) -> None:
        self.left = float(AT_ONCE_MAX)
        self.left_at = now
        self.unheard = 0


class RefusalShares:
    """Who may have another refusal noted."""

    def __init__(self) -> None:
        # The one who was refused longest ago first.
        self._shares: OrderedDict[str, _Share] = OrderedDict()

    def take(self, user: str, now: float) -> int | None:
        """How many of the user's were not noted since the last that was; None if this one is not either."""
        share = self._shares.get(user)
        if share is None:
            share = self._shares[user] = _Share(now)
            if len(self._shares) > USERS_MAX:
                self._shares.popitem(last=False)
        self._shares.move_to_end(user)
        share.left = min(float(AT_ONCE_MAX), share.left + max(0.0, now - share.left_at) / ANOTHER_S)
        share.left_at = now
        if share.left < 1.0:
            share.unheard += 1
            return None
        share.left -= 1.0
        unheard, share.unheard = share.unheard, 0
        return unheard


class FairRing(Generic[Entry]):
    """The newest entries of all users; when it is full, the oldest entry of the user with most entries goes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._of_users: dict[str, deque[Entry]] = {}

    def append(self, user: str, entry: Entry) -> None:
        self._of_users.setdefault(user, deque()).append(entry)
        self._count += 1
        if self._count > self._most:
            longest = max(self._of_users, key=lambda name: len(self._of_users[name]))
            self._of_users[longest].popleft()
            self._count -= 1
            if not self._of_users[longest]:
                del self._of_users[longest]

    def entries(self) -> list[Entry]:
        return [entry for entries in self._of_users.values() for entry in entries]
