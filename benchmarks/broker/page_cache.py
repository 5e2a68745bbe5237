"""Files as they are before anybody read them: drops them from the page cache, and reads them as plainly as can be.

What a broker reads from a file that was just written comes from memory; a replay is to be told of the disk, beside the
plain read of the same files. Called by stream_cases.py."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

READ_BYTES = 1024 * 1024


def drop(paths: Iterable[Path]) -> None:
    """The next read of these files goes to the disk. What is not written back yet is so first: it would stay."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_through(paths: Iterable[Path]) -> float:
    """Reads the files from end to end, one after the other; the seconds that took."""
    buffer = bytearray(READ_BYTES)
    begun = time.monotonic()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while file.readinto(buffer):
                pass
    return time.monotonic() - begun
