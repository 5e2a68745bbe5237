"""The streams of a data directory as people look at them: every record checked, or what they have listed. Never changes
anything.

Goes by storage.stream.survey, as a start does; a check then reads what a start believes by the indexes, too. Works
beside a running broker: what retention deletes meanwhile is left out. Reads in windows: memory does not grow with the
segments. Does not know names: the catalog does. Called by storage.inspect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.stream.scan import StreamScan
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.storage.damage import Damage
from leveret.storage.file_head import HEAD_BYTES, directory_salt_in
from leveret.storage.inspect_manifest import ManifestInspection
from leveret.storage.inspect_report import FileReport, KnownIds, Report
from leveret.storage.layout import INDEX_SUFFIX, SEGMENT_SUFFIX, Layout
from leveret.storage.stream.entry import StoredEntry, entries_of
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.index import StreamIndex, read_stream_index
from leveret.storage.stream.survey import LOST_END, FoundSegment, Step, StreamSurvey
from leveret.storage.stream.walk import walk

BLOCK_BYTES = 40
# The index of a segment that grows is written every 16 MiB; if it is so far behind, something is wrong with it.
OVERDUE_BYTES = 64 * 1024 * 1024
# How often a stream is looked at whose files go away meanwhile.
TRIES = 5


@dataclass(frozen=True, slots=True)
class StreamContents:
    """What a start would find. Times are milliseconds of the wall clock, None if there is no message."""

    segments: int = 0
    size: int = 0
    first_offset: int = 0
    next_offset: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    # By name, that which changed last at the end: the last publishing id, and the stored offset.
    producers: dict[bytes, int] = field(default_factory=dict)
    consumers: dict[bytes, int] = field(default_factory=dict)


class StreamsInspection:
    """`on_progress` is told how many octets of all that there are were read."""

    def __init__(self, layout: Layout, salt: int, report: Report, on_progress: Callable[[int, int], None]) -> None:
        self._layout = layout
        self._salt = salt
        self._files = StreamFiles(layout, salt)
        self._report = report
        self._surveys: dict[int, StreamSurvey] = {}
        # By stream, what the manifest has and the directory has not.
        self._missing: dict[int, list[Damage]] = {}
        self._manifest = ManifestInspection(layout, salt)
        self._on_progress = on_progress
        self._done = self._total = 0

    def survey(self) -> None:
        """What a start would find. Before the catalog is read: a running broker never writes a message before its
        stream is in there."""
        there = self._files.stream_ids() if self._layout.streams.is_dir() else []
        for stream_id in sorted({*there, *self._manifest.stream_ids()}):
            for _ in range(TRIES):
                paths = self._files.segments(stream_id)
                self._missing[stream_id] = self._manifest.absent(stream_id, paths)
                survey = StreamSurvey(self._files, stream_id, 0, self._manifest.holdings, self._missing[stream_id])
                try:
                    survey.run()
                except FileNotFoundError:
                    # A running broker has just deleted something.
                    continue
                self._surveys[stream_id] = survey
                break
        self._total = sum(found.start for survey in self._surveys.values() for found in survey.found)

    @property
    def damages(self) -> list[Damage]:
        """What a start would report."""
        return [
            damage
            for stream_id, survey in self._surveys.items()
            for damage in [*self._missing[stream_id], *survey.damages]
        ]

    def contents(self, stream_id: int) -> StreamContents:
        survey = self._surveys.get(stream_id)
        if survey is None:
            # None was ever written.
            return StreamContents()
        segments = [found.segment for found in survey.found]
        return StreamContents(
            len(segments),
            sum(segment.end for segment in segments),
            segments[0].first_offset if segments else survey.next_offset,
            survey.next_offset,
            next((segment.first_stamp for segment in segments if segment.first_stamp), None),
            max((segment.last_stamp for segment in segments), default=0) or None,
            dict(survey.tracking.producers),
            dict(survey.tracking.consumers),
        )

    def entries(self, stream_id: int, offset: int = 0) -> Iterator[StoredEntry]:
        """The messages from this offset on. Each is read when it is asked for."""
        survey = self._surveys.get(stream_id)
        for found in survey.found if survey is not None else ():
            if found.next_offset > offset:
                yield from entries_of(found.segment, self._name(found.path), offset, found.next_offset)

    # ---- checking

    def lost(self, known: KnownIds, catalog_damaged: bool) -> set[int]:
        """Streams that the catalog has lost, as a start judges it: it cannot have deleted them. One without a record
        was never there: a crash came before the catalog had it."""
        unknown = {stream_id for stream_id in self._surveys if stream_id not in known.streams}
        return {
            stream_id
            for stream_id in unknown
            if (catalog_damaged or stream_id >= known.next_id) and self._surveys[stream_id].found
        }

    def check(self, known: KnownIds, lost: set[int]) -> None:
        """Reads every record that was not read yet."""
        self._report.streams = len(known.streams)
        for stream_id, survey in self._surveys.items():
            if stream_id in known.streams or stream_id in lost:
                self._report.damages += self._missing[stream_id]
                self._report.notes += self._manifest.lost_before(stream_id)
                self._check_stream(survey)
            elif self._files.directory(stream_id).exists():
                self._tell_unknown(stream_id, survey)
        self._look_around(known.streams | lost)

    def _tell_unknown(self, stream_id: int, survey: StreamSurvey) -> None:
        contents = self.contents(stream_id)
        what = "of a stream that was deleted" if survey.found else "left over from a crash"
        self._note(f"{self._name(self._files.directory(stream_id))}: {what}, {contents.segments} segments, "
                   f"{contents.size} octets; the next start removes it")  # fmt: skip

    def _check_stream(self, survey: StreamSurvey) -> None:
        self._report.damages += survey.damages
        damaged = {damage.path for damage in survey.damages}
        for step in survey.steps:
            if step.end is None:
                self._report.files.append(FileReport(self._name(step.path), step.size))
            if step.path not in damaged or step.end is not None:
                self._note_step(step)
        for found in survey.found:
            report = FileReport(self._name(found.path), found.size)
            self._report.files.append(report)
            try:
                self._check_segment(report, survey, found)
            except FileNotFoundError:
                # A running broker has just deleted it.
                continue
            self._report.stream_messages += report.messages

    def _note_step(self, step: Step) -> None:
        name = self._name(step.path)
        if step.end is not None:
            if step.torn:
                self._note(f"{name} at {step.end}: the torn end of a stream; the next start cuts it off")
        elif step.torn:
            self._note(f"{name}: behind the torn end of a stream; the next start drops it")
        else:
            self._note(f"{name}: made and not used; the next start drops it")

    def _check_segment(self, report: FileReport, survey: StreamSurvey, found: FoundSegment) -> None:
        with found.path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if directory_salt_in(head) != self._salt:
            self._damage(found.path, 0, HEAD_BYTES, "the head is damaged; nothing is lost by that")
        if found.scan is not None:
            report.records, report.messages = found.scan.records, found.scan.messages
        index = read_stream_index(self._files.index_path(found.path), found.segment.number)
        is_last = found is survey.found[-1]
        if found.start > HEAD_BYTES:
            self._check_believed(report, found, index)
        elif index is not None and index.sealed and found.path not in {damage.path for damage in survey.damages}:
            self._check_end(found, index, found.next_offset)
        self._tell_index(found, index, is_last)

    def _check_believed(self, report: FileReport, found: FoundSegment, index: StreamIndex | None) -> None:
        """A start believes the index up to here; a check reads it, and holds the index against it."""
        believed = found.index
        assert believed is not None
        segment = StreamSegment(found.segment.number, found.segment.salt, found.path, 0, HEAD_BYTES)
        scan = StreamScan(segment, Tracking(), None)
        gaps = walk(scan, found.start, self._read)
        report.records += scan.records
        report.messages += scan.messages
        for gap in gaps:
            missing = max(gap.missing, believed.first_offset)
            what = f"messages of a stream are lost from offset {missing} on"
            self._damage(found.path, gap.start, gap.end - gap.start, what)
        whole = not gaps and self._check_end(found, believed, scan.next_offset)
        # A running broker may have written another one since.
        if whole and index is not None and index.end == found.start and not _agree(index, scan):
            path = self._files.index_path(found.path)
            self._damage(path, 0, path.stat().st_size, "the index does not say what is in the segment")

    def _check_end(self, found: FoundSegment, index: StreamIndex, next_offset: int) -> bool:
        """Whether all is there that the index says was synced. What an earlier start has told is told again here: it
        is still missing."""
        if max(next_offset, index.first_offset) >= index.next_offset:
            return True
        end = found.segment.end if found.scan is not None else index.end
        self._damage(found.path, end, 1, f"{LOST_END}: the messages from offset {next_offset} on")
        return False

    def _tell_index(self, found: FoundSegment, index: StreamIndex | None, is_last: bool) -> None:
        """An index that is missing or of no use is no damage: the segment tells all the same."""
        path = self._files.index_path(found.path)
        name = self._name(path)
        size = path.stat().st_size if path.exists() else None
        if size is not None:
            blocks = len(index.blocks) // BLOCK_BYTES if index is not None else 0
            self._report.files.append(FileReport(name, size, blocks))
        unread = found.segment.end - found.start
        reads = f"the next start reads {unread} octets of the segment"
        if size is None:
            if not is_last or unread > OVERDUE_BYTES:
                self._note(f"{name}: the index is missing; {reads} and makes it anew")
        elif index is None:
            self._note(f"{name}: the index is damaged; {reads} and makes it anew")
        elif not index.sealed and (not is_last or unread > OVERDUE_BYTES):
            self._note(f"{name}: the index is older than the end of the segment; {reads}")

    def _look_around(self, stream_ids: set[int]) -> None:
        """Whatever else lies there."""
        strange = []
        for directory in sorted(self._layout.streams.iterdir()) if self._layout.streams.is_dir() else []:
            if not directory.is_dir() or not directory.name.isdecimal():
                strange.append(directory)
            elif int(directory.name) in stream_ids:
                left = self._files.leftovers(int(directory.name))
                for path in left:
                    self._note(f"{self._name(path)}: left over from a crash; the next start removes it")
                strange += [path for path in sorted(directory.iterdir()) if path not in left and not _is_ours(path)]
        for path in strange:
            self._note(f"{self._name(path)}: not a file of Leveret's")

    # ---- small things

    def _read(self, size: int) -> None:
        self._done += size
        self._on_progress(self._done, self._total)

    def _damage(self, path: Path, offset: int, size: int, what: str) -> None:
        self._report.damages.append(Damage(path, offset, max(size, 1), what))

    def _note(self, text: str) -> None:
        self._report.notes.append(text)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._layout.root))


def _is_ours(path: Path) -> bool:
    return path.stem.isdecimal() and path.suffix in (SEGMENT_SUFFIX, INDEX_SUFFIX)


def _agree(index: StreamIndex, scan: StreamScan) -> bool:
    """Whether the index says what was read up to its end, which had no gaps."""
    segment = scan.segment
    if (index.end, index.first_offset, index.next_offset) != (segment.end, segment.first_offset, scan.next_offset):
        return False
    if scan.messages and (index.first_stamp, index.last_stamp) != (segment.first_stamp, segment.last_stamp):
        return False
    if not index.sealed:
        tracking = Tracking()
        tracking.read(index.tracked, 0, len(index.tracked), True)
        if (tracking.producers, tracking.consumers) != (scan.tracking.producers, scan.tracking.consumers):
            return False
    return bool(index.blocks == segment.copy_index())
