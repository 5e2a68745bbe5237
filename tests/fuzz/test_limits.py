"""What a client merely declares costs nothing, what it really sends costs no more than it is, and nothing that one
client does keeps the loop busy for long. Measured in memory and in processor time, without sockets."""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from leveret.auth.node_limits import NodeLimits
from tests.conformance.amqp_codec import encode_frame
from tests.conformance.raw_client import PROTOCOL_HEADER, Method
from tests.fuzz.frames import body, handshake, header, method, publish
from tests.fuzz.workbench import Line, Workbench

KIB: Final = 1024
MIB: Final = 1024 * 1024
BODY_BYTES_MAX: Final = 16 * MIB
# Processor time that anything here may take, with room for a slow machine that runs it interpreted.
BUSY_S_MAX: Final = 8.0
STAGE: Final = handshake() + method(1, "channel.open") + method(1, "queue.declare", queue="q")
PUBLISH: Final = method(1, "basic.publish", routing_key="q")


def peak(action: Callable[[], object]) -> int:
    """How many octets of memory an action needed at its worst, on top of what there was."""
    gc.collect()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def kept(action: Callable[[], object]) -> int:
    """How many octets of memory an action left behind."""
    gc.collect()
    tracemalloc.start()
    try:
        action()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def busy(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


def staged(bench: Workbench) -> Line:
    line = bench.connect()
    line.say(STAGE)
    return line


def closes(told: list[Method]) -> list[tuple[str, int]]:
    return [(one.name, one["reply_code"]) for one in told if one.name in ("channel.close", "connection.close")]


def nested(levels: int, tag: bytes) -> bytes:
    table = b""
    for _ in range(levels):
        table = (b"\x01a" if tag == b"F" else b"") + tag + struct.pack(">I", len(table)) + table
    return table


def declare(table: bytes, length: int) -> bytes:
    return encode_frame(1, 1, struct.pack(">HHH", 50, 10, 0) + b"\x01r\x00" + struct.pack(">I", length) + table)


def frame_head(kind: int, size: int) -> bytes:
    return struct.pack(">BHI", kind, 1, size)


CONNECTION, CHANNEL = "connection.close", "channel.close"
# What a client says on an open channel, and how it is refused: (name of the close, code), None for not at all.
DECLARED: Final[dict[str, tuple[bytes, tuple[str, int] | None]]] = {
    "a body of 2**63-1": (PUBLISH + header(1, 2**63 - 1), (CHANNEL, 406)),
    "a body of 2**64-1": (PUBLISH + header(1, 2**64 - 1), (CHANNEL, 406)),
    "a body just too large": (PUBLISH + header(1, BODY_BYTES_MAX + 1), (CHANNEL, 406)),
    "the largest body, of which nothing comes": (PUBLISH + header(1, BODY_BYTES_MAX), None),
    "a frame of 4 GiB": (frame_head(3, 2**32 - 1), (CONNECTION, 501)),
    "a frame of 2 GiB": (frame_head(1, 2**31), (CONNECTION, 501)),
    "a frame just too large": (frame_head(1, 131073), (CONNECTION, 501)),
    "the largest frame, of which nothing comes": (frame_head(1, 131072 - 8), None),
    "a table of 4 GiB": (declare(b"\x01aV", 2**32 - 1), (CONNECTION, 501)),
    "a table of 2 GiB": (declare(b"\x01aV", 2**31), (CONNECTION, 501)),
    "a table in a table of 4 GiB": (declare(b"\x01aF\xff\xff\xff\xff", 7), (CONNECTION, 501)),
    "a text of 4 GiB": (declare(b"\x01aS\xff\xff\xff\xff", 7), (CONNECTION, 501)),
    "tables in tables without end": (declare(t := nested(1000, b"F"), len(t)), (CONNECTION, 501)),
    "arrays in arrays without end": (declare(t := b"\x01a" + nested(1000, b"A"), len(t)), (CONNECTION, 501)),
    "headers of 4 GiB": (PUBLISH + header(1, 1, b"\x20\x00\xff\xff\xff\xff"), (CONNECTION, 501)),
    "headers nested without end": (
        PUBLISH + header(1, 1, b"\x20\x00" + struct.pack(">I", len(t := nested(1000, b"F"))) + t),
        (CONNECTION, 502),
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_what_is_only_declared_costs_nothing(case: str) -> None:
    stream, refusal = DECLARED[case]
    with Workbench() as bench:
        line = staged(bench)
        told: list[Method] = []
        needed = peak(lambda: told.extend(line.answers(stream)))
        assert closes(told) == ([] if refusal is None else [refusal])
        # A frame that may come in full is kept in one piece, so up to frame_max and its parts in the log are fair.
        assert needed < 400 * KIB


@pytest.mark.parametrize("size", [4097, 131072, 2**32 - 1])
def test_strangers_may_only_send_small_frames(size: int) -> None:
    with Workbench() as bench:
        line = bench.connect()
        line.say(PROTOCOL_HEADER)
        told: list[Method] = []
        needed = peak(lambda: told.extend(line.answers(struct.pack(">BHI", 1, 0, size) + bytes(100))))
        assert closes(told) == [(CONNECTION, 501)]
        assert needed < 100 * KIB


@pytest.mark.parametrize(
    ("piece", "count"), [(b"", 100_000), (b"a", 50_000), (b"ab", 50_000), (bytes(100), 10_000)], ids=[0, 1, 2, 100]
)
def test_a_body_in_tiny_frames_takes_its_size(piece: bytes, count: int) -> None:
    stream = encode_frame(3, 1, piece) * count
    with Workbench() as bench:
        line = staged(bench)
        line.say(PUBLISH + header(1, len(piece) * count + 1))
        needed = peak(lambda: line.say(stream))
        # The test itself holds the stream twice: as it was said, and as it waits to be taken.
        assert needed < 2 * len(stream) + 3 * len(piece) * count + 700 * KIB
        line.say(body(1, b"z"))
        assert bench.bodies("q") == [piece * count + b"z"]


def test_a_body_that_breaks_off_is_let_go() -> None:
    with Workbench() as bench:
        assert kept(lambda: broken_bodies(bench)) < 200 * KIB


def broken_bodies(bench: Workbench) -> None:
    for _ in range(10):
        line = bench.connect()
        line.say(STAGE + PUBLISH + header(1, BODY_BYTES_MAX) + body(1, bytes(MIB)))
        line.hang_up()


def test_connections_leave_nothing_behind() -> None:
    def visit(bench: Workbench) -> None:
        line = staged(bench)
        line.say(method(1, "queue.declare", queue="", exclusive=True), method(1, "basic.consume", queue="q"))
        line.say(method(2, "channel.open"), method(2, "confirm.select"), publish(2, "", "nobody", b"x" * 1000))
        line.say(method(2, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True))
        line.hang_up()

    with Workbench() as bench:
        for _ in range(20):
            visit(bench)
        bench.log.clear()
        assert kept(lambda: [visit(bench) for _ in range(100)]) < 100 * KIB


# What a client does over and over again on one channel; none of it may gather anywhere.
ROUNDS: Final[dict[str, bytes]] = {
    "an exchange comes and goes": method(1, "exchange.declare", exchange="e", type="topic")
    + method(1, "queue.bind", queue="q", exchange="e", routing_key="a.#")
    + publish(1, "e", "b", b"x")
    + method(1, "exchange.delete", exchange="e"),
    "a queue comes and goes": method(1, "queue.declare", queue="t")
    + publish(1, "", "t", b"x")
    + method(1, "basic.consume", queue="t", consumer_tag="c", no_ack=True)
    + method(1, "queue.delete", queue="t"),
    "a consumer comes and goes": method(1, "basic.consume", queue="q", consumer_tag="c", arguments={"x-priority": 3})
    + method(1, "basic.cancel", consumer_tag="c"),
    "a reply address comes and goes": method(
        1, "basic.consume", queue="amq.rabbitmq.reply-to", consumer_tag="c", no_ack=True
    )
    + method(1, "basic.cancel", consumer_tag="c"),
    "a channel comes and goes": method(2, "channel.open") + method(2, "tx.select") + method(2, "channel.close"),
    "a message comes and goes": publish(1, "", "q", b"x" * 100) + method(1, "basic.get", queue="q", no_ack=True),
    "a transaction comes and goes": method(2, "channel.open")
    + method(2, "tx.select")
    + publish(2, "", "q", b"x" * 100) * 3
    + method(2, "tx.rollback")
    + method(2, "channel.close"),
}


@pytest.mark.parametrize("case", ROUNDS)
def test_what_comes_and_goes_does_not_gather(case: str) -> None:
    with Workbench() as bench:
        line = staged(bench)

        def go_round(times: int) -> None:
            for _ in range(times):
                line.say(ROUNDS[case])
                assert line.ended is None
                line.heard.clear()
                line.spoken.clear()
            bench.log.clear()

        # A channel remembers where it may publish, up to a thousand exchanges: some 700 KiB, however often it goes on.
        times, allowed = (2500, 900 * KIB) if "exchange" in case else (300, 60 * KIB)
        go_round(50)
        assert kept(lambda: go_round(times)) < allowed


def test_routes_that_are_asked_for_once_are_not_kept_for_ever() -> None:
    """More routing keys than the router remembers: what they cost is bounded, however many there are."""
    with Workbench() as bench:
        router = bench.broker.vhosts["/"].router

        def ask() -> None:
            for number in range(150_000):
                router.route(b"\x09amq.topic\xc8%0200d" % number)

        assert peak(ask) < 48 * MIB


# ---- time


def test_many_consumers_leave_quickly() -> None:
    # As many as a channel may have.
    count = NodeLimits().consumers_per_channel_max
    consume = [method(1, "basic.consume", queue="q", consumer_tag=f"c{n}", nowait=True) for n in range(count)]
    with Workbench() as bench:
        line = staged(bench)
        line.say(b"".join(consume))
        assert bench.queue("q").subscriber_count() == count
        assert busy(line.hang_up) < BUSY_S_MAX / 4
        assert bench.queue("q").subscriber_count() == 0


def test_many_queues_and_bindings_leave_quickly() -> None:
    with Workbench() as bench:
        line = staged(bench)
        for number in range(3000):
            line.say(
                method(1, "queue.declare", queue=f"e{number}", exclusive=True, nowait=True)
                + method(
                    1, "queue.bind", queue=f"e{number}", exchange="amq.topic", routing_key=f"a.{number}", nowait=True
                )
                + method(1, "queue.bind", queue=f"e{number}", exchange="amq.headers", arguments={"n": number})
            )
        assert busy(line.hang_up) < BUSY_S_MAX / 4
        assert set(bench.broker.vhosts["/"].queues) == {b"q"}


def test_a_chain_of_auto_delete_exchanges_falls() -> None:
    count = 1200
    with Workbench() as bench:
        line = staged(bench)
        for number in range(count):
            line.say(method(1, "exchange.declare", exchange=f"x{number}", type="fanout", auto_delete=True, nowait=True))
        for number in range(1, count):
            bind = {"source": f"x{number}", "destination": f"x{number - 1}", "nowait": True}
            line.say(method(1, "exchange.bind", **bind))
        told: list[Method] = []
        assert busy(lambda: told.extend(line.answers(method(1, "exchange.delete", exchange="x0")))) < BUSY_S_MAX / 4
        assert [one.name for one in told] == ["exchange.delete-ok"]
        assert len(bench.broker.catalog.topologies["/"].exchanges) == 7


def test_acks_in_any_order_are_quick() -> None:
    count = 20_000
    with Workbench() as bench:
        line = staged(bench)
        line.say(method(1, "basic.consume", queue="q"), publish(1, "", "q", b"x") * count)
        tags = [*range(count // 4, count // 2), *range(count, count // 2, -1), *range(1, count // 4), count // 2]
        stream = b"".join(method(1, "basic.ack", delivery_tag=tag) for tag in tags)
        assert busy(lambda: line.say(stream)) < BUSY_S_MAX
        assert bench.queue("q").unacked_count == 0


def test_a_large_message_in_small_frames_goes_out_quickly() -> None:
    size = 16 * MIB
    with Workbench() as bench:
        staged(bench).say(publish(1, "", "q", bytes(size)))
        line = bench.connect()
        line.say(handshake(frame_max=4096) + method(1, "channel.open"))
        line.window = 0
        line.say(method(1, "basic.get", queue="q", no_ack=True))
        assert busy(lambda: [line.take(100_000) for _ in range(size // 100_000 + 2)]) < BUSY_S_MAX
        assert len(line.heard) > size and not line.session.write_buffer.pending()
