"""Tells the manifest, every second or so, how far the log and the streams are synced, so that a last segment which is
cut below that is known to have lost something.

Costs a commit nothing: what it tells was synced anyway, and it is written in the files' thread, without a sync while
there is traffic; once that pauses, with one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice

from leveret.core.log.journal import Journal
from leveret.core.stream.log import StreamLog
from leveret.runtime.files import SHORTAGES
from leveret.runtime.log import get_logger
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.holdings import SYNCED, THE_LOG, Event
from leveret.storage.manifest import Manifest
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.streams import Streams

log = get_logger(__name__)

EVERY_S = 1.0
# There may be thousands, and the loop has others to serve; the next ones follow with the next look.
STREAMS_A_LOOK = 500


class Evidence:
    def __init__(
        self,
        manifest: Manifest,
        journal: Journal,
        streams: Streams,
        files: SegmentFiles,
        on_failure: Callable[[str], None],
    ) -> None:
        self._manifest = manifest
        self._journal = journal
        self._streams = streams
        self._files = files
        self._on_failure = on_failure
        self._told = 0
        # Something was told that is not synced in the manifest itself.
        self._owes_sync = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(EVERY_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self.start(loop)
        if self._task is not None:
            return
        events = self.take(STREAMS_A_LOOK)
        if events or self._owes_sync:
            self._task = loop.create_task(self._tell(events))

    def take(self, streams_max: int | None = None) -> list[Event]:
        """What has changed since the last time."""
        events = []
        sequence: int = self._journal.synced_sequence
        if sequence != self._told:
            self._told = sequence
            segment = self._journal.segment
            number = segment.id if segment.first_sequence <= sequence else 0
            events.append(Event(SYNCED, THE_LOG, number, 0, 0, sequence))
        written = self._streams.written
        for stream in list(islice(written, streams_max)):
            del written[stream]
            if stream.segment is not None:
                events.append(_evidence_of(stream))
            if stream.committed_offset < stream.next_offset:
                # Its last batch is on its way.
                written[stream] = None
        return events

    async def _tell(self, events: list[Event]) -> None:
        try:
            await self._files.run(partial(self._manifest.record, *events, sync=not events))
            self._owes_sync = bool(events)
        except OSError as error:
            if error.errno not in SHORTAGES:
                self._on_failure(f"the disk failed: {error.strerror} (manifest)")
                return
            # Told again with the next that is synced.
            log.warning("the manifest cannot be written", error=error.strerror)
        finally:
            self._task = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()


def _evidence_of(stream: StreamLog) -> Event:
    segment = stream.segment
    assert segment is not None
    number = segment.number if segment.synced > HEAD_BYTES else 0
    return Event(SYNCED, stream.id, number, segment.synced, 0, stream.committed_offset)
