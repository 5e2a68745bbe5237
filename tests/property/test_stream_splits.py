"""However the octets are cut on their way, the same comes of them: events, messages, and octets in return.

In: generated client streams go into the core's connection and into whole sessions in every kind of chunk. Out: an
write buffer gives exactly what was written into it, however little the socket takes at a time."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.connection import Connection
from leveret.errors import AmqpError
from tests.conformance.amqp_codec import encode_frame
from tests.fuzz.chooser import DrawChooser
from tests.fuzz.effort import effort
from tests.fuzz.frames import HEARTBEAT, body, handshake, header, method, publish, said
from tests.fuzz.script import write_message, write_session
from tests.fuzz.workbench import Workbench

# How a stream is cut; an int is the size of every chunk.
CUTS: list[int | str] = [1, 2, 7, 8, 4096, "whole", "random"]


def cut(stream: bytes, how: int | str, seed: int) -> list[bytes]:
    if how == "whole":
        return [stream]
    if isinstance(how, int):
        return [stream[at : at + how] for at in range(0, len(stream), how)]
    dice, chunks, at = random.Random(seed), [], 0
    while at < len(stream):
        size = dice.choice([1, 3, 7, 8, 9, 20, 100, 5000, 100_000])
        chunks.append(stream[at : at + size])
        at += size
    return chunks


# ---- the core's connection


def events(stream: bytes, chunks: list[bytes], frame_max: int) -> list[Any]:
    """What a connection hands up for a stream without channels of its own: every method, and how it ends."""
    connection = Connection(WriteBuffer([], []), frame_max, 2047)
    found: list[Any] = []
    for chunk in chunks:
        buffer = bytearray(chunk)
        try:
            event = connection.feed(buffer, len(chunk))
            while event is not None:
                found.append(event)
                if len(found) % 3 == 0:
                    # A session that must wait takes its own copy of the rest.
                    connection.detach()
                    buffer[:] = b"\xaa" * len(buffer)
                event = connection.proceed()
        except AmqpError as error:
            found.append(str(error))
            return found
        buffer[:] = b"\xaa" * len(buffer)
    found.append((connection.bytes_received, connection.frames_received))
    return found


frames = st.one_of(
    st.builds(encode_frame, st.just(1), st.integers(0, 3), st.binary(min_size=4, max_size=600)),
    st.builds(encode_frame, st.just(1), st.just(1), st.binary(min_size=3000, max_size=4096)),
    st.just(HEARTBEAT),
    st.builds(encode_frame, st.sampled_from([0, 1, 2, 3, 8, 9, 65]), st.integers(0, 3), st.binary(max_size=30)),
    st.builds(lambda raw: raw[:-1] + b"\xcd", st.builds(encode_frame, st.just(1), st.just(1), st.binary(min_size=4))),
    st.builds(encode_frame, st.just(1), st.just(1), st.binary(min_size=4097, max_size=4200)),
    st.binary(max_size=20),
)


@effort(150)
@given(st.lists(frames, max_size=12), st.sampled_from(CUTS), st.integers(0, 2**32))
def test_the_core_sees_the_same_events(pieces: list[bytes], how: int | str, seed: int) -> None:
    stream = b"".join(pieces)
    assert events(stream, cut(stream, how, seed), 4096) == events(stream, [stream], 4096)


# ---- whole sessions


def outcome(chunks: list[bytes]) -> dict[str, Any]:
    """Everything that can be seen of a broker after a client said this. Confirms are gathered at the end of a chunk,
    so their frames differ; what they confirm may not."""
    with Workbench() as bench:
        line = bench.connect()
        line.say(*chunks)
        methods = line.methods()
        confirmed: dict[int, list[tuple[int, int]]] = {}
        told: list[Any] = []
        for heard in methods:
            if heard.name in ("basic.ack", "basic.nack"):
                spans = confirmed.setdefault(heard.channel, [])
                first = spans[-1][1] + 1 if spans else 1
                assert heard["multiple"] or heard["delivery_tag"] == first, "a confirm that skips or repeats"
                spans.append((first, heard["delivery_tag"]))
            else:
                if heard.name == "channel.open-ok" and heard.channel in confirmed:
                    # The number is used again, and its confirms count from 1 again.
                    told.append(confirmed.pop(heard.channel)[-1][1])
                told.append(heard)
        return {
            "told": told,
            "confirmed": {channel: spans[-1][1] for channel, spans in confirmed.items()},
            "queues": {
                queue.name: [
                    (entry.message.address, entry.message.properties.raw, entry.message.body, entry.delivery_count)
                    for entry in queue.ready_entries()
                ]
                for queue in bench.queues()
            },
            "unacked": {queue.name: queue.unacked_count for queue in bench.queues()},
            "ended": line.ended,
            "received": line.session.core.bytes_received if line.ended is None else None,
        }


@effort(100)
@given(st.data(), st.sampled_from(CUTS), st.integers(0, 2**32))
def test_a_session_says_and_does_the_same(data: st.DataObject, how: int | str, seed: int) -> None:
    stream = write_session(DrawChooser(data))
    assert outcome(cut(stream, how, seed)) == outcome([stream])


@effort(30)
@given(st.data(), st.sampled_from([0, 1, 4087, 4088, 4089, 16384, 16385, 100_000, 300_000]), st.integers(0, 2**32))
def test_a_message_comes_out_as_it_went_in(data: st.DataObject, size: int, seed: int) -> None:
    """All properties, any size, small frames, cut at random: publish, get, compare every octet."""
    octets = random.Random(seed).randbytes(size)
    address, raw = write_message(DrawChooser(data))
    stream = (
        handshake(frame_max=4096)
        + method(1, "channel.open")
        + method(1, "queue.declare", queue="q")
        + method(1, "exchange.declare", exchange="x", type="fanout")
        + method(1, "queue.bind", queue="q", exchange="x")
        + method(1, "basic.publish", exchange="x", routing_key=address)
        + header(1, size, raw)
        + body(1, octets, 4096)
        + method(1, "basic.get", queue="q")
    )
    with Workbench() as bench:
        line = bench.connect()
        line.say(*cut(stream, "random", seed))
        got = line.methods()[-1]
    assert (got.name, got.body, got.properties_raw) == ("basic.get-ok", octets, raw)
    assert got["routing_key"].encode("utf-8", "surrogateescape") == address
    assert all(part == 4088 for part in got.body_frame_sizes[:-1])


def test_one_octet_at_a_time_with_everything_in_it() -> None:
    stream = (
        handshake(frame_max=4096, heartbeat=30)
        + HEARTBEAT
        + method(1, "channel.open")
        + method(1, "confirm.select")
        + method(1, "queue.declare", queue="q")
        + b"".join(publish(1, "", "q", bytes(size), frame_max=4096) for size in (0, 1, 4088, 9000))
        + HEARTBEAT
        + method(2, "channel.open")
        + method(2, "basic.consume", queue="q", consumer_tag="c")
        + method(2, "basic.ack", delivery_tag=2, multiple=True)
        + method(2, "basic.nack", delivery_tag=3, requeue=True)
        + method(2, "channel.close")
        + method(0, "connection.close")
    )
    assert outcome(cut(stream, 1, 0)) == outcome([stream])
    assert outcome([stream])["ended"] == "closed"


# ---- out


class Sink:
    """An write buffer, what was written into it, and what came out of it."""

    def __init__(self, dirty: list[Any], spares: list[Any]) -> None:
        self.write_buffer = WriteBuffer(dirty, spares)
        self.expected = bytearray()
        self.got = bytearray()

    def write(self, octets: bytes) -> None:
        self.write_buffer.write(octets)
        self.expected += octets

    def refer(self, octets: bytes, start: int, end: int) -> None:
        self.write_buffer.refer(octets, start, end)
        self.expected += octets[start:end]

    def send(self, pieces: int, share: float) -> None:
        waiting = b"".join(self.write_buffer.views(pieces))
        count = round(len(waiting) * share)
        self.got += waiting[:count]
        self.write_buffer.sent(count)
        self.write_buffer.calm_down()

    def check(self) -> None:
        assert self.expected.startswith(self.got)
        assert self.write_buffer.pending() == len(self.expected) - len(self.got)
        assert self.write_buffer.bytes_sent == len(self.got)


octet_runs = st.builds(
    lambda size, seed: random.Random(seed).randbytes(size),
    st.sampled_from([0, 1, 21, 500, 600, 5000, 16384, 20_000, 140_000, 327_680, 400_000]),
    st.integers(0, 2**32),
)
outbox_steps = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2), octet_runs),
    st.tuples(st.just("refer"), st.integers(0, 2), octet_runs, st.floats(0, 1), st.floats(0, 1)),
    st.tuples(st.just("reserve"), st.integers(0, 2), st.sampled_from([1, 600, 40_000, 400_000])),
    st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 64), st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0])),
)


@effort(200)
@given(st.lists(outbox_steps, max_size=40))
def test_an_outbox_gives_what_was_written(steps: list[tuple[Any, ...]]) -> None:
    """Three write buffers that pass their spare buffers on to one another, as on one loop."""
    dirty: list[Any] = []
    spares: list[Any] = []
    sinks = [Sink(dirty, spares) for _ in range(3)]
    for kind, which, *rest in steps:
        sink = sinks[which]
        if kind == "write":
            sink.write(rest[0])
        elif kind == "refer":
            octets, one, other = rest
            start, end = sorted((round(len(octets) * one), round(len(octets) * other)))
            if start < end:
                sink.refer(octets, start, end)
        elif kind == "reserve":
            sink.write_buffer.reserve(rest[0])
        else:
            sink.send(*rest)
        for each in sinks:
            each.check()
    for sink in sinks:
        while sink.write_buffer.pending():
            sink.send(64, 1.0)
        assert sink.got == sink.expected
        assert not sink.write_buffer.views(64)


def test_answers_are_cut_into_whole_frames() -> None:
    """What a client reads in bits is a stream of frames all the same."""
    with Workbench() as bench:
        line = bench.connect()
        line.window = 0
        line.say(handshake(frame_max=4096), method(1, "channel.open"), method(1, "queue.declare", queue="q"))
        line.say(publish(1, "", "q", bytes(50_000), frame_max=4096), method(1, "basic.get", queue="q"))
        while line.session.write_buffer.pending():
            line.take(977)
        assert [heard.name for heard in said(bytes(line.heard))][-1] == "basic.get-ok"
