"""Bringing one stream back from its directory: where its log ends, what it tracks, and what is damaged.

Sealed segments are taken by their indexes. What no index covers is read: at most a few megabytes at the end, unless an
index was lost. The log ends at its last whole part; what follows was never told to anybody, unless the log itself says
that it was synced: then it is damage, which is reported, and its offsets are never given again."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.stream_scan import StreamScan
from leveret.core.stream_segment import StreamSegment
from leveret.core.stream_tracking import Tracking
from leveret.runtime.files import cut_file, remove_files, sync_directory
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.stream_files import StreamFiles
from leveret.storage.stream_index import StreamIndex, index_of_found, index_of_sealed, read_stream_index
from leveret.storage.stream_search import find_next_record

log = get_logger(__name__)

WINDOW_BYTES = 4 * 1024 * 1024
LOST_END = "the end of a stream's segment is lost"
LOST_SEGMENT = "nothing in a stream's segment can be read"
MISSING_SEGMENT = "a stream's segment is missing"


@dataclass(slots=True)
class RecoveredStream:
    segments: list[StreamSegment]
    tracking: Tracking
    next_offset: int
    last_stamp: int
    # Up to here the index file of the last segment goes.
    checkpoint: int
    # The last segment is not to be written to: something at its end is lost.
    fresh: bool


@dataclass(frozen=True, slots=True)
class _Gap:
    """From `start` to `end` nothing can be read."""

    start: int
    end: int
    # The offset that should be next.
    missing: int
    # Messages stand before it whose part did not end yet.
    in_part: bool


@dataclass(slots=True)
class _Found:
    """One segment: by its index, or as it was read."""

    path: Path
    size: int
    index: StreamIndex | None
    segment: StreamSegment
    tracking: Tracking
    scan: StreamScan | None = None
    gaps: list[_Gap] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        offset: int = self.segment.next_offset if self.scan is None else self.scan.next_offset
        return offset

    @property
    def is_empty(self) -> bool:
        """Whether it was read and has no record."""
        return self.scan is not None and bool(self.segment.end <= HEAD_BYTES)


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
        self._drop_empty()
        self._judge_all()
        self._drop_empty()
        self._report_missing()
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
            place = find_next_record(fd, segment.end + 8, size, segment.salt, scan.next_offset)
            if place is None:
                return
            found.gaps.append(_Gap(segment.end, place, scan.next_offset, scan.part_end < segment.end))
            segment.end = place
            scan.expect_anything()

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
        for gap in found.gaps:
            # The start of a segment goes on where the one before it ended.
            missing = max(gap.missing, self._found[i - 1].next_offset) if i > 0 else gap.missing
            # What ends a part is synced with its last message, not later.
            if missing > self._synced or (missing == self._synced and not gap.in_part):
                self._cut(i, gap.start)
                return False
            what = f"messages of a stream are lost from offset {missing} on"
            self._damage(found, gap.start, gap.end - gap.start, what)
        return self._judge_last(i, found) if i == len(self._found) - 1 else self._judge_end(i, found)

    def _judge_last(self, i: int, found: _Found) -> bool:
        segment, scan = found.segment, found.scan
        assert scan is not None
        if scan.next_offset < self._synced:
            self._fresh = True
            if found.index is None or not found.index.sealed or found.index.end < segment.end:
                # Else an earlier start has found and told it.
                self._damage(found, segment.end, max(found.size - segment.end, 1), LOST_END)
        elif scan.next_offset > self._synced and scan.part_end < segment.end:
            self._cut(i, scan.part_end)
        elif segment.end < found.size:
            # Room that was reserved, or the end of something that was only tracked.
            self._cut(i, segment.end)
        return True

    def _judge_end(self, i: int, found: _Found) -> bool:
        """The next segment goes on where this one ends, or something is missing here."""
        segment, scan = found.segment, found.scan
        assert scan is not None
        if self._found[i + 1].segment.first_offset == scan.next_offset:
            return True
        if scan.next_offset >= self._synced:
            self._cut(i, segment.end)
            return False
        self._damage(found, segment.end, max(found.size - segment.end, 1), LOST_END)
        return True

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
        if self._is_torn(found.path, keep):
            log.info("a torn end is cut off", file=str(found.path), octets=found.size - keep)
        cut_file(found.path, keep)
        self._found[i] = again

    @staticmethod
    def _is_torn(path: Path, end: int) -> bool:
        """Whether there is more behind it than room that was reserved."""
        with path.open("rb") as file:
            file.seek(end)
            while data := file.read(WINDOW_BYTES):
                if data.strip(b"\0"):
                    return True
        return False

    def _discard(self, founds: list[_Found]) -> None:
        for found in reversed(founds):
            log.info("a segment behind a torn end is dropped", file=str(found.path))
            remove_files([found.path, self._files.index_path(found.path)])

    def _drop_empty(self) -> None:
        """A segment without a record at the end was made and not used, and the one before it goes on; elsewhere, or if
        it is known to have had something, it is lost."""
        for i, found in reversed(list(enumerate(self._found))):
            if not found.is_empty:
                continue
            before = self._found[i - 1].next_offset if i > 0 else 0
            if len(self._found) == 1 and self._synced > 0:
                # It is all that tells which offsets were given.
                found.segment.first_offset = self._synced
                continue
            if i < len(self._found) - 1 or self._synced > before:
                self._report.add(found.path, HEAD_BYTES, max(found.size - HEAD_BYTES, 1), LOST_SEGMENT)
            self._discard([found])
            del self._found[i]
        if self._found and self._found[-1].scan is None:
            # What is tracked is known from the last one only.
            last = self._found[-1]
            self._found[-1] = self._scan(last.segment.number, last.path, last.index.end if last.index else 0, None)

    def _report_missing(self) -> None:
        for before, after in itertools.pairwise(self._found):
            number = before.segment.number + 1
            if number < after.segment.number and before.next_offset < after.segment.first_offset:
                path = before.path.with_name(f"{number:010}{before.path.suffix}")
                self._report.add(path, 0, 1, MISSING_SEGMENT)

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
        next_offset = max(next_offset, self._synced)
        if self._fresh:
            # Else the next start would take the offsets that are lost for free.
            segments[-1].next_offset = next_offset
        for found in self._found:
            if found.scan is not None:
                self._secure(found)
                if found is not self._found[-1] or self._fresh:
                    self._seal(found)
                elif found.segment.damaged:
                    # What was told is not found again.
                    found.index = index_of_found(found.segment, found.tracking)
                    self._files.write_index(found.segment, found.index)
        tracking = self._found[-1].tracking if self._found else Tracking()
        index = self._found[-1].index if self._found else None
        checkpoint = HEAD_BYTES if index is None or index.sealed else index.end
        return RecoveredStream(segments, tracking, next_offset, last_stamp, checkpoint, self._fresh)

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
            # The names may be as new as what is in the files.
            sync_directory(found.path.parent)
            sync_directory(found.path.parent.parent)
