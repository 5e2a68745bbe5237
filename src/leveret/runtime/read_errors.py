"""What an error of open, read or stat says about a file, and what it never says: that something is not there.

Only octets that were really read can prove damage. An error is a shortage (wait, and try again), a medium error (the
disk does not give these octets; those beside them perhaps), or a reason to stop. Used by whatever reads files."""

from __future__ import annotations

import errno
import os
from enum import Enum
from pathlib import Path

from leveret.runtime.log import get_logger

log = get_logger(__name__)

# What a disk or a file system answers for octets that it has and cannot give.
MEDIUM_ERRORS = (errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA, errno.EILSEQ, errno.EREMOTEIO)
# What a process lacks, and may have again in a moment.
RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EINTR)
# A disk reads no less than this at a time.
SECTOR_BYTES = 4096
# How often a sector is read before it counts as unreadable.
SECTOR_TRIES = 3
# How much of a file that is copied is in memory.
COPIED_BYTES = 4 * 1024 * 1024


class ReadError(Enum):
    """The kinds of errors that a read can end with."""

    SHORTAGE = "shortage"
    MEDIUM = "medium"
    OTHER = "other"


def kind_of(number: int) -> ReadError:
    """The kind of an error number that a read gave."""
    if number in RESOURCE_ERRORS:
        return ReadError.SHORTAGE
    return ReadError.MEDIUM if number in MEDIUM_ERRORS else ReadError.OTHER


Holes = list[tuple[int, int]]


def read_around(fd: int, size: int, offset: int) -> tuple[bytearray, Holes]:
    """Up to `size` octets from `offset` on, fewer only where the file ends. Sectors that the disk does not give are
    zeros, and their places in the file are given, as (start, end). Any other error is raised. Blocks."""
    data = bytearray(max(min(size, os.fstat(fd).st_size - offset), 0))
    holes: Holes = []
    _fill(fd, memoryview(data), offset, holes)
    return data, holes


def _fill(fd: int, view: memoryview, offset: int, holes: Holes) -> None:
    """Reads what fills the view; where that fails, its halves, down to one sector."""
    if not view:
        return
    single = offset // SECTOR_BYTES == (offset + len(view) - 1) // SECTOR_BYTES
    for _ in range(SECTOR_TRIES if single else 1):
        if _is_filled(fd, view, offset):
            return
    if single:
        end = offset + len(view)
        if holes and holes[-1][1] == offset:
            holes[-1] = (holes[-1][0], end)
        else:
            holes.append((offset, end))
        view[:] = bytes(len(view))
        return
    middle = (offset + len(view) // 2) // SECTOR_BYTES * SECTOR_BYTES
    middle = max(middle, offset // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES) - offset
    _fill(fd, view[:middle], offset, holes)
    _fill(fd, view[middle:], offset + middle, holes)


def _is_filled(fd: int, view: memoryview, offset: int) -> bool:
    done = 0
    while done < len(view):
        try:
            count = os.preadv(fd, [view[done:]], offset + done)
        except OSError as error:
            if kind_of(error.errno or 0) is not ReadError.MEDIUM:
                raise
            return False
        if count == 0:
            # It became shorter meanwhile; what is missing stays zero.
            view[done:] = bytes(len(view) - done)
            return True
        done += count
    return True


def read_file_around(path: Path) -> tuple[bytes, Holes]:
    """All of a file, see `read_around`. Blocks."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data, holes = read_around(fd, os.fstat(fd).st_size, 0)
        return bytes(data), holes
    finally:
        os.close(fd)


def copy_around(path: Path, to: Path) -> None:
    """Copies a file, with zeros for sectors that the disk does not give. Blocks."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with to.open("xb") as file:
            while data := read_around(fd, COPIED_BYTES, file.tell())[0]:
                file.write(data)
    finally:
        os.close(fd)


def hole_in(holes: Holes, start: int, end: int) -> tuple[int, int] | None:
    """The first hole that has something of this range."""
    return next((hole for hole in holes if hole[0] < end and start < hole[1]), None)


def read_whole(path: Path) -> bytes:
    """All of a file; an error names it. Blocks."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def can_be_read(path: Path, places: int = 4) -> bool:
    """Whether the disk gives anything of this file: some sectors are read that the system's memory does not have.
    Blocks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        step = max(size // places // SECTOR_BYTES * SECTOR_BYTES, SECTOR_BYTES)
        for offset in range(0, size, step):
            try:
                os.pread(fd, SECTOR_BYTES, offset)
            except OSError:
                continue
            return True
        return False
    finally:
        os.close(fd)


def any_can_be_read(paths: list[Path]) -> bool:
    """Whether the disk gives anything of one of these files. Blocks."""
    return any(can_be_read(path) for path in paths)


def read_small(path: Path) -> bytes | None:
    """All of a file that can be made anew from others; None if it does not exist or the disk cannot read it. Any other
    error is raised. Blocks."""
    try:
        return read_whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if kind_of(error.errno or 0) is ReadError.MEDIUM:
            log.warning("a file cannot be read; what it says is found out anew", file=str(path), error=error.strerror)
            return None
        raise
