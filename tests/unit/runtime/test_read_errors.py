"""What errors of reads say, and reading around what the disk does not give."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from leveret.runtime import read_errors
from leveret.runtime.read_errors import (
    SECTOR_BYTES,
    ReadError,
    any_can_be_read,
    copy_around,
    hole_in,
    kind_of,
    read_file_around,
    read_small,
    read_whole,
)

CONTENT = bytes(range(256)) * 200


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(CONTENT)
    return tmp_path / "file"


class BadDisk:
    """Reads that touch one of the ranges fail, each with its error and as often as it says."""

    def __init__(
        self, patch: pytest.MonkeyPatch, bad: list[tuple[int, int]], number: int, times: int = 1 << 30
    ) -> None:
        self.bad, self.number, self.times = bad, number, times
        self._preadv, self._pread = os.preadv, os.pread
        patch.setattr(read_errors.os, "preadv", self.preadv)
        patch.setattr(read_errors.os, "pread", self.pread)

    def _check(self, offset: int, size: int) -> None:
        if self.times and any(start < offset + size and offset < end for start, end in self.bad):
            self.times -= 1
            raise OSError(self.number, os.strerror(self.number))

    def preadv(self, fd: int, views: Sequence[memoryview], offset: int) -> int:
        self._check(offset, len(views[0]))
        return self._preadv(fd, views, offset)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._check(offset, size)
        return self._pread(fd, size, offset)


def test_kinds_of_errors() -> None:
    assert kind_of(errno.EMFILE) is kind_of(errno.ENFILE) is kind_of(errno.ENOMEM) is ReadError.SHORTAGE
    assert kind_of(errno.EIO) is kind_of(errno.EUCLEAN) is ReadError.MEDIUM
    assert kind_of(errno.EBADF) is kind_of(errno.ESPIPE) is kind_of(errno.EISDIR) is ReadError.OTHER


def test_a_good_disk_gives_everything(path: Path) -> None:
    assert read_file_around(path) == (CONTENT, [])


@pytest.mark.parametrize("bad", [[(0, 1)], [(4095, 4097)], [(9000, 9001), (51100, 51101)], [(0, 1 << 30)]])
def test_only_bad_sectors_are_missing(path: Path, monkeypatch: pytest.MonkeyPatch, bad: list[tuple[int, int]]) -> None:
    BadDisk(monkeypatch, bad, errno.EIO)
    data, holes = read_file_around(path)
    expected = bytearray(CONTENT)
    hit = [
        sector
        for sector in range(0, len(CONTENT), SECTOR_BYTES)
        if any(start < sector + SECTOR_BYTES and sector < end for start, end in bad)
    ]
    for sector in hit:
        end = min(sector + SECTOR_BYTES, len(CONTENT))
        expected[sector:end] = bytes(end - sector)
    assert data == expected
    assert [sector for sector in range(0, len(CONTENT), SECTOR_BYTES) if hole_in(holes, sector, sector + 1)] == hit
    assert all(start < end <= len(CONTENT) for start, end in holes)
    assert all(one[1] < other[0] for one, other in pairwise(holes)), "those side by side are one"


def test_a_sector_that_can_be_read_the_next_time_is_not_missing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # All of it, then halves down to the sector, which is read again.
    BadDisk(monkeypatch, [(9000, 9001)], errno.EIO, times=6)
    assert read_file_around(path) == (CONTENT, [])


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EBADF, errno.EACCES])
def test_any_other_error_is_raised(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    BadDisk(monkeypatch, [(9000, 9001)], number)
    with pytest.raises(OSError, match=os.strerror(number)):
        read_file_around(path)


def test_a_copy_has_zeros_for_what_is_missing(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_errors, "COPIED_BYTES", 12_288)
    BadDisk(monkeypatch, [(9000, 9001)], errno.EIO)
    copy_around(path, tmp_path / "copy")
    data, holes = read_file_around(path)
    assert (tmp_path / "copy").read_bytes() == data != CONTENT and holes == [(8192, 12288)]


def test_a_disk_that_gives_nothing_is_noticed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BadDisk(monkeypatch, [(0, 20_000)], errno.EIO)
    assert any_can_be_read([tmp_path / "missing", path])
    disk.bad = [(0, 1 << 30)]
    assert not any_can_be_read([tmp_path / "missing", path])


def test_a_small_file_that_can_be_made_anew(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_small(path) == CONTENT and read_small(tmp_path / "missing") is None

    def failing(number: int) -> None:
        def read_bytes(self: Path) -> bytes:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "read_bytes", read_bytes)

    failing(errno.EIO)
    assert read_small(path) is None
    with pytest.raises(OSError, match="file"):
        read_whole(path)
    failing(errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        read_small(path)
