"""The file beside a segment of a stream: its index, and from where a restart must read the segment itself.

    0  8 octets  what it is           32 u64  next offset           64 u32  octets of what is tracked
    8  u32       format version       40 u64  arrival of the first  68 u32  octets of the blocks
    12 u32       1 if it is sealed    48 u64  arrival of the last   72      what is tracked, the blocks,
    16 u64       number               56 u64  where it ends                 CRC-32C of all of it
    24 u64       first offset

It is written for what is synced only, so everything up to where it ends was on disk. What is tracked is not in that of
a sealed segment, because the next one starts with it. See core.stream.segment for the blocks."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from leveret.core.log.record_check import blocks_fit
from leveret.core.log.records import checksum
from leveret.core.stream.log import Snapshot
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.runtime.read_errors import read_small
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.layout import FORMAT_VERSION

WHAT = b"LVRT-six"
# Higher ones are never given, see core.log.record_check.
OFFSET_MAX = (1 << 63) - 1
_HEAD = struct.Struct(">8sIIQQQQQQII")
_SUM = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class StreamIndex:
    number: int
    sealed: bool
    first_offset: int
    next_offset: int
    first_stamp: int
    last_stamp: int
    end: int
    tracked: bytes
    blocks: bytes


def index_of_sealed(segment: StreamSegment) -> StreamIndex:
    return StreamIndex(
        segment.number,
        True,
        segment.first_offset,
        segment.next_offset,
        segment.first_stamp,
        segment.last_stamp,
        segment.end,
        b"",
        segment.copy_index(),
    )


def index_of_found(segment: StreamSegment, tracking: Tracking) -> StreamIndex:
    """Of one that grows, as a start has read it."""
    return StreamIndex(
        segment.number,
        False,
        segment.first_offset,
        segment.next_offset,
        segment.first_stamp,
        segment.last_stamp,
        segment.end,
        tracking.encode(),
        segment.copy_index(),
    )


def index_of(snapshot: Snapshot) -> StreamIndex:
    segment = snapshot.segment
    return StreamIndex(
        segment.number,
        False,
        segment.first_offset,
        snapshot.next_offset,
        segment.first_stamp,
        snapshot.last_stamp,
        snapshot.end,
        snapshot.tracked,
        snapshot.blocks,
    )


def encode_stream_index(index: StreamIndex) -> bytes:
    head = _HEAD.pack(
        WHAT,
        FORMAT_VERSION,
        index.sealed,
        index.number,
        index.first_offset,
        index.next_offset,
        index.first_stamp,
        index.last_stamp,
        index.end,
        len(index.tracked),
        len(index.blocks),
    )
    data = head + index.tracked + index.blocks
    return data + _SUM.pack(checksum(data))


def read_stream_index(path: Path, number: int) -> StreamIndex | None:
    """None if there is none, or it is damaged, or of something else: then the segment tells all the same. Raises
    OSError where that is not known because something is short."""
    data = read_small(path)
    if data is None:
        return None
    if len(data) < _HEAD.size + _SUM.size or _SUM.unpack(data[-4:])[0] != checksum(data[:-4]):
        return None
    fields = _HEAD.unpack_from(data)
    what, version, sealed, found, first_offset, next_offset, first_stamp, last_stamp, end, tracked, blocks = fields
    if what != WHAT or version != FORMAT_VERSION or found != number or len(data) != _HEAD.size + tracked + blocks + 4:
        return None
    at = _HEAD.size + tracked
    if not first_offset <= next_offset <= OFFSET_MAX or not blocks_fit(data[at:-4], HEAD_BYTES, end):
        return None
    return StreamIndex(
        number,
        bool(sealed),
        first_offset,
        next_offset,
        first_stamp,
        last_stamp,
        end,
        data[_HEAD.size : at],
        data[at : at + blocks],
    )
