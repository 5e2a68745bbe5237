"""A client fast enough to keep a broker busy: it sends bursts of publishes and takes in whatever has come at once.

Logs in and declares as `RawClient` does. It answers a close of the broker and passes it on; it judges nothing."""

import select
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from tests.conformance.amqp_codec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    Value,
    decode_method,
    decode_properties,
    encode_frame,
    encode_method,
    encode_properties,
)
from tests.conformance.raw_client import Method, RawClient, ServerClosed

_RECEIVE_BYTES: Final = 1 << 18
_FRAME_START: Final = struct.Struct(">BHI")
_DELIVER: Final = struct.pack(">HH", 60, 60)
_ACK: Final = struct.pack(">HH", 60, 80)
_PERSISTENT: Final = encode_properties({"delivery_mode": 2})
_TRANSIENT: Final = encode_properties({"delivery_mode": 1})


# What ends a connection without a word: the broker's death, or a silence that is longer than any deadline.
ConnectionLost: Final = (ServerClosed, OSError)


class Refused(ConnectionError):
    """The broker closed the connection or the channel where another answer was expected; the text is its reason."""


class Delivery(NamedTuple):
    tag: int
    redelivered: bool
    body: bytes
    properties_raw: bytes = b""

    @property
    def properties(self) -> dict[str, Value]:
        return decode_properties(self.properties_raw)


class Confirm(NamedTuple):
    tag: int
    multiple: bool
    positive: bool


class Notice(NamedTuple):
    """Any other method: connection.blocked, basic.cancel-ok, ..."""

    name: str


class Closed(NamedTuple):
    """The broker closed the connection or the channel; nothing comes after it. What came before it still counts."""

    reason: str


Incoming = Delivery | Confirm | Notice | Closed


class Address:
    """Where to publish; its frames are made once."""

    def __init__(self, exchange: str, routing_key: str, persistent: bool = True, channel: int = 1) -> None:
        method = encode_method("basic.publish", {"exchange": exchange, "routing_key": routing_key})
        self._method_frame = encode_frame(FRAME_METHOD, channel, method)
        self._properties = _PERSISTENT if persistent else _TRANSIENT
        self._channel = channel

    def frames(self, body: bytes, frame_max: int, properties: bytes | None = None) -> bytes:
        """One publish as it goes over the wire, perhaps with properties of its own."""
        header = struct.pack(">HHQ", 60, 0, len(body)) + (properties or self._properties)
        frames = [self._method_frame, encode_frame(FRAME_HEADER, self._channel, header)]
        step = frame_max - 8
        frames += [encode_frame(FRAME_BODY, self._channel, body[at : at + step]) for at in range(0, len(body), step)]
        return b"".join(frames)


class CrashClient(RawClient):
    """One connection with channel 1, which many messages go through."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        # The content that is coming in: its deliver method, its size and the pieces so far.
        self._delivering: bytes | None = None
        self._content_size = 0
        self._properties_raw = b""
        self._pieces: list[bytes] = []

    def expect(self, channel: int, *names: str) -> Method:
        """The next method, as with any raw client; but a broker that dies may close instead."""
        method = self.read()
        if method.name in ("connection.close", "channel.close") and method.name not in names:
            raise Refused(f"{method.name} {method['reply_code']} {method['reply_text']}")
        assert method.name in names and method.channel == channel, f"expected {names} on {channel}, got {method}"
        return method

    def publish_burst(
        self, address: Address, bodies: list[bytes], properties: list[bytes | None] | None = None
    ) -> None:
        """Each with the properties of its address, or with those at its place in the list."""
        each = zip(bodies, properties or [None] * len(bodies), strict=True)
        self.send_bytes(b"".join(address.frames(body, self.frame_max, own) for body, own in each))

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.send(1, "basic.ack", delivery_tag=tag, multiple=multiple)

    def reject(self, tag: int) -> None:
        self.send(1, "basic.reject", delivery_tag=tag, requeue=False)

    def requeue(self, tag: int) -> None:
        self.send(1, "basic.nack", delivery_tag=tag, requeue=True)

    def incoming(self, wait_s: float) -> list[Incoming]:
        """What has come, after at most this long; empty if nothing whole has."""
        deadline = time.monotonic() + wait_s
        items: list[Incoming] = []
        while not items:
            items = [item for kind, payload in self._frames() if (item := self._understood(kind, payload)) is not None]
            if not items and not self._receive(max(0.0, deadline - time.monotonic())):
                break
        return items

    def _receive(self, wait_s: float) -> bool:
        """Takes in what is there, waiting for it if need be; False if nothing came."""
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        if not poller.poll(wait_s * 1000):
            return False
        chunk = self.socket.recv(_RECEIVE_BYTES)
        if not chunk:
            raise ServerClosed
        self.received += chunk
        return True

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """Cuts off every whole frame that was received; the rest stays for the next time."""
        received, at = self.received, 0
        while at + 8 <= len(received):
            kind, _, size = _FRAME_START.unpack_from(received, at)
            if at + 8 + size > len(received):
                break
            yield kind, received[at + 7 : at + 7 + size]
            at += 8 + size
        self.received = received[at:]

    def _understood(self, kind: int, payload: bytes) -> Incoming | None:
        if kind == FRAME_METHOD:
            return self._method(payload)
        if self._delivering is None:
            return None
        if kind == FRAME_HEADER:
            self._content_size = struct.unpack_from(">Q", payload, 4)[0]
            self._properties_raw = payload[12:]
            self._pieces = []
        elif kind == FRAME_BODY:
            self._pieces.append(payload)
        if sum(map(len, self._pieces)) < self._content_size:
            return None
        after_consumer_tag = 5 + self._delivering[4]
        tag, redelivered = struct.unpack_from(">Q?", self._delivering, after_consumer_tag)
        self._delivering = None
        return Delivery(tag, redelivered, b"".join(self._pieces), self._properties_raw)

    def _method(self, payload: bytes) -> Incoming | None:
        if payload.startswith(_DELIVER):
            self._delivering = payload
            return None
        if payload.startswith(_ACK):
            tag, multiple = struct.unpack_from(">Q?", payload, 4)
            return Confirm(tag, multiple, positive=True)
        name, fields = decode_method(payload)
        if name == "basic.nack":
            return Confirm(fields["delivery_tag"], fields["multiple"], positive=False)
        if name in ("connection.close", "channel.close"):
            with suppress(OSError):
                self.send(1 if name == "channel.close" else 0, f"{name}-ok")
            return Closed(f"{name} {fields['reply_code']} {fields['reply_text']}")
        return Notice(name)

    def await_end(self, wait_s: float = 30.0) -> None:
        """After a close of the broker: returns when it has let go of the connection, and of what it held."""
        deadline = time.monotonic() + wait_s
        with suppress(*ConnectionLost):
            while time.monotonic() < deadline:
                self.incoming(0.1)

    def leave(self, wait_s: float = 20.0) -> list[Incoming]:
        """Says goodbye and gives what still came. The answer shows that everything sent before was taken in."""
        self.send(0, "connection.close", reply_code=200, reply_text="bye")
        deadline = time.monotonic() + wait_s
        came: list[Incoming] = []
        answered = False
        while not answered:
            assert time.monotonic() < deadline, f"no connection.close-ok within {wait_s} s"
            more = self.incoming(0.2)
            answered = Notice("connection.close-ok") in more
            came += more
        self.socket.close()
        return came


def connected(port: int, host: str = "127.0.0.1", **tune_wishes: int) -> CrashClient:
    """A new connection with channel 1 open."""
    client = CrashClient(host, port)
    try:
        client.log_in(**tune_wishes)
        client.open_channel(1)
    except BaseException:
        client.socket.close()
        raise
    return client
