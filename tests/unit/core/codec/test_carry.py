"""What a connection carries over from chunk to chunk, as both protocols' connections show it."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.connection import Connection
from leveret.core.connection.unfinished import Unfinished, UnfinishedTotal
from leveret.core.stream.connection import StreamConnection
from tests.conformance.amqp_codec import encode_frame
from tests.unit.core.stream_client_bench import frame

# The first fits into the least that is kept of a frame, the second does not, the third into what remains of that.
PAYLOADS = (b"one", b"2" * 5000, b"three")


class Amqp:
    def __init__(self) -> None:
        self.connection = Connection(WriteBuffer([], []), 131072, 16)

    def octets(self) -> bytes:
        return b"".join(encode_frame(1, 0, b"\x00\x0a\x00\x0b" + payload) for payload in PAYLOADS)

    def payload(self, event: Any) -> bytes:
        assert event[:2] == (0, 0x000A000B)
        return bytes(event[2])


class Stream:
    def __init__(self) -> None:
        self.connection = StreamConnection(WriteBuffer([], []), 131072, Unfinished(UnfinishedTotal()))

    def octets(self) -> bytes:
        return b"".join(frame(17, payload) for payload in PAYLOADS)

    def payload(self, event: Any) -> bytes:
        assert event[:4] == b"\x00\x11\x00\x01"
        return bytes(event[4:])


@pytest.fixture(params=[Amqp, Stream])
def client(request: pytest.FixtureRequest) -> Any:
    return request.param()


def feed(client: Any, octets: bytes) -> list[bytes]:
    """The payloads that come out of a chunk, whose buffer is then used for something else."""
    chunk = bytearray(octets) + b"not of the chunk"
    event = client.connection.feed(chunk, len(octets))
    payloads = []
    while event is not None:
        payloads.append(client.payload(event))
        event = client.connection.proceed()
    chunk[:] = b"\xff" * len(chunk)
    return payloads


def test_a_frame_may_be_cut_anywhere(client: Any) -> None:
    octets = client.octets()
    ends = range(len(octets) + 1)
    for cut in [*ends[:60], *ends[500:530], *ends[4080:4110], *ends[-60:]]:
        assert feed(client, octets[:cut]) + feed(client, octets[cut:]) == list(PAYLOADS), cut
    assert client.connection.bytes_received == 180 * len(octets)


def test_a_frame_may_come_octet_by_octet(client: Any) -> None:
    octets = client.octets()
    payloads = [payload for at in range(len(octets)) for payload in feed(client, octets[at : at + 1])]
    assert payloads == list(PAYLOADS)


@pytest.mark.parametrize("missing", [0, 1, 5, 9])
def test_the_rest_of_a_chunk_that_was_put_aside_needs_no_buffer(client: Any, missing: int) -> None:
    octets = client.octets()
    whole = len(octets) - missing
    chunk = bytearray(octets)
    first = client.connection.feed(chunk, whole)
    client.connection.detach()
    chunk[:] = b"\xff" * len(chunk)
    payloads = [client.payload(first)]
    while (event := client.connection.proceed()) is not None:
        payloads.append(client.payload(event))
        client.connection.detach()
    assert payloads + feed(client, octets[whole:]) == list(PAYLOADS)


def test_nothing_can_be_put_aside_too(client: Any) -> None:
    client.connection.detach()
    assert client.connection.proceed() is None
    assert feed(client, client.octets()) == list(PAYLOADS)
