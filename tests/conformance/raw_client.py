"""A client that hides nothing: it sends the frames a test spells out and shows the frames that come back.

It answers nothing by itself (no heartbeats, no close-ok) unless the test calls for it, and so also shows what a
broker does with a client that misbehaves."""

import socket
import ssl
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.conformance.amqp_codec import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    Value,
    decode_method,
    decode_properties,
    encode_frame,
    encode_method,
    encode_properties,
)

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
WAIT_SECONDS_MAX: Final = 60.0
# Long enough for a broker on a busy machine to have sent what it wrongly might.
QUIET_SECONDS: Final = 0.3

# What a modern client says about itself; a test passes its own table to be another kind of client.
CAPABILITIES: Final[dict[str, Value]] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class ServerClosed(Exception):
    """The broker ended the TCP connection."""


class Frame(NamedTuple):
    """One frame as it was on the wire."""

    kind: int
    channel: int
    payload: bytes


@dataclass(frozen=True)
class Method:
    """A method frame, with the content that followed it if its kind carries content."""

    name: str
    channel: int
    fields: dict[str, Value]
    properties_raw: bytes = b""
    body: bytes = b""
    # Sizes of the body frames, to see where the broker split the body.
    body_frame_sizes: tuple[int, ...] = ()

    def __getitem__(self, field: str) -> Value:
        return self.fields[field]

    @property
    def properties(self) -> dict[str, Value]:
        return decode_properties(self.properties_raw)


class Refusal(NamedTuple):
    """How the broker refused: `scope` is 'channel' or 'connection', the rest are the fields of the close."""

    scope: str
    code: int
    text: str
    class_id: int
    method_id: int


def wrapped(plain: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
    """The socket with TLS on it; closed if the handshake fails."""
    try:
        return tls.wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


class RawClient:
    """One TCP connection to a broker, driven by hand; with TLS if there is a context for it."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection((host, port), timeout=WAIT_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = wrapped(self.socket, tls)
        self.received = b""
        self.frame_max = 0
        # Two threads may send on one connection; their frames must not mix.
        self.sending = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # Sending

    def send_bytes(self, octets: bytes) -> None:
        with self.sending:
            self.socket.sendall(octets)

    def send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.send_bytes(encode_frame(kind, channel, payload))

    def send(self, channel: int, name: str, fields: Mapping[str, Value] | None = None, **more: Value) -> None:
        """Sends a method; fields not named are zero, empty or false."""
        self.send_frame(FRAME_METHOD, channel, encode_method(name, {**(fields or {}), **more}))

    def send_content(self, channel: int, body: bytes, properties_raw: bytes) -> None:
        """Sends a content header and the body in frames that fit what was negotiated."""
        header = struct.pack(">HHQ", 60, 0, len(body)) + properties_raw
        frames = [encode_frame(FRAME_HEADER, channel, header)]
        step = self.frame_max - 8 if self.frame_max else len(body) or 1
        frames += [encode_frame(FRAME_BODY, channel, body[at : at + step]) for at in range(0, len(body), step)]
        self.send_bytes(b"".join(frames))

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: Mapping[str, Value] | None = None,
        **flags: Value,
    ) -> None:
        self.send(channel, "basic.publish", exchange=exchange, routing_key=routing_key, **flags)
        self.send_content(channel, body, encode_properties(properties or {}))

    # Receiving

    def _receive_more(self) -> None:
        try:
            chunk = self.socket.recv(1 << 16)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            raise ServerClosed
        self.received += chunk

    def read_bytes(self, size: int) -> bytes:
        while len(self.received) < size:
            self._receive_more()
        octets, self.received = self.received[:size], self.received[size:]
        return octets

    def read_frame(self) -> Frame:
        kind, channel, size = struct.unpack(">BHI", self.read_bytes(7))
        payload = self.read_bytes(size)
        end = self.read_bytes(1)
        assert end == FRAME_END, f"frame ends with {end!r}"
        return Frame(kind, channel, payload)

    def read(self) -> Method:
        """The next method, with its content; heartbeats are passed over."""
        frame = self.read_frame()
        while frame.kind == FRAME_HEARTBEAT:
            frame = self.read_frame()
        assert frame.kind == FRAME_METHOD, f"expected a method, got {frame}"
        name, fields = decode_method(frame.payload)
        if name not in ("basic.deliver", "basic.get-ok", "basic.return"):
            return Method(name, frame.channel, fields)
        header = self.read_frame()
        assert (header.kind, header.channel) == (FRAME_HEADER, frame.channel)
        class_id, weight, size = struct.unpack(">HHQ", header.payload[:12])
        assert (class_id, weight) == (60, 0)
        body, sizes = b"", []
        while len(body) < size:
            piece = self.read_frame()
            assert (piece.kind, piece.channel) == (FRAME_BODY, frame.channel)
            body += piece.payload
            sizes.append(len(piece.payload))
        return Method(name, frame.channel, fields, header.payload[12:], body, tuple(sizes))

    def expect(self, channel: int, *names: str) -> Method:
        """The next method, which must be one of these on this channel."""
        method = self.read()
        assert (method.name in names) and method.channel == channel, f"expected {names} on {channel}, got {method}"
        return method

    def call(self, channel: int, name: str, fields: Mapping[str, Value] | None = None, **more: Value) -> Method:
        """Sends a method and gives its answer, which must be the very next thing that comes."""
        self.send(channel, name, fields, **more)
        answers = ("basic.get-ok", "basic.get-empty") if name == "basic.get" else (f"{name}-ok",)
        return self.expect(channel, *answers)

    def expect_quiet(self, seconds: float = QUIET_SECONDS) -> None:
        """Nothing may come for this long."""
        assert not self.received, f"unexpected: {self.read()}"
        self.socket.settimeout(seconds)
        try:
            chunk = self.socket.recv(1 << 16)
        except TimeoutError:
            return
        finally:
            self.socket.settimeout(WAIT_SECONDS_MAX)
        if not chunk:
            raise ServerClosed
        self.received += chunk
        raise AssertionError(f"unexpected: {self.read()}")

    def expect_eof(self) -> None:
        """The broker must end the TCP connection without another word."""
        try:
            if not self.received:
                self._receive_more()
        except ServerClosed:
            return
        raise AssertionError(f"unexpected: {self.read()}")

    def expect_end(self) -> Refusal | None:
        """The broker must give the connection up, with a close that says why or without."""
        try:
            refusal = self.refusal()
        except ServerClosed:
            return None
        assert refusal.scope == "connection", refusal
        self.expect_eof()
        return refusal

    def refusal(self) -> Refusal:
        """Reads up to the close of a channel or the connection, answers it, and tells what it said."""
        method = self.read()
        while method.name not in ("channel.close", "connection.close"):
            method = self.read()
        self.send(method.channel, f"{method.name}-ok")
        scope = method.name.partition(".")[0]
        return Refusal(scope, method["reply_code"], method["reply_text"], method["class_id"], method["method_id"])

    # The handshake, step by step and as a whole

    def start(self) -> Method:
        self.send_bytes(PROTOCOL_HEADER)
        return self.expect(0, "connection.start")

    def start_ok(
        self, user: str = "guest", password: str = "guest", capabilities: Mapping[str, Value] | None = None
    ) -> None:
        offered = CAPABILITIES if capabilities is None else capabilities
        self.send(
            0,
            "connection.start-ok",
            client_properties={"product": "leveret raw test client", "capabilities": dict(offered)},
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )

    def tune_ok(self, tune: Method, **wishes: int) -> None:
        """Accepts what the broker offers, except for the values named; heartbeats are off unless asked for."""
        offer: dict[str, Any] = {**tune.fields, "heartbeat": 0, **wishes}
        self.frame_max = offer["frame_max"]
        self.send(0, "connection.tune-ok", offer)

    def log_in(
        self, virtual_host: str = "/", capabilities: Mapping[str, Value] | None = None, **tune_wishes: int
    ) -> Self:
        """The whole handshake up to open-ok."""
        self.start()
        self.start_ok(capabilities=capabilities)
        self.tune_ok(self.expect(0, "connection.tune"), **tune_wishes)
        self.call(0, "connection.open", virtual_host=virtual_host)
        return self

    def open_channel(self, number: int) -> int:
        self.call(number, "channel.open")
        return number

    def log_out(self) -> None:
        """Closes as a decent client does: whatever was still under way is read and dropped."""
        self.send(0, "connection.close", reply_code=200, reply_text="bye")
        while self.read().name != "connection.close-ok":
            pass
        self.socket.close()
