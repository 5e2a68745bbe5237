"""The schedule for dead letters: at whole hours, or whatever the interval is, each queue that was named is replayed,
and what has been failing for too long goes to the archive.

Follows the wall clock, so that restarts do not put it off. Starts jobs like any operator would; a queue whose last job
is still running is left to that."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from leveret.broker.broker import DEFAULT_VHOST, Broker
from leveret.broker.reprocess.reprocessor import Reprocessor
from leveret.broker.reprocess.spec import ReplaySpec
from leveret.catalog.patterns import compile_pattern
from leveret.catalog.records import QueueRecord, ReplayArchive
from leveret.errors import ReplayError
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# How many queues are looked at before others have their turn.
LOOKED_AT_A_TURN = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """`queues` are patterns as `parse_choice` has them; none, and nothing is ever done. After 0 seconds nothing is
    archived."""

    queues: tuple[str, ...] = ()
    every_s: float = 3600.0
    archive_after_s: float = 86400.0
    archive_exchange: str = ""
    archive_queue: str = "leveret.archive"


def parse_choice(text: str) -> tuple[str, re.Pattern[str]]:
    """The virtual host and the pattern that a queue's whole name must match: "vhost/pattern", or a pattern alone for
    the virtual host /. Raises ValueError."""
    vhost, slash, pattern = text.partition("/")
    if not slash:
        vhost, pattern = DEFAULT_VHOST, text
    if not pattern:
        raise ValueError("it names no queue")
    return vhost or DEFAULT_VHOST, compile_pattern(pattern)


class Schedule:
    def __init__(self, broker: Broker, reprocessor: Reprocessor, plan: Plan) -> None:
        self._broker = broker
        self._reprocessor = reprocessor
        self._plan = plan
        self._choices = [parse_choice(text) for text in plan.queues]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.runs_total = 0

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        if self._choices:
            self._set_timer()

    def close(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()

    def next_delay_s(self) -> float:
        """Until the next whole interval of the wall clock."""
        return self._plan.every_s - self._broker.clock.wall() % self._plan.every_s

    def _set_timer(self) -> None:
        if self._loop is not None:
            self._timer = self._loop.call_later(self.next_delay_s(), self._ring)

    def _ring(self) -> None:
        assert self._loop is not None
        self._set_timer()
        # One that has not even looked at all queues since is not overtaken.
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self.run())

    async def run(self) -> None:
        """Starts what is to be started now."""
        self.runs_total += 1
        for looked, queue in enumerate(list(self._candidates()), 1):
            record: QueueRecord = queue.record
            if not queue.deleted and queue.ready_count() > 0 and self._is_chosen(record):
                self._start(record)
            if looked % LOOKED_AT_A_TURN == 0:
                await asyncio.sleep(0)

    def _candidates(self) -> Iterator[Any]:
        for name in dict.fromkeys(vhost for vhost, _ in self._choices):
            vhost = self._broker.vhosts.get(name)
            if vhost is not None:
                yield from vhost.queues.values()

    def _is_chosen(self, record: QueueRecord) -> bool:
        if record.owner or (record.name == self._plan.archive_queue and not self._plan.archive_exchange):
            # The archive is not to be emptied into itself, whatever the patterns say.
            return False
        return any(
            vhost == record.vhost and pattern.fullmatch(record.name) is not None for vhost, pattern in self._choices
        )

    def _start(self, record: QueueRecord) -> None:
        if self._reprocessor.is_running(record.vhost, record.name):
            return
        archive = None
        if self._plan.archive_after_s > 0:
            archive = ReplayArchive(self._plan.archive_after_s, self._plan.archive_exchange, self._plan.archive_queue)
        try:
            self._reprocessor.start(record.vhost, record.name, ReplaySpec(archive=archive), scheduled=True)
        except ReplayError as error:
            log.warning("dead letters cannot be retried", vhost=record.vhost, queue=record.name, error=str(error))
