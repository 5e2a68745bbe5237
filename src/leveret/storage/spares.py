"""Segments in advance: each journal has an empty one ready when its own is full.

Made in the files' thread. Without one the segment in use grows on; a shortage is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from leveret.core.log.journal import Journal
from leveret.runtime.files import SHORTAGES
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.shortages import Shortages

# How often a segment that could not be made is tried again.
RETRY_S = 0.5
NEXT_SEGMENT = "the next segment of the log"


class Spares:
    """`run` takes care of a task until the store closes."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        files: SegmentFiles,
        journals: tuple[Journal, ...],
        shortages: Shortages,
        run: Callable[[Coroutine[Any, Any, None]], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._files = files
        self._journals = journals
        self._shortages = shortages
        self._run = run
        self._on_failure = on_failure
        self._making: set[Journal] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False

    def look(self) -> None:
        """To be called after every commit: makes what is missing."""
        for journal in self._journals:
            is_near = not journal.paging or journal.segment.end > journal.segment_bytes // 2
            if journal.spare is None and is_near and journal not in self._making and self._retry is None:
                if not self._closed:
                    self._making.add(journal)
                    self._run(self._make(journal))

    async def _make(self, journal: Journal) -> None:
        try:
            number = self._files.next_number(journal.paging)
            segment, fd = await self._files.run(self._files.create, number, journal.paging)
        except OSError as error:
            if error.errno not in SHORTAGES:
                self._on_failure(f"the disk failed: {error.strerror}")
                return
            # The segment in use grows on meanwhile, within what the disk has.
            self._shortages.note(NEXT_SEGMENT, error)
            self._retry = self._loop.call_later(RETRY_S, self._try_again)
        else:
            self._files.opened(segment, fd)
            journal.spare = segment
            self._shortages.over(NEXT_SEGMENT)
        finally:
            self._making.discard(journal)

    def _try_again(self) -> None:
        self._retry = None
        self.look()

    def close(self) -> None:
        """Makes none any more, as when the store has failed."""
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
