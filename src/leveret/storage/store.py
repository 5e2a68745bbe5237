"""The store: what a node keeps on disk, as one thing with a small face.

Opened before the loop runs (that is recovery), started on it, closed at the end. Queues get their queue logs here and
never see a file; sessions ask it to hold their answers back until what they did is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from leveret.core.log.journal import Journal
from leveret.core.log.load import LOAD_READS
from leveret.core.log.queue_log import QueueLog
from leveret.core.log.rebuild import QueueBook
from leveret.core.log.segment import Segment
from leveret.core.observe.histogram import Histogram
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.queue.glance import Reading
from leveret.errors import StartupError
from leveret.runtime.descriptors import DescriptorBudget
from leveret.runtime.log import get_logger
from leveret.storage.backup import Backups
from leveret.storage.backup_plan import take_point
from leveret.storage.catalog_rewriter import CatalogRewriter
from leveret.storage.commit_pause import CommitPause
from leveret.storage.committer import Committer
from leveret.storage.damage import Damage
from leveret.storage.data_directory import DataDirectory
from leveret.storage.evidence import Evidence
from leveret.storage.groups.entry_store import EntryStore
from leveret.storage.groups.found_groups import FoundGroup
from leveret.storage.loader import Loader
from leveret.storage.missing import identity
from leveret.storage.paging import Paging
from leveret.storage.reclaim import Reclaimer
from leveret.storage.recovery import RecoveredLog, finish_books
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.shortages import Shortages
from leveret.storage.spares import Spares
from leveret.storage.store_totals import IoTotals, ReadTotals
from leveret.storage.streams import Streams
from leveret.storage.survey import FoundSegment
from leveret.storage.timekeeping import AGREEMENT_MS, Moments, resumed_ms

log = get_logger(__name__)

SEGMENT_BYTES = 16 * 1024 * 1024
STREAM_SEGMENT_BYTES_MIN = 1024 * 1024
# How long the end waits for each flush, and for what the store does in the background.
CLOSE_DEADLINE_S = 5.0
REST_DEADLINE_S = 1.0


@dataclass(frozen=True, slots=True)
class StoreSettings:
    segment_bytes: int = SEGMENT_BYTES
    # False confirms what is written and not synced: fast on slow disks, and lost with the power.
    sync: bool = True
    # No segment of a stream is shorter.
    stream_segment_bytes_min: int = STREAM_SEGMENT_BYTES_MIN


class Store:
    def __init__(self, root: Path, settings: StoreSettings, new_salt: Callable[[], int]) -> None:
        """Locks the directory and recovers what is in it. Blocks."""
        self.root = root
        self._settings = settings
        opened = DataDirectory(root, new_salt)
        self._layout, self._lock, self._report = opened.layout, opened.lock, opened.report
        self._salt = directory_salt = opened.salt
        self.catalog, self._manifest = opened.catalog, opened.manifest
        self._commands: list[bytes] | None = opened.commands
        self._recovered: RecoveredLog | None = opened.recovered
        self._quarantine = self._report.quarantine
        self._segments: dict[int, Segment] = {}
        self._files = SegmentFiles(
            self._layout, directory_salt, settings.segment_bytes, opened.recovered.next_number, self._manifest
        )
        self.journal = Journal(self._segments, settings.segment_bytes, self._wake)
        self._pager = Journal(self._segments, settings.segment_bytes, self._wake, True)
        self._shortages = Shortages()
        self._shortages.on_shortage = lambda what, error: self.on_shortage(what, error)
        self.streams = Streams(self._layout, directory_salt, self.journal, self._manifest, settings.sync)
        self.streams.segment_bytes_min = settings.stream_segment_bytes_min
        self.streams.flush = self.flush
        self._evidence = Evidence(self._manifest, self.journal, self.streams, self._files, self._fail)
        self.paging = Paging(self._pager, self._want)
        self.paging_context = self.paging.paging_context
        self.moments = Moments(self.journal)
        self.entries = EntryStore(self.journal, self._files, self._run)
        # Consensus groups as the start has found them.
        self.groups: dict[int, FoundGroup] = opened.recovered.groups
        try:
            known = self.streams.known_ids()
        except OSError as error:
            self._lock.release()
            raise StartupError(f"cannot read the data directory {root}: {error}") from error
        self.next_queue_id = max([*opened.recovered.books, *known], default=0) + 1
        # Durable queues by id.
        self._queues: dict[int, Any] = {}
        self._committer: Committer | None = None
        self._loader: Loader | None = None
        self._reclaimer: Reclaimer | None = None
        # Once it runs.
        self.backups: Backups | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._spares: Spares | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rewriter: CatalogRewriter | None = None
        self.commands_total = 0
        self.failed: str | None = None
        # Told when a batch is safe, when the store fails, and to send what was put into write buffers.
        self.on_synced: Callable[[int], None] = lambda _batch: None
        self.on_failure: Callable[[str], None] = lambda _reason: None
        # Told what the store has to wait for, each time it is tried in vain; nothing is lost or confirmed meanwhile.
        self.on_shortage: Callable[[str, OSError], None] = lambda _what, _error: None
        self.on_calm: Callable[[], None] = lambda: None
        self.kick: Callable[[], None] = lambda: None
        # Told before something that was read is handed on: what time it is counts then.
        self.tick: Callable[[], None] = lambda: None
        self.snapshot: Callable[[], list[bytes]] = list
        self.collect_unacked: Callable[[int, dict[tuple[int, int], object]], None] = lambda _number, _found: None

    # ---- recovery

    @property
    def damages(self) -> list[Damage]:
        """What recovery could not make good."""
        return self._report.found

    @property
    def catalog_damages(self) -> list[Damage]:
        """Those of them that cost commands of the catalog."""
        place = self._layout.catalog
        return [damage for damage in self._report.found if place in (damage.path, damage.path.parent)]

    def take_commands(self) -> list[bytes]:
        """What the catalog was; to be applied in order before `restore`."""
        commands, self._commands = self._commands, None
        assert commands is not None
        if not commands and not self.catalog.damaged and self.streams.known_ids():
            # Every start writes the catalog before it writes a message; the log was looked at already.
            self.catalog.damaged = True
            self._report.add(self._layout.catalog, 0, 1, "the catalog is lost; its streams are made anew")
        return commands

    def orphans(self, queue_ids: set[int], next_queue_id: int) -> dict[int, QueueBook]:
        """What the log has of queues that the catalog has lost: any that are not there if it was damaged, else those
        that it cannot have deleted, because it never gave their ids: then its end was cut off."""
        assert self._recovered is not None
        books = self._recovered.books
        found = {id: book for id, book in books.items() if id not in queue_ids and book.count}
        if self.catalog.damaged:
            return found
        found = {id: book for id, book in found.items() if id >= next_queue_id}
        if found:
            self.catalog.damaged = True
            self._report.add(self._layout.catalog, 0, 1, "the end of the catalog is lost; its queues are made anew")
        return found

    def stream_orphans(self, queue_ids: set[int], next_queue_id: int) -> list[int]:
        """The same for streams, after `orphans`; the others that the catalog does not know were deleted, or have not
        one record: a crash came before the catalog had them."""
        unknown = [id for id in self.streams.known_ids() if id not in queue_ids]
        lost = [id for id in unknown if self.catalog.damaged or id >= next_queue_id]
        return [id for id in lost if self.streams.has_records(id)]

    def resumed_ms(self, wall_ms: int) -> int:
        """What time it is for messages, if the wall clock says this. After the queues were made, before `restore`."""
        assert self._recovered is not None
        resumed = resumed_ms(self._recovered.moment, wall_ms, self._holds_messages)
        if abs(wall_ms - resumed) > AGREEMENT_MS:
            log.warning(
                "the clock is not where the store's time is; messages expire and become due by the latter",
                ahead_s=(wall_ms - resumed) // 1000,
            )
        return resumed

    def _holds_messages(self) -> bool:
        assert self._recovered is not None
        finish_books(self._recovered, set(self._queues))
        return any(book.count for id, book in self._recovered.books.items() if id in self._queues)

    def restore(self, now_ms: int) -> None:
        """Gives the queues that were made since `take_commands` their messages back, and gets ready to write."""
        recovered, self._recovered = self._recovered, None
        assert recovered is not None
        finish_books(recovered, set(self._queues))
        self._reclaimable = [self._restored(found) for found in recovered.segments.values()]
        self._superseded = recovered.superseded
        self.entries.recovered(self.groups.values())
        # First of all: once the log has gone on, it would seem to have what parts of streams lack there.
        self.streams.recover(self._report, recovered.next_sequence)
        self.journal.sequence = self.journal.batch_sequence = recovered.next_sequence + 1
        self.journal.synced_sequence = recovered.next_sequence
        for paging, journal, first in ((False, self.journal, recovered.next_sequence), (True, self._pager, 0)):
            segment, fd = self._files.create(self._files.next_number(paging), paging, first)
            self._files.opened(segment, fd)
            journal.use_segment(segment)
        self._manifest.started(identity(self.root))
        for queue_id, queue in self._queues.items():
            book = recovered.books.get(queue_id)
            if book is not None:
                queue.restore(book, not recovered.closed)
                if queue.window is not None:
                    for number in queue.window.restore(book.keys, now_ms):
                        self._segments[number].noted_by.add(queue.window)

    def _restored(self, found: FoundSegment) -> Segment:
        segment = Segment(found.number, found.salt, found.path, found.index.end)
        segment.sealed = True
        segment.live = found.live
        segment.placed = len(found.index.notes) // 32
        segment.settles = found.settles
        segment.first_sequence = found.index.first_sequence
        segment.last_sequence = found.index.last_sequence
        # What was given up of it is still there: the file is kept, not deleted.
        segment.damaged = found.damaged or self._quarantine.has(found.path)
        self._segments[segment.id] = segment
        return segment

    # ---- queues

    def queue_log(self, queue_id: int) -> QueueLog:
        return QueueLog(self.journal, queue_id)

    def add_queue(self, queue_id: int, queue: Queue) -> None:
        self._queues[queue_id] = queue

    def remove_queue(self, queue_id: int) -> None:
        self._queues.pop(queue_id, None)

    # ---- running

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._files.start()
        self._committer = Committer(
            loop,
            self.catalog,
            self.journal,
            self._pager,
            self._files,
            self.streams,
            self._shortages,
            self._settings.sync,
            self._written,
            self._synced,
            self._fail,
        )
        self._loader = Loader(
            loop,
            self.journal,
            self._files,
            self._quarantine,
            self._run,
            lambda: self.tick(),
            lambda: self.kick(),
            lambda what, error: self.on_shortage(what, error),
            self._fail,
        )
        self.streams.start(
            loop,
            self._files,
            self._quarantine,
            self._run,
            lambda: self.kick(),
            self._shortages.note,
            self._fail,
        )
        self._reclaimer = Reclaimer(
            self._layout,
            self.journal,
            self._pager,
            self._files,
            self._committer,
            self._queues,
            self.entries,
            lambda number, found: self.collect_unacked(number, found),
            self._shortages,
            self._fail,
        )
        if self._settings.sync:
            self._evidence.start(loop)
        self._pause = CommitPause(self._committer)
        take = partial(take_point, self.catalog, self.journal, self.streams)
        self.backups = Backups(self._layout, self._salt, self._manifest, self._files, self.flush, self._pause, take)
        self._reclaimer.recovered(self._reclaimable, self._superseded)
        self._spares = Spares(loop, self._files, (self.journal, self._pager), self._shortages, self._run, self._fail)
        self._spares.look()
        self._reclaimer.look()
        self._rewriter = CatalogRewriter(
            loop,
            self.catalog,
            self._files,
            self._pause,
            lambda: self.snapshot(),
            self._shortages,
            self._run,
            self._fail,
        )
        self.paging.time = loop.time
        self.moments.start(loop)
        self._committer.wake()

    def limit_descriptors(self, budget: DescriptorBudget) -> None:
        """How many files storage may keep open, from now on."""
        self._files.limit_readers(budget.log_readers)
        # One load has a descriptor for each of its reads, at most.
        self.journal.load_reads = min(LOAD_READS, budget.log_readers)
        self.streams.limit_descriptors(budget)
        if self._committer is not None:
            # Each stream may have a new directory to sync beside its file.
            self._committer.streams_a_job = budget.stream_writers // 2

    def _wake(self, urgent: bool = True) -> None:
        if self._committer is not None:
            self._committer.wake(urgent)

    def read(self, reading: Reading) -> None:
        """Reads the next bodies for somebody who only looks."""
        if self._loader is not None:
            self._loader.want(reading)

    def _want(self, queue: ClassicQueue) -> None:
        if self._loader is not None:
            self._loader.want(queue)

    def _written(self) -> None:
        assert self._reclaimer is not None and self._spares is not None and self._rewriter is not None
        if self._loader is not None:
            self._loader.written()
        self._spares.look()
        self._reclaimer.look()
        self.paging.step()
        if not self.is_congested:
            self.on_calm()
        self.kick()
        self._rewriter.look()

    @property
    def is_congested(self) -> bool:
        """Whether the disk is far behind what it is to write: messages that survive, or pages of those that do not."""
        return bool(self.journal.congested or self._pager.congested)

    def _synced(self, batch: int) -> None:
        self.on_synced(batch)
        if self._waiting:
            for number, future in self._waiting:
                if number <= batch and not future.done():
                    future.set_result(None)
            self._waiting = [(number, future) for number, future in self._waiting if number > batch]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something of the store's own until it is done or the store is closed."""
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- the catalog

    def append_command(self, command: bytes) -> None:
        self.commands_total += 1
        self.catalog.append(command)
        self._wake()

    def rewrite_catalog_now(self) -> None:
        """At the start, if there is no catalog or it was damaged. Blocks."""
        if self.catalog.is_new or self.catalog.damaged or self.catalog.is_overgrown:
            commands, covered = self.snapshot(), self.catalog.pending_count
            self.catalog.rewrite(commands)
            self.catalog.forget_pending(covered)

    def require_sync(self) -> int:
        """Everything done so far is to be safe soon: the number of the batch after which it is."""
        assert self._committer is not None
        return self._committer.require_sync()

    # ---- the end

    def _fail(self, reason: str) -> None:
        """Once and for all: nothing more is written or confirmed."""
        if self.failed is not None:
            return
        self.failed = reason
        if self._committer is not None:
            self._committer.halt()
        if self._spares is not None:
            self._spares.close()
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(OSError(reason))
        self._waiting = []
        self.on_failure(reason)

    async def flush(self) -> None:
        """Returns once everything done so far is safe; raises OSError if it cannot be."""
        if self.failed is not None:
            raise OSError(self.failed)
        if self._loop is None or self._committer is None:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((self.require_sync(), future))
        await future

    # ---- for statistics

    def io_totals(self) -> IoTotals:
        if self._committer is None or self._loader is None:
            return IoTotals()
        return IoTotals(*self._loader.reads, *self._committer.writes, self._committer.sync_times.count)

    def read_totals(self) -> ReadTotals:
        """What readers had to wait for and to give up; queues and streams together."""
        if self._loader is None:
            return ReadTotals(self._quarantine.records_total)
        retries, waiting = self.streams.read_retries
        return ReadTotals(
            self._quarantine.records_total,
            self._loader.retries_total + retries,
            self._loader.waiting_count + waiting,
        )

    @property
    def sync_times(self) -> Histogram | None:
        """Microseconds that syncs took; None before the start."""
        return None if self._committer is None else self._committer.sync_times

    @property
    def shortages_total(self) -> int:
        """How often something had to wait for descriptors, disk space or memory."""
        return self._shortages.total

    async def close(self) -> None:
        """Flushes, and lets the directory go so that another broker may have it at once. Whoever may write has ended
        before: behind the last record nothing is taken any more."""
        if self._committer is not None:
            assert self._reclaimer is not None and self.backups is not None
            await self.backups.close()
            await self._reclaimer.close()
            self.streams.stop_retention()
            self.moments.stop()
            if self.failed is None:
                self.moments.note()
                try:
                    await self._close_in_order()
                except (OSError, TimeoutError) as error:
                    # No index and no last record then: the next start reads what is there.
                    log.error("the store could not be flushed", error=str(error) or "the disk took too long")
        self.abandon()

    async def _close_in_order(self) -> None:
        await asyncio.wait_for(self.flush(), CLOSE_DEADLINE_S)
        if self._loader is not None:
            # What comes in from disk may change its queue.
            self._loader.close()
            self._loader = None
        # The second batch says in the log that the first was synced, and that this is the end.
        self.journal.append_closed()
        await asyncio.wait_for(self.flush(), CLOSE_DEADLINE_S)
        await self._await_tasks()
        self.streams.write_indexes()
        self._manifest.stopped(self._evidence.take())

    async def _await_tasks(self) -> None:
        """What the store does in the background comes to its end: nobody else may write to its files."""
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=REST_DEADLINE_S)
            for task in late:
                task.cancel()
        await asyncio.wait_for(self._files.run(lambda: None), CLOSE_DEADLINE_S)

    def abandon(self) -> None:
        """Lets everything go without a flush, as when the start failed."""
        for task in self._tasks:
            task.cancel()
        if self._spares is not None:
            self._spares.close()
        self._evidence.close()
        self.moments.stop()
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self.streams.close()
        if self._committer is not None:
            self._committer.close()
            self._committer = None
        self._files.close()
        self._manifest.close()
        self.catalog.close()
        self._lock.release()
