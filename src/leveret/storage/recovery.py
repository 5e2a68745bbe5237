"""What the log has, after whatever happened: a torn or unfinished end is cut, damage reported, and what was judged kept
for the next start.

Everything done here can be done again: a crash in the middle of it, or right after, finds the same. The judging is
storage.survey's. Works before the loop runs; blocks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

from leveret.core.log.rebuild import QueueBook
from leveret.runtime.files import cut_file, remove_files, replace_file
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.groups.found_groups import FoundGroup, find_groups
from leveret.storage.holdings import SEALED, THE_LOG, Event
from leveret.storage.index_file import encode_index, placed_count
from leveret.storage.layout import INDEX_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files
from leveret.storage.manifest import Manifest
from leveret.storage.reconcile import reconcile
from leveret.storage.survey import FoundSegment, Step, Survey
from leveret.storage.timekeeping import Moment

log = get_logger(__name__)


@dataclass(slots=True)
class RecoveredLog:
    segments: dict[int, FoundSegment]
    books: dict[int, QueueBook]
    next_sequence: int
    next_number: int
    # Whether the broker stopped in good order, and the log knows every delivery.
    closed: bool
    # The last that the log says of the time; None if it does not.
    moment: Moment | None = None
    # Segments with messages that were copied elsewhere before the crash.
    superseded: set[int] = field(default_factory=set)
    # Consensus groups, by id.
    groups: dict[int, FoundGroup] = field(default_factory=dict)


class Recovery:
    def __init__(self, layout: Layout, directory_salt: int, report: DamageReport, manifest: Manifest) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._report = report
        self._manifest = manifest

    def run(self) -> RecoveredLog:
        remove_files(list(self._layout.pages.iterdir()))
        shutil.rmtree(self._layout.staging, ignore_errors=True)
        paths = numbered_files(self._layout.log, SEGMENT_SUFFIX)
        reconcile(self._layout, self._directory_salt, self._manifest, self._report, THE_LOG, paths)
        survey = Survey(self._layout, self._directory_salt, paths, self._manifest.holdings)
        survey.run()
        # Before anything is cut: what is reported is copied first.
        for damage in survey.damages:
            self._report.add(damage.path, damage.offset, damage.size, damage.what)
        for path, start, end in survey.unreadable:
            self._report.unreadable(path, start, end)
        for found in survey.short:
            cut_file(found.path, found.index.end)
        dropped = [step.path for step in survey.steps if step.end is None]
        dropped += [scanned.found.path for scanned in survey.empty]
        self._manifest.removed(THE_LOG, [int(path.stem) for path in dropped])
        for step in survey.steps:
            self._take(step, any(path == step.path for path, _, _ in survey.unreadable))
        self._write_indexes(survey)
        self._remove_empty(survey)
        self._remove_lone_indexes(survey)
        segments = survey.segments
        last = max([survey.synced, *(found.index.last_sequence for found in segments.values())])
        # One that is missing keeps its number.
        next_number = max(self._manifest.holdings.last_number, *paths, 0) + 1
        closed = not segments or list(segments.values())[-1].index.closed
        rebuild = survey.rebuild()
        moment = Moment(rebuild.now_ms, rebuild.wall_ms) if rebuild.now_ms else None
        groups = find_groups(rebuild.shared, segments)
        return RecoveredLog(segments, rebuild.books, last + 1, next_number, closed, moment, groups=groups)

    def _take(self, step: Step, has_unreadable: bool) -> None:
        if step.end is None:
            log.warning(f"{step.what} is dropped", file=str(step.path), records=step.records)
            if has_unreadable:
                self._report.put_aside(step.path)
            remove_files([step.path, step.path.with_suffix(INDEX_SUFFIX)])
        else:
            log.warning(f"{step.what} is cut", file=str(step.path), offset=step.end, records=step.records)
            cut_file(step.path, step.end)

    def _write_indexes(self, survey: Survey) -> None:
        """What was judged is not judged again: the next start reads the index."""
        for number, scanned in survey.scans.items():
            if number in survey.segments:
                if not scanned.has_unreadable_end:
                    cut_file(scanned.found.path, scanned.scan.end)
                replace_file(self._layout.index(number), encode_index(scanned.found.index))
        self._note_sealed(survey)

    def _note_sealed(self, survey: Survey) -> None:
        """Also of segments that were sealed right before a crash, which kept the manifest from hearing of it."""
        known = self._manifest.holdings.of(THE_LOG)
        for number, found in survey.segments.items():
            held = known.get(number)
            if number in survey.scans or held is None or not held.sealed:
                index = found.index
                ends = (index.end, index.first_sequence, index.last_sequence, placed_count(index.notes))
                self._manifest.note(Event(SEALED, THE_LOG, number, *ends))

    def _remove_empty(self, survey: Survey) -> None:
        for scanned in survey.empty:
            path = scanned.found.path
            if scanned.holes:
                copy = self._report.put_aside(path)
                log.warning("a segment that cannot be read is put aside", file=str(path), kept=str(copy))
            elif scanned.rest and not scanned.found.damaged:
                # Nothing says that any of it was ever synced. Kept all the same: nobody can be sure.
                copy = self._report.keep(path)
                log.warning("a segment without one good record is dropped", file=str(path), copy=str(copy))
            remove_files([path, path.with_suffix(INDEX_SUFFIX)])

    def _remove_lone_indexes(self, survey: Survey) -> None:
        """Indexes whose segment is gone, and half-written ones."""
        lone = [
            path
            for path in self._layout.log.iterdir()
            if path.suffix == ".new"
            or (path.suffix == INDEX_SUFFIX and path.stem.isdecimal() and int(path.stem) not in survey.segments)
        ]
        if lone:
            remove_files(lone)


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
