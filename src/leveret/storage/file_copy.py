"""One file into another place, or linked there, durable and with its checksum. Blocks: for a thread of its own."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from leveret.errors import BackupError
from leveret.runtime.files import write_all

SLICE_BYTES = 1024 * 1024
# Another file system, or one that has no links, or not so many.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


def link_file(source: Path, target: Path, on_read: Callable[[int], None]) -> tuple[int, str] | None:
    """A second name for a file that nobody writes to any more: its size and checksum; None if that cannot be."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in _NO_LINK:
            return None
        raise
    fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        digest = _read(fd, size, target, on_read, lambda _data: None)
        # Its last octets may be as new as the backup.
        os.fsync(fd)
    finally:
        os.close(fd)
    return size, digest


def copy_file(
    source: Path, target: Path, size: int, on_read: Callable[[int], None], tail: bytes = b""
) -> tuple[int, str]:
    """The first `size` octets of the file, and `tail` behind them, in a new file: how long it is, and its checksum."""
    made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            digest = _read(fd, size, source, on_read, lambda data: write_all(made, data), tail)
        finally:
            os.close(fd)
        os.fsync(made)
    finally:
        os.close(made)
    return size + len(tail), digest


def _read(
    fd: int,
    size: int,
    path: Path,
    on_read: Callable[[int], None],
    take: Callable[[bytes], None],
    tail: bytes = b"",
) -> str:
    digest = hashlib.sha256()
    at = 0
    while at < size:
        data = os.pread(fd, min(SLICE_BYTES, size - at), at)
        if not data:
            raise BackupError(f"{path} ends at octet {at}; it should have {size}")
        take(data)
        digest.update(data)
        at += len(data)
        on_read(len(data))
    if tail:
        take(tail)
        digest.update(tail)
    return digest.hexdigest()
