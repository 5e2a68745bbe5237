"""How much a producer may have under way, and the line of those who wait for room: first come, first served.

Knows nothing of messages but their sizes, and has no clock: whoever owns it says what time it is."""

from __future__ import annotations

import asyncio
from collections import deque

from leveret.client.errors import ClientClosed, DeadlineExceeded

__all__ = ["Window"]


class _Waiter:
    __slots__ = ("due", "is_many", "room", "size")

    def __init__(self, room: asyncio.Future[None], size: int, is_many: bool, due: float) -> None:
        self.room = room
        self.size = size
        # It has much to send: it is worth waking only when there is room for a good part of that.
        self.is_many = is_many
        self.due = due


class Window:
    def __init__(self, count_max: int, bytes_max: int) -> None:
        for name, value in (("window", count_max), ("window_bytes", bytes_max)):
            if value < 1:
                raise ValueError(f"{name} is {value}, and must be at least 1")
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.count = 0
        self.bytes = 0
        self._line: deque[_Waiter] = deque()

    @property
    def waiting(self) -> int:
        return len(self._line)

    def take(self, size: int) -> bool:
        """Takes room for a message of this size if there is some and nobody was there before. One that is larger than
        the whole window goes alone."""
        if self._line or self.count >= self._count_max or (self.bytes + size > self._bytes_max and self.count):
            return False
        self.count += 1
        self.bytes += size
        return True

    def room(self) -> tuple[int, int]:
        """How many messages with how many bytes may be taken at once; none while somebody stands in line."""
        if self._line:
            return 0, 0
        return max(0, self._count_max - self.count), max(0, self._bytes_max - self.bytes)

    def take_run(self, count: int, size: int) -> None:
        """Takes of what `room` has told."""
        self.count += count
        self.bytes += size

    def release(self, count: int, size: int) -> None:
        self.count -= count
        self.bytes -= size
        assert self.count >= 0 and self.bytes >= 0
        if self._line:
            self._admit()

    async def wait(self, size: int, due: float, loop: asyncio.AbstractEventLoop) -> None:
        """Takes room for a message as soon as there is some. Raises DeadlineExceeded, or ClientClosed at the end."""
        waiter = _Waiter(loop.create_future(), size, False, due)
        self._line.append(waiter)
        try:
            await waiter.room
        except asyncio.CancelledError:
            if self._leave(waiter):
                # It was let in at the moment when it gave up.
                self.release(1, size)
            raise

    async def wait_for_much(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        """Waits for its turn and until half of the window is free, but takes nothing."""
        waiter = _Waiter(loop.create_future(), 0, True, due)
        self._line.append(waiter)
        self._admit()
        try:
            await waiter.room
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def _leave(self, waiter: _Waiter) -> bool:
        """Whether it had been let in already."""
        if waiter in self._line:
            self._line.remove(waiter)
        self._admit()
        room = waiter.room
        return room.done() and not room.cancelled() and room.exception() is None

    def _admit(self) -> None:
        while self._line:
            first = self._line[0]
            if first.room.done():
                self._line.popleft()
                continue
            if first.is_many:
                if self.count * 2 > self._count_max or self.bytes * 2 > self._bytes_max:
                    return
            elif self.count >= self._count_max or (self.bytes + first.size > self._bytes_max and self.count):
                return
            else:
                self.count += 1
                self.bytes += first.size
            self._line.popleft()
            first.room.set_result(None)

    def expire(self, now: float) -> float:
        """Those whose time is over are sent away. When the next one's is."""
        earliest = float("inf")
        for waiter in list(self._line):
            if waiter.room.done():
                continue
            if waiter.due > now:
                earliest = min(earliest, waiter.due)
                continue
            self._line.remove(waiter)
            waiter.room.set_exception(
                DeadlineExceeded(
                    f"there was no room for the message within its deadline: {self.count} messages with {self.bytes} "
                    "bytes are on their way and not confirmed"
                )
            )
        self._admit()
        return earliest

    def end(self, reason: str) -> None:
        """All who stand in line are sent away."""
        line, self._line = self._line, deque()
        for waiter in line:
            if not waiter.room.done():
                waiter.room.set_exception(ClientClosed(reason))
