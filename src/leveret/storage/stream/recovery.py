"""Bringing one stream back from its directory, after whatever happened: a torn end is cut, damage reported, and what
was judged kept for the next start.

Everything done here can be done again: a crash in the middle of it, or right after, finds the same. The judging is
storage.stream.survey's. Blocks."""

from __future__ import annotations

import os
from dataclasses import dataclass

from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.runtime.files import cut_file, remove_files, sync_directory
from leveret.runtime.log import get_logger
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.index import index_of_found, index_of_sealed
from leveret.storage.stream.survey import FoundSegment, Step, StreamSurvey

log = get_logger(__name__)


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
    # The log itself does not say that all of it is synced.
    owes: bool


class StreamRecovery:
    def __init__(self, files: StreamFiles, report: DamageReport, stream_id: int, log_next: int = 0) -> None:
        self._files = files
        self._report = report
        self._id = stream_id
        self._log_next = log_next
        self._manifest = files.manifest

    def run(self) -> RecoveredStream:
        missing = self._files.reconcile(self._id, self._report)
        survey = StreamSurvey(self._files, self._id, self._log_next, self._manifest.holdings, missing)
        survey.run()
        # Before anything is cut: what is reported is copied first.
        for damage in survey.damages:
            self._report.add(damage.path, damage.offset, damage.size, damage.what)
        for found in survey.found:
            for start, end in found.holes:
                self._report.unreadable(found.path, start, end)
        self._manifest.removed(self._id, [int(step.path.stem) for step in survey.steps if step.end is None])
        for step in survey.steps:
            self._take(step)
        recovered = self._result(survey)
        # A later segment may get the number, and must not be taken for what this was.
        leftovers = self._files.leftovers(self._id)
        if leftovers:
            remove_files(leftovers)
        return recovered

    def _take(self, step: Step) -> None:
        if step.end is None:
            log.info("a segment behind a torn end is dropped", file=str(step.path))
            if step.unreadable:
                self._report.put_aside(step.path)
            remove_files([step.path, self._files.index_path(step.path)])
            return
        if step.torn:
            log.info("a torn end is cut off", file=str(step.path), octets=step.size)
        cut_file(step.path, step.end)

    def _result(self, survey: StreamSurvey) -> RecoveredStream:
        segments = []
        last_stamp = 0
        for found in survey.found:
            segment = found.segment
            segment.synced = segment.end
            segment.next_offset = found.next_offset
            # What was given up of it is still there: the file is kept, not deleted.
            segment.damaged = segment.damaged or self._report.quarantine.has(found.path)
            last_stamp = max(last_stamp, segment.last_stamp)
            segments.append(segment)
        next_offset = survey.next_offset
        if survey.fresh:
            # Else the next start would take the offsets that are lost for free.
            segments[-1].next_offset = next_offset
        for found in survey.found:
            if found.scan is not None:
                self._secure(found, sealed=found is not survey.found[-1] or survey.fresh)
        index = survey.found[-1].index if survey.found else None
        checkpoint = index.end if index is not None else HEAD_BYTES
        scan = survey.found[-1].scan if survey.found and not survey.fresh else None
        owes = scan is not None and bool(scan.synced_offset < next_offset)
        return RecoveredStream(segments, survey.tracking, next_offset, last_stamp, checkpoint, survey.fresh, owes)

    def _secure(self, found: FoundSegment, sealed: bool) -> None:
        """What is there counts as synced from now on, so it must be, and the index says so: what is damaged later is no
        torn end, and what was told is not found again."""
        segment, index = found.segment, found.index
        assert found.scan is not None
        # Either says so already: the index, or the log itself, as that of a stream that was idle for a moment does.
        told = index is not None and not index.sealed and index.end == segment.end
        if (
            sealed
            or segment.damaged
            or found.tracks_more
            or not (told or found.scan.synced_offset >= found.next_offset)
        ):
            fd = os.open(found.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            # The names may be as new as what is in the files.
            sync_directory(found.path.parent.parent)
            found.index = index_of_sealed(segment) if sealed else index_of_found(segment, found.tracking)
            self._files.write_index(segment, found.index)
        if sealed:
            segment.drop_index()
