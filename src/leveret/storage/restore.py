"""A data directory from a backup: every file is held against the list while it is copied, and a file that is not what
it was when the backup was made ends it. Never links: what the new broker writes must not change the backup.

Until all of it is there a marker lies in the new directory, with which no broker starts. Blocks; called by `leveret
restore`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from leveret.errors import BackupError
from leveret.runtime.files import clear_directory, create_file, remove_files, sync_directory
from leveret.storage.backup_list import Listed, read_list
from leveret.storage.file_copy import copy_file
from leveret.storage.layout import RESTORING_FILE, Layout


class Restore:
    """`run` first, then `finish`; in between a check may look at what is there. `undo` takes all of it away."""

    def __init__(self, source: Path, root: Path, on_progress: Callable[[int, int], None]) -> None:
        self._source = source
        self._root = root
        self._on_progress = on_progress
        self._made = False
        self._began = False
        self._done = 0
        self._total = 0

    def run(self) -> list[Listed]:
        """The files that are restored. Raises BackupError and leaves nothing behind if one of them is not good."""
        files = read_list(self._source)
        self._total = sum(file.size for file in files)
        source, root = self._source.resolve(), self._root.resolve()
        if root == source or source in root.parents or root in source.parents:
            raise BackupError(f"{root} and the backup {source} are one within the other")
        self._make_root()
        try:
            for file in files:
                self._take(file)
            Layout(self._root).make()
            for directory in {(self._root / file.name).parent for file in files} | {self._root}:
                sync_directory(directory)
        except BaseException:
            self.undo()
            raise
        return files

    def _make_root(self) -> None:
        if not self._root.exists():
            self._root.mkdir(mode=0o700, parents=True)
            self._made = True
        elif not self._root.is_dir() or any(self._root.iterdir()):
            raise BackupError(f"{self._root} is not an empty directory; a restore never overwrites anything")
        self._began = True
        os.close(create_file(self._root / RESTORING_FILE, b"a restore did not come to its end\n"))

    def _take(self, file: Listed) -> None:
        source, target = self._source / file.name, self._root / file.name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            size = source.stat().st_size
        except FileNotFoundError:
            raise BackupError(f"{source} is missing in the backup; nothing was restored") from None
        if size != file.size:
            raise BackupError(f"{source} has {size} octets, the backup had {file.size}; nothing was restored")
        _, digest = copy_file(source, target, size, self._read)
        if digest != file.sha256:
            raise BackupError(f"{source} is damaged: its checksum is not that of the backup; nothing was restored")

    def _read(self, size: int) -> None:
        self._done += size
        self._on_progress(self._done, self._total)

    def finish(self) -> None:
        """From now on a broker may start there."""
        remove_files([self._root / RESTORING_FILE])
        if self._made:
            sync_directory(self._root.parent)

    def undo(self) -> None:
        if not self._began:
            return
        clear_directory(self._root, last=RESTORING_FILE)
        if self._made:
            with contextlib.suppress(OSError):
                self._root.rmdir()
