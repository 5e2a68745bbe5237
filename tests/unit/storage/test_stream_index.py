"""The file beside a stream's segment: read as it was written, and not at all if anything in it is wrong."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from leveret.storage.stream.index import StreamIndex, encode_stream_index, read_stream_index

BLOCKS = b"".join(struct.pack(">QQQ16s", offset, 1000, place, b"b" * 16) for offset, place in ((100, 64), (170, 65600)))
INDEX = StreamIndex(7, False, 100, 250, 1000, 2000, 98_304, b"tracked", BLOCKS)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "0000000007.index"
    for index in (INDEX, StreamIndex(7, True, 0, 0, 0, 0, 64, b"", b"")):
        path.write_bytes(encode_stream_index(index))
        assert read_stream_index(path, 7) == index


def test_none_is_read_that_is_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "0000000007.index"
    assert read_stream_index(path, 7) is None
    path.write_bytes(encode_stream_index(INDEX))
    assert read_stream_index(path, 8) is None


@pytest.mark.parametrize("place", range(0, 163, 6))
def test_one_flipped_bit_spoils_it(tmp_path: Path, place: int) -> None:
    path = tmp_path / "0000000007.index"
    data = bytearray(encode_stream_index(INDEX))
    assert len(data) == 163
    data[place] ^= 1 << place % 8
    path.write_bytes(data)
    assert read_stream_index(path, 7) is None


@pytest.mark.parametrize(
    "wrong",
    [
        replace(INDEX, blocks=BLOCKS[:-1]),
        replace(INDEX, blocks=BLOCKS[40:] + BLOCKS[:40]),
        replace(INDEX, end=65600),
        replace(INDEX, blocks=struct.pack(">QQQ16x", 100, 1000, 0)),
        replace(INDEX, blocks=struct.pack(">QQQ16x", 100, 1000, 68)),
        replace(INDEX, first_offset=251),
        replace(INDEX, next_offset=1 << 63),
    ],
)
def test_one_with_a_good_checksum_that_does_not_fit_is_not_believed(tmp_path: Path, wrong: StreamIndex) -> None:
    path = tmp_path / "0000000007.index"
    path.write_bytes(encode_stream_index(wrong))
    assert read_stream_index(path, 7) is None


@pytest.mark.parametrize("size", [0, 3, 71, 100, 162])
def test_a_part_of_it_is_nothing(tmp_path: Path, size: int) -> None:
    path = tmp_path / "0000000007.index"
    path.write_bytes(encode_stream_index(INDEX)[:size])
    assert read_stream_index(path, 7) is None
