"""The streams of a store: their logs, files, readers and retention, as one thing with a small face.

Logs (core.stream.log) call it their keeper. What blocks runs in the files' thread or the loader's; the loop only makes
files and plans."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from leveret.core.journal import Journal
from leveret.core.stream.cursor import Cursor
from leveret.core.stream.log import Part, Snapshot, StreamLog
from leveret.core.stream.scan import StreamScan, first_since
from leveret.core.stream.segment import StreamSegment, find_stamp, place_of
from leveret.core.stream.tracking import Tracking
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.files import SHORTAGES
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.layout import Layout
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.index import index_of, index_of_sealed, read_stream_index
from leveret.storage.stream.loader import StreamLoader
from leveret.storage.stream.recovery import StreamRecovery
from leveret.storage.stream.search import claimed_length, find_next_record
from leveret.storage.stream.survey import StreamSurvey

log = get_logger(__name__)

# How often old segments are looked for that nobody writes behind.
RETENTION_S = 5.0
# How much room a file gets ahead of what is written.
RESERVED_BYTES_MIN = 64 * 1024
RESERVED_BYTES_MAX = 16 * 1024 * 1024
STAMP_WINDOW_BYTES = 96 * 1024
# Indexes of sealed segments kept in memory: some 300 KiB each, at a segment's usual length.
INDEXES_KEPT = 16


class Streams:
    # Where a segment's first record is.
    first_place = HEAD_BYTES

    def __init__(self, layout: Layout, directory_salt: int, journal: Journal) -> None:
        self._files = StreamFiles(layout, directory_salt)
        self._journal = journal
        self.logs: dict[int, StreamLog] = {}
        self._loader: StreamLoader | None = None
        self._slow: SegmentFiles | None = None
        self._run: Callable[[Coroutine[Any, Any, None]], None] | None = None
        self._fail: Callable[[str], None] = lambda _reason: None
        self._retention: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # What time it is, in milliseconds of the wall clock.
        self.now_ms: Callable[[], int] = lambda: 0
        # The indexes of sealed segments that were looked into last.
        self._blocks: OrderedDict[StreamSegment, bytes] = OrderedDict()
        self.segments_deleted_total = 0

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
        survey = StreamSurvey(self._files, stream_id)
        survey.run()
        return bool(survey.found)

    def recover(self, report: DamageReport) -> None:
        """Blocks."""
        for stream_id in self._files.stream_ids():
            found = self.logs.get(stream_id)
            if found is None:
                self._files.remove_stream(stream_id)
                continue
            recovered = StreamRecovery(self._files, report, stream_id).run()
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

    # ---- running

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        slow: SegmentFiles,
        run: Callable[[Coroutine[Any, Any, None]], None],
        kick: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`slow` runs what blocks in its thread, `run` takes care of a task until the store closes."""
        self._loop = loop
        self._slow = slow
        self._run = run
        self._fail = on_failure
        self._loader = StreamLoader(loop, self._files, self._blocks_of, run, kick, on_failure)
        self._retention = loop.call_later(RETENTION_S, self._retain_all)

    # ---- for the committer

    def add_parts(self, disk: DiskThread, parts: list[Part]) -> set[int]:
        """Adds what a batch has of these streams to a job of the disk: the descriptors to be synced."""
        fds: set[int] = set()
        for part in parts:
            for segment, start, end, place in part.pieces:
                fd = self._files.writer(segment)
                fds.add(fd)
                fds.update(self._files.take_new_names(segment))
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

    # ---- for logs: the keeper

    def new_segment(self, stream: StreamLog) -> StreamSegment | None:
        try:
            segment = self._files.create(stream)
        except OSError as error:
            if stream.segment is not None:
                # The old one grows on meanwhile, within what the disk has.
                log.warning("a stream's next segment cannot be made", error=error.strerror)
                return None
            self._fail(f"a stream's file cannot be made: {error.strerror}")
            raise
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
        self._files.forget_names(stream.id)
        for segment in stream.segments:
            segment.gone = True
            self._blocks.pop(segment, None)
            self._files.retire(segment)
        if self._loop is not None and stream.segments:
            self._in_background(self._remove(stream))
            self._let_go()

    async def _remove(self, stream: StreamLog) -> None:
        assert self._slow is not None
        await self._slow.run(self._files.remove, [segment for segment in stream.segments if segment.damaged])
        await self._slow.run(self._files.remove_stream, stream.id)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._run is not None
        self._run(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OSError as error:
            if error.errno in SHORTAGES:
                # An index that is not written stays in memory, a file that is not deleted goes another time.
                log.warning("the files of a stream cannot be kept", error=error.strerror)
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
        assert self._slow is not None
        await self._slow.run(self._files.remove, segments)

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
            # Lost or damaged: everything is read from the start of the segment on.
            log.error("the index of a stream's segment cannot be read", file=str(segment.path))
            segment.damaged = True
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
            except FileNotFoundError:
                # Retention was quicker.
                continue
            return int(stream.committed_offset) if offset is None else offset

    # ---- the end

    def write_indexes(self) -> None:
        """In good order: a restart need not read what these say. Blocks."""
        for stream in self.logs.values():
            if stream.segment is not None and stream.checkpoint < stream.segment.end:
                try:
                    self._files.give_room_back(stream.segment)
                    self._files.write_last_index(stream.segment, index_of(Snapshot(stream)))
                except OSError as error:
                    log.warning("a stream's index cannot be written; the next start reads more", error=str(error))
                    return

    def close(self) -> None:
        if self._retention is not None:
            self._retention.cancel()
            self._retention = None
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self._files.close()


def _first_since(segment: StreamSegment, place: int, stamp: int) -> int | None:
    """Blocks."""
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        window = STAMP_WINDOW_BYTES
        synced = segment.synced
        while place < synced:
            data = os.pread(fd, min(window, synced - place), place)
            good = StreamScan(StreamSegment(0, segment.salt, None, 0, 0), Tracking(), None).run(data)
            offset, used = first_since(data[:good], stamp)
            if offset >= 0:
                return int(offset)
            if used > 0:
                place += used
                window = STAMP_WINDOW_BYTES
            elif len(data) < claimed_length(data, 0) <= synced - place:
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
