"""The streams of a store: their logs, files, readers and retention, as one thing with a small face.

Logs (core.stream.log) call it their keeper. What blocks runs in the files' thread, the loader's or the opener's; the
loop only plans."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from leveret.core.log.journal import Journal
from leveret.core.stream.cursor import Cursor
from leveret.core.stream.log import Part, Snapshot, StreamLog
from leveret.core.stream.scan import StreamScan, first_since
from leveret.core.stream.segment import StreamSegment, find_stamp, place_of
from leveret.core.stream.tracking import Tracking
from leveret.runtime.descriptors import DescriptorBudget
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.files import SHORTAGES
from leveret.runtime.log import get_logger
from leveret.runtime.read_errors import read_around
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.holdings import THE_LOG
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest
from leveret.storage.quarantine import Quarantine
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.index import index_of, index_of_sealed, read_stream_index
from leveret.storage.stream.loader import READS_A_JOB, StreamLoader
from leveret.storage.stream.opener import Opened, Opener
from leveret.storage.stream.recovery import StreamRecovery
from leveret.storage.stream.search import claimed_length, find_next_record
from leveret.storage.stream.survey import StreamSurvey

log = get_logger(__name__)

# How often old segments are looked for that nobody writes behind.
RETENTION_S = 5.0
# How often a deletion is tried again for which something was short.
RETRY_S = 0.5
# How much room a file gets ahead of what is written.
RESERVED_BYTES_MIN = 64 * 1024
RESERVED_BYTES_MAX = 16 * 1024 * 1024
STAMP_WINDOW_BYTES = 96 * 1024
# Indexes of sealed segments kept in memory: some 300 KiB each, at a segment's usual length.
INDEXES_KEPT = 16
SEARCH_RETRY_S = 0.5
PROBED_MAX = 16

# What a batch has for one segment: the part it belongs to, the segment, start and end in the part's data, the place.
Piece = tuple[Part, StreamSegment, int, int, int]


class Streams:
    # Where a segment's first record is.
    first_place = HEAD_BYTES

    def __init__(
        self, layout: Layout, directory_salt: int, journal: Journal, manifest: Manifest, sync: bool = True
    ) -> None:
        self._manifest = manifest
        self._files = StreamFiles(layout, directory_salt, manifest)
        self._opener = Opener(self._files, sync)
        self._journal = journal
        self.logs: dict[int, StreamLog] = {}
        self._loader: StreamLoader | None = None
        self._slow: SegmentFiles | None = None
        self._run: Callable[[Coroutine[Any, Any, None]], None] | None = None
        self._fail: Callable[[str], None] = lambda _reason: None
        self._retention: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Returns once everything done so far is on disk; raises OSError if it cannot be.
        self.flush: Callable[[], Coroutine[Any, Any, None]] = _nothing_to_flush
        # What time it is, in milliseconds of the wall clock.
        self.now_ms: Callable[[], int] = lambda: 0
        # The indexes of sealed segments that were looked into last.
        self._blocks: OrderedDict[StreamSegment, bytes] = OrderedDict()
        self.segments_deleted_total = 0
        # No segment is shorter, whatever a stream asks for: each is a file, and takes a descriptor while it is used.
        self.segment_bytes_min = 0
        # Told what could not be done for lack of something, and is done later.
        self._on_shortage: Callable[[str, OSError], None] = lambda _what, _error: None
        # Those that were written to since the manifest heard how far they are synced.
        self.written: dict[StreamLog, None] = {}
        self._recording = False

    # ---- before it runs

    def create(self, stream_id: int) -> StreamLog:
        """The log of a stream that the catalog has; what it holds comes with `recover`."""
        made = self.logs[stream_id] = StreamLog(stream_id, self._journal, self)
        return made

    def known_ids(self) -> list[int]:
        """Those that have a directory, whether the catalog knows them or not."""
        return self._files.stream_ids()

    def has_records(self, stream_id: int) -> bool:
        """Blocks."""
        survey = StreamSurvey(self._files, stream_id, 0, self._manifest.holdings)
        survey.run()
        return bool(survey.found)

    def recover(self, report: DamageReport, log_next: int = 0) -> None:
        """Before the log goes on, which it does with this sequence. Blocks."""
        # Those too whose whole directory is missing.
        recorded = {id for id in self._manifest.holdings.segments if id != THE_LOG}
        for stream_id in sorted({*self._files.stream_ids(), *recorded}):
            found = self.logs.get(stream_id)
            if found is None:
                self._remove_unknown(stream_id)
                continue
            recovered = StreamRecovery(self._files, report, stream_id, log_next).run()
            tracked = recovered.tracking.encode()
            found.tracking.read(tracked, 0, len(tracked), True)
            found.resume(
                recovered.segments,
                recovered.next_offset,
                recovered.last_stamp,
                recovered.checkpoint,
                recovered.fresh,
            )
            if recovered.owes:
                found.owe()

    def _remove_unknown(self, stream_id: int) -> None:
        try:
            self._files.remove_stream(stream_id)
        except OSError as error:
            # The next start tries again: nobody misses anything.
            log.warning("the directory of a deleted stream cannot be removed", stream=stream_id, error=str(error))

    # ---- running

    def limit_descriptors(self, budget: DescriptorBudget) -> None:
        self._files.limit(budget.stream_writers, budget.stream_readers)
        if self._loader is not None:
            self._loader.reads_a_job = min(READS_A_JOB, budget.stream_readers)

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        slow: SegmentFiles,
        quarantine: Quarantine,
        run: Callable[[Coroutine[Any, Any, None]], None],
        kick: Callable[[], None],
        on_shortage: Callable[[str, OSError], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`slow` runs what blocks in its thread, `run` takes care of a task until the store closes."""
        self._loop = loop
        self._slow = slow
        self._run = run
        self._fail = on_failure
        self._on_shortage = on_shortage
        self._loader = StreamLoader(
            loop,
            self._files,
            slow,
            quarantine,
            self._blocks_of,
            self._some_files,
            run,
            kick,
            on_shortage,
            on_failure,
        )
        self._opener.begin()
        self._retention = loop.call_later(RETENTION_S, self._retain_all)

    # ---- for the committer

    @property
    def lacks_files(self) -> bool:
        """Whether the file of some segment is still to be made, or a name to be synced."""
        return self._opener.is_behind

    def closed_of(self, segments: Iterable[StreamSegment], limit: int) -> list[StreamSegment]:
        """Those among the first so many that are not open for writing; what was deleted is not missed."""
        needed = islice((segment for segment in segments if not segment.gone), limit)
        return [segment for segment in dict.fromkeys(needed) if not self._files.has_writer(segment)]

    def open(self, segments: list[StreamSegment], making: bool, done: Callable[[Opened], None]) -> None:
        """Opens these off the loop, after making the files that are still to be made."""
        assert self._loop is not None
        self._opener.open(self._loop, segments, making, done)

    def close_idle(self, needed: Collection[StreamSegment], unsynced: Collection[int]) -> int:
        """Descriptors are short: closes what can be opened again, see `StreamFiles.close_idle`."""
        return self._files.close_idle(needed, unsynced)

    def open_pieces(self, pieces: list[Piece], limit: int) -> list[Piece]:
        """How many of these, from the first on, can be written now."""
        found = takewhile(lambda piece: piece[1].gone or self._files.has_writer(piece[1]), islice(pieces, limit))
        return list(found)

    def add_pieces(self, disk: DiskThread, pieces: list[Piece]) -> set[int]:
        """Adds what a batch has of streams to a job of the disk: the descriptors to be synced."""
        fds: set[int] = set()
        for part, segment, start, end, place in pieces:
            if segment.gone:
                # Deleted since the batch was taken.
                continue
            self.written[part.log] = None
            fd = self._files.writer(segment)
            fds.add(fd)
            end_place = place + end - start
            if end_place > segment.allocated:
                # As much again as there is, so that a small stream stays small.
                room = end_place + min(max(end_place, RESERVED_BYTES_MIN), RESERVED_BYTES_MAX)
                disk.reserve(fd, room - segment.allocated, segment.allocated)
                segment.allocated = room
            disk.prepare(part.data, start, end - start, segment.salt)
            disk.write(fd, part.data, start, end - start, place)
        return fds

    def all_synced(self) -> None:
        self._files.all_synced()
        if self._manifest.has_notes and not self._recording and self._slow is not None:
            self._recording = True
            self._in_background(self._record())

    async def _record(self) -> None:
        """Whatever was noted meanwhile goes along."""
        assert self._slow is not None
        try:
            await self._slow.run(self._manifest.record)
        finally:
            self._recording = False

    # ---- for logs: the keeper

    def new_segment(self, stream: StreamLog) -> StreamSegment:
        """Its file is made before the batch is taken that has something for it."""
        segment = self._files.plan(stream)
        self._opener.plan(stream.id, segment)
        if stream.segment is not None:
            assert self._loop is not None
            self._loop.call_soon(self.retain, stream)
        return segment

    def seal(self, stream: StreamLog, segment: StreamSegment) -> None:
        """The segment is full and safe: its index goes into a file."""
        # Only now: it may have been full before all of it was written.
        self._files.close_writer(segment)
        self._in_background(self._seal(segment))

    async def _seal(self, segment: StreamSegment) -> None:
        assert self._slow is not None
        if not segment.gone:
            await self._slow.run(self._files.write_index, segment, index_of_sealed(segment))
            await self._slow.run(self._files.give_room_back, segment)
            segment.drop_index()

    def write_checkpoint(self, stream: StreamLog, snapshot: Snapshot) -> None:
        self._in_background(self._write_checkpoint(snapshot))

    async def _write_checkpoint(self, snapshot: Snapshot) -> None:
        assert self._slow is not None
        if not snapshot.segment.gone and snapshot.segment.index is not None:
            await self._slow.run(self._files.write_index, snapshot.segment, index_of(snapshot))

    def want_read(self, cursor: Cursor) -> None:
        if self._loader is not None:
            self._loader.want(cursor)

    def remove(self, stream: StreamLog) -> None:
        """The stream is deleted, and all it has."""
        self.logs.pop(stream.id, None)
        self.written.pop(stream, None)
        for segment in stream.segments:
            segment.gone = True
            self._opener.forget(segment)
            self._blocks.pop(segment, None)
            self._files.retire(segment)
        if self._loop is not None and stream.segments:
            self._in_background(self._remove(stream))
            self._let_go()

    async def _remove(self, stream: StreamLog) -> None:
        # The catalog says first that it is gone: a stream that the next start still finds there has its messages.
        await self.flush()
        # Whoever makes a file of the stream just now is done first, and makes none afterwards.
        await self._opener.barrier()
        await self._until_done(self._files.remove, [segment for segment in stream.segments if segment.damaged])
        await self._until_done(self._files.remove_stream, stream.id)

    async def _until_done(self, work: Callable[..., None], *arguments: object) -> None:
        """Runs something that may be repeated in the files' thread, and again after a shortage."""
        assert self._slow is not None
        while True:
            try:
                await self._slow.run(work, *arguments)
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
                self._on_shortage("deleting files of a stream", error)
                await asyncio.sleep(RETRY_S)
            else:
                return

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._run is not None
        self._run(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError as error:
            if error.errno in SHORTAGES:
                # It stays in memory, and a restart reads more.
                self._on_shortage("an index of a stream", error)
                return
            self._fail(f"the disk failed: {error.strerror} (files of a stream)")

    # ---- retention

    def limits_changed(self, stream: StreamLog) -> None:
        if self._loop is not None:
            self.retain(stream)

    def retain(self, stream: StreamLog) -> None:
        """Deletes the oldest segments beyond what the stream is to keep; never the one that grows."""
        oldest = self.now_ms() - stream.max_age_ms if stream.max_age_ms else 0
        size = stream.size_bytes()
        dropped = []
        while len(stream.segments) > 1:
            segment = stream.segments[0]
            if segment.synced < segment.end or not (0 <= stream.max_bytes < size or segment.last_stamp < oldest):
                break
            size -= segment.end
            segment.gone = True
            self._blocks.pop(segment, None)
            dropped.append(stream.segments.pop(0))
        if dropped:
            self.segments_deleted_total += len(dropped)
            self._in_background(self._drop(dropped))
            self._let_go()

    async def _drop(self, segments: list[StreamSegment]) -> None:
        await self._until_done(self._files.remove, segments)

    def _let_go(self) -> None:
        """Whoever read what is deleted does so no longer: an open descriptor would keep it on the disk."""
        if self._loader is not None:
            self._loader.trim()

    def _retain_all(self) -> None:
        assert self._loop is not None
        for stream in self.logs.values():
            if stream.max_age_ms and len(stream.segments) > 1:
                self.retain(stream)
        self._retention = self._loop.call_later(RETENTION_S, self._retain_all)

    # ---- looking up

    async def _blocks_of(self, segment: StreamSegment) -> bytes:
        assert self._slow is not None
        if segment.index is not None:
            return bytes(segment.copy_index())
        if segment in self._blocks:
            self._blocks.move_to_end(segment)
            return self._blocks[segment]
        index = await self._slow.run(read_stream_index, self._files.index_path(segment.path), segment.number)
        if index is None:
            if segment.gone:
                raise FileNotFoundError(segment.path)
            # Lost or damaged, which says nothing about the segment: everything is read from the start of it on.
            log.error("the index of a stream's segment is missing or damaged", file=str(segment.path))
            return b""
        self._blocks[segment] = index.blocks
        if len(self._blocks) > INDEXES_KEPT:
            self._blocks.popitem(last=False)
        return index.blocks

    async def offset_since(self, stream: StreamLog, stamp: int) -> int:
        """The offset of the first message that arrived at this moment or later; the next one if there is none."""
        while True:
            segment = next((found for found in stream.segments if found.last_stamp >= stamp), None)
            if segment is None:
                return int(stream.next_offset)
            if segment.first_stamp >= stamp:
                return int(segment.first_offset)
            try:
                blocks = await self._blocks_of(segment)
                place = place_of(blocks, find_stamp(blocks, len(blocks), stamp)) if blocks else HEAD_BYTES
                assert self._slow is not None
                offset = await self._slow.run(_first_since, segment, place, stamp)
            except OSError as error:
                if not segment.gone:
                    # Not a word about what is there: tried again for as long as somebody wants to know.
                    log.warning("a stream cannot be searched now; it is tried again", error=str(error))
                    self._on_shortage("searching streams", error)
                    await asyncio.sleep(SEARCH_RETRY_S)
                # Else retention was quicker.
                continue
            return int(stream.committed_offset) if offset is None else offset

    @property
    def read_retries(self) -> tuple[int, int]:
        """How often a reader's read was tried again, and how many wait for that."""
        return (0, 0) if self._loader is None else (self._loader.retries_total, self._loader.waiting_count)

    def _some_files(self) -> list[Path]:
        """Those that are tried before the whole disk counts as unreadable."""
        last = [stream.segments[-1].path for stream in self.logs.values() if stream.segments]
        return last[-PROBED_MAX:]

    # ---- the end

    def stop_retention(self) -> None:
        if self._retention is not None:
            self._retention.cancel()
            self._retention = None

    def write_indexes(self) -> None:
        """In good order: a restart need not read what these say. Written only of what is synced. Blocks."""
        for stream in self.logs.values():
            if not stream.is_settled():
                log.error("a stream has something that is not on disk; its index is not written", stream=stream.id)
            elif stream.segment is not None and stream.checkpoint < stream.segment.end:
                try:
                    self._files.give_room_back(stream.segment)
                    self._files.write_last_index(stream.segment, index_of(Snapshot(stream)))
                except OSError as error:
                    log.warning("a stream's index cannot be written; the next start reads more", error=str(error))
                    return

    def close(self) -> None:
        self.stop_retention()
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._opener.close()
        self._files.close()


async def _nothing_to_flush() -> None:
    """For streams without a store."""


def _first_since(segment: StreamSegment, place: int, stamp: int) -> int | None:
    """Blocks."""
    synced = segment.synced
    if place >= synced:
        # Nothing of it is safe; perhaps there is no file yet.
        return None
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        window = STAMP_WINDOW_BYTES
        while place < synced:
            # Sectors that cannot be read are zeros, which are no record.
            data = bytes(read_around(fd, min(window, synced - place), place)[0])
            good = StreamScan(StreamSegment(0, segment.salt, None, 0, 0), Tracking(), None).run(data)
            offset, used = first_since(data[:good], stamp)
            if offset >= 0:
                return int(offset)
            if used > 0:
                place += used
                window = STAMP_WINDOW_BYTES
            elif window <= len(data) < claimed_length(data, 0) <= synced - place:
                window = claimed_length(data, 0) + 8
            else:
                # Damage, which whoever reads there reports.
                found = find_next_record(fd, place + 8, synced, segment.salt, 0)
                if found is None:
                    return None
                place = found
        return None
    finally:
        os.close(fd)
