"""Brings queues and exchanges in step with the policies of their virtual host, in slices.

A policy may concern every queue of a virtual host, and its pattern is looked for in each name. So a change is a list of
what is to be looked at: the first slice of it is done at once, the rest in the office's next turns, between which
clients have theirs. A change that comes before the end puts everything on the list again, behind what is still on
it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

from leveret.core.queue.office import Office
from leveret.runtime.time_slice import SLICE_S, TimeSlice

# What is done in the call that changes a policy: some hundred queues, so that mostly all is done when it returns.
FIRST_SLICE_S: Final = 0.005
# So many are done at once however long it takes: a small virtual host is in step when the call returns.
FIRST_COUNT_MIN: Final = 32


class PolicyApplication:
    """`govern` brings one queue or exchange in step; it is told since when the policies are as they are. `end` is
    called whenever the list is empty again."""

    def __init__(self, office: Office, govern: Callable[[Any, int], None], end: Callable[[], None]) -> None:
        self._office = office
        self._govern = govern
        self._end = end
        # Queues and exchanges, first come first served, and since when their policies hold.
        self._waiting: OrderedDict[Any, int] = OrderedDict()
        # Set while the list is empty.
        self._done = asyncio.Event()
        self._done.set()

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def begin(self, things: Iterable[Any], since_ms: int, at_once: bool = False) -> None:
        """`at_once` where nobody waits: at a start."""
        self._waiting.update(dict.fromkeys(things, since_ms))
        self._done.clear()
        self._work(float("inf") if at_once else FIRST_SLICE_S, FIRST_COUNT_MIN)

    async def done(self) -> None:
        """Waits until everything lives by what has changed."""
        await self._done.wait()

    def go_on(self) -> None:
        """Called by the dead-letter worker, in its next turn."""
        self._work(SLICE_S, 1)

    def close(self) -> None:
        """The virtual host is gone. Lets go of it, so that it is freed at once."""
        self._waiting.clear()
        self._done.set()
        self._govern = self._end = _nothing

    def _work(self, slice_s: float, count_min: int) -> None:
        turn = TimeSlice(slice_s)
        count = 0
        while self._waiting:
            thing, since_ms = self._waiting.popitem(last=False)
            if not thing.deleted:
                self._govern(thing, since_ms)
            count += 1
            if count >= count_min and turn.is_over and self._waiting:
                self._office.go_on_later(self)
                return
        self._done.set()
        self._end()


def _nothing(*_: Any) -> None: ...
