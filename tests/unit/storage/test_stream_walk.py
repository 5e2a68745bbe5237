"""A stream's segment read over damage, with bodies that were made to look like records: what is read stays in
proportion to what is there."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from leveret.core.log.records import sealed
from leveret.core.stream.scan import StreamScan
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.storage.stream import search as search_module
from leveret.storage.stream import walk as walk_module
from leveret.storage.stream.walk import READ_FACTOR, Gap, walk

SALT = 77
HEAD_BYTES = 64
WINDOW_BYTES = 8192
ENTRY = 6
RAW = 1


def entry(offset: int, body: bytes) -> bytes:
    # One of the stream protocol, with an address of eight octets: what is in the body stands where records can.
    head = struct.pack(">IIQBBHIII", 0, 48 + len(body), offset, ENTRY, RAW, 8, 1, 0, len(body))
    padding = bytes(-len(body) % 8)
    return bytes(sealed(bytearray(head + struct.pack(">Q8s", 1000, b"\x00\x06stream") + body + padding), SALT))


def spoiled(octets: bytes, place: int) -> bytes:
    return octets[:place] + bytes([octets[place] ^ 1]) + octets[place + 1 :]


class Disk:
    """Counts what is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.octets = 0
        self._pread = os.pread
        monkeypatch.setattr(os, "pread", self)
        monkeypatch.setattr(walk_module, "WINDOW_BYTES", WINDOW_BYTES)
        monkeypatch.setattr(search_module, "WINDOW_BYTES", WINDOW_BYTES)

    def __call__(self, fd: int, size: int, place: int) -> bytes:
        data = self._pread(fd, size, place)
        self.octets += len(data)
        return data


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def walked(path: Path, data: bytes) -> tuple[list[Gap], Any]:
    path.write_bytes(bytes(HEAD_BYTES) + data)
    segment = StreamSegment(1, SALT, path, 0, HEAD_BYTES)
    scan = StreamScan(segment, Tracking(), None)
    return walk(scan, HEAD_BYTES + len(data)), scan


@pytest.mark.parametrize("claimed", [100, 5000, 40_000], ids=lambda claimed: f"claims {claimed}")
def test_a_body_full_of_heads(tmp_path: Path, disk: Disk, claimed: int) -> None:
    heads = struct.pack(">II", 0x7FFFFFFF, claimed) * 16_000
    damaged = spoiled(entry(1, heads), 30)
    data = entry(0, b"before") + damaged + entry(2, b"after")
    gaps, scan = walked(tmp_path / "segment", data)
    start = HEAD_BYTES + len(entry(0, b"before"))
    assert gaps == [Gap(start, start + len(damaged), 1, True)]
    assert (scan.next_offset, scan.messages) == (3, 2)
    assert disk.octets <= READ_FACTOR * (len(data) + WINDOW_BYTES)


@pytest.mark.parametrize("claimed", [100, 5000, 100_000], ids=lambda claimed: f"claims {claimed}")
def test_a_body_by_somebody_who_knows_the_salt(tmp_path: Path, disk: Disk, claimed: int) -> None:
    """Good records and what looks like others in turns: each of them is damage for itself."""
    turns = 6000
    inside = b"".join(struct.pack(">IIQ16x", 0, claimed, 1 << 40) + entry(10 + turn, b"") for turn in range(turns))
    data = entry(0, b"before") + spoiled(entry(1, inside + bytes(120_000)), 30) + entry(9000, b"after")
    gaps, scan = walked(tmp_path / "segment", data)
    assert (scan.next_offset, len(gaps)) == (9001, turns + 1)
    # Twice: what was read in windows, and the last of these; then all of the rest at once.
    assert disk.octets <= (2 * READ_FACTOR + 1) * (len(data) + WINDOW_BYTES)


def test_ordinary_damage_is_read_in_windows(tmp_path: Path, disk: Disk) -> None:
    entries = [entry(number, b"x" * 500) for number in range(200)]
    entries[100] = spoiled(entries[100], 60)
    gaps, scan = walked(tmp_path / "segment", b"".join(entries))
    assert (len(gaps), scan.messages) == (1, 199)
    assert disk.octets < 2 * sum(map(len, entries))
