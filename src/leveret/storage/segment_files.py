"""The files behind segments: making them in advance, open descriptors, indexes, deleting.

Whatever may block runs in one thread of its own; results come back to the loop. Numbers are given on the loop."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from leveret.core.records import command_record, sealed
from leveret.core.segment import Segment
from leveret.runtime.files import create_file, remove_files, replace_file, sync_directory
from leveret.storage.file_head import SEGMENT, encode_head, file_salt
from leveret.storage.index_file import SegmentIndex, encode_index
from leveret.storage.layout import Layout

T = TypeVar("T")
# Descriptors kept open for reading; the others are opened when needed.
READERS_MAX = 64
FIRST_PAGE = 0x80000000


class SegmentFiles:
    def __init__(self, layout: Layout, directory_salt: int, segment_bytes: int, next_number: int) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._segment_bytes = segment_bytes
        # Pages count for themselves, so that the numbers of the log have no holes but those of deleted segments.
        self._next_number = {False: next_number, True: FIRST_PAGE}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leveret-files")
        self._writers: dict[int, int] = {}
        self._readers: OrderedDict[int, int] = OrderedDict()

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs something that blocks in the files' thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

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
        segment = Segment(number, salt, path, len(head))
        segment.first_sequence = first_sequence
        return segment, fd

    def opened(self, segment: Segment, fd: int) -> None:
        self._writers[segment.id] = fd

    # ---- descriptors

    def writer(self, segment: Segment) -> int:
        return self._writers[segment.id]

    def close_writer(self, number: int) -> None:
        fd = self._writers.pop(number, -1)
        if fd >= 0:
            os.close(fd)

    def reader(self, segment: Segment) -> int:
        fd = self._readers.get(segment.id)
        if fd is None:
            fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
            self._readers[segment.id] = fd
        else:
            self._readers.move_to_end(segment.id)
        return fd

    def trim_readers(self) -> None:
        """Closes what was not used for long; only while nothing is being read."""
        while len(self._readers) > READERS_MAX:
            _, fd = self._readers.popitem(last=False)
            os.close(fd)

    # ---- sealed segments

    def write_index(self, segment: Segment, notes: bytearray) -> None:
        """Blocks."""
        index = SegmentIndex(segment.id, segment.first_sequence, segment.last_sequence, 0, segment.end, notes)
        replace_file(self._layout.index(segment.id), encode_index(index))

    def remove(self, segments: list[Segment]) -> None:
        """Deletes segments and their indexes for good; damaged ones are moved aside. Blocks."""
        for segment in segments:
            if segment.damaged and segment.path.exists():
                segment.path.rename(self._layout.quarantined(segment.path))
                sync_directory(self._layout.quarantine)
        paths = [segment.path for segment in segments]
        remove_files(paths + [self._layout.index(segment.id) for segment in segments if not segment.paging])

    def forget(self, segment: Segment) -> None:
        """The segment's file is gone."""
        self.close_writer(segment.id)
        fd = self._readers.pop(segment.id, -1)
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        for fd in [*self._writers.values(), *self._readers.values()]:
            os.close(fd)
        self._writers.clear()
        self._readers.clear()
