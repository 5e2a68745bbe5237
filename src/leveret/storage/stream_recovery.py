"""Bringing one stream back from its directory: where its log ends, what it tracks, and what is damaged.

Sealed segments are taken by their indexes. What no index covers is read: at most a few megabytes at the end, unless an
index was lost. The log ends at its last whole part; what follows was never told to anybody, unless the log itself says
that it was synced: then it is damage, which is reported, and its offsets are never given again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.records import find_record
from leveret.core.stream_scan import StreamScan
from leveret.core.stream_segment import StreamSegment
from leveret.core.stream_tracking import Tracking
from leveret.runtime.files import cut_file, remove_files
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.stream_files import StreamFiles
from leveret.storage.stream_index import StreamIndex, index_of_sealed, read_stream_index

log = get_logger(__name__)

WINDOW_BYTES = 4 * 1024 * 1024
RECORD_HEAD_BYTES = 32


@dataclass(slots=True)
class RecoveredStream:
    segments: list[StreamSegment]
    tracking: Tracking
    next_offset: int
    last_stamp: int
    # The last segment is not to be written to: something at its end is lost.
    fresh: bool


@dataclass(slots=True)
class _Found:
    """One segment: by its index, or as it was read. A gap is (where it starts, where it ends, the offset missing)."""

    path: Path
    size: int
    index: StreamIndex | None
    segment: StreamSegment
    tracking: Tracking
    scan: StreamScan | None = None
    gaps: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        offset: int = self.segment.next_offset if self.scan is None else self.scan.next_offset
        return offset


class StreamRecovery:
    def __init__(self, files: StreamFiles, report: DamageReport, stream_id: int) -> None:
        self._files = files
        self._report = report
        self._id = stream_id
        self._found: list[_Found] = []
        self._synced = 0
        self._fresh = False

    def run(self) -> RecoveredStream:
        paths = list(self._files.segments(self._id).items())
        for number, path in paths:
            self._found.append(self._read(number, path, last=number == paths[-1][0]))
        # An index is written for what is synced only.
        evidence = [found.index.next_offset for found in self._found if found.index is not None]
        evidence += [found.scan.synced_offset for found in self._found if found.scan is not None]
        self._synced = max(evidence, default=0)
        self._judge_all()
        self._drop_empty()
        return self._result()

    # ---- reading

    def _read(self, number: int, path: Path, last: bool) -> _Found:
        index = read_stream_index(self._files.index_path(path), number)
        size = path.stat().st_size
        if index is None or index.end > size or last or not index.sealed:
            return self._scan(number, path, size, index)
        segment = StreamSegment(number, self._files.salt(self._id, number), path, index.first_offset, index.end)
        segment.next_offset = index.next_offset
        segment.first_stamp = index.first_stamp
        segment.last_stamp = index.last_stamp
        segment.drop_index()
        return _Found(path, size, index, segment, Tracking())

    def _scan(self, number: int, path: Path, size: int, index: StreamIndex | None) -> _Found:
        segment = StreamSegment(number, self._files.salt(self._id, number), path, 0, HEAD_BYTES)
        found = _Found(path, size, index, segment, Tracking())
        if index is not None and not index.sealed and index.end <= size:
            segment.use_index(index.blocks)
            segment.first_offset = index.first_offset
            segment.first_stamp = index.first_stamp
            segment.last_stamp = index.last_stamp
            segment.end = index.end
            found.tracking.read(index.tracked, 0, len(index.tracked), True)
            found.scan = StreamScan(segment, found.tracking, index.next_offset)
        else:
            found.scan = StreamScan(segment, found.tracking, None)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._walk(fd, found, size)
        finally:
            os.close(fd)
        return found

    def _walk(self, fd: int, found: _Found, size: int) -> None:
        segment, scan = found.segment, found.scan
        assert scan is not None
        window = WINDOW_BYTES
        while segment.end < size:
            data = os.pread(fd, min(window, size - segment.end), segment.end)
            if scan.run(data) > 0:
                window = WINDOW_BYTES
                continue
            length = int.from_bytes(data[4:8], "big")
            if window < length <= size - segment.end:
                window = length + 8
                continue
            place = self._find_next(fd, segment.end + 8, size, segment.salt, scan.next_offset)
            if place is None:
                return
            found.gaps.append((segment.end, place, scan.next_offset))
            segment.end = place
            scan.expect_anything()

    @staticmethod
    def _find_next(fd: int, place: int, size: int, salt: int, offset: int) -> int | None:
        """Where the next good record is. Windows overlap by half, so that one on the border is seen as well."""
        while place < size - RECORD_HEAD_BYTES:
            data = os.pread(fd, WINDOW_BYTES, place)
            at: int = find_record(data, 0, len(data), salt, offset)
            if at >= 0:
                return place + at
            place += max(len(data) // 16 * 8, 8)
        return None

    # ---- judging

    def _judge_all(self) -> None:
        for i, found in enumerate(self._found):
            if found.scan is not None and not self._judge(i, found):
                # What follows was written in the same moment, and nobody was told of it.
                self._discard(self._found[i + 1 :])
                del self._found[i + 1 :]
                return

    def _judge(self, i: int, found: _Found) -> bool:
        """Reports damage, and cuts a torn end off: false if there was one."""
        for start, end, missing in found.gaps:
            if missing >= self._synced:
                self._cut(i, start)
                return False
            self._damage(found, start, end - start, f"messages of a stream are lost from offset {missing} on")
        segment, scan = found.segment, found.scan
        assert scan is not None
        last = i == len(self._found) - 1
        expected = self._synced if last else self._expected_end(i)
        if scan.next_offset >= self._synced:
            if scan.part_end < segment.end or segment.end < found.size:
                self._cut(i, scan.part_end if scan.part_end < segment.end else segment.end)
                return False
        elif scan.next_offset < expected:
            self._damage(found, segment.end, max(found.size - segment.end, 1), "the end of a stream's segment is lost")
            self._fresh = last
        elif segment.end < found.size and last:
            # All messages are there, but not the end of what was tracked.
            self._cut(i, segment.end)
        return True

    def _expected_end(self, i: int) -> int:
        """Where the next segment says that this one ends, as far as that was synced."""
        following = self._found[i + 1].segment
        return min(following.first_offset, self._synced) if self._found[i + 1].next_offset else 0

    def _damage(self, found: _Found, place: int, size: int, what: str) -> None:
        found.segment.damaged = True
        self._report.add(found.path, place, size, what)

    def _cut(self, i: int, end: int) -> None:
        """Nothing of the segment counts from `end` on; read again, the part that the cut leaves without an end goes."""
        found = self._found[i]
        again = self._scan(found.segment.number, found.path, end, found.index)
        assert again.scan is not None
        keep = again.segment.end
        if again.scan.part_end < keep and again.scan.next_offset > self._synced:
            keep = again.scan.part_end
            again = self._scan(found.segment.number, found.path, keep, found.index)
        again.segment.damaged = found.segment.damaged
        log.info("a torn end is cut off", file=str(found.path), octets=found.size - keep)
        cut_file(found.path, keep)
        self._found[i] = again

    def _discard(self, founds: list[_Found]) -> None:
        for found in reversed(founds):
            log.info("a segment behind a torn end is dropped", file=str(found.path))
            remove_files([found.path, self._files.index_path(found.path)])

    def _drop_empty(self) -> None:
        """A segment without a record was made and not used: the one before it goes on, if there is one."""
        while self._found and self._found[-1].scan is not None and self._found[-1].segment.end <= HEAD_BYTES:
            self._discard([self._found.pop()])
            if self._found and self._found[-1].scan is None:
                last = self._found[-1]
                self._found[-1] = self._scan(last.segment.number, last.path, last.index.end if last.index else 0, None)

    # ---- the result

    def _result(self) -> RecoveredStream:
        segments = []
        next_offset = last_stamp = 0
        for found in self._found:
            segment = found.segment
            segment.synced = segment.end
            segment.next_offset = found.next_offset
            next_offset = max(next_offset, found.next_offset)
            last_stamp = max(last_stamp, segment.last_stamp)
            segments.append(segment)
        for found in self._found[:-1]:
            if found.scan is not None:
                self._seal(found)
        tracking = self._found[-1].tracking if self._found else Tracking()
        if self._found:
            self._secure(self._found[-1])
            if self._fresh:
                self._seal(self._found[-1])
        return RecoveredStream(segments, tracking, max(next_offset, self._synced), last_stamp, self._fresh)

    def _seal(self, found: _Found) -> None:
        self._files.write_index(found.segment, index_of_sealed(found.segment))
        found.segment.drop_index()

    def _secure(self, found: _Found) -> None:
        """What is there counts as synced from now on, so it must be."""
        if found.index is None or found.index.end < found.segment.end:
            fd = os.open(found.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
