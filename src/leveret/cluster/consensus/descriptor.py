"""What stands for a payload in the engine's log: 16 octets that name its length, its checksum and its level.

Payloads travel beside the engine's messages and are stored by the node's own log, so the engine copies nothing large. A
payload is taken only if it is the one that the descriptor names. Pure; used by the driver and by what reads the log."""

from __future__ import annotations

import struct

from leveret.core.log.records import checksum

DESCRIPTOR_BYTES = 16
PAYLOAD_BYTES_MAX = 32 << 20

# Length, CRC-32C, level; the rest is zero until a level gives it a meaning.
_LAYOUT = struct.Struct("<IIB7x")


def describe(payload: bytes, level: int) -> bytes:
    """The descriptor of a payload that is written at this level of the cluster."""
    assert len(payload) <= PAYLOAD_BYTES_MAX, f"payload of {len(payload)} octets"
    return _LAYOUT.pack(len(payload), checksum(payload), level)


def payload_length(descriptor: bytes) -> int:
    """Octets of the payload; a ValueError if there cannot be one of that length."""
    length: int = _LAYOUT.unpack(descriptor)[0]
    if length > PAYLOAD_BYTES_MAX:
        raise ValueError(f"descriptor names a payload of {length} octets, at most {PAYLOAD_BYTES_MAX} are possible")
    return length


def level_of(descriptor: bytes) -> int:
    level: int = _LAYOUT.unpack(descriptor)[2]
    return level


def describes(descriptor: bytes, payload: bytes) -> bool:
    """Whether this is the payload that the descriptor was made of."""
    length, crc, _ = _LAYOUT.unpack(descriptor)
    return bool(length == len(payload) and crc == checksum(payload))
