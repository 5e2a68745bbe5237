"""Writes the catalog's log anew when it has grown long: the new one starts with what is. Commits wait meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from leveret.runtime.files import SHORTAGES
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.commit_pause import CommitPause
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.shortages import Shortages

# How often a new file that could not be made is tried again.
RETRY_S = 0.5
NEW_CATALOG = "a new file of the catalog"


class CatalogRewriter:
    """`snapshot` gives the commands that come to what is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        catalog: CatalogLog,
        files: SegmentFiles,
        pause: CommitPause,
        snapshot: Callable[[], list[bytes]],
        shortages: Shortages,
        run: Callable[[Coroutine[Any, Any, None]], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._catalog = catalog
        self._files = files
        self._pause = pause
        self._snapshot = snapshot
        self._shortages = shortages
        self._run = run
        self._on_failure = on_failure
        self._working = False
        # Not before this moment of the loop's clock: something was short.
        self._next_try = 0.0

    def look(self) -> None:
        """To be called after every commit: cheap when there is nothing to do."""
        if self._catalog.is_overgrown and not self._working and self._loop.time() >= self._next_try:
            self._working = True
            self._run(self._rewrite())

    async def _rewrite(self) -> None:
        """If something is short, the old file is used on, and it is tried again later."""
        try:
            async with self._pause.held():
                commands, covered = self._snapshot(), self._catalog.pending_count
                await self._files.run(self._catalog.rewrite, commands)
                self._catalog.forget_pending(covered)
                self._shortages.over(NEW_CATALOG)
        except OSError as error:
            if error.errno not in SHORTAGES:
                self._on_failure(f"the catalog cannot be written: {error.strerror}")
                return
            self._shortages.note(NEW_CATALOG, error)
            self._next_try = self._loop.time() + RETRY_S
        finally:
            self._working = False
