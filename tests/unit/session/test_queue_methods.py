"""Class queue over AMQP: empty names, purge, nowait, and what delete says."""

from __future__ import annotations

import re

import pytest

from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import Scene


@pytest.fixture
def client(scene: Scene) -> RawClient:
    return scene.connect()


def test_a_server_named_queue_is_the_channels_last_and_is_meant_by_an_empty_name(client: RawClient) -> None:
    name = client.call(1, "queue.declare", exclusive=True)["queue"]
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name)
    client.call(1, "queue.bind", exchange="amq.direct")
    client.publish(1, "amq.direct", name, b"by its name")
    assert client.call(1, "basic.get", no_ack=True).body == b"by its name"
    assert client.call(1, "queue.purge")["message_count"] == 0
    assert client.call(1, "queue.delete")["message_count"] == 0


@pytest.mark.parametrize("method", ["queue.bind", "queue.purge", "queue.delete", "basic.get", "basic.consume"])
def test_an_empty_name_without_a_declared_queue_is_not_found(client: RawClient, method: str) -> None:
    client.send(1, method)
    refusal = client.refusal()
    assert (refusal.code, refusal.text) == (404, "NOT_FOUND - no previously declared queue")


def test_the_last_queue_is_the_channels_own(client: RawClient) -> None:
    client.call(1, "queue.declare", queue="q")
    client.open_channel(2)
    client.send(2, "queue.purge")
    assert client.refusal().code == 404


def test_purge_counts_what_was_ready_and_leaves_what_is_unacked(scene: Scene, client: RawClient) -> None:
    client.call(1, "queue.declare", queue="q")
    for _ in range(4):
        client.publish(1, "", "q")
    client.call(1, "basic.get", queue="q")
    assert client.call(1, "queue.purge", queue="q")["message_count"] == 3
    client.send(1, "basic.nack", delivery_tag=1, requeue=True)
    assert client.call(1, "queue.declare", queue="q", passive=True)["message_count"] == 1


def test_delete_counts_what_went(client: RawClient) -> None:
    client.call(1, "queue.declare", queue="q")
    for _ in range(2):
        client.publish(1, "", "q")
    assert client.call(1, "queue.delete", queue="q")["message_count"] == 2


def test_nowait_is_done_without_an_answer(scene: Scene, client: RawClient) -> None:
    client.send(1, "queue.declare", queue="q", nowait=True)
    client.send(1, "queue.bind", queue="q", exchange="amq.fanout", nowait=True)
    client.publish(1, "amq.fanout", "")
    client.send(1, "queue.purge", queue="q", nowait=True)
    assert client.call(1, "queue.declare", queue="q", passive=True)["message_count"] == 0
    client.send(1, "queue.delete", queue="q", nowait=True)
    client.call(1, "basic.qos")
    assert scene.queue_names() == set()


def test_declare_ok_counts_messages_and_consumers(client: RawClient) -> None:
    client.call(1, "queue.declare", queue="q")
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue="q")
    for _ in range(3):
        client.publish(1, "", "q")
    client.expect(1, "basic.deliver")
    answer = client.call(1, "queue.declare", queue="q", passive=True)
    assert (answer["message_count"], answer["consumer_count"]) == (2, 1)


def test_deleting_a_queue_cancels_its_consumers_after_the_answer(scene: Scene, client: RawClient) -> None:
    other = scene.connect()
    client.call(1, "queue.declare", queue="q")
    client.call(1, "basic.consume", queue="q", consumer_tag="mine")
    other.call(1, "basic.consume", queue="q", consumer_tag="theirs")
    client.call(1, "queue.delete", queue="q")
    assert client.expect(1, "basic.cancel").fields == {"consumer_tag": "mine", "nowait": True}
    assert other.expect(1, "basic.cancel")["consumer_tag"] == "theirs"


def test_one_who_cannot_hear_of_cancelled_consumers_is_not_told(scene: Scene, client: RawClient) -> None:
    plain = scene.connect(capabilities={})
    client.call(1, "queue.declare", queue="q")
    plain.call(1, "basic.consume", queue="q")
    client.call(1, "queue.delete", queue="q")
    plain.expect_quiet(0.1)
