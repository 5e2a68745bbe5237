"""Streams whose few octets become many messages, or many files."""

from __future__ import annotations

import gzip
import socket
import struct
import time
from contextlib import ExitStack, suppress

from benchmarks.neighbour.attack import ATTACKER, Attack, Ground, Tally
from benchmarks.neighbour.link import Link, Refused, content, flood, repeated
from leveret.core.codec.properties import encode_properties
from leveret.wire import stream_commands as commands
from leveret.wire.basic_methods import BasicAck, BasicConsume, BasicPublish, BasicQos, BasicQosOk
from leveret.wire.method import Table
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk
from leveret.wire.stream_codec import decode_command, frame_of
from leveret.wire.stream_codes import Key
from leveret.wire.stream_commands import Command

STREAM = "s"
MESSAGES = 65_535
GZIP = 1
READERS = 4
DEADLINE_S = 30.0


class StreamLink:
    """Enough of the stream protocol to publish."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)

    def __enter__(self) -> StreamLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def log_in(self) -> None:
        login = f"\0{ATTACKER.name}\0{ATTACKER.password}".encode()
        self.call(commands.SaslAuthenticate(1, "PLAIN", login), commands.SaslAuthenticateResponse)
        self.socket.sendall(frame_of(commands.Tune(0, 0)))
        self.call(commands.Open(2, ATTACKER.vhost), commands.OpenResponse)

    def call(self, command: Command, answer: type[Command]) -> None:
        self.socket.sendall(frame_of(command))
        self.await_command(answer)

    def await_command(self, kind: type[Command]) -> None:
        while not isinstance(decode_command(self._frame()), kind):
            pass

    def _frame(self) -> bytes:
        size = int.from_bytes(self._octets(4), "big")
        return self._octets(size)

    def _octets(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            octets = self.socket.recv(count - len(taken))
            if not octets:
                raise Refused("the broker hung up")
            taken += octets
        return taken


def _declare(link: Link, **arguments: int) -> None:
    table: Table = {"x-queue-type": "stream", **{name.replace("_", "-"): value for name, value in arguments.items()}}
    link.call(1, QueueDeclare(STREAM, durable=True, arguments=table), QueueDeclareOk)


def _prepare_sub_batch(ground: Ground) -> None:
    """One entry of a few KB that is 65,535 messages."""
    with ground.link() as link:
        _declare(link)
    # An AMQP 1.0 data section of 40 octets.
    message = b"\x00\x53\x75\xa0\x28" + b"x" * 40
    plain = (struct.pack(">I", len(message)) + message) * MESSAGES
    packed = gzip.compress(plain, 9)
    entry = struct.pack(">QBHII", 1, 0x80 | GZIP << 4, MESSAGES, len(plain), len(packed)) + packed
    with StreamLink(ground.stream_port) as stream:
        stream.log_in()
        stream.call(commands.DeclarePublisher(3, 1, "", STREAM), commands.DeclarePublisherResponse)
        payload = struct.pack(">HHBI", Key.PUBLISH, 1, 1, 1) + entry
        stream.socket.sendall(struct.pack(">I", len(payload)) + payload)
        stream.await_command(commands.PublishConfirm)


def _read_sub_batch(ground: Ground, tally: Tally, until: float) -> None:
    """Consumers over AMQP, each from the first message on; another one when it has seen that."""
    while time.monotonic() < until:
        with ExitStack() as opened:
            links = [opened.enter_context(ground.link()) for _ in range(READERS)]
            for link in links:
                link.call(1, BasicQos(prefetch_count=1), BasicQosOk)
                link.send(1, BasicConsume(STREAM, "c", arguments={"x-stream-offset": "first"}))
            for link in links:
                try:
                    while link.frame()[0] != 3:
                        pass
                    link.send(1, BasicAck(1))
                except (OSError, Refused):
                    tally.refuse()
                    continue
                tally.add()


def _prepare_small_segments(ground: Ground) -> None:
    with ground.link() as link, suppress(Refused):
        _declare(link, x_stream_max_segment_size_bytes=1)


def _fill_small_segments(ground: Ground, tally: Tally, until: float) -> None:
    persistent = encode_properties(delivery_mode=2)
    chunk, count = repeated(content(1, BasicPublish("", STREAM), persistent, b"x" * 1000))
    with ground.link() as link:
        try:
            link.call(1, QueueDeclare(STREAM, passive=True), QueueDeclareOk)
        except Refused:
            # The broker does not let such a stream be declared.
            tally.refuse()
            time.sleep(max(0.0, until - time.monotonic()))
            return
        flood([link], chunk, until, lambda chunks: tally.add(chunks * count))


ATTACKS = (
    Attack("gzip sub-batches read over AMQP", "readers", _read_sub_batch, _prepare_sub_batch),
    Attack("a stream with segments of 1 octet", "messages", _fill_small_segments, _prepare_small_segments),
)
