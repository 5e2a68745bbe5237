"""Alarms: publishers are told and held up, everybody else goes on, and afterwards nothing is lost."""

from __future__ import annotations

import threading
import time

import pika
import pytest

from leveret.node.node import Node
from tests.conformance.raw_client import CAPABILITIES, RawClient
from tests.unit.session.clients import Scene, eventually


@pytest.fixture
def publisher(scene: Scene) -> RawClient:
    client = scene.connect()
    client.call(1, "queue.declare", queue="q")
    return client


def test_a_publisher_is_told_why_and_when_it_is_over(scene: Scene, publisher: RawClient) -> None:
    scene.broker.call(lambda node: node.broker.raise_alarm("memory", "low on memory"))
    publisher.publish(1, "", "q", b"held up")
    assert publisher.expect(0, "connection.blocked")["reason"] == "low on memory"
    assert scene.ready_count("q") == 0
    scene.broker.clear_alarm("memory")
    publisher.expect(0, "connection.unblocked")
    assert publisher.call(1, "basic.get", queue="q", no_ack=True).body == b"held up"


def test_a_publisher_without_the_capability_is_held_up_without_a_word(scene: Scene, publisher: RawClient) -> None:
    plain = scene.connect(capabilities={name: True for name in CAPABILITIES if name != "connection.blocked"})
    scene.broker.raise_alarm("disk")
    plain.publish(1, "", "q")
    plain.send(1, "basic.qos", prefetch_count=1)
    plain.expect_quiet()
    scene.broker.clear_alarm("disk")
    plain.expect(1, "basic.qos-ok")
    assert scene.ready_count("q") == 1


def test_others_go_on_meanwhile(scene: Scene, publisher: RawClient) -> None:
    other = scene.connect()
    publisher.publish(1, "", "q", b"before")
    eventually(lambda: scene.ready_count("q") == 1)
    scene.broker.raise_alarm("memory")
    publisher.publish(1, "", "q", b"held up")
    publisher.expect(0, "connection.blocked")
    other.call(1, "queue.declare", queue="another")
    other.call(1, "basic.consume", queue="q")
    delivered = other.expect(1, "basic.deliver")
    assert delivered.body == b"before"
    other.send(1, "basic.ack", delivery_tag=delivered["delivery_tag"])
    assert other.call(1, "queue.declare", queue="q", passive=True)["message_count"] == 0


def test_a_connection_that_comes_during_the_alarm_is_held_up_too(scene: Scene, publisher: RawClient) -> None:
    scene.broker.raise_alarm("memory")
    late = scene.connect()
    late.call(1, "queue.declare", queue="q", passive=True)
    late.publish(1, "", "q")
    late.expect(0, "connection.blocked")


def test_a_blocked_consumer_goes_on_being_served(scene: Scene, publisher: RawClient) -> None:
    """One connection that publishes and consumes: what is delivered to it does not stop."""
    other = scene.connect()
    publisher.call(1, "queue.declare", queue="mine")
    publisher.call(1, "basic.consume", queue="mine", no_ack=True)
    other.publish(1, "", "mine", b"first")
    assert publisher.expect(1, "basic.deliver").body == b"first"
    scene.broker.raise_alarm("memory")
    publisher.publish(1, "", "q")
    publisher.expect(0, "connection.blocked")
    scene.broker.call(lambda node: _publish(node, b"second"))
    assert publisher.expect(1, "basic.deliver").body == b"second"


def _publish(node: object, body: bytes) -> None:
    from tests.unit.queues.dataplane import message

    node.broker.vhosts["/"].queues[b"mine"].publish(message(body))  # type: ignore[attr-defined]


def test_a_second_alarm_is_not_told_and_must_end_too(scene: Scene, publisher: RawClient) -> None:
    scene.broker.raise_alarm("memory")
    publisher.publish(1, "", "q")
    publisher.expect(0, "connection.blocked")
    scene.broker.raise_alarm("disk")
    scene.broker.clear_alarm("memory")
    publisher.expect_quiet()
    scene.broker.clear_alarm("disk")
    publisher.expect(0, "connection.unblocked")


def test_alarms_that_come_and_go_are_told_each_time(scene: Scene, publisher: RawClient) -> None:
    for _ in range(3):
        scene.broker.raise_alarm("memory")
        publisher.publish(1, "", "q")
        publisher.expect(0, "connection.blocked")
        scene.broker.clear_alarm("memory")
        publisher.expect(0, "connection.unblocked")
    assert scene.ready_count("q") == 3


def test_one_who_did_not_publish_hears_nothing_of_an_alarm(scene: Scene, publisher: RawClient) -> None:
    scene.broker.raise_alarm("memory")
    scene.broker.clear_alarm("memory")
    publisher.expect_quiet()


def test_a_blocked_publisher_costs_no_more_memory_than_one_chunk(scene: Scene, publisher: RawClient) -> None:
    """It is not read: the rest waits in the sockets and in the client."""
    scene.broker.raise_alarm("memory")
    publisher.publish(1, "", "q")
    publisher.expect(0, "connection.blocked")
    publisher.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            publisher.publish(1, "", "q", bytes(100_000))
    received = scene.broker.call(lambda node: [session.core.bytes_received for session in node._sessions.values()])
    assert max(received) < 1_000_000


def test_nothing_is_lost_when_a_busy_publisher_is_held_up(scene: Scene) -> None:
    """With pika, confirms, and alarms in the middle of it."""
    blocked, unblocked = [], []
    connection = pika.BlockingConnection(pika.URLParameters(scene.broker.url))
    connection.add_on_connection_blocked_callback(lambda *_: blocked.append(1))
    connection.add_on_connection_unblocked_callback(lambda *_: unblocked.append(1))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    done = threading.Event()

    def trouble() -> None:
        while not done.is_set():
            scene.broker.raise_alarm("memory")
            time.sleep(0.01)
            scene.broker.clear_alarm("memory")
            time.sleep(0.01)

    troubler = threading.Thread(target=trouble)
    troubler.start()
    try:
        for number in range(100):
            channel.basic_publish("", "q", b"%d" % number, mandatory=True)
    finally:
        done.set()
        troubler.join()
    connection.process_data_events(0)
    bodies = [channel.basic_get("q", auto_ack=True)[2] for _ in range(100)]
    connection.close()
    assert bodies == [b"%d" % number for number in range(100)]
    assert blocked and unblocked


def test_a_blocked_connection_can_be_closed_by_the_broker(scene: Scene, publisher: RawClient) -> None:
    scene.broker.raise_alarm("memory")
    publisher.publish(1, "", "q", b"held up")
    publisher.expect(0, "connection.blocked")
    scene.broker.close_connections("enough")
    assert publisher.expect(0, "connection.close")["reply_code"] == 320
    publisher.send(0, "connection.close-ok")
    publisher.expect_eof()
    eventually(lambda: scene.connection_count() == 0)
    assert scene.ready_count("q") == 0


def test_a_broker_stops_although_a_publisher_is_blocked(scene: Scene, publisher: RawClient) -> None:
    scene.broker.raise_alarm("memory")
    publisher.publish(1, "", "q")
    publisher.expect(0, "connection.blocked")
    scene.broker.stop()
    assert publisher.refusal().code == 320


def test_a_disk_that_calms_down_does_not_end_who_an_alarm_holds_up(scene: Scene, publisher: RawClient) -> None:
    """Held up twice, by the alarm and by a slow disk: while either lasts, missing heartbeats mean nothing."""
    held = scene.connect(heartbeat=1)
    scene.broker.raise_alarm("memory")
    held.publish(1, "", "q", b"held up")
    held.expect(0, "connection.blocked")

    def stall_and_calm(node: Node) -> None:
        broker = node.broker
        broker.stalled.update(broker.connections)
        for connection in broker.connections.values():
            connection.heed_heartbeats()
        broker.disk_calmed()

    scene.broker.call(stall_and_calm)
    # Longer than a silent client would be tolerated.
    time.sleep(3.5)
    scene.broker.clear_alarm("memory")
    while (method := held.read()).name != "connection.unblocked":
        assert method.name != "connection.close", method
    eventually(lambda: scene.ready_count("q") == 1)
