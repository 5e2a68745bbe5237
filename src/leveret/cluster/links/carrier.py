"""A message of the engine with the payloads of its entries, as the octets of one message between nodes.

Pure: a count of payloads, the length of each and of the engine's frame, then all of them. Whether they are the right
payloads is the driver's question."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from leveret.cluster.links.frames import FrameError

PAYLOADS_MAX = 4096
_LENGTH = struct.Struct("!I")


def pack_carrier(frame: bytes, payloads: Sequence[bytes]) -> bytes:
    assert len(payloads) <= PAYLOADS_MAX, f"{len(payloads)} payloads"
    lengths = struct.pack(f"!{len(payloads) + 2}I", len(payloads), len(frame), *map(len, payloads))
    return b"".join((lengths, frame, *payloads))


def unpack_carrier(octets: bytes) -> tuple[bytes, list[bytes]]:
    """Raises FrameError unless the lengths add up to exactly what is here."""
    if len(octets) < _LENGTH.size:
        raise FrameError("a carrier without a count")
    count: int = _LENGTH.unpack_from(octets)[0]
    start = _LENGTH.size * (count + 2)
    if count > PAYLOADS_MAX or start > len(octets):
        raise FrameError(f"a carrier with {count} payloads in {len(octets)} octets")
    lengths = struct.unpack_from(f"!{count + 1}I", octets, _LENGTH.size)
    if start + sum(lengths) != len(octets):
        raise FrameError(f"a carrier of {len(octets)} octets that names {start + sum(lengths)}")
    pieces: list[bytes] = []
    for length in lengths:
        pieces.append(octets[start : start + length])
        start += length
    return pieces[0], pieces[1:]
