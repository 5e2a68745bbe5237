"""Bad clients on real sockets: garbage, slow handshakes, silence, and clients that ask or consume but never read.

Each has its own connection to a real broker, beside a neighbour who must be served promptly all the time."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.node.node import Node
from leveret.testing import Broker
from tests.conformance.raw_client import PROTOCOL_HEADER, RawClient
from tests.fuzz.chooser import DrawChooser
from tests.fuzz.effort import effort
from tests.fuzz.frames import body, handshake, header, method, publish, start_ok
from tests.fuzz.script import write_opening, write_utterance
from tests.fuzz.workbench import LogKeeper

MIB = 1024 * 1024
# What a request and its answer may take on a machine that does other things as well.
PROMPT_S = 15.0
WAIT_S_MAX = 60.0
# As in core.codec.write_buffer: what congests an write buffer, and what floods it.
CONGESTED_BYTES, FLOODED_BYTES = 262144, 16 * MIB
RECEIVED_BYTES = 262144


@pytest.fixture(autouse=True)
def no_mistakes() -> Iterator[None]:
    """Whatever happens, the broker and its loop have nothing to report as their own mistake."""
    keepers = [LogKeeper("leveret"), LogKeeper("asyncio")]
    for keeper in keepers:
        keeper.start()
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.stop()
    for keeper in keepers:
        keeper.check()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"limits.handshake_deadline_s": 1.5}) as running:
        yield running


class Neighbour:
    """A decent client who publishes and gets, and takes the time."""

    def __init__(self, broker: Broker) -> None:
        self._client = RawClient(broker.host, broker.port).log_in()
        self._client.open_channel(1)
        self._client.call(1, "queue.declare", queue="neighbour", exclusive=True)
        self._count = 0

    def check(self) -> None:
        begun = time.monotonic()
        self._count += 1
        self._client.publish(1, "", "neighbour", b"%d" % self._count)
        got = self._client.call(1, "basic.get", queue="neighbour", no_ack=True)
        assert got.body == b"%d" % self._count
        assert time.monotonic() - begun < PROMPT_S, "the neighbour was kept waiting"

    def __enter__(self) -> Neighbour:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.log_out()


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, f"after {WAIT_S_MAX} s: {what}"
        time.sleep(0.02)


def connections(broker: Broker) -> int:
    return broker.call(lambda node: len(node.broker.connections))


def leftovers(node: Node) -> list[tuple[bytes, int, int]]:
    """Queues in which a connection that is gone has left something."""
    return [
        (queue.name, queue.unacked_count, queue.subscriber_count())
        for queue in node.broker.vhosts["/"].queues.values()
        if queue.unacked_count or queue.subscriber_count() or (queue.record.owner and queue.name != b"neighbour")
    ]


def ready(broker: Broker, name: str) -> int:
    count: int = broker.call(lambda node: node.broker.vhosts["/"].queues[name.encode()].ready_count())
    return count


def waiting(broker: Broker) -> list[int]:
    """How many octets wait for each connection."""
    return broker.call(lambda node: [each.write_buffer.pending() for each in node.broker.connections.values()])


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def dial(broker: Broker) -> socket.socket:
    return socket.create_connection((broker.host, broker.port), timeout=WAIT_S_MAX)


def read_to_end(peer: socket.socket) -> bytes:
    heard = bytearray()
    with suppress(ConnectionResetError):
        while chunk := peer.recv(65536):
            heard += chunk
    return bytes(heard)


def reset(peer: socket.socket) -> None:
    """Goes without a word, and without having read what came."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


# ---- garbage


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@effort(40)
@given(st.data(), st.sampled_from([1, 4, 16]), st.sampled_from(["finish", "close", "reset"]))
def test_garbage(shared_broker: Broker, data: st.DataObject, faults: int, ending: str) -> None:
    chooser = DrawChooser(data)
    stream = write_opening(chooser) + b"".join(
        write_utterance(chooser, faults, {}) for _ in range(chooser.number(1, 12))
    )
    at = chooser.number(0, len(stream))
    with Neighbour(shared_broker) as neighbour, dial(shared_broker) as peer:
        with suppress(ConnectionError):
            peer.sendall(stream[:at])
            peer.sendall(stream[at:])
        neighbour.check()
        if ending == "finish":
            with suppress(OSError):
                peer.shutdown(socket.SHUT_WR)
            heard = read_to_end(peer)
            assert heard == PROTOCOL_HEADER or heard[:3] in (b"", b"\x01\x00\x00")
            assert b"INTERNAL_ERROR" not in heard
        elif ending == "reset":
            reset(peer)
        else:
            peer.close()
        neighbour.check()
        eventually(lambda: connections(shared_broker) == 1, "the connection is still there")
        left = shared_broker.call(
            lambda node: [
                (queue.name, queue.unacked_count, queue.subscriber_count())
                for queue in node.broker.vhosts["/"].queues.values()
                if queue.unacked_count
                or queue.subscriber_count()
                or (queue.record.owner and queue.name != b"neighbour")
            ]
        )
        assert left == []


def test_connections_that_break_anywhere(broker: Broker) -> None:
    stream = (
        handshake()
        + method(1, "channel.open")
        + method(1, "queue.declare", queue="", exclusive=True)
        + method(1, "basic.consume", queue="")
        + publish(1, "amq.fanout", "", bytes(5000)) * 3
    )
    with Neighbour(broker) as neighbour:
        for at in range(0, len(stream), len(stream) // 120):
            peer = dial(broker)
            peer.sendall(stream[:at])
            reset(peer)
        neighbour.check()
        eventually(lambda: connections(broker) == 1, "broken connections are still there")
        names = broker.call(lambda node: list(node.broker.vhosts["/"].queues))
        assert names == [b"neighbour"]


# ---- handshakes and silence


def test_slow_handshakes_are_dropped(broker: Broker) -> None:
    """Two hundred strangers: silent ones, ones that stop on the way, and ones that say an octet now and then."""
    said = [b"", b"AMQP", PROTOCOL_HEADER, PROTOCOL_HEADER + start_ok()[:50], PROTOCOL_HEADER + start_ok()]
    with Neighbour(broker) as neighbour, ExitStack() as stack:
        begun = time.monotonic()
        strangers = [stack.enter_context(dial(broker)) for _ in range(200)]
        for number, stranger in enumerate(strangers):
            stranger.sendall(said[number % len(said)])
        drip = PROTOCOL_HEADER + start_ok()
        for at in range(10):
            for stranger in strangers[::5]:
                with suppress(ConnectionError):
                    stranger.send(drip[at : at + 1])
            neighbour.check()
            time.sleep(0.12)
        for stranger in strangers:
            read_to_end(stranger)
        assert time.monotonic() - begun < WAIT_S_MAX, "strangers were not dropped in time"
        neighbour.check()
        assert connections(broker) == 1


def test_a_silent_client_is_dropped_and_what_it_held_returns(broker: Broker) -> None:
    """A peer that vanished without closing looks like this: nothing comes, not even a heartbeat."""
    with Neighbour(broker) as neighbour, RawClient(broker.host, broker.port) as client:
        client.log_in(heartbeat=1)
        client.open_channel(1)
        client.call(1, "queue.declare", queue="q")
        client.publish(1, "", "q", b"held")
        client.call(1, "basic.get", queue="q")
        assert ready(broker, "q") == 0
        eventually(lambda: connections(broker) == 1, "a silent client is still there")
        assert ready(broker, "q") == 1
        neighbour.check()


# ---- clients that do not read


def test_consumers_that_do_not_read(broker: Broker) -> None:
    """Without a prefetch limit each is sent only what its write buffer takes; the rest waits in the queue, in one
    copy."""
    count, size, queues = 600, 65536, [f"slow{number}" for number in range(8)]
    with Neighbour(broker) as neighbour, ExitStack() as stack:
        publisher = stack.enter_context(RawClient(broker.host, broker.port)).log_in()
        publisher.open_channel(1)
        for number, name in enumerate(queues * 2):
            client = stack.enter_context(RawClient(broker.host, broker.port))
            # Little room in the kernel, so that the broker must hold back.
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            client.log_in().open_channel(1)
            client.call(1, "queue.declare", queue=name)
            client.call(1, "queue.bind", queue=name, exchange="amq.fanout")
            client.call(1, "basic.consume", queue=name, no_ack=number % 2 == 0)
        before = memory()
        for _ in range(count // 20):
            publisher.send_bytes(publish(1, "amq.fanout", "", bytes(size)) * 20)
            neighbour.check()
        publisher.call(1, "queue.declare", queue="slow0", passive=True)
        assert all(ready(broker, name) > 0 for name in queues), "the kernel took everything: nothing was tested"
        assert max(waiting(broker)) <= CONGESTED_BYTES + size + 1000
        assert memory() - before < count * size + 40 * MIB
        neighbour.check()


def ask(client: RawClient, question: bytes, times: int) -> int:
    """Asks without reading, as long as the broker takes it; how many octets went out."""
    stream = question * times
    sent = 0
    client.socket.settimeout(1.0)
    with suppress(TimeoutError):
        while sent < len(stream):
            sent += client.socket.send(stream[sent : sent + 65536])
    client.socket.settimeout(WAIT_S_MAX)
    return sent


def test_returns_that_nobody_reads(broker: Broker) -> None:
    """The client is read no further once too much waits for it; when it reads again, it gets every answer."""
    size, times = 200_000, 300
    question = method(1, "basic.publish", routing_key="nobody", mandatory=True) + header(1, size) + body(1, bytes(size))
    with Neighbour(broker) as neighbour, RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        before = memory()
        sent = ask(client, question, times)
        assert sent < len(question) * times, "everything was taken: nothing was tested"
        neighbour.check()
        assert max(waiting(broker)) <= FLOODED_BYTES + RECEIVED_BYTES + 2 * size
        assert memory() - before < len(question) * times + FLOODED_BYTES + 40 * MIB
        for _ in range(sent // len(question)):
            assert len(client.expect(1, "basic.return").body) == size
        neighbour.check()


@pytest.mark.parametrize("size", [100_000, 10_000_000])
def test_a_flood_of_gets_in_one_chunk(broker: Broker, size: int) -> None:
    """A few octets ask for a large message again and again, in the smallest frames there are."""
    question = method(1, "basic.get", queue="q") + method(1, "basic.recover-async", requeue=True)
    with Neighbour(broker) as neighbour, RawClient(broker.host, broker.port) as client:
        client.log_in(frame_max=4096).open_channel(1)
        client.call(1, "queue.declare", queue="q")
        client.publish(1, "", "q", bytes(size))
        client.call(1, "queue.declare", queue="q")
        before = memory()
        ask(client, question, 1000)
        neighbour.check()
        assert max(waiting(broker)) <= FLOODED_BYTES + 2 * size
        assert memory() - before < FLOODED_BYTES + 60 * MIB
        client.read_bytes(FLOODED_BYTES + 2 * size)
        neighbour.check()


def test_a_client_that_closes_while_it_does_not_read(broker: Broker) -> None:
    """connection.close is answered by the end of the connection, in bounded time, although nothing can be sent."""
    with Neighbour(broker) as neighbour, RawClient(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1)
        client.call(1, "queue.declare", queue="q", exclusive=True)
        client.call(1, "basic.consume", queue="q", no_ack=True)
        client.send_bytes(publish(1, "", "q", bytes(100_000)) * 100 + method(0, "connection.close"))
        eventually(lambda: connections(broker) == 1, "the connection waits for a client that does not read")
        neighbour.check()
