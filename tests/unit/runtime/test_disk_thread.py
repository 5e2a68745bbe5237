"""The disk thread: steps in order, the first error ends the job, and the loop hears of it through a descriptor."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.runtime.disk_thread import DiskThread

FIRST_STEPS = 64


@pytest.fixture
def thread() -> Iterator[DiskThread]:
    made = DiskThread("test-disk")
    yield made
    made.stop()


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield made
    os.close(made)


def done(thread: DiskThread) -> int:
    """Has the job done: its error number."""
    thread.submit()
    assert thread.busy
    assert select.select([thread.done_fd], [], [], 10)[0], "the thread does not answer"
    error: int = thread.finish()
    assert not thread.busy
    return error


def test_what_is_written_is_in_the_file(thread: DiskThread, fd: int) -> None:
    data = bytearray(b"0123456789")
    thread.write(fd, data, 2, 5, 3)
    thread.sync(fd)
    assert done(thread) == 0
    assert os.pread(fd, 100, 0) == b"\0\0\0" + b"23456"


def test_steps_are_done_in_order_and_job_after_job(thread: DiskThread, fd: int) -> None:
    for round_number in range(50):
        thread.write(fd, bytearray(b"first"), 0, 5, 0)
        thread.write(fd, bytearray(b"%05d" % round_number), 0, 5, 0)
        back = bytearray(5)
        thread.read(fd, back, 0, 5, 0)
        assert done(thread) == 0
        assert back == b"%05d" % round_number


def test_a_job_without_steps_is_done_at_once(thread: DiskThread) -> None:
    assert done(thread) == 0


def test_what_the_file_does_not_have_reads_as_zeros(thread: DiskThread, fd: int) -> None:
    os.pwrite(fd, b"abc", 0)
    data = bytearray(b"\xff" * 10)
    thread.read(fd, data, 1, 8, 1)
    assert done(thread) == 0
    assert data == b"\xff" + b"bc" + bytes(6) + b"\xff"


def test_what_cannot_be_read_is_zeros_and_told(thread: DiskThread) -> None:
    """Only whoever wanted it has to care; zeros that were not read prove nothing."""
    data = bytearray(b"\xff" * 10)
    thread.read(-1, data, 2, 4, 0)
    assert done(thread) == 0
    assert data == b"\xff\xff" + bytes(4) + b"\xff" * 4


def test_an_error_ends_the_job(thread: DiskThread, fd: int) -> None:
    data = bytearray(b"data")
    thread.write(fd, data, 0, 4, 0)
    thread.write(-1, data, 0, 4, 0)
    thread.write(fd, data, 0, 4, 100)
    assert done(thread) == errno.EBADF
    assert thread.failed_step == 1
    assert os.fstat(fd).st_size == 4, "nothing behind the error is done"


def test_a_failed_sync_is_an_error(thread: DiskThread) -> None:
    reader, writer = os.pipe()
    try:
        thread.sync(writer)
        assert done(thread) == errno.EINVAL
    finally:
        os.close(reader)
        os.close(writer)


def test_a_full_disk_is_an_error(thread: DiskThread) -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        thread.write(fd, bytearray(b"data"), 0, 4, 0)
        assert done(thread) == errno.ENOSPC
    finally:
        os.close(fd)


def test_the_job_after_a_failed_one_is_judged_by_itself(thread: DiskThread, fd: int) -> None:
    thread.write(-1, bytearray(1), 0, 1, 0)
    assert done(thread) != 0
    thread.sync(fd)
    assert done(thread) == 0


def test_a_job_may_be_long(thread: DiskThread, fd: int) -> None:
    for i in range(FIRST_STEPS * 3 + 1):
        thread.write(fd, bytearray([i % 256]), 0, 1, i)
    assert done(thread) == 0
    assert os.pread(fd, 1000, 0) == bytes(i % 256 for i in range(FIRST_STEPS * 3 + 1))


def test_a_busy_thread_takes_no_steps(thread: DiskThread, fd: int) -> None:
    thread.sync(fd)
    thread.submit()
    with pytest.raises(AssertionError):
        thread.sync(fd)
    assert select.select([thread.done_fd], [], [], 10)[0]
    assert thread.finish() == 0


def test_a_stopped_thread_is_gone_with_its_descriptors() -> None:
    thread = DiskThread("test-stop")
    assert thread.thread.name == "test-stop" and thread.thread.daemon
    done_fd = thread.done_fd
    thread.stop()
    assert not thread.thread.is_alive()
    with pytest.raises(OSError):
        os.fstat(done_fd)


def test_a_read_that_fails_is_told_apart_from_a_file_that_ends_early(
    thread: DiskThread, fd: int, tmp_path: Path
) -> None:
    back = bytearray(b"old!")
    first = thread.read(fd, back, 0, 4, 0)
    assert (done(thread), thread.read_error(first), back) == (0, 0, bytearray(4))
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        first = thread.read(directory, back, 0, 4, 0)
        assert (done(thread), thread.read_error(first)) == (0, errno.EISDIR)
    finally:
        os.close(directory)


def test_each_read_of_a_job_has_an_error_of_its_own(thread: DiskThread, fd: int) -> None:
    os.pwrite(fd, b"good", 0)
    back = bytearray(12)
    steps = [thread.read(number, back, place, 4, 0) for place, number in enumerate((fd, -1, fd))]
    assert done(thread) == 0
    assert [thread.read_error(step) for step in steps] == [0, errno.EBADF, 0]
    steps = [thread.read(fd, back, 0, 4, 0)]
    assert done(thread) == 0 and thread.read_error(steps[0]) == 0, "the next job is judged by itself"


def test_what_it_does_is_counted_and_syncs_are_timed(thread: DiskThread, fd: int) -> None:
    data = bytearray(b"0123456789")
    thread.write(fd, data, 0, 10, 0)
    assert done(thread) == 0
    assert (thread.sync_count, thread.sync_us, thread.writes_total, thread.written_bytes_total) == (0, 0, 1, 10)
    thread.write(fd, data, 0, 4, 0)
    thread.sync(fd)
    thread.sync(fd)
    thread.read(fd, data, 0, 3, 0)
    assert done(thread) == 0
    assert (thread.sync_count, thread.writes_total, thread.written_bytes_total) == (2, 2, 14)
    assert (thread.reads_total, thread.read_bytes_total) == (1, 3)
    assert thread.sync_us < 10_000_000
    assert done(thread) == 0
    assert (thread.sync_count, thread.sync_us) == (0, 0), "of the last job alone"
