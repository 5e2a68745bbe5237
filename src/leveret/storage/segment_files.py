"""The files behind segments: making them in advance, open descriptors, indexes, deleting.

Whatever may block runs in one thread of its own; results come back to the loop. Numbers are given on the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from leveret.core.log.records import command_record, sealed
from leveret.core.log.segment import Segment
from leveret.runtime.files import SHORTAGES, create_file, remove_files, replace_file, sync_directory
from leveret.runtime.threads import started_pool
from leveret.storage.file_head import SEGMENT, encode_head, file_salt
from leveret.storage.holdings import SEALED, THE_LOG, Event
from leveret.storage.index_file import SegmentIndex, encode_index, placed_count
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest
from leveret.storage.open_readers import OpenReaders

T = TypeVar("T")
# Descriptors kept open for reading, unless the store has fewer; the others are opened when needed.
READERS_MAX = 64
FIRST_PAGE = 0x80000000


class SegmentFiles:
    def __init__(
        self, layout: Layout, directory_salt: int, segment_bytes: int, next_number: int, manifest: Manifest
    ) -> None:
        self._layout = layout
        self._manifest = manifest
        self._directory_salt = directory_salt
        self._segment_bytes = segment_bytes
        # Pages count for themselves, so that the numbers of the log have no holes but those of deleted segments.
        self._next_number = {False: next_number, True: FIRST_PAGE}
        self._thread: ThreadPoolExecutor | None = None
        self._writers: dict[int, int] = {}
        self._readers: OpenReaders[int] = OpenReaders(READERS_MAX)

    def start(self) -> None:
        """Raises OSError if there is no thread to be had."""
        self._thread = started_pool("leveret-files")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs something that blocks in the files' thread."""
        return await self.submit(work, *arguments)

    def submit(self, work: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
        """The same for whoever must be in the line before he waits."""
        assert self._thread is not None
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # ---- making

    def next_number(self, paging: bool) -> int:
        self._next_number[paging] += 1
        return self._next_number[paging] - 1

    def create(self, number: int, paging: bool, first_sequence: int = 0) -> tuple[Segment, int]:
        """A new segment and its descriptor. Blocks. Pages need not survive, so nothing is reserved for them. With a
        sequence it starts with a record: that the broker is running is to be known before anybody is served."""
        path = self._layout.page(number) if paging else self._layout.segment(number)
        salt = file_salt(self._directory_salt, SEGMENT, number)
        head = encode_head(SEGMENT, number, self._directory_salt)
        if first_sequence:
            head += sealed(command_record(first_sequence, first_sequence - 1, b""), salt)
        fd = create_file(path, head, 0 if paging else self._segment_bytes)
        if not paging:
            self._record(path, number, fd)
        segment = Segment(number, salt, path, len(head))
        segment.first_sequence = first_sequence
        return segment, fd

    def _record(self, path: Path, number: int, fd: int) -> None:
        """The manifest has the segment from now on, or the segment is removed. After an error that ends the store the
        manifest may or may not have it: then the empty file stays, because one that is recorded must not be missing."""
        try:
            self._manifest.created(THE_LOG, number)
        except OSError as error:
            os.close(fd)
            if error.errno in SHORTAGES:
                remove_files([path])
            raise

    def opened(self, segment: Segment, fd: int) -> None:
        self._writers[segment.id] = fd

    # ---- descriptors

    def writer(self, segment: Segment) -> int:
        return self._writers[segment.id]

    def close_writer(self, number: int) -> None:
        fd = self._writers.pop(number, -1)
        if fd >= 0:
            os.close(fd)

    def hold_reader(self, segment: Segment) -> int:
        """A descriptor to read the segment with, open until `release_reader`, even if the file is deleted meanwhile."""
        return self._readers.hold(segment.id, segment.path)

    def release_reader(self, number: int) -> None:
        self._readers.release(number)

    def limit_readers(self, count: int) -> None:
        self._readers.idle_max = count

    def trim_readers(self) -> None:
        """Closes what was not used for long."""
        self._readers.trim()

    # ---- sealed segments

    def write_index(self, segment: Segment, notes: bytearray) -> None:
        """Blocks."""
        index = SegmentIndex(segment.id, segment.first_sequence, segment.last_sequence, 0, segment.end, notes)
        replace_file(self._layout.index(segment.id), encode_index(index))
        ends = (segment.end, segment.first_sequence, segment.last_sequence, placed_count(notes))
        self._manifest.note(Event(SEALED, THE_LOG, segment.id, *ends))

    def remove(self, segments: list[Segment]) -> None:
        """Deletes segments and their indexes for good; damaged ones are moved aside. Blocks."""
        self._manifest.removed(THE_LOG, [segment.id for segment in segments if not segment.paging])
        for segment in segments:
            if segment.damaged and segment.path.exists():
                segment.path.rename(self._layout.quarantined(segment.path))
                sync_directory(self._layout.quarantine)
        paths = [segment.path for segment in segments]
        remove_files(paths + [self._layout.index(segment.id) for segment in segments if not segment.paging])

    def forget(self, segment: Segment) -> None:
        """The segment's file is gone."""
        self.close_writer(segment.id)
        self._readers.drop(segment.id)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        for fd in self._writers.values():
            os.close(fd)
        self._writers.clear()
        self._readers.close()
