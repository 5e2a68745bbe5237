"""Raises the alarm for file descriptors while a peer or the store has to wait for one, and ends it afterwards.

Nobody is blocked by it: connections that are open go on, and publishers wait by themselves if the store does."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from leveret.node.watch import Alarms
from leveret.runtime.descriptors import COMFORTABLE, OUT_OF_DESCRIPTORS, DescriptorBudget
from leveret.runtime.log import get_logger

log = get_logger(__name__)

ALARM = "file_descriptor_limit"
INTERVAL_S = 0.5
# How long nobody must have waited before the alarm ends, so that people and scrapers see it.
QUIET_S = 10.0
RESOURCES = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.ENOMEM: "memory",
    errno.ENOSPC: "space",
    errno.EDQUOT: "space",
}


class DescriptorWatch:
    def __init__(self, budget: DescriptorBudget, alarms: Alarms) -> None:
        self.budget = budget
        self.shortages_total = dict.fromkeys([*RESOURCES.values(), "other"], 0)
        self.alarms_total = 0
        # Told of new shares at the start and when the limit has changed.
        self.on_changed: Callable[[DescriptorBudget], None] = lambda _budget: None
        self._alarms = alarms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refused = 0
        # What storage wanted to open when there was no descriptor, since the last look.
        self._starved = ""
        self._raised = False
        self._last_wait = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        budget = self.budget
        if budget.limit < COMFORTABLE:
            log.warning(
                "few file descriptors: more connections than this have to wait; raise the limit of open files",
                limit=budget.limit,
                amqp=budget.amqp.limit,
                http=budget.http.limit,
            )
        self.on_changed(budget)
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def shortage(self, what: str, error: OSError) -> None:
        """The store could not do this, and tries again."""
        resource = RESOURCES.get(error.errno or 0, "other")
        self.shortages_total[resource] += 1
        if error.errno in OUT_OF_DESCRIPTORS:
            self._starved = what
            if self._loop is not None and not self._raised:
                self._judge(self._loop.time())

    def _look(self) -> None:
        assert self._loop is not None
        try:
            if self.budget.refresh():
                log.info("the limit of file descriptors is another now", limit=self.budget.limit)
                self.on_changed(self.budget)
            self._judge(self._loop.time())
            self._starved = ""
        finally:
            self._timer = self._loop.call_later(INTERVAL_S, self._look)

    def _judge(self, now: float) -> None:
        refused = sum(share.refused_total for share in self.budget.shares)
        waits = refused > self._refused or bool(self._starved)
        self._refused = refused
        if waits:
            self._last_wait = now
            if not self._raised:
                self._raised = True
                self.alarms_total += 1
                reason = self._reason()
                log.warning(f"file descriptor alarm: {reason}")
                self._alarms.raise_alarm(ALARM, reason, blocks=False)
        elif self._raised and now - self._last_wait >= QUIET_S:
            self._raised = False
            log.info("file descriptor alarm over")
            self._alarms.clear_alarm(ALARM)

    def _reason(self) -> str:
        figures = f"the limit is {self.budget.limit}"
        if self._starved:
            return f"storage waits for a file descriptor ({self._starved}); {figures}"
        full = ", ".join(
            f"{share.used} of {share.limit} {share.name}" for share in self.budget.shares if not share.room
        )
        return f"new connections wait for a file descriptor: {full or 'none is left'}; {figures}"
