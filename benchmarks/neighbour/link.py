"""A blocking AMQP connection that sends what it is told: for attacks, which no client library would carry out."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

from leveret.wire.channel_methods import ChannelClose, ChannelOpen, ChannelOpenOk
from leveret.wire.codec import decode_method, encode_method
from leveret.wire.connection_methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from leveret.wire.method import Method, Table

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
DEADLINE_S = 60.0
FRAME_METHOD, FRAME_HEADER, FRAME_BODY = 1, 2, 3
CHUNK_BYTES = 128 * 1024
CAPABILITIES: Table = {"authentication_failure_close": True, "publisher_confirms": True, "basic.nack": True}

M = TypeVar("M", bound=Method)


class Refused(Exception):
    """The broker closed the channel or the connection, or hung up."""


class Link:
    """One connection. Reading passes over everything but the method that is waited for."""

    def __init__(self, port: int, source: str = "127.0.0.1", deadline_s: float = DEADLINE_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), deadline_s, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def log_in(self, user: str, password: str, vhost: str) -> Self:
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect(ConnectionStart)
        login = f"\0{user}\0{password}".encode()
        self.send(0, ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", login, "en_US"))
        tune = self.expect(ConnectionTune)
        self.send(0, ConnectionTuneOk(tune.channel_max, tune.frame_max, 0))
        self.send(0, ConnectionOpen(vhost))
        self.expect(ConnectionOpenOk)
        return self

    def open_channel(self, number: int) -> None:
        self.call(number, ChannelOpen(), ChannelOpenOk)

    def send(self, channel: int, *methods: Method) -> None:
        self.socket.sendall(b"".join(encode_method(channel, method) for method in methods))

    def call(self, channel: int, method: Method, answer: type[M]) -> M:
        self.send(channel, method)
        return self.expect(answer)

    def expect(self, kind: type[M]) -> M:
        while True:
            frame, _, payload = self.frame()
            if frame != FRAME_METHOD:
                continue
            method = decode_method(int.from_bytes(payload[:4], "big"), payload[4:])
            if isinstance(method, kind):
                return method
            if isinstance(method, ConnectionClose | ChannelClose):
                raise Refused(method.reply_text)

    def frame(self) -> tuple[int, int, bytes]:
        """The next frame: its kind, channel and payload."""
        kind, channel, size = struct.unpack(">BHI", self._octets(7))
        return kind, channel, self._octets(size + 1)[:-1]

    def has_more(self) -> bool:
        """Whether a whole frame has come that nobody has looked at."""
        return len(self._data) >= 8 and len(self._data) >= 8 + int.from_bytes(self._data[3:7], "big")

    def _octets(self, count: int) -> bytes:
        while len(self._data) < count:
            try:
                octets = self.socket.recv(CHUNK_BYTES)
            except ConnectionError as error:
                raise Refused(str(error)) from error
            if not octets:
                raise Refused("the broker hung up")
            self._data += octets
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken


def content(channel: int, method: Method, properties: bytes, body: bytes, announced: int | None = None) -> bytes:
    """A method with its content, as frames; `announced` is a size of the body other than the true one."""
    head = struct.pack(">HHQ", 60, 0, len(body) if announced is None else announced) + (properties or b"\0\0")
    frames = encode_method(channel, method) + frame_of(FRAME_HEADER, channel, head)
    return frames + (frame_of(FRAME_BODY, channel, body) if body else b"")


def frame_of(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def repeated(message: bytes, octets: int = CHUNK_BYTES) -> tuple[bytes, int]:
    """As many of these frames as fit, and how many these are."""
    count = max(1, octets // len(message))
    return message * count, count


def flood(links: list[Link], chunk: bytes, until: float, sent: Callable[[int], Any]) -> None:
    """Sends the same chunk over and over on all links, as fast as the broker takes it, and throws the answers away.
    Calls `sent` for each whole chunk. A link that the broker closes is left out; ends when none is left."""
    places = dict.fromkeys(links, 0)
    by_socket = {link.socket: link for link in links}
    for link in links:
        link.socket.setblocking(False)
    view = memoryview(chunk)
    while places and time.monotonic() < until:
        sockets = [link.socket for link in places]
        readable, writable, _ = select.select(sockets, sockets, [], 0.05)
        for ready in readable:
            with suppress(BlockingIOError, ConnectionError):
                if ready.recv(CHUNK_BYTES):
                    continue
            places.pop(by_socket[ready], None)
        for ready in writable:
            link = by_socket[ready]
            if link not in places:
                continue
            try:
                places[link] += ready.send(view[places[link] :])
            except BlockingIOError:
                continue
            except ConnectionError:
                del places[link]
                continue
            if places[link] == len(chunk):
                places[link] = 0
                sent(1)
