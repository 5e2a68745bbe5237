"""The checker: how far what was read is whole and undamaged, said in the disk's thread."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from leveret.core.log.records import command_record, sealed
from leveret.runtime.disk_thread import DiskThread
from leveret.storage.record_checker import RecordChecker

SALT = 99
RECORDS = [bytes(sealed(command_record(sequence, 0, b"x" * (sequence * 11)), SALT)) for sequence in range(1, 6)]


def checked(tmp_path: Path, octets: bytes, size: int | None = None, salt: int = SALT) -> int:
    """How many octets are good, as the loop reads it from before the buffer."""
    (tmp_path / "segment").write_bytes(octets)
    thread = DiskThread("test", RecordChecker())
    fd = os.open(tmp_path / "segment", os.O_RDONLY)
    try:
        size = len(octets) if size is None else size
        buffer = bytearray(b"\xee" * 8 + bytes(size))
        thread.read(fd, buffer, 8, size, 0)
        thread.prepare(buffer, 8, size, salt)
        thread.submit()
        assert select.select([thread.done_fd], [], [], 10)[0]
        assert thread.finish() == 0 and thread.read_error(0) == 0
        assert bytes(buffer[8:]) == octets[:size].ljust(size, b"\0"), "what was read is not touched"
        return int.from_bytes(buffer[:8], "big") - 8
    finally:
        thread.stop()
        os.close(fd)


def test_all_of_it_is_good(tmp_path: Path) -> None:
    assert checked(tmp_path, b"".join(RECORDS)) == sum(map(len, RECORDS))


@pytest.mark.parametrize("cut", [1, 8, 31, 40])
def test_the_last_one_is_cut_off(tmp_path: Path, cut: int) -> None:
    whole = b"".join(RECORDS)
    assert checked(tmp_path, whole, len(whole) - cut - 8) == sum(map(len, RECORDS[:4]))


@pytest.mark.parametrize("damaged", range(5))
def test_it_ends_before_the_first_that_is_damaged(tmp_path: Path, damaged: int) -> None:
    spoiled = [bytearray(record) for record in RECORDS]
    spoiled[damaged][-9] ^= 4
    assert checked(tmp_path, b"".join(spoiled)) == sum(map(len, RECORDS[:damaged]))


def test_another_salt_is_no_good(tmp_path: Path) -> None:
    assert checked(tmp_path, b"".join(RECORDS), salt=SALT + 1) == 0


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    assert checked(tmp_path, b"".join(RECORDS), 4096) == sum(map(len, RECORDS))
    assert checked(tmp_path, b"", 64) == 0
