"""What a session shows of itself to operators."""

from __future__ import annotations

from typing import Any

from leveret.broker.connected import AMQP, Connected
from tests.unit.session.clients import Scene, eventually


def look(scene: Scene, read: Any) -> Any:
    """Reads something of the one connection, on the broker's thread."""

    def found(node: Any) -> Any:
        (connection,) = node.broker.connections.values()
        return read(connection)

    return scene.broker.call(found)


def test_a_connection_in_its_handshake_is_not_there(scene: Scene) -> None:
    client = scene.stranger()
    client.start()
    assert scene.broker.call(lambda node: len(node.broker.connections)) == 0


def test_a_connection_shows_both_addresses_and_what_was_agreed(scene: Scene) -> None:
    client = scene.connect(frame_max=8192, channel_max=7, heartbeat=33)
    seen = look(scene, lambda connection: connection.seen())
    host, port = client.socket.getsockname()[:2]
    assert (seen.peer_host, seen.peer_port) == (host, port)
    assert (seen.host, seen.port) == (scene.broker.host, scene.broker.port)
    assert seen.name == f"{host}:{port} -> {scene.broker.host}:{scene.broker.port}"
    assert (seen.frame_max, seen.channel_max, seen.heartbeat_s) == (8192, 7, 33)
    assert (seen.protocol, seen.mechanism, seen.tls, seen.state) == (AMQP, "PLAIN", None, "running")
    assert seen.channel_count == 1
    assert seen.received_bytes > 0 < seen.sent_bytes
    assert scene.broker.call(lambda node: seen.name in node.broker.connections_named)


def test_a_channel_shows_its_modes(scene: Scene) -> None:
    client = scene.connect()
    client.open_channel(2)
    client.call(1, "confirm.select")
    client.call(2, "tx.select")
    client.call(1, "basic.qos", prefetch_count=4)
    first, second = look(scene, lambda connection: list(connection.channels()))
    assert (first.number, first.confirming, first.transactional, first.prefetch_count) == (1, True, False, 4)
    assert (second.number, second.confirming, second.transactional) == (2, False, True)
    client.publish(2, "", "nowhere", b"")
    client.call(2, "basic.qos", prefetch_count=1)
    assert look(scene, lambda connection: connection.channel(2)).uncommitted_count == 1
    assert look(scene, lambda connection: connection.channel(3)) is None


def test_a_channel_whose_client_wants_nothing_at_present(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "channel.flow", active=False)
    assert look(scene, lambda connection: connection.channel(1)).state == "flow"


def test_a_consumer_remembers_its_arguments(scene: Scene) -> None:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    client.call(1, "basic.consume", queue="q", consumer_tag="c", arguments={"x-priority": 5}, no_ack=True)

    def consumers(connection: Connected) -> Any:
        return list(connection.consumers())

    (consumer,) = look(scene, consumers)
    assert (consumer.tag, consumer.queue, consumer.arguments) == ("c", "q", {"x-priority": 5})
    assert (consumer.ack_required, consumer.active, consumer.activity_status) == (False, True, "up")
    assert consumer.ack_timeout_ms is None
    client.call(1, "basic.cancel", consumer_tag="c")
    assert look(scene, consumers) == []


def test_a_closed_channel_is_not_shown(scene: Scene) -> None:
    client = scene.connect()
    client.publish(1, "missing", "", b"")
    client.refusal()
    eventually(lambda: look(scene, lambda connection: list(connection.channels())) == [])
