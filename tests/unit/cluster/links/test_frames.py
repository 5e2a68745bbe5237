"""Frames between nodes: cut anywhere they are read the same, and nothing out of bounds gets through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.cluster.links.frames import (
    FRAME_BYTES_MAX,
    HEAD,
    HEAD_BYTES,
    MORE,
    FrameError,
    FrameReader,
    Kind,
    Message,
    beat,
    frame,
    parts,
)

KINDS = (Kind.HEARTBEAT, Kind.ECHO, Kind.CONSENSUS, Kind.CARRIER, Kind.TRAFFIC)
messages = st.lists(
    st.tuples(
        st.sampled_from([Kind.CONSENSUS, Kind.CARRIER, Kind.TRAFFIC]),
        st.integers(0, (1 << 64) - 1),
        st.binary(max_size=300),
    ),
    max_size=8,
)


def octets_of(sent: list[Message], part_bytes: int, beats: bool) -> bytes:
    """All messages in parts, with a heartbeat between any two frames if wanted."""
    pieces = []
    for kind, subject, octets in sent:
        for head, start, end in parts(kind, subject, octets, part_bytes):
            pieces.append(head + octets[start:end])
            if beats:
                pieces.append(beat(Kind.HEARTBEAT, 7))
    return b"".join(pieces)


@settings(deadline=None)
@given(messages, st.integers(1, 100), st.integers(1, 400), st.booleans())
def test_what_is_sent_is_read_however_it_is_cut(
    sent: list[Message], part_bytes: int, chunk_bytes: int, beats: bool
) -> None:
    octets = octets_of(sent, part_bytes, beats)
    reader = FrameReader(KINDS)
    found = []
    for start in range(0, len(octets), chunk_bytes):
        found += reader.feed(octets[start : start + chunk_bytes])
    assert [message for message in found if message[0] != Kind.HEARTBEAT] == sent
    assert all(len(octets) == 8 for kind, _, octets in found if kind == Kind.HEARTBEAT)


@settings(deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 600))
def test_garbage_is_refused_or_bounded(octets: bytes, chunk_bytes: int) -> None:
    reader = FrameReader(KINDS, frame_bytes_max=200, message_bytes_max=500)
    try:
        for start in range(0, len(octets), chunk_bytes):
            for kind, _, message in reader.feed(octets[start : start + chunk_bytes]):
                assert kind in KINDS and len(message) <= 500
            assert len(reader._rest) < HEAD_BYTES + 200 and len(reader._gathered) <= 500
    except FrameError:
        pass


@settings(deadline=None)
@given(messages.filter(bool), st.integers(1, 50), st.data())
def test_one_flipped_octet_never_makes_more_messages_than_were_sent(
    sent: list[Message], part_bytes: int, data: st.DataObject
) -> None:
    octets = bytearray(octets_of(sent, part_bytes, False))
    place = data.draw(st.integers(0, len(octets) - 1))
    octets[place] ^= data.draw(st.integers(1, 255))
    reader = FrameReader(KINDS, frame_bytes_max=400, message_bytes_max=3000)
    try:
        found = reader.feed(octets)
    except FrameError:
        return
    assert sum(len(message) for _, _, message in found) <= len(octets)


def test_the_head_is_thirteen_octets() -> None:
    assert frame(Kind.CONSENSUS, 5, b"ab") == b"\0\0\0\2\x10\0\0\0\0\0\0\0\5ab"


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (frame(99, 0), "kind 99"),
        (frame(Kind.HELLO, 0), "kind 1,"),
        (HEAD.pack(FRAME_BYTES_MAX + 1, Kind.TRAFFIC, 0), "1048577 octets"),
        (HEAD.pack(7, Kind.HEARTBEAT, 0), "heartbeat of 7"),
        (HEAD.pack(8, Kind.HEARTBEAT | MORE, 0) + bytes(8), "part of kind 4"),
        (HEAD.pack(0, Kind.TRAFFIC | MORE, 0), "part of kind 32 with 0"),
        (HEAD.pack(1, Kind.TRAFFIC | MORE, 3) + b"a" + frame(Kind.TRAFFIC, 4, b"b"), "within a message"),
        (HEAD.pack(1, Kind.TRAFFIC | MORE, 3) + b"a" + frame(Kind.CARRIER, 3, b"b"), "within a message"),
    ],
)
def test_what_no_node_sends_is_named(octets: bytes, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        FrameReader(KINDS).feed(octets)


def test_a_head_out_of_bounds_is_refused_before_its_octets_come() -> None:
    reader = FrameReader(KINDS)
    octets = HEAD.pack(FRAME_BYTES_MAX + 1, Kind.TRAFFIC, 0)
    assert reader.feed(octets[:12]) == []
    with pytest.raises(FrameError):
        reader.feed(octets[12:])


def test_a_message_in_parts_is_bounded_as_a_whole() -> None:
    reader = FrameReader(KINDS, frame_bytes_max=100, message_bytes_max=250)
    part = HEAD.pack(100, Kind.TRAFFIC | MORE, 1) + bytes(100)
    assert reader.feed(part + part) == []
    with pytest.raises(FrameError, match="more than 250"):
        reader.feed(part)
