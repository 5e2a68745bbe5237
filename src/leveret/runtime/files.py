"""Files and directories: what a store needs beside the disk thread. Every call may block: not for a busy loop."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

# What may pass by itself; any other error of the disk is the end of a store.
SHORTAGES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)

# How often a lock that another process holds is tried.
LOCK_POLL_S = 0.02


def sync_directory(path: Path) -> None:
    """Makes the names in a directory as durable as its files: after every create, rename and unlink."""
    with opened_directory(path) as fd:
        sync_names(fd)


@contextlib.contextmanager
def opened_directory(path: Path) -> Iterator[int]:
    fd = open_directory(path)
    try:
        yield fd
    finally:
        os.close(fd)


def open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def sync_names(fd: int) -> None:
    """Syncs a directory that is open. An error is never among the shortages, whatever its number: a second sync would
    seem to succeed."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise OSError(errno.EIO, f"a directory cannot be synced: {error.strerror}") from error


def create_file(path: Path, head: bytes, reserve_bytes: int = 0) -> int:
    """A new file that starts with `head`, durable with its name, with room reserved behind; open for writing."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if reserve_bytes:
            reserve(fd, reserve_bytes)
        write_all(fd, head)
        os.fsync(fd)
        sync_directory(path.parent)
    except BaseException:
        os.close(fd)
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return fd


def reserve(fd: int, size: int) -> None:
    """Takes the space now, so that a full disk shows before anything is written, and syncs have less to do later."""
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        # Not every file system can; ENOSPC, which is the point of it, is not among these.
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def write_all(fd: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_all_at(fd: int, data: bytes | bytearray, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def replace_file(path: Path, data: bytes | bytearray) -> None:
    """Writes a file so that after a crash there is the old one or the new one, never a part."""
    new = path.with_name(path.name + ".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.rename(path)
    sync_directory(path.parent)


def cut_file(path: Path, size: int) -> None:
    """Shortens a file for good."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_files(paths: list[Path]) -> None:
    """Deletes files, those that exist, and makes that durable."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    for directory in {path.parent for path in paths}:
        sync_directory(directory)


def clear_directory(path: Path, last: str = "") -> None:
    """Deletes whatever is in it, as far as that goes: for taking back what was not finished. The file called `last`
    goes when nothing else is left."""
    with contextlib.suppress(OSError):
        for found in sorted(path.iterdir(), key=lambda found: found.name == last):
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, deadline_s: float) -> Iterator[None]:
    """Holds the lock on a file that other processes take in the same way. Raises BlockingIOError at the deadline."""
    until = time.monotonic() + deadline_s
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(fd)


class DirectoryLock:
    """A lock on a file that ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.holder = os.pread(self._fd, 64, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
