"""What happens to a connection, for whoever wants to know: `async for event in connection.events()`."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

import msgspec

__all__ = [
    "AttemptFailed",
    "Blocked",
    "Closed",
    "Connecting",
    "Event",
    "Events",
    "Lost",
    "Opened",
    "Problem",
    "Restored",
    "Unblocked",
]

# Events that wait for one who does not look; older ones are dropped.
WAITING_MAX = 1000


class Connecting(msgspec.Struct, frozen=True):
    address: str
    attempt: int


class AttemptFailed(msgspec.Struct, frozen=True):
    address: str
    reason: str
    # Until the next attempt.
    pause_s: float


class Opened(msgspec.Struct, frozen=True):
    """The broker has let us in; what there was before the loss is about to be restored."""

    address: str


class Problem(msgspec.Struct, frozen=True):
    """Something could not be restored. It may try again by itself."""

    what: str
    reason: str


class Restored(msgspec.Struct, frozen=True):
    """Topology, channels, unconfirmed messages and consumers are as they were."""

    # Since the loss.
    seconds: float
    problems: int


class Lost(msgspec.Struct, frozen=True):
    reason: str


class Blocked(msgspec.Struct, frozen=True):
    """The broker is short of memory or disk, and takes no messages for now."""

    reason: str


class Unblocked(msgspec.Struct, frozen=True):
    pass


class Closed(msgspec.Struct, frozen=True):
    """For good: by its user, or because recovery was given up."""

    reason: str


Event = Connecting | AttemptFailed | Opened | Problem | Restored | Lost | Blocked | Unblocked | Closed


class Events:
    """Tells every listener everything from the moment it began to listen, up to Closed."""

    def __init__(self) -> None:
        # Who stops to listen just lets go of his end.
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._is_over = False

    def tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener.hear(event)
        if isinstance(event, Closed):
            self._is_over = True

    def listen(self) -> Listener:
        """Listens from now on, not only from the first look."""
        listener = Listener()
        if self._is_over:
            listener.hear(Closed("the connection was closed before"))
        else:
            self._listeners.add(listener)
        return listener


class Listener(AsyncIterator[Event]):
    """One who listens; `async for` over it ends after Closed."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[Event] = asyncio.Queue(WAITING_MAX)
        self._is_over = False

    def hear(self, event: Event) -> None:
        if self._told.full():
            self._told.get_nowait()
        self._told.put_nowait(event)

    async def __anext__(self) -> Event:
        if self._is_over:
            raise StopAsyncIteration
        event = await self._told.get()
        self._is_over = isinstance(event, Closed)
        return event
