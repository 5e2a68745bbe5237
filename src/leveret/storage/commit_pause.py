"""A pause of commits, for one at a time: the catalog that is written anew, and the moment of a backup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from leveret.storage.committer import Committer


class CommitPause:
    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def held(self, deadline_s: float | None = None) -> AsyncIterator[None]:
        """Nothing is being written until the end of it. Raises TimeoutError if the disk does not come to rest."""
        async with self._lock:
            try:
                await asyncio.wait_for(self._committer.hold(), deadline_s)
                yield
            finally:
                self._committer.resume()
