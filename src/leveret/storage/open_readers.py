"""Open descriptors for reading, each held for as long as something reads from it.

A descriptor that nobody holds stays open for the next one, within a limit. A file that is deleted is closed when the
last read from it has ended, not before: its number could belong to a socket by then. On the loop only."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _Reader:
    __slots__ = ("fd", "gone", "holds")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.holds = 0
        self.gone = False


class OpenReaders(Generic[K]):
    def __init__(self, idle_max: int, sequential: bool = False) -> None:
        """Up to `idle_max` descriptors stay open that nobody holds."""
        self.idle_max = idle_max
        self._sequential = sequential
        # Those that were used last are at the end.
        self._readers: OrderedDict[K, _Reader] = OrderedDict()

    def hold(self, key: K, path: Path) -> int:
        """The descriptor, which stays open until `release`. Raises OSError if the file cannot be opened."""
        reader = self._readers.get(key)
        if reader is None:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            reader = self._readers[key] = _Reader(fd)
            if self._sequential:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        else:
            self._readers.move_to_end(key)
        reader.holds += 1
        return reader.fd

    def release(self, key: K) -> None:
        reader = self._readers[key]
        assert reader.holds > 0
        reader.holds -= 1
        if reader.gone and reader.holds == 0:
            self._close(key)

    def drop(self, key: K) -> None:
        """The file is gone: closed at once, or when the last read from it has ended."""
        reader = self._readers.get(key)
        if reader is not None:
            reader.gone = True
            if reader.holds == 0:
                self._close(key)

    def trim(self) -> None:
        """Closes those that were not used for long."""
        idle = [key for key, reader in self._readers.items() if reader.holds == 0]
        for key in idle[: max(len(idle) - self.idle_max, 0)]:
            self._close(key)

    def close(self) -> None:
        """All but those that are still read from, by a thread that hangs in the disk."""
        for key in [key for key, reader in self._readers.items() if reader.holds == 0]:
            self._close(key)

    def _close(self, key: K) -> None:
        os.close(self._readers.pop(key).fd)

    def open_keys(self) -> list[K]:
        """What is open."""
        return list(self._readers)
