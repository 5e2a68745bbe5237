"""Reads for the cursors of streams, several at a time in a thread of its own, so that a reader of old messages delays
neither the publishers nor queues that fetch theirs."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from leveret.core.stream.cursor import RESULT_BYTES, Cursor
from leveret.core.stream.segment import StreamSegment, find_offset, place_of
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.log import get_logger
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.record_checker import RecordChecker
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.search import claimed_length, find_next_record

log = get_logger(__name__)

READS_A_JOB = 8


class StreamLoader:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        files: StreamFiles,
        blocks_of: Callable[[StreamSegment], Awaitable[bytes]],
        run: Callable[[Coroutine[Any, Any, None]], None],
        kick: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._files = files
        self._blocks_of = blocks_of
        self._run = run
        self._kick = kick
        self._on_failure = on_failure
        self._disk = DiskThread("leveret-stream", RecordChecker())
        loop.add_reader(self._disk.done_fd, self._done)
        self._wanting: list[Cursor] = []
        self._scheduled = False
        # What is being read: for whom, of which segment, into what and how much.
        self._job: list[tuple[Cursor, StreamSegment, bytearray, int]] = []
        self.reads_total = 0
        self.read_bytes_total = 0
        self.damaged_total = 0

    def want(self, cursor: Cursor) -> None:
        self._wanting.append(cursor)
        if not self._scheduled and not self._disk.busy:
            self._scheduled = True
            # Never at once: the cursor is in the middle of something.
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        if self._disk.busy:
            return
        self._files.trim_readers()
        # Those who are asked for only now have their turn later.
        wanting, self._wanting = self._wanting, []
        try:
            while wanting and len(self._job) < READS_A_JOB:
                cursor = wanting.pop(0)
                if not cursor.closed:
                    self._add(cursor)
        finally:
            # Whatever went wrong with one reader, the others go on.
            self._wanting = wanting + self._wanting
            if self._job:
                self._disk.submit()
            elif wanting and not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self._start)
            self._kick()

    def _add(self, cursor: Cursor) -> None:
        plan = cursor.next_read()
        if plan is None:
            self._look_up(cursor)
            return
        segment, place, size = plan
        if size == 0:
            cursor.nothing_to_read()
            return
        try:
            fd = self._files.reader(segment)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self._on_failure(f"a stream's segment cannot be opened: {error.strerror}")
                return
            # Somebody else deleted it: read as damaged.
            fd = -1
        buffer = bytearray(RESULT_BYTES + size)
        self._disk.read(fd, buffer, RESULT_BYTES, size, place)
        self._disk.prepare(buffer, RESULT_BYTES, size, segment.salt)
        self._job.append((cursor, segment, buffer, size))

    def _done(self) -> None:
        self._disk.finish()
        if self._disk.read_error not in (0, errno.EBADF):
            self._on_failure(f"the disk cannot be read: {os.strerror(self._disk.read_error)}")
            return
        job, self._job = self._job, []
        try:
            while job:
                cursor, segment, buffer, size = job.pop(0)
                self.reads_total += 1
                self.read_bytes_total += size
                self._finish(cursor, segment, buffer, size)
        finally:
            # Whatever went wrong with one reader, the others go on.
            self._wanting += [cursor for cursor, *_ in job]
            if self._wanting and not self._scheduled:
                self._start()
            self.trim()
            self._kick()

    def _finish(self, cursor: Cursor, segment: StreamSegment, buffer: bytearray, size: int) -> None:
        end = int.from_bytes(buffer[:RESULT_BYTES], "big")
        if end > RESULT_BYTES:
            cursor.loaded(buffer, RESULT_BYTES, end)
            return
        length = claimed_length(buffer, RESULT_BYTES)
        if cursor.moved:
            cursor.loaded(buffer, RESULT_BYTES, RESULT_BYTES)
        elif size < length <= segment.synced - cursor.place:
            cursor.need((length + 7) & ~7)
            self.want(cursor)
        elif segment.gone:
            self.want(cursor)
        else:
            self._run(self._pass_over(cursor, segment))

    # ---- places

    def _look_up(self, cursor: Cursor) -> None:
        """The cursor does not know where its next message is, or which blocks it can pass over."""
        log_ = cursor.log
        segment = cursor.segment
        if segment is None:
            if cursor.offset >= log_.committed_offset or not log_.segments:
                cursor.nothing_to_read()
                return
            segment = segment_of(log_.segments, cursor.offset)
        if segment.index is not None:
            self._found(cursor, segment, segment.copy_index())
            self.want(cursor)
        else:
            self._run(self._look_up_on_disk(cursor, segment))

    async def _look_up_on_disk(self, cursor: Cursor, segment: StreamSegment) -> None:
        try:
            self._found(cursor, segment, await self._blocks_of(segment))
        except FileNotFoundError:
            # Retention was quicker; then the cursor goes on with what is left.
            if not segment.gone:
                raise
        self.want(cursor)

    @staticmethod
    def _found(cursor: Cursor, segment: StreamSegment, blocks: bytes) -> None:
        if cursor.segment is None:
            if segment.gone or segment_of(cursor.log.segments, cursor.offset) is not segment:
                # It wants to be elsewhere by now.
                return
            at = find_offset(blocks, len(blocks), cursor.offset)
            cursor.found(segment, place_of(blocks, at) if blocks else HEAD_BYTES)
        if cursor.lacks_index():
            cursor.use_index(segment, blocks)

    # ---- damage

    async def _pass_over(self, cursor: Cursor, segment: StreamSegment) -> None:
        """The record at the cursor's place is damaged: the next good one is looked for."""
        segment.damaged = True
        self.damaged_total += 1
        # All that is said to be there; what is appended meanwhile comes behind it.
        place, synced = cursor.place, segment.synced
        found = await self._loop.run_in_executor(None, find_next_entry, segment, place + 8, synced, cursor.offset)
        offset, to = (cursor.offset, synced) if found is None else found
        log.error(
            "messages of a stream cannot be read and are passed over; the segment will be kept in quarantine",
            file=str(segment.path),
            place=place,
            octets=to - place,
            next_offset=None if found is None else offset,
        )
        if not cursor.moved:
            cursor.pass_over(offset, to)
        self.want(cursor)

    def trim(self) -> None:
        """Closes files that are gone; if something is being read, when that is done."""
        if not self._disk.busy and not self._job:
            self._files.trim_readers()

    def close(self) -> None:
        self._loop.remove_reader(self._disk.done_fd)
        self._disk.stop()


def segment_of(segments: list[StreamSegment], offset: int) -> StreamSegment:
    """The segment in which this offset is: the last one that does not start behind it."""
    low, high = 0, len(segments)
    while low < high:
        middle = (low + high) // 2
        if segments[middle].first_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return segments[max(low - 1, 0)]


def find_next_entry(segment: StreamSegment, place: int, end: int, offset: int) -> tuple[int, int] | None:
    """The next good record behind this place: its offset and its place. Blocks."""
    try:
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = find_next_record(fd, place, end, segment.salt, offset)
        return None if found is None else (int.from_bytes(os.pread(fd, 8, found + 8), "big"), found)
    finally:
        os.close(fd)
