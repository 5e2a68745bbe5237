"""Fetches bodies from disk for queues whose next messages are not in memory: one load at a time, in its own thread."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from typing import Protocol

from leveret.core.journal import Journal
from leveret.core.load import Load
from leveret.runtime.disk_thread import DiskThread
from leveret.runtime.log import get_logger
from leveret.storage.segment_files import SegmentFiles

log = get_logger(__name__)


class Borrower(Protocol):
    """Whoever has messages on disk: a queue, or what is delayed."""

    name: bytes

    def take_load(self, journal: Journal) -> Load | None: ...

    def is_loading(self, load: Load) -> bool: ...

    def finish_load(self, load: Load) -> None: ...

    def lacks_next(self) -> bool: ...


class Loader:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        files: SegmentFiles,
        tick: Callable[[], None],
        kick: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._files = files
        self._tick = tick
        self._kick = kick
        self._on_failure = on_failure
        self._disk = DiskThread("leveret-read")
        loop.add_reader(self._disk.done_fd, self._done)
        # In the order they asked; those whose messages are not even written yet wait for that.
        self._wanting: dict[Borrower, bool] = {}
        self._unwritten: list[Borrower] = []
        self._current: tuple[Borrower, Load, bytearray] | None = None
        self._buffer = bytearray()
        self.loads_total = 0
        self.loaded_bytes_total = 0
        self.damaged_total = 0

    def want(self, queue: Borrower) -> None:
        if queue not in self._wanting:
            self._wanting[queue] = True
            if self._current is None:
                self._next()

    def written(self) -> None:
        """More of the log can be read."""
        if self._unwritten:
            waiting, self._unwritten = self._unwritten, []
            for queue in waiting:
                self.want(queue)

    def _next(self) -> None:
        while self._wanting:
            queue = next(iter(self._wanting))
            del self._wanting[queue]
            load = queue.take_load(self._journal)
            if load is not None:
                self._read(queue, load)
                return
            if queue.lacks_next():
                self._unwritten.append(queue)

    def _read(self, queue: Borrower, load: Load) -> None:
        self._files.trim_readers()
        if len(self._buffer) < load.size or len(self._buffer) > 4 * load.size + (4 << 20):
            self._buffer = bytearray(load.size)
        for number, offset, size, place in load.extents:
            self._disk.read(self._reader(number), self._buffer, place, size, offset)
        self._current = (queue, load, self._buffer)
        self._disk.submit()

    def _reader(self, number: int) -> int:
        """A descriptor to read the segment with; -1 if it cannot be opened, which ends as damage of what is in it."""
        try:
            return self._files.reader(self._journal.segments[number])
        except OSError as error:
            log.error("a segment cannot be opened", segment=number, error=error.strerror)
            return -1

    def _done(self) -> None:
        self._disk.finish()
        # What comes from disk may have expired meanwhile.
        self._tick()
        assert self._current is not None
        queue, load, buffer = self._current
        if self._disk.read_error not in (0, errno.EBADF):
            # Not damage, which a checksum tells: the message may well be there, so it must not be given up.
            self._on_failure(f"the disk cannot be read: {os.strerror(self._disk.read_error)}")
            return
        self._current = None
        self.loads_total += 1
        self.loaded_bytes_total += load.size
        try:
            load.finish(buffer, self._journal.segments)
            if queue.is_loading(load):
                self._report(queue, load)
            queue.finish_load(load)
            if queue.lacks_next():
                self.want(queue)
        finally:
            # Whatever went wrong with one queue, the others go on.
            if self._current is None:
                self._next()
            self._kick()

    def _report(self, queue: Borrower, load: Load) -> None:
        for location in load.damaged:
            self.damaged_total += 1
            segment = self._journal.segments.get(location >> 32)
            if segment is not None:
                segment.damaged = True
            log.error(
                "a message cannot be read and is lost; its segment will be kept in quarantine",
                queue=queue.name,
                file=str(segment.path) if segment is not None else "?",
                offset=location & 0xFFFFFFFF,
            )

    @property
    def reads(self) -> tuple[int, int]:
        """How often it has read, and how many octets."""
        return self._disk.reads_total, self._disk.read_bytes_total

    def close(self) -> None:
        self._loop.remove_reader(self._disk.done_fd)
        self._disk.stop()
