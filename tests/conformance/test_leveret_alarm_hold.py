"""While an alarm holds publishers up: bodies that have begun stop, too, and whoever dies meanwhile is noticed."""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.runtime import network
from leveret.wire import stream_commands as commands
from tests.conformance.amqp_codec import FRAME_BODY, FRAME_HEADER
from tests.conformance.own_broker import running
from tests.conformance.raw_client import RawClient
from tests.conformance.raw_stream_client import RawStreamClient
from tests.conformance.tls_scenes import tls_scene

DEADLINE_S = 20.0
PIECE = bytes(64 * 1024)
PIECES = 256


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    with running(tmp_path, listen__stream_port=0) as broker:
        yield broker


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def connections(broker: Any) -> int:
    count: int = broker.call(lambda node: len(node.broker.connections))
    return count


def queues(broker: Any) -> list[bytes]:
    names: list[bytes] = broker.call(lambda node: list(node.broker.vhosts["/"].queues))
    return names


def blocked(broker: Any, tls: ssl.SSLContext | None = None) -> RawClient:
    """A publisher that is held up, has an exclusive queue, and no heartbeats."""
    client = RawClient(broker.host, broker.port if tls is None else broker.tls_port, tls)
    client.log_in().open_channel(1)
    client.call(1, "queue.declare", queue="mine", exclusive=True)
    broker.raise_alarm("memory")
    client.publish(1, "", "mine", b"x")
    client.expect(0, "connection.blocked")
    return client


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


# ---- whoever dies


@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["fin", "rst"])
def test_a_publisher_that_dies_while_blocked_is_noticed(broker: Any, end: Callable[[socket.socket], None]) -> None:
    client = blocked(broker)
    end(client.socket)
    wait_until(lambda: connections(broker) == 0)
    assert queues(broker) == [], "its exclusive queue goes with it"
    assert broker.call(lambda node: node.broker.blocked_connections.count) == 0


def test_the_end_may_come_together_with_the_publish(broker: Any) -> None:
    """The news of it comes while the connection is still read, and reading stops behind it."""
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue="mine", exclusive=True)
        broker.raise_alarm("memory")
        for _ in range(100):
            client.publish(1, "", "mine", bytes(10_000))
    wait_until(lambda: connections(broker) == 0)
    assert queues(broker) == []


def test_a_publisher_over_tls_is_noticed_as_well(tmp_path: Path) -> None:
    with tls_scene(tmp_path) as scene:
        client = blocked(scene.broker, scene.authority.context())
        client.socket.close()
        wait_until(lambda: connections(scene.broker) == 0)
        assert queues(scene.broker) == []


def test_a_stream_publisher_is_noticed_as_well(broker: Any) -> None:
    client = RawStreamClient(broker.host, broker.stream_port).log_in()
    client.do(commands.Create, "log", {})
    client.do(commands.DeclarePublisher, 1, "", "log")
    broker.raise_alarm("disk")
    client.publish(1, (1, b"x"))
    wait_until(lambda: broker.call(lambda node: node.broker.blocked_connections.count) == 1)
    client.close()
    wait_until(lambda: connections(broker) == 0)


def test_a_short_alarm_loses_nothing_of_a_peer_that_has_closed(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "ENDED_UNREAD_S", DEADLINE_S)
    with RawClient(broker.host, broker.port) as keeper:
        keeper.log_in().open_channel(1)
        keeper.call(1, "queue.declare", queue="kept")
        broker.raise_alarm("memory")
        with RawClient(broker.host, broker.port) as client:
            client.log_in().open_channel(1)
            for _ in range(3):
                client.publish(1, "", "kept", b"x")
            client.expect(0, "connection.blocked")
        wait_until(
            lambda: broker.call(lambda node: any(transport._ended for transport in node._board._watched.values()))
        )
        broker.clear_alarm("memory")
        wait_until(lambda: connections(broker) == 1)
        assert keeper.call(1, "queue.declare", queue="kept", passive=True)["message_count"] == 3


# ---- bodies


def received_bytes(broker: Any) -> int:
    """Of bodies that are not whole yet."""
    total: int = broker.call(
        lambda node: sum(session.core.bytes_received for session in node.broker.connections.values())
    )
    return total


def test_a_body_that_has_begun_stops_at_the_alarm(broker: Any) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue="large")
        client.send(1, "basic.publish", routing_key="large")
        client.send_frame(FRAME_HEADER, 1, struct.pack(">HHQH", 60, 0, len(PIECE) * PIECES, 0))
        client.send_frame(FRAME_BODY, 1, PIECE)
        broker.raise_alarm("memory")
        client.socket.settimeout(0.5)
        sent = 1
        with pytest.raises(TimeoutError):
            while sent < PIECES:
                client.send_frame(FRAME_BODY, 1, PIECE)
                sent += 1
        before = received_bytes(broker)
        assert before < 8 * len(PIECE), "the broker reads on"
        assert broker.call(lambda node: node.broker.blocked_connections.count) == 1
        broker.clear_alarm("memory")
        wait_until(lambda: received_bytes(broker) > before)


def test_the_body_goes_on_when_the_alarm_ends(broker: Any) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue="large")
        client.call(1, "confirm.select")
        client.send(1, "basic.publish", routing_key="large")
        client.send_frame(FRAME_HEADER, 1, struct.pack(">HHQH", 60, 0, 4 * len(PIECE), 0))
        broker.raise_alarm("memory")
        client.send_frame(FRAME_BODY, 1, PIECE)
        client.expect(0, "connection.blocked")
        broker.clear_alarm("memory")
        client.expect(0, "connection.unblocked")
        for _ in range(3):
            client.send_frame(FRAME_BODY, 1, PIECE)
        client.expect(1, "basic.ack")
        assert client.call(1, "basic.get", queue="large", no_ack=True).body == 4 * PIECE
