"""A client of the stream protocol that does exactly what a test says, and sees exactly what the broker sends."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any, Self, TypeVar

from leveret.wire import stream_commands as commands
from leveret.wire.stream_codec import decode_command, frame_of
from leveret.wire.stream_codes import Code, Key
from leveret.wire.stream_commands import Command, Request
from tests.conformance.raw_client import wrapped

DEADLINE_S = 60.0

C = TypeVar("C", bound=Command)


class Closed(Exception):
    """The broker has closed the socket."""


class RawStreamClient:
    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection((host, port), DEADLINE_S)
        if tls is not None:
            self.socket = wrapped(self.socket, tls)
        self._data = b""
        self._correlation = 100

    # ---- frames

    def send_octets(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def send(self, command: Command) -> None:
        self.send_octets(frame_of(command))

    def send_frame(self, key: int, content: bytes, version: int = 1) -> None:
        self.send_octets(struct.pack(">IHH", 4 + len(content), key, version) + content)

    def publish(self, publisher: int, *messages: tuple[int, bytes]) -> None:
        entries = b"".join(struct.pack(">QI", number, len(body)) + body for number, body in messages)
        self.send_frame(Key.PUBLISH, struct.pack(">BI", publisher, len(messages)) + entries)

    def publish_filtered(self, publisher: int, *messages: tuple[int, bytes, bytes]) -> None:
        entries = b"".join(
            struct.pack(">QH", number, len(value)) + value + struct.pack(">I", len(body)) + body
            for number, value, body in messages
        )
        self.send_frame(Key.PUBLISH, struct.pack(">BI", publisher, len(messages)) + entries, 2)

    def receive_frame(self, seconds: float = DEADLINE_S) -> bytes:
        """The next frame without its size."""
        self.socket.settimeout(seconds)
        while len(self._data) < 4 or len(self._data) < 4 + int.from_bytes(self._data[:4], "big"):
            try:
                octets = self.socket.recv(1 << 16)
            except ConnectionResetError:
                octets = b""
            if not octets:
                raise Closed
            self._data += octets
        end = 4 + int.from_bytes(self._data[:4], "big")
        frame, self._data = self._data[4:end], self._data[end:]
        return frame

    def receive(self, kind: type[C]) -> C:
        """The next command, which must be of this kind; heartbeats are passed over unless they are asked for."""
        while True:
            command = decode_command(self.receive_frame())
            if isinstance(command, kind):
                return command
            assert isinstance(command, commands.Heartbeat), command

    def receive_messages(self) -> tuple[int, list[bytes]]:
        """The next chunk of simple entries: its first offset and its messages."""
        frame = self.receive_frame()
        version = int.from_bytes(frame[2:4], "big")
        assert int.from_bytes(frame[:2], "big") == Key.DELIVER, frame
        at = 5 if version == 1 else 13
        entries = int.from_bytes(frame[at + 2 : at + 4], "big")
        first = int.from_bytes(frame[at + 24 : at + 32], "big")
        at += 48
        messages = []
        for _ in range(entries):
            size = int.from_bytes(frame[at : at + 4], "big")
            messages.append(frame[at + 4 : at + 4 + size])
            at += 4 + size
        assert at == len(frame)
        return first, messages

    def is_silent(self, seconds: float = 0.3) -> bool:
        try:
            self.receive_frame(seconds)
        except TimeoutError:
            return True
        return False

    def is_closed(self) -> bool:
        """Whether the broker closes without another word."""
        try:
            self.receive_frame()
        except Closed:
            return True
        return False

    # ---- requests

    def request(self, kind: Callable[..., Request], *fields: Any) -> Any:
        """Sends a request and gives its answer."""
        self._correlation += 1
        command = kind(self._correlation, *fields)
        self.send(command)
        answer = self.receive(commands.COMMANDS[command.KEY | 0x8000])
        assert getattr(answer, "correlation_id", None) == self._correlation
        return answer

    def code(self, kind: Callable[..., Request], *fields: Any) -> int:
        """Sends a request and gives the code of its answer."""
        code: int = self.request(kind, *fields).code
        return code

    def do(self, kind: Callable[..., Request], *fields: Any) -> Any:
        answer = self.request(kind, *fields)
        assert answer.code == Code.OK, answer
        return answer

    # ---- the handshake

    def authenticate(self, user: str = "guest", password: str = "guest") -> int:
        return self.code(commands.SaslAuthenticate, "PLAIN", f"\x00{user}\x00{password}".encode())

    def log_in(
        self, user: str = "guest", password: str = "guest", vhost: str = "/", frame_max: int = 0, heartbeat: int = 0
    ) -> Self:
        assert self.authenticate(user, password) == Code.OK
        self.receive(commands.Tune)
        self.send(commands.Tune(frame_max, heartbeat))
        self.do(commands.Open, vhost)
        return self

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
