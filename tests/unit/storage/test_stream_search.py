"""Looking for the next good record: of any length, at any place, and never one that is not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.log.records import command_record, sealed
from leveret.storage.stream import search as stream_search
from leveret.storage.stream.search import claimed_length, find_next_record

SALT = 77


def record(sequence: int, size: int) -> bytes:
    return bytes(sealed(command_record(sequence, 0, b"z" * size), SALT))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("window", [64, 1024, 4096])
@pytest.mark.parametrize("size", [8, 100, 500, 2000, 5000])
@pytest.mark.parametrize("damaged", [8, 504, 1000, 4096])
def test_the_next_one_is_found_whatever_its_length(
    file: int, monkeypatch: pytest.MonkeyPatch, window: int, size: int, damaged: int
) -> None:
    """A long one before a short one, although windows are shorter than it."""
    monkeypatch.setattr(stream_search, "WINDOW_BYTES", window)
    data = b"\x11" * damaged + record(5, size) + record(6, 16)
    os.write(file, data)
    assert find_next_record(file, 0, len(data), SALT, 0) == damaged
    assert find_next_record(file, 0, len(data), SALT, 6) == damaged + len(record(5, size))
    assert find_next_record(file, 0, len(data), SALT, 7) is None


def test_nothing_is_found_where_nothing_is(file: int) -> None:
    os.write(file, bytes(100_000) + record(1, 10)[:-8])
    assert find_next_record(file, 0, 100_040, SALT, 0) is None
    assert find_next_record(file, 0, 8, SALT, 0) is None


def test_what_is_behind_the_end_does_not_count(file: int) -> None:
    os.write(file, b"\x01" * 64 + record(1, 10))
    assert find_next_record(file, 0, 64, SALT, 0) is None
    assert find_next_record(file, 0, 64 + len(record(1, 10)) - 8, SALT, 0) is None


def test_a_record_of_another_file_is_none(file: int) -> None:
    """A message whose body looks like a record."""
    os.write(file, bytes(sealed(command_record(1, 0, b"z" * 50), SALT + 1)) + record(2, 50))
    assert find_next_record(file, 0, 1000, SALT, 0) == 88


def entry_head(length: int, address: int, properties: int, body: int) -> bytes:
    head = bytearray(40)
    head[4:8] = length.to_bytes(4, "big")
    head[16] = 6
    head[18:20] = address.to_bytes(2, "big")
    head[24:28] = properties.to_bytes(4, "big")
    head[28:32] = body.to_bytes(4, "big")
    return bytes(head)


def test_a_length_that_cannot_be_is_none() -> None:
    assert claimed_length(entry_head(1000, 10, 50, 900), 0) == 1000
    assert claimed_length(entry_head(1005, 10, 50, 900), 0) == 1005, "with a filter value"
    assert claimed_length(entry_head(1000 | 1 << 28, 10, 50, 900), 0) == 0
    assert claimed_length(entry_head(999, 10, 50, 900), 0) == 0
    assert claimed_length(bytes(4) + (500).to_bytes(4, "big") + bytes(8) + b"\x07" + bytes(15), 0) == 500
