"""A sealed segment's index: its notes in a file of their own, so that a start reads 32 octets a message, not bodies.

    0  8 octets  LVRT-idx           24 u64  sequence of the segment's last record
    8  u32       format version     32 u64  the sequence up to which the segment says everything is synced
    12 u32       1 if the broker    40 u64  sequence of the first record
                 was closed after   48 u64  where the records end in the segment
    16 u64       the segment's      56 u64  octets of notes
                 number
    64 the notes, see core.log.records; then a CRC-32C of everything before

It can always be made anew from the segment, so one that is missing or damaged is no more than a slower start."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from leveret.core.log.record_check import index_fits
from leveret.core.log.records import checksum
from leveret.runtime.read_errors import read_small
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.layout import FORMAT_VERSION

NOTE_BYTES = 32
PLACED = 1
# Higher ones are never given, see core.log.record_check.
SEQUENCE_MAX = (1 << 63) - 1
_WHAT = b"LVRT-idx"
_HEAD = struct.Struct(">8sIIQQQQQQ")
_SUM = struct.Struct(">I")


@dataclass(slots=True)
class SegmentIndex:
    number: int
    first_sequence: int
    last_sequence: int
    synced_sequence: int
    end: int
    notes: bytearray
    # Whether the last record says that the broker stopped in good order.
    closed: bool = False


def encode_index(index: SegmentIndex) -> bytes:
    head = _HEAD.pack(
        _WHAT,
        FORMAT_VERSION,
        index.closed,
        index.number,
        index.last_sequence,
        index.synced_sequence,
        index.first_sequence,
        index.end,
        len(index.notes),
    )
    octets = head + bytes(index.notes)
    return octets + _SUM.pack(checksum(octets))


def read_index(path: Path, number: int) -> SegmentIndex | None:
    """The index of this segment, or None if there is none that can be trusted. Raises OSError where that is not known
    because something is short."""
    octets = read_small(path)
    if octets is None:
        return None
    if len(octets) < _HEAD.size + _SUM.size or _SUM.unpack(octets[-4:])[0] != checksum(octets[:-4]):
        return None
    what, version, closed, found, last, synced, first, end, size = _HEAD.unpack(octets[: _HEAD.size])
    if what != _WHAT or version != FORMAT_VERSION or found != number or size != len(octets) - _HEAD.size - _SUM.size:
        return None
    notes = octets[_HEAD.size : -4]
    if max(first, last, synced, end) > SEQUENCE_MAX or not index_fits(notes, HEAD_BYTES, end):
        return None
    return SegmentIndex(number, first, last, synced, end, bytearray(notes), bool(closed))


def placed_count(notes: bytearray) -> int:
    """How many messages these notes place."""
    return bytes(notes[NOTE_BYTES - 1 :: NOTE_BYTES]).count(PLACED)
