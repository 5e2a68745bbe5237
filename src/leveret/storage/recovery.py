"""What the log has, after whatever happened: a torn or unfinished end is cut, damage reported, and what was judged kept
for the next start.

Everything done here can be done again: a crash in the middle of it, or right after, finds the same. The judging is
storage.survey's. Works before the loop runs; blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from leveret.core.rebuild import QueueBook
from leveret.runtime.files import cut_file, remove_files, replace_file
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.index_file import encode_index
from leveret.storage.layout import INDEX_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files
from leveret.storage.survey import FoundSegment, Step, Survey

log = get_logger(__name__)


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

    def run(self) -> RecoveredLog:
        remove_files(list(self._layout.pages.iterdir()))
        paths = numbered_files(self._layout.log, SEGMENT_SUFFIX)
        survey = Survey(self._layout, self._directory_salt, paths)
        survey.run()
        # Before anything is cut: what is reported is copied first.
        for damage in survey.damages:
            self._report.add(damage.path, damage.offset, damage.size, damage.what)
        for found in survey.short:
            cut_file(found.path, found.index.end)
        for step in survey.steps:
            self._take(step)
        self._write_indexes(survey)
        self._remove_empty(survey)
        self._remove_lone_indexes(survey)
        segments = survey.segments
        last = max([survey.synced, *(found.index.last_sequence for found in segments.values())])
        next_number = max(paths, default=0) + 1
        closed = not segments or list(segments.values())[-1].index.closed
        return RecoveredLog(segments, survey.rebuild().books, last + 1, next_number, closed)

    def _take(self, step: Step) -> None:
        if step.end is None:
            log.warning(f"{step.what} is dropped", file=str(step.path), records=step.records)
            remove_files([step.path, step.path.with_suffix(INDEX_SUFFIX)])
        else:
            log.warning(f"{step.what} is cut", file=str(step.path), offset=step.end, records=step.records)
            cut_file(step.path, step.end)

    def _write_indexes(self, survey: Survey) -> None:
        """What was judged is not judged again: the next start reads the index."""
        for number, scanned in survey.scans.items():
            if number in survey.segments:
                cut_file(scanned.found.path, scanned.scan.end)
                replace_file(self._layout.index(number), encode_index(scanned.found.index))

    def _remove_empty(self, survey: Survey) -> None:
        for scanned in survey.empty:
            path = scanned.found.path
            if scanned.rest and not scanned.found.damaged:
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
