"""The life of a stream connection: errors end it with a word, and what happens to its user or the node reaches it."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator

import pytest

from leveret.catalog import commands as changes
from leveret.catalog.records import Permission, Vhost
from leveret.session.stream.session import HANDLERS, StreamSession
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code, Key
from leveret.wire.stream_commands import OffsetSpec
from tests.conformance.raw_stream_client import Closed, RawStreamClient
from tests.unit.session.stream.scene import FIRST, connected, connection_count, eventually, filled, put_user


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def closed_with(client: RawStreamClient) -> commands.Close:
    """Answers the broker's close, after which the socket must be closed."""
    close = client.receive(commands.Close)
    client.send(commands.CloseResponse(close.correlation_id, Code.OK))
    assert client.is_closed()
    return close


def test_a_client_closes(broker: Broker) -> None:
    before = connection_count(broker)
    with connected(broker) as client:
        filled(client, "closing", b"x")
        client.do(commands.DeclarePublisher, 1, "", "closing")
        client.do(commands.Subscribe, 1, "closing", OffsetSpec(3), 1, {})
        assert connection_count(broker) == before + 1
        client.do(commands.Close, 1, "bye")
        assert client.is_closed()
    assert connection_count(broker) == before


@pytest.mark.parametrize(
    ("key", "content", "version"),
    [
        (99, b"", 1),
        (Key.METADATA, b"\x00\x00\x00\x01\x00\x00\x00\x01", 1),
        (Key.METADATA, b"\x00\x00\x00\x01\x00\x00\x00\x00", 7),
        (Key.PUBLISH, b"\x01\x00\x00\x00\x05", 1),
        (Key.PUBLISH, b"\x01\x00\x00\x00\x00", 9),
        (Key.PUBLISH_CONFIRM, struct.pack(">BI", 1, 0), 1),
        (Key.OPEN, b"\x00\x00\x00\x01\x00\x01/", 1),
        (Key.DELIVER, b"x" * 60, 1),
        (0x8000 | Key.CREATE, b"\x00\x00\x00\x01\x00\x01", 1),
    ],
)
def test_a_frame_that_makes_no_sense_ends_the_connection(
    broker: Broker, key: int, content: bytes, version: int
) -> None:
    with connected(broker) as client:
        client.send_frame(key, content, version)
        assert closed_with(client).code == Code.UNKNOWN_FRAME
    with connected(broker) as client:
        # And one that does not listen is not waited for, nor read.
        client.send_frame(key, content, version)
        client.send(commands.Create(1, "never", {}))
        client.receive(commands.Close)
    assert broker.call(lambda node: b"never" not in node.broker.vhosts["/"].queues)


def test_noise_ends_only_its_own_connection(broker: Broker) -> None:
    with connected(broker) as quiet:
        for _ in range(30):
            with connected(broker) as noisy:
                noisy.send_octets(os.urandom(2000))
        assert quiet.code(commands.Delete, "nothing") == Code.STREAM_DOES_NOT_EXIST
    eventually(lambda: connection_count(broker) == 0)


def stumble(*_: object) -> None:
    raise ZeroDivisionError("a mistake")


def test_a_mistake_of_ours_ends_the_one_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(broker) as client, connected(broker) as other:
        with monkeypatch.context() as patch:
            patch.setitem(HANDLERS, commands.Metadata, stumble)
            client.send(commands.Metadata(1, ["x"]))
            assert closed_with(client).code == Code.INTERNAL_ERROR
        assert other.request(commands.Metadata, ["x"])


def test_a_connection_that_cannot_even_be_closed_is_dropped(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(broker) as client, connected(broker) as other:
        with monkeypatch.context() as patch:
            patch.setitem(HANDLERS, commands.Metadata, stumble)
            patch.setattr(StreamSession, "_start_close", stumble)
            client.send(commands.Metadata(1, ["x"]))
            assert client.is_closed()
        assert other.request(commands.Metadata, ["x"])


def test_deleted_users_and_virtual_hosts_end_connections(broker: Broker) -> None:
    put_user(broker, "carl")
    with connected(broker, user="carl", password="secret") as client:
        broker.call(lambda node: node.broker.apply(changes.DeleteUser("carl")))
        assert client.is_closed()
    broker.call(lambda node: node.broker.apply(changes.PutVhost(Vhost("v"))))
    permission = Permission("guest", "v", ".*", ".*", ".*")
    broker.call(lambda node: node.broker.apply(changes.PutPermission(permission)))
    with connected(broker, vhost="v") as client, connected(broker) as other:
        filled(client, "same", b"in v")
        assert other.code(commands.Delete, "same") == Code.STREAM_DOES_NOT_EXIST
        client.do(commands.Subscribe, 1, "same", OffsetSpec(3), 1, {})
        broker.call(lambda node: node.broker.apply(changes.DeleteVhost("v")))
        assert client.is_closed()


def test_an_operator_closes_connections(broker: Broker) -> None:
    with connected(broker) as client:
        broker.close_connections("maintenance")
        assert client.is_closed(), "without a Close command, so that clients connect again"


def test_a_stopping_node_closes_sockets_without_a_word() -> None:
    broker = Broker().start()
    with connected(broker) as client, RawStreamClient(broker.host, broker.stream_port) as stranger:
        filled(client, "last", b"x")
        broker.stop()
        assert client.is_closed()
        assert stranger.is_closed()


def test_heartbeats_are_sent_and_missed(broker: Broker) -> None:
    with connected(broker, heartbeat=1) as client:
        begun = time.monotonic()
        client.receive(commands.Heartbeat)
        # A client that sends nothing for two intervals is gone.
        with pytest.raises(Closed):
            while True:
                client.receive(commands.Heartbeat)
        assert time.monotonic() - begun > 1.5


def test_a_client_that_sends_heartbeats_stays(broker: Broker) -> None:
    with connected(broker, heartbeat=1) as client:
        for _ in range(8):
            client.send(commands.Heartbeat())
            time.sleep(0.4)
        assert client.code(commands.Delete, "nothing") == Code.STREAM_DOES_NOT_EXIST


def test_many_commands_at_once_are_all_answered(broker: Broker) -> None:
    with connected(broker) as client:
        count = 3000
        octets = b""
        for number in range(count):
            octets += struct.pack(">IHHIH", 11, Key.DELETE, 1, number, 1) + b"x"
        client.send_octets(octets)
        for number in range(count):
            assert client.receive(commands.DeleteResponse).correlation_id == number


def test_who_does_not_read_is_not_served_without_end(broker: Broker) -> None:
    """A subscriber with endless credit that does not read costs one write buffer, and gets everything when it reads."""
    with connected(broker) as client:
        filled(client, "unread", *[b"x" * 50000 for _ in range(100)])
        client.do(commands.Subscribe, 1, "unread", FIRST, 65535, {})
        time.sleep(0.3)
        pending = broker.call(
            lambda node: max(each.write_buffer.pending() for each in node.broker.connections.values())
        )
        assert pending < 1_000_000
        assert [client.receive_messages()[0] for _ in range(100)] == list(range(100))
