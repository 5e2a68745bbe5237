"""Group commit: whatever gathered while the disk was busy goes out together, then whoever waits for it is told.

There is no delay of its own: an idle disk gets the first record at the end of the loop's turn. The catalog's commands
go first, so that nothing on disk speaks of a queue that is not. An error of the disk is the end: nothing more is
written, nothing more confirmed, and no sync is tried twice, because the kernel may have forgotten what it could not
write."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from leveret.core.batch import Batch
from leveret.core.histogram import Histogram
from leveret.core.journal import Journal
from leveret.core.stream.log import Part
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.log import get_logger
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.sealer import Sealer
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.streams import Streams

log = get_logger(__name__)

# What nobody waits for (acks, deliveries) is written after the first at the latest, and synced after the second.
NOTES_S = 0.002
LAZY_SYNC_S = 0.2
# Files written since the last sync.
UNSYNCED_MAX = 16
# Streams that are written and synced in one go: each is an open file.
STREAMS_A_JOB = 128
# When the disk has been idle for this long, the log says in itself how far it was synced.
EVIDENCE_S = 0.01
# Microseconds that a sync takes.
SYNC_BOUNDS = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000)


class Committer:
    """`on_written` is called when what was written can be read, `on_synced` when it is safe, `on_failure` once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        catalog: CatalogLog,
        journal: Journal,
        pager: Journal,
        files: SegmentFiles,
        streams: Streams,
        sync: bool,
        on_written: Callable[[], None],
        on_synced: Callable[[int], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._catalog = catalog
        self._journal = journal
        self._pager = pager
        self._files = files
        self._streams = streams
        self._sync = sync
        self._on_written = on_written
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._disk = DiskThread("leveret-disk", Sealer())
        loop.add_reader(self._disk.done_fd, self._done)
        self._scheduled = False
        self._held = False
        # Somebody waits for a sync although no publisher does.
        self._sync_wanted = False
        # Descriptors with something that was written and not synced, and what it is for messages of errors.
        self._unsynced: set[int] = set()
        self._unsynced_streams: set[int] = set()
        # What the batch in flight has of streams that is not even written yet.
        self._stream_parts: list[Part] = []
        self._lazy: asyncio.TimerHandle | None = None
        self._notes: asyncio.TimerHandle | None = None
        self._evidence: asyncio.TimerHandle | None = None
        # The batches in flight, and whether they are being synced.
        self._batch: Batch | None = None
        self._pages: Batch | None = None
        self._syncing = False
        # The catalog's commands are in flight, too, and synced with the job.
        self._catalog_in_job = False
        # What is in flight is only evidence, which need not be synced for its own sake.
        self._quiet = False
        self._idle: asyncio.Future[None] | None = None
        self.failed = False
        self.commits_total = 0
        self.syncs_total = 0
        # How long the disk took each time, however many files were synced together.
        self.sync_times = Histogram(SYNC_BOUNDS)

    @property
    def writes(self) -> tuple[int, int]:
        """How often it has written, and how many octets."""
        return self._disk.writes_total, self._disk.written_bytes_total

    # ---- asking for it

    def wake(self, urgent: bool = True) -> None:
        """There is something to write: when the loop's turn ends, or soon if nobody waits for it."""
        if not urgent:
            if self._notes is None:
                self._notes = self._loop.call_later(NOTES_S, self._write_notes)
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start)

    def _write_notes(self) -> None:
        self._notes = None
        self._start()

    def require_sync(self) -> int:
        """Has everything up to now synced soon: the number of the batch after which it is."""
        self._sync_wanted = True
        self.wake()
        batch: int = self._journal.batch
        return batch

    async def hold(self) -> None:
        """Starts no further commit until `resume`, and returns once the disk is idle."""
        self._held = True
        if self._disk.busy:
            self._idle = self._loop.create_future()
            await self._idle

    def resume(self) -> None:
        self._held = False
        self.wake()

    # ---- one commit

    def _start(self) -> None:
        self._scheduled = False
        if self._disk.busy or self.failed or self._held:
            return
        if self._journal.awake or self._journal.drowsy or self._catalog.is_dirty or self._sync_wanted:
            self._add_catalog()
            self._add_pages()
            self._add_batch()
        elif self._pager.awake:
            self._add_pages()
        else:
            return
        self._cancel_evidence()
        self._quiet = False
        self.commits_total += 1
        self._disk.submit()

    def _add_catalog(self) -> None:
        if self._catalog.is_dirty:
            data, offset = self._catalog.take()
            self._disk.write(self._catalog.fd, data, 0, len(data), offset)
            self._catalog_in_job = True
            if self._sync:
                self._disk.sync(self._catalog.fd)

    def _add_pages(self) -> None:
        if self._pager.awake:
            self._pages = self._pager.take_batch()
            self._add_parts(self._pages)

    def _add_batch(self) -> None:
        self._batch = batch = self._journal.take_batch()
        # What streams have is seen only once it is safe, so somebody always waits for it.
        urgent = self._sync_wanted or any(part.count for part in batch.beside)
        many = len(self._unsynced | self._unsynced_streams) + len(batch.beside) > UNSYNCED_MAX
        self._syncing = bool(batch.waiters) or urgent or many
        self._sync_wanted = False
        self._stream_parts = list(batch.beside)
        self._add_step(batch)

    def _add_step(self, batch: Batch) -> None:
        """Adds as many streams as may be open at a time, and behind the last of them the log: a message that goes from
        a queue to a stream must not be lost in between."""
        parts = self._stream_parts[:STREAMS_A_JOB]
        del self._stream_parts[:STREAMS_A_JOB]
        self._unsynced_streams |= self._streams.add_parts(self._disk, parts)
        self._sync_all(self._unsynced_streams)
        if not self._stream_parts:
            self._unsynced |= self._add_parts(batch)
            self._sync_all(self._unsynced)

    def _sync_all(self, fds: set[int]) -> None:
        if self._syncing and self._sync:
            for fd in fds:
                self._disk.sync(fd)

    def _add_parts(self, batch: Batch) -> set[int]:
        fds = set()
        for segment, start, end, offset in batch.parts:
            fd = self._files.writer(segment)
            fds.add(fd)
            self._disk.prepare(batch.data, start, end - start, segment.salt)
            self._disk.write(fd, batch.data, start, end - start, offset)
        return fds

    def _done(self) -> None:
        error = self._disk.finish()
        if error:
            self._fail(error)
            return
        if self._disk.sync_count:
            self.sync_times.note(self._disk.sync_us)
        if self._stream_parts:
            # The batch is not whole yet: nobody is told of anything.
            self._unsynced_streams.clear()
            self._streams.all_synced()
            assert self._batch is not None
            self._add_step(self._batch)
            self._disk.submit()
            return
        if self._pages is not None:
            self._pager.batch_written(self._pages)
            self._pages = None
        batch, self._batch = self._batch, None
        if batch is not None:
            self._journal.batch_written(batch)
            if self._catalog_in_job:
                self._catalog_in_job = False
                self._catalog.synced()
            if self._syncing:
                self._synced(batch)
            elif self._lazy is None and not self._quiet:
                self._lazy = self._loop.call_later(LAZY_SYNC_S, self._sync_lazily)
        self._on_written()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        if self._journal.awake or self._pager.awake or self._catalog.is_dirty or self._sync_wanted:
            self._start()
        elif self._journal.drowsy:
            self.wake(False)
        elif self._syncing and batch is not None:
            self._evidence = self._loop.call_later(EVIDENCE_S, self._write_evidence)

    def _synced(self, batch: Batch) -> None:
        self.syncs_total += 1
        self._unsynced.clear()
        self._unsynced_streams.clear()
        self._streams.all_synced()
        if self._lazy is not None:
            self._lazy.cancel()
            self._lazy = None
        self._journal.batch_synced(batch)
        self._on_synced(batch.number)

    # ---- later

    def _sync_lazily(self) -> None:
        self._lazy = None
        self.require_sync()

    def _write_evidence(self) -> None:
        """A record without content that says how far all is synced: later damage is not taken for a torn end then."""
        self._evidence = None
        if self._disk.busy or self.failed or self._held or self._scheduled:
            return
        drowsy = self._journal.drowsy
        self._journal.want_evidence()
        # Notes that are waiting go along, and are synced in their time.
        self._quiet = not drowsy
        if self._catalog.owes_evidence:
            self._catalog.add_evidence()
            data, offset = self._catalog.take()
            self._disk.write(self._catalog.fd, data, 0, len(data), offset)
        self._add_batch()
        self._disk.submit()

    def _cancel_evidence(self) -> None:
        if self._evidence is not None:
            self._evidence.cancel()
            self._evidence = None

    # ---- the end

    def _fail(self, error: int) -> None:
        self.failed = True
        reason = f"the disk failed: {os.strerror(error)}"
        log.critical("the store stops: what was not confirmed may be lost, what was is safe", error=os.strerror(error))
        self._cancel_evidence()
        if self._lazy is not None:
            self._lazy.cancel()
            self._lazy = None
        self._on_failure(reason)

    def close(self) -> None:
        self._cancel_evidence()
        for timer in (self._lazy, self._notes):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._disk.done_fd)
        self.failed = True
        self._disk.stop()
