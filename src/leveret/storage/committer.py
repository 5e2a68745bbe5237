"""Group commit: whatever gathered while the disk was busy goes out together, then whoever waits for it is told.

There is no delay of its own: an idle disk gets the first record at the end of the loop's turn. The catalog's commands
go first, so that nothing on disk speaks of a queue that is not.

One machine, and one batch at a time:

    IDLE -> PREPARING    the files that the batch needs are made and opened; a shortage is waited for
         -> WRITING      the batch is taken; the disk's thread writes and syncs
         -> IDLE         it is complete, and whoever waited for it is told

A batch for more streams than can be open goes through PREPARING and WRITING several times before it is complete. From
the moment it is taken there are two ends: it is written and synced whole, or the store has FAILED. No later batch can
be taken before, so none can confirm what this one had. An error of the disk, or any other, is the end: nothing more is
written, nothing more confirmed, and no sync is tried twice, because the kernel may have forgotten what it could not
write."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice

from leveret.core.log.batch import Batch
from leveret.core.log.journal import Journal
from leveret.core.observe.histogram import Histogram
from leveret.core.stream.segment import StreamSegment
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.log import get_logger
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.sealer import Sealer
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.shortages import Shortages
from leveret.storage.stream.opener import Opened
from leveret.storage.streams import Piece, Streams

log = get_logger(__name__)

# What nobody waits for (acks, deliveries) is written after the first at the latest, and synced after the second.
NOTES_S = 0.002
LAZY_SYNC_S = 0.2
# Files written since the last sync.
UNSYNCED_MAX = 16
# Segments of streams that are written and synced in one go, unless the store has fewer descriptors: each is a file.
STREAMS_A_JOB = 128
# How soon the files of streams are tried again when something was short.
SHORTAGE_RETRY_S = 0.1
STREAM_FILES = "files of streams"
# When the disk has been idle for this long, the log says in itself how far it was synced.
EVIDENCE_S = 0.01
# Microseconds that a sync takes.
SYNC_BOUNDS = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000)


class State(Enum):
    IDLE = 0
    PREPARING = 1
    WRITING = 2
    FAILED = 3


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
        shortages: Shortages,
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
        self._shortages = shortages
        self._sync = sync
        self._on_written = on_written
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._disk = DiskThread("leveret-disk", Sealer())
        loop.add_reader(self._disk.done_fd, self._done)
        self.state = State.IDLE
        self._scheduled = False
        self._held = False
        # Somebody waits for a sync although no publisher does.
        self._sync_wanted = False
        # Descriptors with something that was written and not synced.
        self._unsynced: set[int] = set()
        self._unsynced_streams: set[int] = set()
        self._lazy: asyncio.TimerHandle | None = None
        self._notes: asyncio.TimerHandle | None = None
        self._evidence: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        # The batches in hand, from the moment they are taken until they are complete, whether they are being synced,
        # and what they have of streams that is not even written yet.
        self._batch: Batch | None = None
        self._pages: Batch | None = None
        self._syncing = False
        self._pieces: list[Piece] = []
        # The catalog's commands are in flight, too, and synced with the job.
        self._catalog_in_job = False
        # What is in flight is only evidence, which need not be synced for its own sake.
        self._quiet = False
        self._idle: asyncio.Future[None] | None = None
        self.streams_a_job = STREAMS_A_JOB
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
        """Starts no further commit until `resume`, and returns once no batch is in hand."""
        self._held = True
        if self.state in (State.PREPARING, State.WRITING):
            self._idle = self._loop.create_future()
            await self._idle

    def resume(self) -> None:
        self._held = False
        self.wake()

    # ---- the files

    def _start(self) -> None:
        self._scheduled = False
        if self.state is State.IDLE and not self._held and (self._has_work or self._pager.commit_wanted):
            self._guard(self._prepare)

    @property
    def _has_work(self) -> bool:
        """Whether there is something for the log; pages go along with that, or alone."""
        return bool(
            self._journal.commit_wanted or self._journal.notes_pending or self._catalog.is_dirty or self._sync_wanted
        )

    def _prepare(self) -> None:
        """Goes on once the files are open that are written to next; those of the log always are."""
        if self._held and self._batch is None:
            self._become_idle()
            return
        self.state = State.PREPARING
        closed = self._streams.closed_of(self._segments_wanted(), self.streams_a_job)
        if closed or self._lacks_files:
            making = self._batch is None
            self._streams.open(closed, making, lambda opened: self._guard(lambda: self._prepared(opened)))
        else:
            self._go_on()

    @property
    def _lacks_files(self) -> bool:
        """Whether a file must be made first. All those of a batch that is taken are there."""
        return self._batch is None and self._streams.lacks_files

    def _segments_wanted(self) -> Iterator[StreamSegment]:
        """Of streams, in the order in which they are written."""
        if self._batch is not None:
            yield from (segment for _, segment, *_ in self._pieces)
        else:
            for stream in self._journal.beside:
                yield from stream.unwritten_segments()

    def _prepared(self, opened: Opened) -> None:
        if self.state is State.FAILED:
            return
        if opened.shortage is not None:
            self._wait_for(opened.shortage)
        elif opened.error is not None:
            raise opened.error
        else:
            self._shortages.over(STREAM_FILES)
            # Once more: another stream may have come meanwhile.
            self._prepare()

    def _wait_for(self, shortage: OSError) -> None:
        """Something is short. First it does with less: what is not needed now is closed, and what could be opened is
        written to; else it waits."""
        self._shortages.note(STREAM_FILES, shortage)
        # A file is made whatever is open; once all are made, what is written to next stays open.
        needed = set() if self._lacks_files else set(islice(self._segments_wanted(), self.streams_a_job))
        if self._streams.close_idle(needed, self._unsynced_streams):
            self._prepare()
        elif not self._lacks_files and not self._streams.closed_of(self._segments_wanted(), 1):
            self._go_on()
        else:
            self._retry = self._loop.call_later(SHORTAGE_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self.state is State.PREPARING:
            self._guard(self._prepare)

    # ---- one commit

    def _go_on(self) -> None:
        self.state = State.WRITING
        if self._batch is not None:
            self._add_step(self._batch)
        else:
            self._take()
        self._disk.submit()

    def _take(self) -> None:
        """From here on the batch is completed, or the store has failed."""
        self._cancel_evidence()
        self._quiet = False
        self.commits_total += 1
        if self._has_work:
            self._add_catalog()
            self._add_pages()
            self._add_batch()
        else:
            self._add_pages()

    def _add_catalog(self) -> None:
        if self._catalog.is_dirty:
            data, offset = self._catalog.take()
            self._disk.write(self._catalog.fd, data, 0, len(data), offset)
            self._catalog_in_job = True
            if self._sync:
                self._disk.sync(self._catalog.fd)

    def _add_pages(self) -> None:
        if self._pager.commit_wanted:
            self._pages = self._pager.take_batch()
            self._add_parts(self._pages)

    def _add_batch(self) -> None:
        self._batch = batch = self._journal.take_batch()
        self._pieces = [(part, *piece) for part in batch.beside for piece in part.pieces]
        # What streams have is seen only once it is safe, so somebody always waits for it.
        urgent = self._sync_wanted or any(part.count for part in batch.beside)
        many = len(self._unsynced | self._unsynced_streams) + len(self._pieces) > UNSYNCED_MAX
        self._syncing = bool(batch.waiters) or urgent or many
        self._sync_wanted = False
        self._add_step(batch)

    def _add_step(self, batch: Batch) -> None:
        """Adds as much of streams as can be open at a time, and behind the last of it the log: a message that goes from
        a queue to a stream must not be lost in between."""
        step = self._streams.open_pieces(self._pieces, self.streams_a_job)
        assert step or not self._pieces, "a batch was taken before its files were open"
        del self._pieces[: len(step)]
        self._unsynced_streams |= self._streams.add_pieces(self._disk, step)
        # Descriptors are closed between two steps, so nothing may be left to be synced.
        self._add_syncs(self._unsynced_streams, self._syncing or bool(self._pieces))
        if not self._pieces:
            self._unsynced |= self._add_parts(batch)
            self._add_syncs(self._unsynced, self._syncing)

    def _add_syncs(self, fds: set[int], syncing: bool) -> None:
        if syncing and self._sync:
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

    # ---- its end

    def _done(self) -> None:
        error = self._disk.finish()
        if self.state is State.FAILED:
            # Whoever waits is told that; what is on disk is found by the next start.
            return
        if error:
            self._fail(f"the disk failed: {os.strerror(error)}")
            return
        if self._disk.sync_count:
            self.sync_times.note(self._disk.sync_us)
        if self._pieces:
            # The batch is not whole yet: nobody is told of anything.
            self._guard(self._next_step)
        else:
            synced = self._syncing and self._batch is not None
            self._guard(self._complete)
            if self.state is State.IDLE:
                try:
                    self._on_written()
                finally:
                    # Whatever went wrong with somebody who is told, the next batch is not held up.
                    self._look_for_more(synced)

    def _next_step(self) -> None:
        self._unsynced_streams.clear()
        self._streams.all_synced()
        self._prepare()

    def _complete(self) -> None:
        if self._pages is not None:
            self._pager.batch_written(self._pages)
        batch = self._batch
        if batch is not None:
            self._journal.batch_written(batch)
            if self._catalog_in_job:
                self._catalog_in_job = False
                self._catalog.synced()
            if self._syncing:
                self._synced(batch)
            elif self._lazy is None and not self._quiet:
                self._lazy = self._loop.call_later(LAZY_SYNC_S, self._sync_lazily)
        self._pages = self._batch = None
        self._become_idle()

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

    def _become_idle(self) -> None:
        assert self._batch is None and self._pages is None, "a batch is in hand"
        self.state = State.IDLE
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _look_for_more(self, synced: bool) -> None:
        if self._journal.commit_wanted or self._pager.commit_wanted or self._catalog.is_dirty or self._sync_wanted:
            self._start()
        elif self._journal.notes_pending:
            self.wake(False)
        elif synced and self.state is State.IDLE:
            self._cancel_evidence()
            self._evidence = self._loop.call_later(EVIDENCE_S, self._write_evidence)

    # ---- later

    def _sync_lazily(self) -> None:
        self._lazy = None
        self.require_sync()

    def _write_evidence(self) -> None:
        """A record without content that says how far all is synced: later damage is not taken for a torn end then."""
        self._evidence = None
        if self.state is not State.IDLE or self._held or self._scheduled:
            return
        # Notes that are waiting go along, and are synced in their time.
        quiet = not self._journal.notes_pending
        self._journal.want_evidence()
        if self._streams.lacks_files or self._streams.closed_of(self._segments_wanted(), self.streams_a_job):
            self._start()
        else:
            self._guard(lambda: self._take_evidence(quiet))

    def _take_evidence(self, quiet: bool) -> None:
        self.state = State.WRITING
        self._quiet = quiet
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

    def _guard(self, step: Callable[[], None]) -> None:
        """Runs a step of the machine. Whatever goes wrong in it is the end of the store: a batch that was taken must
        never be forgotten."""
        try:
            step()
        except BaseException as error:
            log.exception("a commit failed")
            self._fail(f"the disk failed: {error.strerror}" if isinstance(error, OSError) else "a commit failed")
            if not isinstance(error, Exception):
                raise

    def _fail(self, reason: str) -> None:
        log.critical("the store stops: what was not confirmed may be lost, what was is safe", error=reason)
        self.halt()
        self._on_failure(reason)

    def halt(self) -> None:
        """Nothing more is written or confirmed."""
        self.state = State.FAILED
        self._cancel_evidence()
        for timer in (self._lazy, self._notes, self._retry):
            if timer is not None:
                timer.cancel()
        self._lazy = self._notes = self._retry = None
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def close(self) -> None:
        self.halt()
        self._loop.remove_reader(self._disk.done_fd)
        self._disk.stop()
