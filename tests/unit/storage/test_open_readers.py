"""Descriptors for reading: open for as long as something reads, whatever becomes of the file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from leveret.core.log.segment import Segment
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest
from leveret.storage.open_readers import OpenReaders
from leveret.storage.segment_files import SegmentFiles


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = [tmp_path / str(number) for number in range(6)]
    for path in found:
        path.write_bytes(path.name.encode())
    return found


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_descriptor_is_shared_and_stays_for_the_next(paths: list[Path]) -> None:
    readers: OpenReaders[int] = OpenReaders(2)
    fd = readers.hold(0, paths[0])
    assert readers.hold(0, paths[0]) == fd
    readers.release(0)
    readers.release(0)
    readers.trim()
    assert is_open(fd) and readers.hold(0, paths[0]) == fd
    readers.release(0)
    readers.close()
    assert not is_open(fd)


def test_of_those_that_nobody_holds_the_oldest_are_closed(paths: list[Path]) -> None:
    readers: OpenReaders[int] = OpenReaders(2)
    fds = [readers.hold(number, path) for number, path in enumerate(paths)]
    for number in range(1, 6):
        readers.release(number)
    readers.trim()
    assert [is_open(fd) for fd in fds] == [True, False, False, False, True, True]
    readers.release(0)
    readers.close()


def test_a_file_that_is_deleted_while_it_is_read_keeps_its_number(paths: list[Path]) -> None:
    """Else a new socket would get it, and the read would end in "Illegal seek"."""
    readers: OpenReaders[int] = OpenReaders(2)
    fd = readers.hold(0, paths[0])
    paths[0].unlink()
    readers.drop(0)
    pair = socket.socketpair()
    try:
        assert fd not in [one.fileno() for one in pair]
        assert os.pread(fd, 10, 0) == b"0"
    finally:
        for one in pair:
            one.close()
    readers.release(0)
    assert not is_open(fd) and readers.open_keys() == []


def test_what_hangs_in_a_thread_is_not_closed_under_it(paths: list[Path]) -> None:
    readers: OpenReaders[int] = OpenReaders(2)
    fd = readers.hold(0, paths[0])
    readers.close()
    assert is_open(fd)
    os.close(fd)


def test_a_segment_is_forgotten_while_it_is_read(tmp_path: Path) -> None:
    """As the reclaimer does it with one whose last message was settled while somebody browses the queue."""
    layout = Layout(tmp_path)
    layout.make()
    files = SegmentFiles(layout, 1, 65536, 1, Manifest(layout, 1))
    segment, fd = files.create(1, paging=False)
    files.opened(segment, fd)
    assert isinstance(segment, Segment)
    reader = files.hold_reader(segment)
    files.remove([segment])
    files.forget(segment)
    with socket.socket() as other:
        assert other.fileno() != reader and len(os.pread(reader, 64, 0)) == 64
    files.release_reader(segment.id)
    assert not is_open(reader)
    files.close()
