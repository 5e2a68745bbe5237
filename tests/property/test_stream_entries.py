"""Whatever a client of the stream protocol puts into a stream, readers of the other protocol get something: an entry is
taken apart or comes as it is, and its offsets are those it has."""

from __future__ import annotations

import gzip
import struct
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from leveret.core.stream.content import with_offset
from leveret.core.stream.entries import Expansion
from tests.fuzz.effort import effort

RAW, SUBBATCH = 1, 2
# Octets that look like AMQP 1.0 for a while.
SECTIONS = st.sampled_from(
    [
        b"\x00\x53\x70\xc0\x02\x01\x41",
        b"\x00\x53\x72\xc1",
        b"\x00\x53\x73",
        b"\x00\x53\x74\xd1",
        b"\x00\x53\x75\xa0\x05",
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        b"\x00\x53\x77\x45",
        b"\x00\x80",
        b"\xa1\x03abc",
        b"\xc0\x04\x02\x43\x43",
    ]
)
BODIES = st.binary(max_size=60) | st.lists(SECTIONS | st.binary(max_size=6), max_size=6).map(b"".join)


def entry(body: bytes, count: int, flags: int, extra: bytes, offset: int = 7) -> bytearray:
    address = b"\x00\x01s"
    length = 40 + len(address) + len(extra) + len(body)
    head = struct.pack(">IIQBBHIIIQ", 0, length, offset, 6, flags, len(address), count, len(extra), len(body), 1000)
    return bytearray(head + address + extra + body)


def expand(data: bytearray, offset: int = 0) -> list[tuple[int, Any]]:
    """All messages from this offset on; what gives none on the way is left out."""
    return [found for found in Expansion(data, 0).messages(offset) if found is not None]


@effort(300)
@given(BODIES)
@example(b"")
def test_one_message_is_one_message(body: bytes) -> None:
    ((offset, message),) = expand(entry(body, 1, RAW, b""))
    assert offset == 7 and message.stamp == 1000
    assert with_offset(message, offset, False).properties.headers()["x-stream-offset"] == 7


@effort(300)
@given(
    st.lists(BODIES, min_size=1, max_size=5),
    st.sampled_from([0, 1, 2, 3, 4, 7, 255]),
    st.integers(0, (1 << 32) - 1) | st.integers(0, 300),
    st.integers(0, 6),
    st.binary(max_size=20),
    st.booleans(),
)
def test_a_batch_comes_apart_or_as_it_is(
    bodies: list[bytes], codec: int, size: int, count: int, garbage: bytes, compressed: bool
) -> None:
    """Counts, sizes and codecs that say anything."""
    octets = b"".join(struct.pack(">I", len(body)) + body for body in bodies) + garbage
    octets = gzip.compress(octets) if compressed else octets
    found = expand(entry(octets, count, SUBBATCH, bytes([codec]) + struct.pack(">I", size)))
    assert [offset for offset, _ in found] == list(range(7, 7 + len(found)))
    assert len(found) <= max(count, 1)
    for offset, message in found:
        with_offset(message, offset, True)


@effort(50)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8), st.booleans())
def test_a_good_batch_comes_apart(bodies: list[bytes], compressed: bool) -> None:
    messages = [b"\x00\x53\x75\xa0" + bytes([len(body)]) + body for body in bodies]
    octets = b"".join(struct.pack(">I", len(message)) + message for message in messages)
    extra = bytes([int(compressed)]) + struct.pack(">I", len(octets))
    stored = gzip.compress(octets) if compressed else octets
    found = expand(entry(stored, len(bodies), SUBBATCH, extra))
    assert [(offset, message.body) for offset, message in found] == list(enumerate(bodies, 7))
    # Whoever was here before goes on where they were.
    for skipped in range(len(bodies)):
        assert [offset for offset, _ in expand(entry(stored, len(bodies), SUBBATCH, extra), 7 + skipped)] == [
            offset for offset, _ in found[skipped:]
        ]
