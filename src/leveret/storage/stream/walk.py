"""Reading a stream's segment from one record to the next, over what is damaged in between. Blocks.

Reads in windows, as long as that is little: octets that were chosen to look like damage and records in turns could have
it read the same windows again and again. Then the rest of the segment is read once, and all of it searched in memory,
which takes time in proportion to its size, whatever is in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from leveret.core.log.record_search import RecordSearch
from leveret.core.stream.scan import StreamScan
from leveret.runtime.read_errors import Holes, hole_in, read_around
from leveret.storage.stream.search import find_next_record

WINDOW_BYTES = 4 * 1024 * 1024
# How many times the octets of a segment may be read in windows behind damage.
READ_FACTOR = 32


@dataclass(frozen=True, slots=True)
class Gap:
    """From `start` to `end` nothing can be read."""

    start: int
    end: int
    # The offset that should be next.
    missing: int
    # Messages stand before it whose part did not end yet.
    in_part: bool
    # The disk cannot read something of it: then it is no torn end.
    unreadable: bool = False
    # It is one record whose checksum is good and whose inside does not fit: no torn end either.
    misshapen: bool = False


def walk(
    scan: StreamScan,
    end: int,
    on_read: Callable[[int], None] = lambda _size: None,
    holes: Holes | None = None,
) -> list[Gap]:
    """Reads the scan's segment from where it stands up to `end`; what cannot be read in between. `on_read` is told how
    many octets were done with; what the disk cannot read goes into `holes`, too."""
    fd = os.open(scan.segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _Walk(fd, scan, end, on_read, [] if holes is None else holes).run()
    finally:
        os.close(fd)


class _Walk:
    def __init__(self, fd: int, scan: StreamScan, end: int, on_read: Callable[[int], None], holes: Holes) -> None:
        self._fd = fd
        self._scan = scan
        self._segment = scan.segment
        self._end = end
        self._on_read = on_read
        self._holes = holes
        self._window = WINDOW_BYTES
        # Octets that were read in vain, and how many that may be.
        self._wasted = 0
        self._waste_max = READ_FACTOR * (max(end - scan.segment.end, 0) + WINDOW_BYTES)
        # The search of the whole rest, once that is needed, and where its data stands in the file.
        self._search: RecordSearch | None = None
        self._base = 0

    def run(self) -> list[Gap]:
        gaps = []
        segment, scan = self._segment, self._scan
        while segment.end < self._end:
            before = segment.end
            if self._advance():
                self._on_read(segment.end - before)
                continue
            if scan.misshapen_bytes:
                after = before + scan.misshapen_bytes
                gaps.append(Gap(before, after, scan.next_offset, scan.part_end < before, misshapen=True))
                scan.pass_misshapen()
                self._on_read(after - before)
                continue
            place = self._find_next(before)
            if place is None:
                break
            unreadable = hole_in(self._holes, before, place) is not None
            gaps.append(Gap(before, place, scan.next_offset, scan.part_end < before, unreadable))
            self._on_read(place - before)
            segment.end = place
            scan.expect_anything()
        return gaps

    def _advance(self) -> bool:
        """Takes in the records that follow: whether there was one."""
        before: int = self._segment.end
        if self._search is not None:
            return bool(self._scan.run(self._search.data, before - self._base, self._search) > 0)
        while True:
            data = self._read(min(self._window, self._end - before), before)
            if self._scan.run(data) > 0:
                self._window = WINDOW_BYTES
                return True
            self._wasted += len(data)
            length = int.from_bytes(data[4:8], "big")
            if not self._window < length <= self._end - before:
                return False
            self._window = length + 8

    def _find_next(self, before: int) -> int | None:
        """Where the next good record behind this place starts."""
        if self._search is None and self._wasted > self._waste_max:
            self._base = before
            self._search = RecordSearch(self._read(self._end - before, before), self._segment.salt)
        if self._search is None:
            return find_next_record(
                self._fd, before + 8, self._end, self._segment.salt, self._scan.next_offset, self._waste
            )
        at: int = self._search.find(before - self._base + 8, self._scan.next_offset)
        return None if at < 0 else self._base + at

    def _read(self, size: int, place: int) -> bytes:
        octets, unread = read_around(self._fd, size, place)
        self._holes += [hole for hole in unread if hole not in self._holes]
        return bytes(octets)

    def _waste(self, size: int) -> None:
        self._wasted += size
