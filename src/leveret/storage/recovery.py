"""What the log has, after whatever happened: read the indexes, scan what has none, cut a torn end, report damage.

Everything done here can be done again: a crash in the middle of it, or right after, finds the same. The end of the log
is where the last good record ends. A stretch without a good record is a torn end if nothing in the log says that it had
been synced, and damage if something does. Works before the loop runs; blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.rebuild import QueueBook, Rebuild
from leveret.core.scan import Scan
from leveret.runtime.files import cut_file, remove_files, replace_file
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES, SEGMENT, file_salt
from leveret.storage.index_file import SegmentIndex, encode_index, read_index
from leveret.storage.layout import INDEX_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files

log = get_logger(__name__)


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
class RecoveredLog:
    segments: dict[int, FoundSegment]
    books: dict[int, QueueBook]
    next_sequence: int
    next_number: int
    # Whether the broker stopped in good order, and the log knows every delivery.
    closed: bool
    # Segments with messages that were copied elsewhere before the crash.
    superseded: set[int] = field(default_factory=set)


class Recovery:
    def __init__(self, layout: Layout, directory_salt: int, report: DamageReport) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._report = report
        self._scans: dict[int, tuple[FoundSegment, Scan, int]] = {}
        self._segments: dict[int, FoundSegment] = {}

    def run(self) -> RecoveredLog:
        remove_files(list(self._layout.pages.iterdir()))
        paths = numbered_files(self._layout.log, SEGMENT_SUFFIX)
        for number, path in paths.items():
            self._read(number, path)
        synced = max((found.index.synced_sequence for found in self._segments.values()), default=0)
        for number in list(self._scans):
            if number in self._segments:
                self._judge(number, synced)
        self._drop_detached(synced)
        self._drop_unfinished(synced)
        # Before anything is cut: what is reported is copied first.
        self._check_ends(synced)
        self._write_indexes()
        self._remove_empty()
        self._remove_lone_indexes()
        rebuild = self._rebuild()
        last = max([synced, *(found.index.last_sequence for found in self._segments.values())])
        next_number = max(paths, default=0) + 1
        closed = not self._segments or list(self._segments.values())[-1].index.closed
        return RecoveredLog(self._segments, rebuild.books, last + 1, next_number, closed)

    # ---- reading

    def _read(self, number: int, path: Path) -> None:
        salt = file_salt(self._directory_salt, SEGMENT, number)
        index = read_index(self._layout.index(number), number)
        if index is None:
            self._scan(number, path, salt)
            return
        found = self._segments[number] = FoundSegment(number, path, salt, index)
        size = path.stat().st_size
        if size < index.end:
            # The index has its notes all the same: what was settled stays settled. Messages that are not there are
            # reported when they are read; the file gets its length back, so that this is judged once.
            found.damaged = True
            self._report.add(path, size, index.end - size, "the end of the segment is lost")
            cut_file(path, index.end)

    def _scan(self, number: int, path: Path, salt: int) -> None:
        data = path.read_bytes()
        scan = Scan(salt)
        scan.run(data, HEAD_BYTES)
        found = FoundSegment(number, path, salt, _index_of(number, scan))
        self._segments[number] = found
        # Octets behind the last record that are not just reserved room.
        rest = len(data[scan.end :].rstrip(b"\0")) if scan.end < len(data) else 0
        self._scans[number] = (found, scan, rest)

    # ---- judging

    def _judge(self, number: int, synced: int) -> None:
        """Reports damage, and cuts a torn end."""
        found, scan, rest = self._scans[number]
        for start, end, missing in scan.gaps:
            if missing > synced:
                # Everything behind a torn place was written in the same moment, and nobody was told of it. It goes
                # first: after a crash in between, nothing else would say that it does not belong to the log.
                for later in [other for other in self._scans if other > number]:
                    self._discard(later)
                log.warning("the torn end of the log is cut", file=str(found.path), offset=start)
                cut_file(found.path, start)
                self._scan(number, found.path, found.salt)
                self._segments[number].damaged = found.damaged
                return
            found.damaged = True
            self._report.add(found.path, start, max(end - start, 1), "records of the log are lost")
        if rest and scan.last_sequence >= synced:
            log.warning("the torn end of the log is cut", file=str(found.path), offset=scan.end)

    def _drop_detached(self, synced: int) -> None:
        """A batch may go over several segments, and a power loss may keep the end of it and not the start. Then nothing
        from the first segment on whose records do not follow those before it belongs to the log."""
        last = 0
        for number, found in list(self._segments.items()):
            if number - 1 not in self._segments:
                last = 0
            first = found.index.first_sequence
            if number in self._scans and last and last >= synced and first > last + 1:
                # The last one goes first: what is left still shows that it does not follow.
                for later in sorted((other for other in self._scans if other >= number), reverse=True):
                    if later in self._segments:
                        self._discard(later)
                return
            last = found.index.last_sequence or last

    def _drop_unfinished(self, synced: int) -> None:
        """A batch counts as a whole or not at all: else a dead letter could be in both of its queues, and a message
        there without the key that tells its duplicates. Nobody was told of what the last one had, unless it was
        synced."""
        for number in sorted(self._scans, reverse=True):
            found, scan, _ = self._scans[number]
            if number not in self._segments or not scan.records:
                continue
            if scan.batch_sequence == scan.last_sequence or scan.last_sequence <= synced:
                return
            if scan.batch_sequence >= max(synced, 1):
                log.warning("the unfinished end of the log is cut", file=str(found.path), offset=scan.batch_end)
                cut_file(found.path, scan.batch_end)
                self._scan(number, found.path, found.salt)
                self._segments[number].damaged = found.damaged
                return
            if scan.batch_sequence or scan.first_sequence <= synced:
                # What ended the synced batch is damaged, and is reported as that.
                return
            self._discard(number)

    def _write_indexes(self) -> None:
        """What was judged is not judged again: the next start reads the index."""
        for number, (found, scan, _) in self._scans.items():
            if scan.records and number in self._segments:
                cut_file(found.path, scan.end)
                replace_file(self._layout.index(number), encode_index(found.index))

    def _discard(self, number: int) -> None:
        found, scan, _ = self._scans[number]
        log.warning("a segment behind the torn end of the log is dropped", file=str(found.path), records=scan.records)
        remove_files([found.path, self._layout.index(number)])
        del self._segments[number]

    def _check_ends(self, synced: int) -> None:
        """A segment's last records may be missing without a trace in itself: its neighbour knows, or the evidence."""
        last = max((number for number, found in self._segments.items() if found.index.last_sequence), default=0)
        for number, (found, _, _) in self._scans.items():
            if number not in self._segments or number > last or found.damaged:
                continue
            following = self._segments.get(number + 1)
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
                self._report.add(found.path, found.index.end, 1, "the last records of the segment are lost")

    def _lacks_its_first(self, found: FoundSegment) -> bool:
        if found.number not in self._scans:
            return False
        gaps = self._scans[found.number][1].gaps
        return bool(gaps) and gaps[0][0] == HEAD_BYTES

    def _remove_empty(self) -> None:
        """Segments without a record: made in advance and not used, or whose making the crash interrupted."""
        for number, (found, scan, rest) in list(self._scans.items()):
            if scan.records or number not in self._segments:
                continue
            if rest and not found.damaged:
                # Nothing says that any of it was ever synced. Kept all the same: nobody can be sure.
                copy = self._report.keep(found.path)
                log.warning("a segment without one good record is dropped", file=str(found.path), copy=str(copy))
            remove_files([found.path, self._layout.index(number)])
            del self._segments[number]

    def _remove_lone_indexes(self) -> None:
        """Indexes whose segment is gone, and half-written ones."""
        lone = [
            path
            for path in self._layout.log.iterdir()
            if path.suffix == ".new"
            or (path.suffix == INDEX_SUFFIX and path.stem.isdecimal() and int(path.stem) not in self._segments)
        ]
        if lone:
            remove_files(lone)

    # ---- queues

    def _rebuild(self) -> Rebuild:
        rebuild = Rebuild()
        existing = set(self._segments)
        for number, found in self._segments.items():
            notes = found.index.notes
            rebuild.add_notes(notes, 0, len(notes), number, existing, found.settles)
            found.settles.discard(number)
        return rebuild


def _index_of(number: int, scan: Scan) -> SegmentIndex:
    return SegmentIndex(
        number, scan.first_sequence, scan.last_sequence, scan.synced_sequence, scan.end, scan.notes, scan.closed
    )


def finish_books(recovered: RecoveredLog, queue_ids: set[int]) -> None:
    """Adds up what is live, for the queues that exist; what others had is dead."""
    live: dict[int, int] = {}
    superseded = recovered.superseded
    for queue_id, book in recovered.books.items():
        if queue_id in queue_ids:
            book.finish(live, superseded)
    for number, found in recovered.segments.items():
        found.live = live.get(number, 0)
        # An older copy of a message must go before anything that might say it is settled does.
        found.settles |= {older for older in superseded if older < number}
