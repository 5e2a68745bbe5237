"""Whose turn it is: shares the loop's time between connections that have more to do than fits into a slice.

A turn is one round of the loop: what waited from the turns before has its share, then sockets are read until the turn
is used up. Connections that wait stand in line in groups, their virtual hosts: each group has one slice, then the next
group, so that a virtual host with a hundred busy connections takes no more of a turn than one with a single one. Work
is measured by a meter that the data plane counts with, not by the clock. Called by transports and sessions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from leveret.runtime.log import get_logger

log = get_logger(__name__)

# In units of the meter, about 100 ns each. What a connection may do in one go;
SLICE_WORK: Final = 30_000
# what those who waited may do in a turn, beginning a slice; and after how much of everything no socket is read.
WAITED_WORK: Final = 40_000
TURN_WORK: Final = 80_000
# What a control method or a command costs, beside what the data plane counts.
METHOD_WORK: Final = 300
# Octets that are received at the cost of one unit, as a power of two; and what a read costs at least.
RECEIVED_SHIFT: Final = 7
READ_WORK: Final = 50


class Work:
    """Stands for a meter where nothing counts with one."""

    def __init__(self) -> None:
        self.spent = 0
        self.limit = 0


class Waiting:
    """A place in the line."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Turns:
    """`flush` sends what is ready to be sent: answers go before more work is begun."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flush: Callable[[], None], meter: Any | None = None) -> None:
        self._loop = loop
        self._flush = flush
        self.meter = Work() if meter is None else meter
        # Who waits, by group, and whose turn is next. A group is in both or in neither.
        self._lines: dict[str, deque[Waiting]] = {}
        self._groups: deque[str] = deque()
        self._scheduled = False
        # What the meter said when the turn began.
        self._begun = 0

    @property
    def waiting_count(self) -> int:
        return sum(map(len, self._lines.values()))

    def is_over(self) -> bool:
        """Whether this turn is used up: then whoever has not begun has to wait."""
        if not self._scheduled:
            # Nothing has happened yet in this turn.
            self._schedule()
            self._begun = self.meter.spent
        return bool(self.meter.spent - self._begun >= TURN_WORK)

    def start_slice(self) -> None:
        """Somebody begins to work."""
        self.meter.limit = self.meter.spent + SLICE_WORK

    def is_slice_over(self, work: int) -> bool:
        """Adds so much work; whether the slice is over with that."""
        self.meter.spent += work
        return bool(self.meter.spent >= self.meter.limit)

    def charge(self, size: int) -> None:
        """So many octets were received."""
        self.meter.spent += READ_WORK + (size >> RECEIVED_SHIFT)

    def wait(self, group: str, call: Callable[[], None]) -> Waiting:
        """`call` goes on in a later turn, when its group has one."""
        waiting = Waiting(call)
        line = self._lines.get(group)
        if line is None:
            line = self._lines[group] = deque()
            self._groups.append(group)
        line.append(waiting)
        self._schedule()
        return waiting

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """A new turn begins."""
        self._scheduled = False
        self._begun = self.meter.spent
        if not self._groups:
            return
        self._flush()
        # Not those who come into the line meanwhile: sockets are to be looked at in between.
        left = self.waiting_count
        while left > 0 and self.meter.spent - self._begun < WAITED_WORK:
            left -= 1
            group = self._groups.popleft()
            line = self._lines[group]
            call = line.popleft().call
            if call is not None:
                self._call(call)
            if line:
                self._groups.append(group)
            else:
                del self._lines[group]
        if self._groups:
            self._schedule()

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            # A mistake of ours with one connection must not keep the others from their turn.
            log.exception("a connection's turn failed")
