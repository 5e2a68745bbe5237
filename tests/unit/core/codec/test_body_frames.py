"""Bodies in frames of the agreed size, not copied; through the functions that use them, which are C."""

from __future__ import annotations

import pytest

from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.core.codec.write_buffer import WriteBuffer

PAYLOAD_MAX = 4088


def published(body: bytes) -> bytes:
    write_buffer = WriteBuffer([], [])
    codec = ChannelCodec(7, write_buffer, PAYLOAD_MAX)
    codec.kick = lambda: None
    codec.publish(Outgoing(make_address("", "q"), b"\x00\x00", body, b"", 0))
    return b"".join(write_buffer.views(1000))


def body_frames(octets: bytes) -> list[bytes]:
    """The payloads of the body frames, all of channel 7."""
    found = []
    while octets:
        kind, channel, size = octets[0], int.from_bytes(octets[1:3], "big"), int.from_bytes(octets[3:7], "big")
        assert (channel, octets[7 + size]) == (7, 0xCE)
        if kind == 3:
            found.append(octets[7 : 7 + size])
        octets = octets[8 + size :]
    return found


@pytest.mark.parametrize("size", [1, PAYLOAD_MAX, PAYLOAD_MAX + 1, 3 * PAYLOAD_MAX, 3 * PAYLOAD_MAX + 5])
def test_a_body_is_cut_into_frames_of_the_agreed_size(size: int) -> None:
    body = bytes(place % 251 for place in range(size))
    frames = body_frames(published(body))
    assert b"".join(frames) == body
    assert [len(frame) for frame in frames[:-1]] == [PAYLOAD_MAX] * (len(frames) - 1)
    assert 0 < len(frames[-1]) <= PAYLOAD_MAX


def test_an_empty_body_has_no_frame() -> None:
    assert body_frames(published(b"")) == []


def test_a_large_body_is_not_copied() -> None:
    body = bytes(3 * PAYLOAD_MAX)
    write_buffer = WriteBuffer([], [])
    codec = ChannelCodec(7, write_buffer, PAYLOAD_MAX)
    codec.kick = lambda: None
    codec.publish(Outgoing(make_address("", "q"), b"\x00\x00", body, b"", 0))
    assert sum(view.obj is body for view in write_buffer.views(1000)) == 3
