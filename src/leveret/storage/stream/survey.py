"""What a stream's directory has, and what of it counts: indexes read, what they do not cover scanned, and the end
judged. Changes nothing.

Sealed segments are taken by their indexes. What no index covers is read: at most a few megabytes at the end, unless an
index was lost. The log ends at its last whole part; what follows was never told to anybody, unless the log itself says
that it was synced: then it is damage, and its offsets are never given again. Recovery does what is found here, a check
only tells it. Reads in windows. Blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from leveret.core.stream.scan import StreamScan
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.runtime.read_errors import Holes, read_around
from leveret.storage.damage import Damage
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.holdings import Holdings
from leveret.storage.layout import SEGMENT_SUFFIX
from leveret.storage.missing import disagreement
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.index import StreamIndex, read_stream_index
from leveret.storage.stream.walk import Gap, walk

WINDOW_BYTES = 4 * 1024 * 1024
LOST_END = "the end of a stream's segment is lost"
UNREADABLE_END = "the disk cannot read the end of a stream's segment"
LOST_SEGMENT = "nothing in a stream's segment can be read"
MISSING_SEGMENT = "a stream's segment is missing"


@dataclass(slots=True)
class FoundSegment:
    """One segment: by its index, or as it was read."""

    path: Path
    size: int
    index: StreamIndex | None
    segment: StreamSegment
    tracking: Tracking
    # Up to here the index was believed.
    start: int = HEAD_BYTES
    scan: StreamScan | None = None
    gaps: list[Gap] = field(default_factory=list)
    # Some of what is tracked stands behind its end, where nothing counts any more: only an index can keep it.
    tracks_more: bool = False
    # What the disk cannot read of it: nothing is known of what is there, so nothing is cut or dropped for it.
    holes: Holes = field(default_factory=list)

    @property
    def has_unreadable_end(self) -> bool:
        return any(end > self.segment.end for _, end in self.holes)

    @property
    def next_offset(self) -> int:
        offset: int = self.segment.next_offset if self.scan is None else self.scan.next_offset
        return offset

    @property
    def is_empty(self) -> bool:
        """Whether it was read and has no record."""
        return self.scan is not None and bool(self.segment.end <= HEAD_BYTES)


@dataclass(frozen=True, slots=True)
class Step:
    """What does not count: all of a segment from `end` on, or all of it if that is None."""

    path: Path
    end: int | None
    # Octets that go with it; whether there is more among them than room that was reserved.
    size: int
    torn: bool
    # The disk cannot read some of it: the file is put aside, not deleted.
    unreadable: bool = False


class StreamSurvey:
    """One look at a stream's files. `run` first; the rest is what it found. `log_next` is the sequence that the node's
    log goes on with, 0 if that is not known: then every whole part counts."""

    def __init__(
        self,
        files: StreamFiles,
        stream_id: int,
        log_next: int,
        holdings: Holdings,
        missing: Iterable[Damage] = (),
    ) -> None:
        """`missing` is what the manifest has and the directory has not, as it is told elsewhere."""
        self._files = files
        self._id = stream_id
        self._log_next = log_next
        self._missing = {damage.path for damage in missing}
        # What an earlier start has told.
        self._missing |= {files.segment_path(stream_id, n) for n, held in holdings.of(stream_id).items() if held.lost}
        # What counts, from the oldest to the newest.
        self.found: list[FoundSegment] = []
        # All before this offset was synced, as far as the files and the manifest say.
        self.synced = holdings.synced.get(stream_id, 0)
        self._held = holdings.of(stream_id)
        # The last segment is not to be written to: something at its end is lost.
        self.fresh = False
        self._end_told = False
        self.damages: list[Damage] = []
        # To be taken in this order: after a crash in between, what is left still shows what does not belong to it.
        self.steps: list[Step] = []

    @property
    def next_offset(self) -> int:
        return max([self.synced, *(found.next_offset for found in self.found)])

    @property
    def tracking(self) -> Tracking:
        return self.found[-1].tracking if self.found else Tracking()

    def run(self) -> None:
        paths = list(self._files.segments(self._id).items())
        for number, path in paths:
            self.found.append(self._read(number, path, last=number == paths[-1][0]))
        # An index is written for what is synced only.
        evidence = [found.index.next_offset for found in self.found if found.index is not None]
        evidence += [found.scan.synced_offset for found in self.found if found.scan is not None]
        evidence += self._read_lone(paths[-1][0] if paths else 0)
        self.synced = max([self.synced, *evidence])
        if any(int(path.stem) > (paths[-1][0] if paths else 0) for path in self._missing):
            self._end_told = True
        self._drop_empty()
        self._judge_all()
        self._drop_unfinished()
        self._drop_empty()
        self._compare()
        # Told already, with what they held.
        self.damages = [damage for damage in self.damages if damage.path not in self._missing]

    # ---- reading

    def _read(self, number: int, path: Path, last: bool) -> FoundSegment:
        index = read_stream_index(self._files.index_path(path), number)
        size = path.stat().st_size
        if index is None or index.end > size or last or not index.sealed:
            return self._scan(number, path, size, index)
        segment = StreamSegment(number, self._files.salt(self._id, number), path, index.first_offset, index.end)
        segment.next_offset = index.next_offset
        segment.first_stamp = index.first_stamp
        segment.last_stamp = index.last_stamp
        segment.drop_index()
        # Its blocks are read when they are wanted: there may be thousands of segments.
        return FoundSegment(path, size, replace(index, blocks=b""), segment, Tracking(), index.end)

    def _read_lone(self, last: int) -> list[int]:
        """Up to where the stream went by indexes behind the last segment, whose own segments are missing. Those before
        the first one were about to be deleted."""
        found = []
        for number, path in self._files.indexes(self._id).items():
            index = read_stream_index(path, number) if number > last else None
            if index is not None:
                self.damages.append(Damage(path.with_suffix(SEGMENT_SUFFIX), 0, 1, MISSING_SEGMENT))
                self._end_told = True
                found.append(index.next_offset)
        return found

    def _scan(self, number: int, path: Path, size: int, index: StreamIndex | None) -> FoundSegment:
        segment = StreamSegment(number, self._files.salt(self._id, number), path, 0, HEAD_BYTES)
        found = FoundSegment(path, size, index, segment, Tracking())
        if index is not None and not index.sealed and index.end <= size:
            segment.use_index(index.blocks)
            segment.first_offset = index.first_offset
            segment.first_stamp = index.first_stamp
            segment.last_stamp = index.last_stamp
            segment.end = found.start = index.end
            found.tracking.read(index.tracked, 0, len(index.tracked), True)
            found.scan = StreamScan(segment, found.tracking, index.next_offset, self._log_next)
        else:
            found.scan = StreamScan(segment, found.tracking, None, self._log_next)
        found.gaps = walk(found.scan, size, holes=found.holes)
        return found

    # ---- judging

    def _judge_all(self) -> None:
        for i, found in enumerate(self.found):
            if not self._judge(i, found):
                # What follows was written in the same moment, and nobody was told of it.
                self._discard(self.found[i + 1 :])
                del self.found[i + 1 :]
                return

    def _judge(self, i: int, found: FoundSegment) -> bool:
        """Reports damage, and cuts a torn end off: false if there was one."""
        for gap in found.gaps:
            # The start of a segment goes on where the one before it ended.
            missing = max(gap.missing, self.found[i - 1].next_offset) if i > 0 else gap.missing
            # What ends a part is synced with its last message, not later.
            may_be_torn = not gap.unreadable and not gap.misshapen
            if may_be_torn and (missing > self.synced or (missing == self.synced and not gap.in_part)):
                self._cut(i, gap.start)
                if found.next_offset == self.synced and i == len(self.found) - 1:
                    # No message is missing: how far consumers had come is good all the same.
                    self.found[i].tracking = found.tracking
                    self.found[i].tracks_more = True
                return False
            what = f"messages of a stream are lost from offset {missing} on"
            self._damage(found, gap.start, gap.end - gap.start, what)
        if found.has_unreadable_end:
            # Nobody knows how many are there; none of them is cut off, and nothing is written behind them.
            self.fresh = self.fresh or i == len(self.found) - 1
            self._damage(found, found.segment.end, max(found.size - found.segment.end, 1), UNREADABLE_END)
            return True
        return self._judge_last(i, found) if i == len(self.found) - 1 else self._judge_end(i, found)

    def _judge_last(self, i: int, found: FoundSegment) -> bool:
        segment, scan = found.segment, found.scan
        assert scan is not None
        if scan.next_offset < self.synced:
            self.fresh = True
            told = found.index is not None and found.index.sealed and found.index.end >= segment.end
            if not told and not self._end_told:
                # Else an earlier start has found and told it, or it is behind this segment.
                self._damage(found, segment.end, max(found.size - segment.end, 1), LOST_END)
        elif scan.next_offset > self.synced and scan.part_end < segment.end:
            self._cut(i, scan.part_end)
        elif segment.end < found.size:
            # Room that was reserved, or the end of something that was only tracked.
            self._cut(i, segment.end)
        return True

    def _judge_end(self, i: int, found: FoundSegment) -> bool:
        """The next segment goes on where this one ends, or something is missing here."""
        following = self.found[i + 1].segment
        if following.first_offset == found.next_offset:
            return True
        if found.next_offset >= self.synced:
            self._cut(i, found.segment.end)
            return False
        if following.number > found.segment.number + 1:
            path = found.path.with_name(f"{found.segment.number + 1:010}{found.path.suffix}")
            if all(damage.path != path for damage in self.damages):
                # Else it was there, and nothing in it could be read.
                self.damages.append(Damage(path, 0, 1, MISSING_SEGMENT))
        elif found.scan is not None:
            self._damage(found, found.segment.end, max(found.size - found.segment.end, 1), LOST_END)
        return True

    def _drop_unfinished(self) -> None:
        """A batch counts as a whole: what it has of the stream does not without what it has in the node's log, which is
        written behind it, nor without its own end in the next segment. Nobody was told of any of it."""
        while self.found:
            last = self.found[-1]
            scan = last.scan
            if scan is None or not scan.unfinished or scan.finished_offset < self.synced:
                return
            if scan.finished_end > HEAD_BYTES:
                self._cut(len(self.found) - 1, scan.finished_end)
                return
            # None of the segment is older than the batch.
            self._discard([self.found.pop()])

    def _compare(self) -> None:
        """What has neither lost its end nor a message must be what was sealed."""
        for found in self.found:
            # What an earlier start has reported as lost counts in the index.
            last = found.index.next_offset if found.index is not None and found.index.sealed else found.next_offset
            held = self._held.get(found.segment.number)
            what = disagreement(self._id, held, found.segment.first_offset, last)
            if what is not None and not found.segment.damaged:
                self._damage(found, 0, max(found.size, 1), what)

    def _damage(self, found: FoundSegment, place: int, size: int, what: str) -> None:
        found.segment.damaged = True
        self.damages.append(Damage(found.path, place, size, what))

    def _cut(self, i: int, end: int) -> None:
        """Nothing of the segment counts from `end` on; read again, the part that the cut leaves without an end goes."""
        found = self.found[i]
        again = self._scan(found.segment.number, found.path, end, found.index)
        assert again.scan is not None
        keep = again.segment.end
        if again.scan.part_end < keep and again.scan.next_offset > self.synced:
            keep = again.scan.part_end
            again = self._scan(found.segment.number, found.path, keep, found.index)
        again.size = found.size
        again.segment.damaged = found.segment.damaged
        self.steps.append(Step(found.path, keep, found.size - keep, _is_torn(found.path, keep)))
        self.found[i] = again

    def _discard(self, founds: list[FoundSegment]) -> None:
        for found in reversed(founds):
            self.steps.append(Step(found.path, None, found.size, not found.is_empty, bool(found.holes)))

    def _drop_empty(self) -> None:
        """A segment without a record is lost if it is known to have had something; else it was made and not used, or
        what was written was never told to anybody, nor what follows."""
        kept: list[FoundSegment] = []
        for i, found in enumerate(self.found):
            if not found.is_empty:
                kept.append(found)
                continue
            if not found.holes and self.synced <= (kept[-1].next_offset if kept else 0):
                self._discard(self.found[i:])
                break
            if len(self.found) == 1:
                # It is all that tells which offsets were given.
                found.segment.first_offset = self.synced
                return
            self.damages.append(Damage(found.path, HEAD_BYTES, max(found.size - HEAD_BYTES, 1), LOST_SEGMENT))
            self._discard([found])
        self.found = kept
        if kept and kept[-1].scan is None:
            # What is tracked is known from the last one only.
            last = kept[-1]
            kept[-1] = self._scan(last.segment.number, last.path, last.index.end if last.index else 0, None)


def _is_torn(path: Path, end: int) -> bool:
    """Whether there is more behind it than room that was reserved."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while data := read_around(fd, WINDOW_BYTES, end)[0]:
            if data.strip(b"\0"):
                return True
            end += len(data)
    finally:
        os.close(fd)
    return False
