"""The archive of dead letters that were given up: files of JSON lines in a directory, which may be a mounted bucket.

A file is written under a name that readers pass over, synced, renamed, and its name synced: only then are its messages
settled. A crash before that leaves them in their queue, one after it archives them again under the same ids. Never
decides what is archived. Everything that touches the directory runs in a thread of its own, since such a directory may
be slow or hang; used by the jobs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from leveret.operations.reprocess.archive_record import Filed, Place, line_pieces
from leveret.runtime.files import sync_directory, write_all
from leveret.runtime.log import get_logger
from leveret.runtime.threads import started_pool

log = get_logger(__name__)

# A file is complete with so many messages or octets at the latest.
MESSAGES_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
SUFFIX: Final = ".jsonl"
# Spark, Hive and others pass over what begins with a dot.
UNFINISHED: Final = ".unfinished-"


class ArchiveFiles:
    """A broker's archive. `wall` gives seconds since 1970, `name` a new name each time."""

    def __init__(self, root: Path, wall: Callable[[], float], name: Callable[[], str]) -> None:
        self.root = root
        self._wall = wall
        self._name = name
        # Of this broker's life, in the name of each file.
        self.life = name()
        self._thread: ThreadPoolExecutor | None = None
        self._tidied = False

    def open(self) -> None:
        """Raises OSError if there is no thread to be had."""
        self._thread = started_pool("leveret-archive")

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def new_file(self, place: Place) -> ArchiveFile:
        assert self._thread is not None, "the archive is not open"
        day = datetime.fromtimestamp(self._wall(), UTC).date().isoformat()
        # Spark makes a column of that.
        directory = self.root / f"date={day}"
        name = f"{_prefix(place)}{self.life}-{self._name()}{SUFFIX}"
        return ArchiveFile(directory, name, place, self._wall, self._thread, self._tidy)

    def _tidy(self, place: Place) -> None:
        """In the thread, before the first file is written: removes what a crash left unfinished. One broker alone has
        this cluster id, so these are not written any more."""
        if self._tidied:
            return
        self._tidied = True
        for left in self.root.glob(f"date=*/{UNFINISHED}{_prefix(place)}*"):
            if self.life not in left.name:
                left.unlink(missing_ok=True)
                log.info(
                    "an unfinished file of the archive was removed; its messages are in their queue", file=str(left)
                )


def _prefix(place: Place) -> str:
    return f"dead-letters-{place.cluster_id.replace('/', '_')}-"


class ArchiveFile:
    """One file; the name is given when it is complete. Each call may raise OSError: then the file is gone, and nothing
    that was added counts."""

    def __init__(
        self,
        directory: Path,
        name: str,
        place: Place,
        wall: Callable[[], float],
        thread: ThreadPoolExecutor,
        prepare: Callable[[Place], None],
    ) -> None:
        self.path = directory / name
        self._unfinished = directory / (UNFINISHED + name)
        self._place = place
        self._wall = wall
        self._thread = thread
        self._prepare = prepare
        self._fd = -1
        # Whether there is a file under the unfinished name.
        self._there = False
        self.messages = 0
        self.octets = 0

    @property
    def full(self) -> bool:
        return self.messages >= MESSAGES_MAX or self.octets >= FILE_BYTES_MAX

    async def add(self, letters: Sequence[Filed]) -> None:
        await self._run(lambda: self._write(letters))

    async def complete(self) -> None:
        """Durable under its name when this returns."""
        await self._run(self._finish)

    async def abandon(self) -> None:
        with suppress(OSError):
            await self._run(self._remove)

    async def _run(self, work: Callable[[], None]) -> None:
        # Shielded: a job that is cancelled does not leave a thread at work on a file that it takes for gone.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, self._or_remove, work))

    # ---- in the thread

    def _or_remove(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            self._remove()
            raise

    def _write(self, letters: Sequence[Filed]) -> None:
        if self._fd < 0:
            self._open()
        now_s = self._wall()
        for filed in letters:
            for piece in line_pieces(filed, self._place, now_s):
                write_all(self._fd, piece)
                self.octets += len(piece)
            self.messages += 1

    def _open(self) -> None:
        directory = self.path.parent
        made = [path for path in (directory, *directory.parents) if not path.exists()]
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        for path in made:
            # A file is only as durable as the names above it.
            sync_directory(path.parent)
        self._prepare(self._place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(self._unfinished, flags, 0o640)
        self._there = True

    def _finish(self) -> None:
        os.fsync(self._fd)
        self._close()
        self._unfinished.rename(self.path)
        # Not taken back if the name cannot be synced: its messages stay in their queue, and their ids tell doubles.
        self._there = False
        sync_directory(self.path.parent)

    def _remove(self) -> None:
        with suppress(OSError):
            self._close()
        if self._there:
            self._there = False
            with suppress(OSError):
                self._unfinished.unlink()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
