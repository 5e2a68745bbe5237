"""Reprocessing as operators see it: jobs started, watched and cancelled; one a queue.

Owns the jobs that run and their tasks. A job's record is in the catalog, so that it survives: those that were running
when the broker stopped go on when it starts. Called by the schedule, and by whatever operators have in their hands."""

from __future__ import annotations

import asyncio
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.vhost import LiveVhost
from leveret.catalog import commands
from leveret.catalog.records import Reprocessing
from leveret.core.codec.names import name_octets
from leveret.errors import ReplayConflict, ReplayError, ReplayNotFound
from leveret.operations.reprocess.alerts import Alerts
from leveret.operations.reprocess.archive_files import ArchiveFiles
from leveret.operations.reprocess.archive_record import Place
from leveret.operations.reprocess.run import Run
from leveret.operations.reprocess.spec import (
    ARCHIVE_FAILED,
    ARCHIVED,
    RUNNING,
    TARGET,
    Alert,
    JobView,
    ReplaySpec,
    check_spec,
    new_record,
    view,
)
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# How long a stopping broker waits for its jobs to come to rest.
REST_DEADLINE_S = 5.0


class Reprocessor:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        # By (vhost, queue), as in the catalog.
        self._runs: dict[tuple[str, str], Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_id = 0
        self.alerts = Alerts(broker)
        # Where what is given up is written, None if nothing is to be written; and the names that go with it. Set by the
        # node.
        self.files: ArchiveFiles | None = None
        self.cluster_id = self.node_name = ""
        self.jobs_total = 0
        self.moved_total = 0
        self.archived_total = 0
        # Messages that should have moved and could not; each job counts them anew.
        self.failed_total = 0

    # ---- with the node

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Goes on with what the last stop interrupted."""
        self._loop = loop
        for record in list(self._broker.catalog.jobs.values()):
            if record.state == RUNNING:
                self._resume(record)

    def _resume(self, record: Reprocessing) -> None:
        try:
            vhost, queue = self._find_queue(record.vhost, record.queue)
            self._launch(vhost, queue, record)
        except ReplayError as error:
            # Damage took the queue away, or another version took what this one does not.
            log.error("reprocessing cannot go on", vhost=record.vhost, queue=record.queue, error=str(error))
            self._broker.apply(commands.DeleteJob(record.vhost, record.queue))
        else:
            log.info("reprocessing goes on", vhost=record.vhost, queue=record.queue, moved=record.moved)

    async def close(self) -> None:
        """Has every job write down how far it is. They are not over: the next start goes on with them."""
        self._loop = None
        for run in self._runs.values():
            run.suspend()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=REST_DEADLINE_S)
            for task in late:
                task.cancel()

    # ---- for operators

    def start(self, vhost: str, queue: str, spec: ReplaySpec, scheduled: bool = False) -> JobView:
        """Raises InvalidReplay, ReplayNotFound or ReplayConflict."""
        check_spec(spec)
        live, source = self._find_queue(vhost, queue)
        if spec.to == TARGET and name_octets(spec.exchange) not in live.exchanges:
            raise ReplayNotFound(f"there is no exchange '{spec.exchange}' in vhost '{vhost}'")
        if self._loop is None:
            raise ReplayConflict("the broker is stopping")
        if source.record.owner:
            raise ReplayConflict(f"queue '{queue}' in vhost '{vhost}' belongs to one connection alone")
        if (vhost, queue) in self._runs:
            running = self._runs[vhost, queue].record.id
            raise ReplayConflict(f"queue '{queue}' in vhost '{vhost}' is being reprocessed already, by job {running}")
        now_ms = self._broker.clock.now_ms()
        record = new_record(vhost, queue, self._new_id(now_ms), spec, scheduled, now_ms, source.tail_position())
        self.jobs_total += 1
        return self._launch(live, source, record).view()

    def cancel(self, id: str) -> bool:
        """Whether it was running; it stops within a moment and leaves what it has moved where it is."""
        for run in self._runs.values():
            if run.record.id == id:
                run.cancel()
                return True
        if self._find_record(id) is None:
            raise ReplayNotFound(f"there is no job {id}")
        return False

    def jobs(self, vhost: str | None = None) -> list[JobView]:
        """Those that run, and the last one of every other queue, the newest first."""
        found = [self._view(record) for record in self._broker.catalog.jobs.values() if vhost in (None, record.vhost)]
        return sorted(found, key=lambda job: (job.created_ms, job.id), reverse=True)

    def job(self, id: str) -> JobView:
        record = self._find_record(id)
        if record is None:
            raise ReplayNotFound(f"there is no job {id}")
        return self._view(record)

    def forget(self, id: str) -> None:
        """Takes a job that is over off the list."""
        record = self._find_record(id)
        if record is None:
            raise ReplayNotFound(f"there is no job {id}")
        if (record.vhost, record.queue) in self._runs:
            raise ReplayConflict(f"job {id} is running; cancel it first")
        self._broker.apply(commands.DeleteJob(record.vhost, record.queue))

    def is_running(self, vhost: str, queue: str) -> bool:
        return (vhost, queue) in self._runs

    # ---- inside

    def _new_id(self, now_ms: int) -> str:
        """Never given before, also by a broker that was here before."""
        self._last_id = max(self._last_id + 1, now_ms)
        return str(self._last_id)

    def _find_queue(self, vhost: str, queue: str) -> tuple[LiveVhost, Any]:
        live = self._broker.vhosts.get(vhost)
        if live is None:
            raise ReplayNotFound(f"there is no vhost '{vhost}'")
        found = live.queues.get(name_octets(queue))
        if found is None:
            raise ReplayNotFound(f"there is no queue '{queue}' in vhost '{vhost}'")
        return live, found

    def _find_record(self, id: str) -> Reprocessing | None:
        return next((record for record in self._broker.catalog.jobs.values() if record.id == id), None)

    def _view(self, record: Reprocessing) -> JobView:
        run = self._runs.get((record.vhost, record.queue))
        return view(record) if run is None else run.view()

    def _launch(self, vhost: LiveVhost, queue: Any, record: Reprocessing) -> Run:
        assert self._loop is not None, "the node is not running"
        life = "" if self.files is None else self.files.life
        place = Place(self.cluster_id, self.node_name, queue.record, life, record.id)
        run = Run(self._broker, vhost, queue, record, self._turn, self.files, place)
        self._broker.apply(commands.PutJob(run.record))
        self._runs[record.vhost, record.queue] = run
        task = self._loop.create_task(self._watch(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    async def _watch(self, run: Run) -> None:
        before = run.record
        try:
            await run.work()
        finally:
            self._runs.pop((before.vhost, before.queue), None)
        after = run.record
        self.moved_total += after.moved - before.moved
        self.archived_total += after.archived - before.archived
        self.failed_total += after.failed
        log.info(
            "reprocessing ended" if after.state != RUNNING else "reprocessing is interrupted",
            vhost=after.vhost,
            queue=after.queue,
            job=after.id,
            state=after.state,
            moved=after.moved,
            skipped=after.skipped,
            failed=after.failed,
            error=after.last_error,
        )
        if after.state != RUNNING:
            self._alert(after, run)

    def _alert(self, job: Reprocessing, run: Run) -> None:
        if job.archive is None:
            return
        target = f"exchange '{job.archive.exchange}', routing key '{job.archive.routing_key}'"
        if job.archive.to_files:
            target = "" if self.files is None else str(self.files.root)
        now_ms = self._broker.clock.now_ms()
        if job.archived:
            target = run.filing.written_to or target
            self.alerts.add(Alert(now_ms, job.vhost, job.queue, job.id, ARCHIVED, job.archived, target))
        stayed = run.filing.put_back + run.filing.refused
        if stayed:
            self.alerts.add(
                Alert(now_ms, job.vhost, job.queue, job.id, ARCHIVE_FAILED, stayed, target, run.filing.error)
            )
