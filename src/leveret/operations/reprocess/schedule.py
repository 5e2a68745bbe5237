"""The schedule for dead letters: at whole hours, or whatever the interval is, each queue that was named is replayed,
and what has been failing for too long goes to the archive.

Who may name queues is in timing.py. Follows the wall clock, so that restarts do not put it off. Starts jobs like any
operator would; a queue whose last job is still running is left to that."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from leveret.broker.broker import Broker
from leveret.catalog.parameters import REPROCESS_SCHEDULE
from leveret.catalog.policies import merged_definition
from leveret.catalog.policy_keys import REPROCESS_EVERY
from leveret.catalog.records import QueueRecord, ReplayArchive
from leveret.errors import ReplayError
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.reprocess.spec import ReplaySpec
from leveret.operations.reprocess.timing import Timing, by_parameter, by_policy, parse_choice, parse_timing
from leveret.runtime.log import get_logger
from leveret.runtime.time_slice import TimeSlice

log = get_logger(__name__)

# How many queues are looked at before others have their turn.
LOOKED_AT_A_TURN = 1024
# How soon it is noticed that a policy or a parameter has changed.
LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the configuration says. `queues` are patterns as `parse_choice` has them, `schedules` such patterns with an
    interval of their own and perhaps an age. After 0 seconds nothing is archived."""

    queues: tuple[str, ...] = ()
    every_s: float = 3600.0
    archive_after_s: float = 86400.0
    archive_exchange: str = ""
    archive_queue: str = "leveret.archive"
    # Into the node's archive of files, and not to that exchange.
    to_files: bool = False
    schedules: tuple[tuple[str, str], ...] = ()

    @property
    def default(self) -> Timing:
        return Timing(self.every_s, self.archive_after_s)


class Scheduled(NamedTuple):
    """A queue with a schedule."""

    record: QueueRecord
    timing: Timing
    next_s: float


class Schedule:
    def __init__(self, broker: Broker, reprocessor: Reprocessor, plan: Plan) -> None:
        self._broker = broker
        self._reprocessor = reprocessor
        self._plan = plan
        # Those with an interval of their own come first.
        self._choices = [(*parse_choice(text), parse_timing(when, plan.default)) for text, when in plan.schedules]
        self._choices += [(*parse_choice(text), plan.default) for text in plan.queues]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        # Up to when of the wall clock everything that was due has been started.
        self._looked_s = broker.clock.wall()
        self.runs_total = 0

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._looked_s = self._broker.clock.wall()
        self._set_timer()

    def close(self) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()

    # ---- when

    def intervals(self) -> set[float]:
        """All intervals, in seconds, that settings, policies and parameters name."""
        found = {timing.every_s for _, _, timing in self._choices}
        catalog, default = self._broker.catalog, self._plan.default
        for book in catalog.policies.values():
            for policy in book.all():
                if REPROCESS_EVERY in policy.definition and not policy.operator:
                    timing = by_policy(None, default, policy.definition)
                    found.add(0.0 if timing is None else timing.every_s)
        for parameter in catalog.parameters.values():
            if parameter.component == REPROCESS_SCHEDULE:
                timing = by_parameter(None, default, parameter.value)
                found.add(0.0 if timing is None else timing.every_s)
                # It may name an age alone and leave the interval to others.
                found.add(default.every_s)
        return {every_s for every_s in found if every_s > 0}

    def next_delay_s(self) -> float:
        """Until the next whole interval of the wall clock."""
        now_s = self._broker.clock.wall()
        return min((every_s - now_s % every_s for every_s in self.intervals()), default=LOOK_S)

    def _set_timer(self) -> None:
        if self._loop is not None:
            self._timer = self._loop.call_later(min(self.next_delay_s(), LOOK_S), self._ring)

    def _ring(self) -> None:
        assert self._loop is not None
        before_s, self._looked_s = self._looked_s, self._broker.clock.wall()
        due = {every_s for every_s in self.intervals() if before_s // every_s != self._looked_s // every_s}
        self._set_timer()
        # One that has not even looked at all queues since is not overtaken.
        if due and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self.run(due))

    # ---- what

    async def run(self, due: Collection[float] | None = None) -> None:
        """Starts what is to be started now: of these intervals, or of all."""
        self.runs_total += 1
        for looked, queue in enumerate(list(self._candidates()), 1):
            record: QueueRecord = queue.record
            if not queue.deleted and queue.ready_count() > 0:
                timing = self.timing_of(record)
                if timing is not None and (due is None or timing.every_s in due):
                    self._start(record, timing)
            if looked % LOOKED_AT_A_TURN == 0:
                await asyncio.sleep(0)

    async def scheduled(self, vhosts: Collection[str], turn: TimeSlice) -> list[Scheduled]:
        """Every queue of these virtual hosts that has a schedule, with its next turn in seconds of the wall clock."""
        found = []
        now_s = self._broker.clock.wall()
        for queue in list(self._candidates()):
            await turn.rest()
            record: QueueRecord = queue.record
            timing = self.timing_of(record) if record.vhost in vhosts and not queue.deleted else None
            if timing is not None:
                found.append(Scheduled(record, timing, now_s - now_s % timing.every_s + timing.every_s))
        return found

    def _candidates(self) -> Iterator[Any]:
        """All queues of virtual hosts in which settings, policies or parameters schedule any."""
        catalog = self._broker.catalog
        names = dict.fromkeys(vhost for vhost, _, _ in self._choices)
        for name, book in catalog.policies.items():
            if any(REPROCESS_EVERY in policy.definition for policy in book.all()):
                names[name] = None
        for parameter in catalog.parameters.values():
            if parameter.component == REPROCESS_SCHEDULE:
                names[parameter.vhost] = None
        for name in names:
            vhost = self._broker.vhosts.get(name)
            if vhost is not None:
                yield from vhost.queues.values()

    def timing_of(self, record: QueueRecord) -> Timing | None:
        """None for a queue that is left alone."""
        if record.owner or record.kind == "stream" or self._is_archive(record):
            return None
        timing = next(
            (timing for vhost, pattern, timing in self._choices if vhost == record.vhost and pattern.fits(record.name)),
            None,
        )
        catalog, default = self._broker.catalog, self._plan.default
        policy = catalog.policies[record.vhost].of_queue(record).policy if record.vhost in catalog.policies else None
        if policy is not None:
            timing = by_policy(timing, default, merged_definition(policy, None))
        parameter = catalog.parameters.get((record.vhost, REPROCESS_SCHEDULE, record.name))
        if parameter is not None:
            timing = by_parameter(timing, default, parameter.value)
        return timing if timing is not None and timing.every_s > 0 else None

    def _is_archive(self, record: QueueRecord) -> bool:
        """The archive is not to be emptied into itself, whatever the patterns say."""
        return record.name == self._plan.archive_queue and not self._plan.archive_exchange

    def _start(self, record: QueueRecord, timing: Timing) -> None:
        if self._reprocessor.is_running(record.vhost, record.name):
            return
        archive = None
        plan = self._plan
        if timing.archive_after_s > 0:
            archive = ReplayArchive(timing.archive_after_s, plan.archive_exchange, plan.archive_queue, plan.to_files)
        try:
            self._reprocessor.start(record.vhost, record.name, ReplaySpec(archive=archive), scheduled=True)
        except ReplayError as error:
            log.warning("dead letters cannot be retried", vhost=record.vhost, queue=record.name, error=str(error))
