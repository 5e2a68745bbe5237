"""Reads for the cursors of streams, several at a time in a thread of its own, so that a reader of old messages delays
neither the publishers nor queues that fetch theirs.

An error of open or read never makes a reader pass over anything: it waits, and is tried again. Only a record that was
read and fails its checksum, one that the disk cannot give while it gives others, and a file whose name is not in its
directory any more are passed over, and written down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from leveret.core.stream.cursor import RESULT_BYTES, Cursor
from leveret.core.stream.segment import StreamSegment, find_offset, place_of
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.log import get_logger
from leveret.runtime.read_errors import ReadError, any_can_be_read, kind_of
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.quarantine import DAMAGED, UNREADABLE, GivenUp, Quarantine
from leveret.storage.record_checker import RecordChecker
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.passing import find_next_entry, is_missing, read_stretch
from leveret.storage.stream.search import RECORD_HEAD_BYTES, claimed_length

log = get_logger(__name__)

READS_A_JOB = 8
# How often something is read that the disk says it cannot read, before it is read sector by sector.
MEDIUM_TRIES = 3
# The first wait before another try; each that follows is twice as long, up to the last.
RETRY_S_MIN = 0.05
RETRY_S_MAX = 2.0
MISSING = "its file is missing"


class Stretch(NamedTuple):
    """What is being read: for whom, of which segment, into what and how much, and by which step of the disk's job."""

    cursor: Cursor
    segment: StreamSegment
    buffer: bytearray
    size: int
    step: int


class StreamLoader:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        files: StreamFiles,
        slow: SegmentFiles,
        quarantine: Quarantine,
        blocks_of: Callable[[StreamSegment], Awaitable[bytes]],
        some_files: Callable[[], list[Path]],
        run: Callable[[Coroutine[Any, Any, None]], None],
        kick: Callable[[], None],
        on_shortage: Callable[[str, OSError], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`slow` runs what blocks in its thread; `some_files` are tried before the whole disk counts as unreadable."""
        self._loop = loop
        self._files = files
        self._slow = slow
        self._quarantine = quarantine
        self._blocks_of = blocks_of
        self._some_files = some_files
        self._run = run
        self._kick = kick
        self._on_shortage = on_shortage
        self._on_failure = on_failure
        self._disk = DiskThread("leveret-stream", RecordChecker())
        loop.add_reader(self._disk.done_fd, self._done)
        self._wanting: list[Cursor] = []
        self._scheduled = False
        self._job: list[Stretch] = []
        # How often in a row something could not be read for a cursor, and who waits for another try.
        self._tries: dict[Cursor, int] = {}
        self._timers: dict[Cursor, asyncio.TimerHandle] = {}
        self.reads_a_job = READS_A_JOB
        self.reads_total = 0
        self.read_bytes_total = 0
        self.retries_total = 0
        self.damaged_total = 0

    @property
    def waiting_count(self) -> int:
        """Cursors that wait for another try."""
        return len(self._timers)

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
            while wanting and len(self._job) < self.reads_a_job:
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
            fd = self._files.hold_reader(segment)
        except FileNotFoundError as error:
            self._run(self._without_file(cursor, segment, error))
            return
        except OSError as error:
            self._wait(cursor, error)
            return
        buffer = bytearray(RESULT_BYTES + size)
        step = self._disk.read(fd, buffer, RESULT_BYTES, size, place)
        self._disk.prepare(buffer, RESULT_BYTES, size, segment.salt)
        self._job.append(Stretch(cursor, segment, buffer, size, step))

    def _done(self) -> None:
        self._disk.finish()
        job, self._job = self._job, []
        for stretch in job:
            self._files.release_reader(stretch.segment)
        errors = [self._disk.read_error(stretch.step) for stretch in job]
        strange = next((number for number in errors if number and kind_of(number) is ReadError.OTHER), 0)
        if strange:
            self._on_failure(f"the disk cannot be read: {os.strerror(strange)}")
            return
        try:
            while job:
                self._judge(job.pop(0), errors.pop(0))
        finally:
            # Whatever went wrong with one reader, the others go on.
            self._wanting += [stretch.cursor for stretch in job]
            if self._wanting and not self._scheduled:
                self._start()
            self.trim()
            self._kick()

    def _judge(self, stretch: Stretch, number: int) -> None:
        cursor, segment = stretch.cursor, stretch.segment
        if number:
            error = OSError(number, os.strerror(number), str(segment.path))
            if kind_of(number) is ReadError.MEDIUM and self._tries.get(cursor, 0) + 1 >= MEDIUM_TRIES:
                self._run(self._around(cursor, segment, stretch.size, error))
            else:
                self._wait(cursor, error)
            return
        self._tries.pop(cursor, None)
        self.reads_total += 1
        self.read_bytes_total += stretch.size
        self._finish(cursor, segment, stretch.buffer, stretch.size)

    def _finish(self, cursor: Cursor, segment: StreamSegment, buffer: bytearray, size: int) -> None:
        """What the buffer has was really read."""
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
            self._run(self._pass_over(cursor, segment, DAMAGED))

    # ---- waiting

    def _wait(self, cursor: Cursor, error: OSError) -> None:
        """Nothing says that a message is lost: it is tried again, however long that takes."""
        tries = self._tries[cursor] = self._tries.get(cursor, 0) + 1
        self.retries_total += 1
        if tries & (tries - 1) == 0:
            # The first time, and then ever more seldom.
            log.warning(
                "a stream cannot be read now; it is tried again", file=error.filename, error=error.strerror, tries=tries
            )
        self._on_shortage("reading streams", error)
        wait_s = min(RETRY_S_MIN * 2 ** min(tries, 16), RETRY_S_MAX)
        self._timers[cursor] = self._loop.call_later(wait_s, self._try_again, cursor)

    def _try_again(self, cursor: Cursor) -> None:
        self._timers.pop(cursor, None)
        if cursor.closed:
            self._tries.pop(cursor, None)
        else:
            self.want(cursor)

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
        except OSError as error:
            if not segment.gone:
                self._wait(cursor, error)
                return
            # Retention was quicker; then the cursor goes on with what is left.
        self._tries.pop(cursor, None)
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

    # ---- what cannot be read

    async def _around(self, cursor: Cursor, segment: StreamSegment, size: int, error: OSError) -> None:
        """The disk cannot read the stretch: what it can give of it is handed on, and the record that it cannot is
        passed over, unless it gives nothing at all."""
        place = cursor.place
        try:
            data, holes = await self._in_thread(read_stretch, segment.path, place, size)
            if not await self._in_thread(any_can_be_read, [segment.path, *self._some_files()]):
                self._on_failure(f"the disk cannot be read: {error.strerror}")
                return
        except OSError as problem:
            self._wait(cursor, problem)
            return
        if cursor.closed or cursor.moved or cursor.place != place or segment.gone:
            self.want(cursor)
            return
        RecordChecker().check(data, RESULT_BYTES, len(data) - RESULT_BYTES, segment.salt)
        length = claimed_length(data, RESULT_BYTES)
        is_hit = any(start < place + max(length, RECORD_HEAD_BYTES) for start, _ in holes)
        if is_hit and int.from_bytes(data[:RESULT_BYTES], "big") == RESULT_BYTES:
            await self._pass_over(cursor, segment, UNREADABLE)
        else:
            self._tries.pop(cursor, None)
            self._finish(cursor, segment, data, len(data) - RESULT_BYTES)
            self._kick()

    async def _without_file(self, cursor: Cursor, segment: StreamSegment, error: OSError) -> None:
        """The file cannot be found: what it had is passed over only if its directory can be read and lacks the name."""
        try:
            missing = segment.gone or await self._in_thread(is_missing, segment.path)
        except OSError as problem:
            self._wait(cursor, problem)
            return
        if segment.gone:
            self.want(cursor)
        elif missing:
            await self._pass_over(cursor, segment, MISSING)
        else:
            self._wait(cursor, error)

    async def _pass_over(self, cursor: Cursor, segment: StreamSegment, reason: str) -> None:
        """The record at the cursor's place cannot be read: the next good one is looked for, and that is written
        down."""
        segment.damaged = True
        # All that is said to be there; what is appended meanwhile comes behind it.
        place, synced, first = cursor.place, segment.synced, cursor.offset
        try:
            found = None
            if reason != MISSING:
                found = await self._in_thread(find_next_entry, segment, place + 8, synced, first)
            offset, to = (first, synced) if found is None else found
            name = self._quarantine.name(segment.path)
            record = GivenUp(f"stream {cursor.log.id}", first, name, place, to - place, reason)
            await self._slow.run(self._quarantine.add, [record])
        except OSError as error:
            # Retention was quicker, or something is short.
            if segment.gone:
                self.want(cursor)
            else:
                self._wait(cursor, error)
            return
        self._tries.pop(cursor, None)
        self.damaged_total += 1
        log.error(
            "messages of a stream cannot be read and are passed over; the segment will be kept in quarantine",
            file=str(segment.path),
            place=place,
            octets=to - place,
            next_offset=None if found is None else offset,
            reason=reason,
        )
        if not cursor.moved:
            cursor.pass_over(offset, to)
        self.want(cursor)

    async def _in_thread(self, work: Callable[..., Any], *arguments: object) -> Any:
        return await self._loop.run_in_executor(None, work, *arguments)

    def trim(self) -> None:
        """Closes files that are gone, unless they are being read: then when that is done."""
        self._files.trim_readers()

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._loop.remove_reader(self._disk.done_fd)
        self._disk.stop()
        if not self._disk.thread.is_alive():
            for stretch in self._job:
                self._files.release_reader(stretch.segment)
            self._job = []


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
