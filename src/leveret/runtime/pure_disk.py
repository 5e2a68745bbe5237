"""The interpreted twin of disk.pxd: blocking calls on files and event descriptors. Each gives 0 or the error number."""

import contextlib
import errno
import os
import time


class Step:
    __slots__ = ("fd", "kind", "offset", "p", "problem", "salt", "size", "start")


def write_at(fd, p, start, size, offset):
    done = 0
    view = memoryview(p)
    while done < size:
        try:
            count = os.pwrite(fd, view[start + done : start + size], offset + done)
        except OSError as error:
            return error.errno
        if count == 0:
            return errno.EIO
        done += count
    return 0


def read_at(fd, p, start, size, offset):
    done = 0
    view = memoryview(p)
    while done < size:
        problem = 0
        try:
            count = os.preadv(fd, [view[start + done : start + size]], offset + done)
        except OSError as error:
            count, problem = 0, error.errno
        if count == 0:
            view[start + done : start + size] = bytes(size - done)
            return problem or file_end_problem(fd, offset + done)
        done += count
    return 0


def file_end_problem(fd, end):
    # 0 only if the file really ends here: then zeros in place of what should be there are proof that it is lost.
    try:
        return errno.EIO if os.fstat(fd).st_size > end else 0
    except OSError as error:
        return error.errno


def sync_data(fd):
    # Never repeated after an error: the kernel may have dropped the pages, and a second call would succeed.
    try:
        os.fdatasync(fd)
    except OSError as error:
        return error.errno
    return 0


def reserve_at(fd, size, offset):
    # A disk that has no room, or cannot do it, says so when something is written.
    with contextlib.suppress(OSError):
        os.posix_fallocate(fd, offset, size)


def now_us():
    return time.monotonic_ns() // 1000


def await_event(fd):
    try:
        os.eventfd_read(fd)
    except OSError as error:
        return error.errno
    return 0


def signal_event(fd):
    os.eventfd_write(fd, 1)
