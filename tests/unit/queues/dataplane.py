"""The data plane on a workbench: one connection with its channels, queues and router, without socket, session or loop.

Frames go in as octets and come out decoded by the conformance suite's own codec, so that nothing of the code under
test judges itself. Works the same compiled and interpreted: it uses only what Python can reach in both."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret.core.codec.message import Message, new_message
from leveret.core.codec.properties import Properties, encode_properties, parse_properties
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.channel import Channel
from leveret.core.connection.connection import Connection
from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.connection.publish_path import PublishPath
from leveret.core.connection.router import Exchange, NamesMatcher, Router
from leveret.core.matching.matcher import DirectMatcher, Matcher
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import Office
from leveret.errors import SoftError
from tests.conformance import amqp_codec

FRAME_MAX = 131072
BODY_BYTES_MAX = 1 << 20
WITH_CONTENT = ("basic.deliver", "basic.get-ok", "basic.return")


class Sent(NamedTuple):
    """A method that was written into an write buffer, with its content."""

    channel: int
    name: str
    fields: dict[str, Any]
    properties: bytes
    body: bytes
    # Sizes of the body frames' payloads.
    pieces: tuple[int, ...]


def message(body: bytes = b"", key: str = "q", exchange: str = "", **properties: Any) -> Message:
    return new_message(exchange.encode(), key.encode(), parse_properties(encode_properties(**properties)), body)


def method_frame(channel: int, name: str, **fields: Any) -> bytes:
    return amqp_codec.encode_frame(1, channel, amqp_codec.encode_method(name, fields))


def header_frame(channel: int, size: int, properties: Mapping[str, Any] | None = None) -> bytes:
    payload = struct.pack(">HHQ", 60, 0, size) + amqp_codec.encode_properties(properties or {})
    return amqp_codec.encode_frame(2, channel, payload)


def body_frame(channel: int, payload: bytes) -> bytes:
    return amqp_codec.encode_frame(3, channel, payload)


def publish_frames(
    channel: int, exchange: str, key: str, body: bytes = b"", properties: Mapping[str, Any] | None = None, **flags: bool
) -> bytes:
    """basic.publish with its content; the body, if any, in one frame."""
    method = method_frame(channel, "basic.publish", exchange=exchange, routing_key=key, **flags)
    return method + header_frame(channel, len(body), properties) + (body_frame(channel, body) if body else b"")


def split_frames(octets: bytes) -> list[tuple[int, int, bytes]]:
    """(kind, channel, payload) of each frame; all of the octets must be frames."""
    frames = []
    while octets:
        kind, channel, size = struct.unpack(">BHI", octets[:7])
        assert octets[7 + size] == 0xCE
        frames.append((kind, channel, octets[7 : 7 + size]))
        octets = octets[8 + size :]
    return frames


def read_sent(octets: bytes) -> list[Sent]:
    frames = split_frames(octets)
    found = []
    while frames:
        kind, channel, payload = frames.pop(0)
        assert kind == 1, f"expected a method, got frame type {kind}"
        name, fields = amqp_codec.decode_method(payload)
        properties, body, pieces = b"", b"", []
        if name in WITH_CONTENT:
            kind, number, header = frames.pop(0)
            assert (kind, number, header[:4]) == (2, channel, b"\x00\x3c\x00\x00")
            properties = header[12:]
            while len(body) < int.from_bytes(header[4:12], "big"):
                kind, number, payload = frames.pop(0)
                assert (kind, number) == (3, channel)
                body += payload
                pieces.append(len(payload))
        found.append(Sent(channel, name, fields, properties, body, tuple(pieces)))
    return found


def empty_outbox(write_buffer: WriteBuffer, pieces_max: int = 64) -> bytes:
    """Sends everything, as a socket that takes all it is given."""
    taken = b""
    while views := write_buffer.views(pieces_max):
        batch = b"".join(views)
        taken += batch
        write_buffer.sent(len(batch))
    return taken


class OpenGate:
    """Lets everything pass and remembers what it was asked."""

    def __init__(self) -> None:
        self.checked: list[bytes] = []
        self.inspected: list[Properties] = []
        self.delayed: list[Properties] = []
        # Whether each routing key is asked for, and what was.
        self.keyed = False
        self.keys: list[bytes] = []
        self.copies: list[Properties] = []
        # How many messages got an id here.
        self.identified = 0

    def refuse_unknown_exchange(self, address: bytes) -> None:
        raise SoftError(404, f"no exchange '{address[1 : 1 + address[0]].decode()}'")

    def check_publish(self, exchange: Exchange) -> bool:
        self.checked.append(exchange.name)
        return self.keyed

    def check_key(self, exchange: Exchange, key: bytes) -> None:
        self.keys.append(key)

    def check_copies(self, exchange: Exchange, properties: Properties) -> None:
        self.copies.append(properties)

    def inspect(self, properties: Properties) -> Properties:
        self.inspected.append(properties)
        return properties

    def identify(self, properties: Properties) -> Properties:
        self.identified += 1
        return properties.replace({"message_id": f"given {self.identified}"})

    def delay(self, properties: Properties) -> tuple[Properties, int]:
        """The header says the milliseconds; the message goes on without it."""
        self.delayed.append(properties)
        headers = dict(properties.headers())
        delay_ms = headers.pop("x-delay")
        return properties.replace({"headers": headers}), delay_ms


class Workbench:
    """One connection to a virtual host that has a default exchange and the queues a test makes."""

    def __init__(
        self,
        frame_max: int = FRAME_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
        journal: Any = None,
        office: Office | None = None,
    ) -> None:
        self.queues: dict[bytes, Queue] = {}
        self.exchanges: dict[bytes, Exchange] = {}
        self.office = Office() if office is None else office
        self.router = Router(self.exchanges, self.queues, self.office.meter)
        self.gate = OpenGate()
        self.dirty: list[WriteBuffer] = []
        self.write_buffer = WriteBuffer(self.dirty, [])
        self.connection = Connection(self.write_buffer, frame_max, 2047, self.office.meter, journal)
        self.frame_max = frame_max
        self.body_bytes_max = body_bytes_max
        self.journal = journal
        self.add_exchange("", NamesMatcher(self.queues, {}))

    def add_exchange(self, name: str, matcher: Matcher | None = None, alternate: str | None = None) -> Exchange:
        other = None if alternate is None else alternate.encode()
        exchange = Exchange(name.encode(), matcher or DirectMatcher(), False, other, None)
        self.exchanges[name.encode()] = exchange
        self.router.changed()
        return exchange

    def add_queue(self, name: str = "q", single_active: bool = False, **durability: Any) -> ClassicQueue:
        """`durability` is the paging context, the queue log and whether it is lazy."""
        queue = self.queues[name.encode()] = ClassicQueue(
            name.encode(), None, single_active, **{"office": self.office, **durability}
        )
        self.router.changed()
        return queue

    def open_channel(self, number: int = 1) -> Channel:
        limits = (self.frame_max - 8, self.body_bytes_max)
        publish_path = PublishPath(
            number, self.write_buffer, self.router, self.gate, *limits, self.journal, self.office
        )
        channel = Channel(number, self.write_buffer, publish_path, None)
        self.connection.put_channel(channel)
        return channel

    def consume(
        self, channel: Channel, queue: Queue, tag: str = "c", no_ack: bool = False, priority: int = 0, **limits: int
    ) -> Consumer:
        consumer = new_consumer(channel, queue, tag, no_ack, priority, **limits)
        channel.add_consumer(consumer)
        queue.subscribe(consumer)
        return consumer

    def get(self, channel: Channel, queue: Queue, no_ack: bool = False) -> bool:
        return bool(Getter(channel, queue, no_ack).fetch())

    def feed(self, octets: bytes) -> list[Any]:
        """Feeds one chunk; the control methods it held, as (channel, method id, arguments)."""
        events = []
        event = self.connection.feed(bytearray(octets), len(octets))
        while event is not None:
            events.append(event)
            event = self.connection.proceed()
        return events

    def sent(self) -> list[Sent]:
        """What was written since the last call; the socket took all of it."""
        octets = empty_outbox(self.write_buffer)
        self.dirty.clear()
        self.write_buffer.calm_down()
        return read_sent(octets)

    def sent_bodies(self) -> list[bytes]:
        return [sent.body for sent in self.sent()]


def new_consumer(
    channel: Channel,
    queue: Queue,
    tag: str = "c",
    no_ack: bool = False,
    priority: int = 0,
    prefetch_count: int = 0,
    prefetch_bytes: int = 0,
) -> Consumer:
    return Consumer(channel, queue, tag.encode(), no_ack, False, priority, prefetch_count, prefetch_bytes, {})
