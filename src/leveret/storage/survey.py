"""What the log has, and what of it counts: indexes read, what has none scanned, and the end judged. Changes nothing.

The end of the log is where the last good record of a whole batch ends. A stretch without a good record is a torn end if
nothing in the log says that it had been synced, and damage if something does. Recovery does what is found here, a check
only tells it. Blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.log.rebuild import Rebuild
from leveret.core.log.scan import Scan
from leveret.runtime.read_errors import Holes, hole_in, read_file_around
from leveret.storage.damage import Damage
from leveret.storage.file_head import HEAD_BYTES, SEGMENT, file_salt
from leveret.storage.holdings import THE_LOG, Holdings
from leveret.storage.index_file import SegmentIndex, read_index
from leveret.storage.layout import Layout
from leveret.storage.missing import disagreement

# Why something at the end of the log does not count.
TORN = "the torn end of the log"
UNFINISHED = "the unfinished end of the log"
BEHIND = "a segment behind the torn end of the log"


@dataclass(slots=True)
class FoundSegment:
    number: int
    path: Path
    salt: int
    index: SegmentIndex
    # Numbers of the segments whose records its notes are about.
    settles: set[int] = field(default_factory=set)
    live: int = 0
    damaged: bool = False


@dataclass(slots=True)
class ScannedSegment:
    """One that has no index. `rest` are octets behind the last record that are not just reserved room."""

    found: FoundSegment
    scan: Scan
    rest: int
    # What the disk cannot read of it: nothing is known of what is there, so nothing is cut or dropped for it.
    holes: Holes = field(default_factory=list)

    @property
    def has_unreadable_end(self) -> bool:
        return any(end > self.scan.end for _, end in self.holes)


@dataclass(frozen=True, slots=True)
class Step:
    """What does not count at the end of the log: all of a segment from `end` on, or all of it if that is None."""

    path: Path
    what: str
    end: int | None
    # How many good records go with it.
    records: int


class Survey:
    """One look at these segments. `run` first; the rest is what it found."""

    def __init__(self, layout: Layout, directory_salt: int, paths: dict[int, Path], holdings: Holdings) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._paths = paths
        # What counts, by number; and those among them, and among what was dropped, that have no index.
        self.segments: dict[int, FoundSegment] = {}
        self.scans: dict[int, ScannedSegment] = {}
        # The octets of every file that was there.
        self.sizes: dict[int, int] = {}
        # Up to here everything had been synced, as far as the log and the manifest say.
        self.synced = holdings.synced.get(THE_LOG, 0)
        self._held = holdings.of(THE_LOG)
        self.damages: list[Damage] = []
        # Whose end is lost: the index still tells what was there.
        self.short: list[FoundSegment] = []
        # To be taken in this order: after a crash in between, what is left still shows what does not belong to it.
        self.steps: list[Step] = []
        # Segments without a record: made in advance and not used, or whose making a crash interrupted.
        self.empty: list[ScannedSegment] = []
        # What the disk cannot read: file, start and end.
        self.unreadable: list[tuple[Path, int, int]] = []

    def run(self) -> None:
        for number, path in self._paths.items():
            self._read(number, path)
        self.unreadable = [(scanned.found.path, *hole) for scanned in self.scans.values() for hole in scanned.holes]
        self.synced = max([self.synced, *(found.index.synced_sequence for found in self.segments.values())])
        for number in list(self.scans):
            if number in self.segments:
                self._judge(number, self.synced)
        self._drop_detached(self.synced)
        self._drop_unfinished(self.synced)
        self._check_ends(self.synced)
        self._compare()
        self._leave_out_empty()

    def rebuild(self) -> Rebuild:
        """What the queues have, by the segments that count."""
        rebuild = Rebuild()
        existing = set(self.segments)
        for number, found in self.segments.items():
            notes = found.index.notes
            rebuild.add_notes(notes, 0, len(notes), number, existing, found.settles)
            found.settles.discard(number)
        return rebuild

    # ---- reading

    def _read(self, number: int, path: Path) -> None:
        salt = file_salt(self._directory_salt, SEGMENT, number)
        # Before the segment: one that has an index does not change any more.
        index = read_index(self._layout.index(number), number)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            # A running broker has just deleted it.
            return
        self.sizes[number] = size
        if index is None:
            self._scan(number, path, salt)
            return
        found = self.segments[number] = FoundSegment(number, path, salt, index)
        if size < index.end:
            # The index has its notes all the same: what was settled stays settled. Messages that are not there are
            # reported when they are read; the file gets its length back, so that this is judged once.
            found.damaged = True
            self.short.append(found)
            self._damage(path, size, index.end - size, "the end of the segment is lost")

    def _scan(self, number: int, path: Path, salt: int, end: int | None = None) -> None:
        """Reads its records, up to `end` if it is to be cut there."""
        try:
            data, holes = read_file_around(path)
        except FileNotFoundError:
            # A running broker has just deleted it.
            data, holes = b"", []
        if end is not None:
            data, holes = data[:end], [hole for hole in holes if hole[0] < end]
        scan = Scan(salt)
        scan.run(data, HEAD_BYTES)
        found = FoundSegment(number, path, salt, _index_of(number, scan))
        self.segments[number] = found
        rest = len(data[scan.end :].rstrip(b"\0")) if scan.end < len(data) else 0
        self.scans[number] = ScannedSegment(found, scan, rest, holes)

    # ---- judging

    def _damage(self, path: Path, offset: int, size: int, what: str) -> None:
        self.damages.append(Damage(path, offset, size, what))

    def _judge(self, number: int, synced: int) -> None:
        """Finds damage, and a torn end."""
        scanned = self.scans[number]
        found, scan = scanned.found, scanned.scan
        for start, end in scanned.holes:
            found.damaged = True
            self._damage(found.path, start, end - start, "the disk cannot read this part of the log")
        for start, end, missing in scan.gaps:
            if hole_in(scanned.holes, start, end) is not None:
                continue
            if scan.is_torn(start, missing, synced):
                # Everything behind a torn place was written in the same moment, and nobody was told of it. It goes
                # first: after a crash in between, nothing else would say that it does not belong to the log.
                for later in [other for other in self.scans if other > number]:
                    self._discard(later)
                self._cut(number, start, TORN)
                return
            found.damaged = True
            self._damage(found.path, start, max(end - start, 1), "records of the log are lost")
        if scanned.rest and scan.records and scan.last_sequence >= synced and not scanned.has_unreadable_end:
            self.steps.append(Step(found.path, TORN, scan.end, 0))

    def _drop_detached(self, synced: int) -> None:
        """A batch may go over several segments, and a power loss may keep the end of it and not the start. Then nothing
        from the first segment on whose records do not follow those before it belongs to the log."""
        last = 0
        for number, found in list(self.segments.items()):
            if number - 1 not in self.segments or self._has_holes(number - 1) or self._has_holes(number):
                last = 0
            first = found.index.first_sequence
            if number in self.scans and last and last >= synced and first > last + 1:
                # The last one goes first: what is left still shows that it does not follow.
                for later in sorted((other for other in self.scans if other >= number), reverse=True):
                    if later in self.segments:
                        self._discard(later)
                return
            last = found.index.last_sequence or last

    def _drop_unfinished(self, synced: int) -> None:
        """A batch counts as a whole or not at all: else a dead letter could be in both of its queues, and a message
        there without the key that tells its duplicates. Nobody was told of what the last one had, unless it was
        synced."""
        for number in sorted(self.scans, reverse=True):
            scan = self.scans[number].scan
            if number not in self.segments or not scan.records:
                continue
            if self._has_holes(number):
                # What ended the batch may be what cannot be read.
                return
            if scan.batch_sequence == scan.last_sequence or scan.last_sequence <= synced:
                return
            if scan.batch_sequence >= max(synced, 1):
                self._cut(number, scan.batch_end, UNFINISHED)
                return
            if scan.batch_sequence or scan.first_sequence <= synced:
                # What ended the synced batch is damaged, and is reported as that.
                return
            self._discard(number, UNFINISHED)

    def _has_holes(self, number: int) -> bool:
        return number in self.scans and bool(self.scans[number].holes)

    def _discard(self, number: int, what: str = BEHIND) -> None:
        """None of the segment counts."""
        scanned = self.scans[number]
        self.steps.append(Step(scanned.found.path, what, None, scanned.scan.records))
        del self.segments[number]

    def _cut(self, number: int, end: int, what: str) -> None:
        """Nothing of the segment counts from `end` on."""
        found, before = self.scans[number].found, self.scans[number].scan.records
        self._scan(number, found.path, found.salt, end)
        self.segments[number].damaged = found.damaged
        self.steps.append(Step(found.path, what, end, before - self.scans[number].scan.records))

    def _check_ends(self, synced: int) -> None:
        """A segment's last records may be missing without a trace in itself: its neighbour knows, or the evidence."""
        last = max((number for number, found in self.segments.items() if found.index.last_sequence), default=0)
        for number, scanned in self.scans.items():
            found = scanned.found
            if number not in self.segments or number > last or found.damaged:
                continue
            following = self.segments.get(number + 1)
            if number == last:
                expected = synced
            elif following is not None and self._lacks_its_first(following):
                # What is missing in between is missing there, and was reported there.
                continue
            elif following is not None and following.index.first_sequence:
                expected = following.index.first_sequence - 1
            else:
                continue
            if found.index.last_sequence < expected <= synced:
                found.damaged = True
                self._damage(found.path, found.index.end, 1, "the last records of the segment are lost")

    def _compare(self) -> None:
        """What has neither lost its end nor a record must be what was sealed."""
        for number, found in self.segments.items():
            index = found.index
            what = disagreement(THE_LOG, self._held.get(number), index.first_sequence, index.last_sequence)
            if what is not None and not found.damaged:
                found.damaged = True
                self._damage(found.path, 0, max(index.end, 1), what)

    def _lacks_its_first(self, found: FoundSegment) -> bool:
        if found.number not in self.scans:
            return False
        gaps = self.scans[found.number].scan.gaps
        return bool(gaps) and gaps[0][0] == HEAD_BYTES

    def _leave_out_empty(self) -> None:
        for number, scanned in self.scans.items():
            if not scanned.scan.records and number in self.segments:
                self.empty.append(scanned)
                del self.segments[number]


def _index_of(number: int, scan: Scan) -> SegmentIndex:
    return SegmentIndex(
        number, scan.first_sequence, scan.last_sequence, scan.synced_sequence, scan.end, scan.notes, scan.closed
    )
