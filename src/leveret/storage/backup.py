"""Backups of a running store: a consistent copy of everything that was confirmed before it began.

Commits pause only for the moment in which the point is taken. The files' thread then gives every file a second name,
and a thread of the backup's own copies them: whatever hangs or fills up at the other end holds nobody up. One at a
time. What fails leaves nothing behind; what a kill interrupts has no list, and so is no backup."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from leveret.errors import BackupConflict, BackupError, InvalidRequest
from leveret.runtime.files import clear_directory, create_file, sync_directory
from leveret.runtime.log import get_logger
from leveret.storage.backup_list import LIST_FILE, Listed, write_list
from leveret.storage.backup_plan import Piece, Point, stage, staged
from leveret.storage.commit_pause import CommitPause
from leveret.storage.file_copy import copy_file, link_file
from leveret.storage.holdings import Holdings
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest, manifest_octets
from leveret.storage.segment_files import SegmentFiles

log = get_logger(__name__)

RUNNING, DONE, FAILED = "running", "done", "failed"
# How long the disk may take to come to rest.
HOLD_DEADLINE_S = 30.0
# How long a store that closes waits for a backup to see it.
CLOSE_DEADLINE_S = 5.0


@dataclass(slots=True)
class BackupStatus:
    """How a backup is; filled by its thread as it goes on."""

    to: str
    # Seconds of the wall clock; 0 as long as it runs.
    started_at: float
    ended_at: float = 0.0
    state: str = RUNNING
    files: int = 0
    files_total: int = 0
    bytes: int = 0
    bytes_total: int = 0
    # Files that share their octets with the data directory.
    linked: int = 0
    error: str = ""


class Backups:
    """Everything done so far is safe after `flush`, nothing is being written in a `pause`, and `take_point` tells what
    counts then."""

    def __init__(
        self,
        layout: Layout,
        directory_salt: int,
        manifest: Manifest,
        files: SegmentFiles,
        flush: Callable[[], Awaitable[None]],
        pause: CommitPause,
        take_point: Callable[[], Point],
    ) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._manifest = manifest
        self._files = files
        self._flush = flush
        self._pause = pause
        self._take_point = take_point
        self._task: asyncio.Task[None] | None = None
        self._running = False
        self._stopping = False
        # The one that runs, or the last one.
        self.status: BackupStatus | None = None
        # When the last good one ended; 0 if there was none.
        self.done_at = 0.0

    async def start(self, to: str, wall: Callable[[], float], copy: bool = False) -> BackupStatus:
        """Begins one, into a directory of this machine that is empty or not there; with `copy` nothing is linked.
        Raises BackupConflict while another one runs, InvalidRequest if the directory will not do."""
        if self._running or self._stopping:
            raise BackupConflict("a backup is running; wait for its end")
        if not os.path.isabs(to):
            raise InvalidRequest(f"{to[:200]!r} is no absolute path of a directory on the broker's machine")
        self._running = True
        status = BackupStatus(to, wall())
        # Not the files' thread: the disk that is copied to may hang.
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leveret-backup")
        writing = BackupWriting(self._layout, Path(to), status, copy, lambda: self._stopping)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(thread, writing.prepare)
        except BaseException as error:
            self._running = False
            thread.shutdown(wait=False)
            if isinstance(error, OSError | BackupError | ValueError):
                raise InvalidRequest(_words(error)) from None
            raise
        self.status = status
        self._task = loop.create_task(self._run(status, wall, thread, writing))
        return status

    async def _run(
        self, status: BackupStatus, wall: Callable[[], float], thread: ThreadPoolExecutor, writing: BackupWriting
    ) -> None:
        state = FAILED
        try:
            status.error = await self._made(status, thread, writing)
            state = FAILED if status.error else DONE
            await self._files.run(_remove_tree, self._layout.staging)
        finally:
            thread.shutdown(wait=False)
            status.ended_at = wall()
            self.done_at = status.ended_at if state == DONE else self.done_at
            self._running = False
            self._task = None
            # Last: whoever sees it may begin the next one.
            status.state = state

    async def _made(self, status: BackupStatus, thread: ThreadPoolExecutor, writing: BackupWriting) -> str:
        """Empty if it is there, or what went wrong: then nothing of it is."""
        loop = asyncio.get_running_loop()
        try:
            pieces, holdings = await self._staged()
            manifest = manifest_octets(holdings, self._directory_salt)
            await loop.run_in_executor(thread, writing.write, pieces, manifest)
        except (OSError, BackupError) as error:
            await loop.run_in_executor(thread, writing.undo)
            log.error("a backup failed", directory=status.to, error=_words(error))
            return _words(error)
        log.info("a backup is complete", directory=status.to, files=status.files, octets=status.bytes)
        return ""

    async def _staged(self) -> tuple[list[Piece], Holdings]:
        # Notes of acknowledgements are lazy: what was settled before this is settled in the backup.
        await self._flush()
        async with self._pause.held(HOLD_DEADLINE_S):
            # Handed over within the moment: whatever the broker deletes later comes behind it.
            staging = self._files.submit(stage, self._layout, self._take_point(), self._manifest.holdings)
        return await staging

    async def close(self) -> None:
        """The store closes: one that runs ends as a failed one."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_DEADLINE_S)


class BackupWriting:
    """The other end: makes the directory, fills it and, if that fails, takes all of it away again. Blocks."""

    def __init__(
        self, layout: Layout, target: Path, status: BackupStatus, copy: bool, is_stopping: Callable[[], bool]
    ) -> None:
        self._layout = layout
        self._target = target
        self._status = status
        self._copy = copy
        self._is_stopping = is_stopping
        self._made = False
        self._began = False

    def prepare(self) -> None:
        target, root = self._target.resolve(), self._layout.root.resolve()
        if target == root or root in target.parents or target in root.parents:
            raise BackupError(f"{target} and the data directory {root} are one within the other")
        if not target.exists():
            target.mkdir(mode=0o700)
            self._made = True
            sync_directory(target.parent)
        elif not target.is_dir() or any(target.iterdir()):
            raise BackupError(f"{target} is not an empty directory")
        self._began = True

    def write(self, pieces: list[Piece], manifest: bytes) -> None:
        status = self._status
        status.files_total = len(pieces) + 1
        status.bytes_total = sum(self._size(piece) for piece in pieces)
        listed = [self._take(piece) for piece in pieces]
        listed.append(self._write_manifest(manifest))
        for directory in sorted({(self._target / file.name).parent for file in listed}):
            sync_directory(directory)
        sync_directory(self._target)
        write_list(self._target, listed)

    def _size(self, piece: Piece) -> int:
        return staged(self._layout, piece.path).stat().st_size if piece.whole else piece.size

    def _take(self, piece: Piece) -> Listed:
        source = staged(self._layout, piece.path)
        name = piece.path.relative_to(self._layout.root)
        target = self._target / name
        for directory in reversed(name.parents):
            (self._target / directory).mkdir(mode=0o700, exist_ok=True)
        found = link_file(source, target, self._read) if piece.whole and not self._copy else None
        self._status.linked += found is not None
        if found is None:
            found = copy_file(source, target, self._size(piece), self._read, piece.tail)
        self._status.files += 1
        return Listed(str(name), *found)

    def _read(self, size: int) -> None:
        self._status.bytes += size
        if self._is_stopping():
            raise BackupError("the broker stops")

    def _write_manifest(self, octets: bytes) -> Listed:
        name = self._layout.manifest.name
        source = self._layout.staging / name
        os.close(create_file(source, octets))
        self._status.files += 1
        return Listed(name, *copy_file(source, self._target / name, len(octets), lambda _size: None))

    def undo(self) -> None:
        """Nothing of it stays that could be taken for a backup."""
        if not self._began:
            return
        with contextlib.suppress(OSError):
            (self._target / LIST_FILE).unlink(missing_ok=True)
        clear_directory(self._target)
        if self._made:
            with contextlib.suppress(OSError):
                self._target.rmdir()


def _remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the disk did not come to rest in time"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
