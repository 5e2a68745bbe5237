"""The client's data plane on a workbench: what a broker sends goes in as octets, what it gets comes out decoded.

The octets are made and read by the conformance suite's own codec, so that nothing of the code under test judges
itself. Works the same compiled and interpreted."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from leveret.core.client.channel_codec import ChannelCodec, DeliveryBuffer
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.core.client.reader import Reader
from leveret.core.client.template import Template
from leveret.core.codec.properties import encode_properties
from leveret.core.codec.write_buffer import WriteBuffer
from tests.conformance import amqp_codec
from tests.unit.queues.dataplane import body_frame, empty_outbox, header_frame, method_frame, split_frames

FRAME_MAX = 131072
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Published(NamedTuple):
    """A basic.publish with its content, as a broker reads it."""

    channel: int
    fields: dict[str, Any]
    properties: bytes
    body: bytes
    # Sizes of the body frames' payloads.
    pieces: tuple[int, ...]


class Bench:
    """One connection's reader and write buffer with the channel codec of one channel, to which more can be added."""

    def __init__(self, frame_max: int = FRAME_MAX, confirming: bool = False) -> None:
        self.frame_max = frame_max
        self.write_buffer = WriteBuffer([], [])
        self.reader = Reader(frame_max)
        self.kicks = 0
        self.codec = self.add_lane(1, confirming)

    def add_lane(self, number: int, confirming: bool = False) -> ChannelCodec:
        codec = ChannelCodec(number, self.write_buffer, self.frame_max - 8)
        codec.kick = self._kick
        codec.confirming = confirming
        self.reader.add_lane(codec)
        return codec

    def _kick(self) -> None:
        self.kicks += 1

    def add_sink(self, tag: str = "me", codec: ChannelCodec | None = None) -> DeliveryBuffer:
        delivery_buffer = DeliveryBuffer(tag.encode())
        (codec or self.codec).delivery_buffers[delivery_buffer.tag] = delivery_buffer
        return delivery_buffer

    def feed(self, *chunks: bytes) -> list[Any]:
        """The events of all chunks. Each chunk's buffer is used for something else afterwards, as a socket's is."""
        events: list[Any] = []
        for octets in chunks:
            chunk = bytearray(octets) + b"not of the chunk"
            events += self.reader.feed(chunk, len(octets))
            chunk[:] = b"\xff" * len(chunk)
        return events

    def sent(self) -> bytes:
        """What was written since it was asked last."""
        octets = empty_outbox(self.write_buffer)
        self.write_buffer.calm_down()
        return octets

    def publish(self, message_id: str, codec: ChannelCodec | None = None, **given: Any) -> Outgoing:
        message = outgoing(message_id, **given)
        (codec or self.codec).publish(message)
        return message


def outgoing(
    message_id: str = "",
    exchange: str = "",
    key: str = "q",
    body: bytes = b"",
    bits: int = 0,
    properties: Mapping[str, Any] | None = None,
) -> Outgoing:
    octets = message_id.encode()
    raw = Template(encode_properties(**(properties or {}))).fill(octets)
    return Outgoing(make_address(exchange, key), raw, body, octets, bits)


def content(channel: int, body: bytes, properties: Mapping[str, Any] | None, pieces: Sequence[int] = ()) -> bytes:
    """Header and body frames; the body in pieces of these sizes, and what is left in one more."""
    frames = header_frame(channel, len(body), properties)
    at = 0
    for size in pieces:
        frames += body_frame(channel, body[at : at + size])
        at += size
    return frames + (body_frame(channel, body[at:]) if at < len(body) else b"")


def deliver(
    delivery_tag: int,
    body: bytes = b"",
    properties: Mapping[str, Any] | None = None,
    *,
    channel: int = 1,
    tag: str = "me",
    exchange: str = "",
    key: str | bytes = "q",
    redelivered: bool = False,
    pieces: Sequence[int] = (),
) -> bytes:
    method = method_frame(
        channel,
        "basic.deliver",
        consumer_tag=tag,
        delivery_tag=delivery_tag,
        redelivered=redelivered,
        exchange=exchange,
        routing_key=key,
    )
    return method + content(channel, body, properties, pieces)


def give_back(message_id: str | bytes | None, code: int = 312, text: str = "NO_ROUTE", *, body: bytes = b"") -> bytes:
    """basic.return on channel 1."""
    method = method_frame(1, "basic.return", reply_code=code, reply_text=text, exchange="", routing_key="q")
    return method + content(1, body, {} if message_id is None else {"message_id": message_id})


def get_ok(delivery_tag: int, body: bytes, left: int = 0, redelivered: bool = False, channel: int = 1) -> bytes:
    method = method_frame(
        channel,
        "basic.get-ok",
        delivery_tag=delivery_tag,
        redelivered=redelivered,
        exchange="x",
        routing_key="k",
        message_count=left,
    )
    return method + content(channel, body, {})


def ack(tag: int, multiple: bool = False, channel: int = 1) -> bytes:
    return method_frame(channel, "basic.ack", delivery_tag=tag, multiple=multiple)


def nack(tag: int, multiple: bool = False, channel: int = 1) -> bytes:
    return method_frame(channel, "basic.nack", delivery_tag=tag, multiple=multiple)


def read_published(octets: bytes) -> list[Published]:
    """All of the octets must be publishes with their content."""
    frames = split_frames(octets)
    found = []
    while frames:
        kind, channel, payload = frames.pop(0)
        name, fields = amqp_codec.decode_method(payload)
        assert (kind, name) == (1, "basic.publish")
        kind, number, header = frames.pop(0)
        assert (kind, number, header[:4]) == (2, channel, b"\x00\x3c\x00\x00")
        size = struct.unpack(">Q", header[4:12])[0]
        body, pieces = b"", []
        while len(body) < size:
            kind, number, payload = frames.pop(0)
            assert (kind, number) == (3, channel)
            body += payload
            pieces.append(len(payload))
        found.append(Published(channel, fields, header[12:], body, tuple(pieces)))
    return found


def read_methods(octets: bytes) -> list[tuple[int, str, dict[str, Any]]]:
    """(channel, name, fields) of octets that are methods without content."""
    frames = split_frames(octets)
    assert all(kind == 1 for kind, _, _ in frames)
    return [(channel, *amqp_codec.decode_method(payload)) for _, channel, payload in frames]
