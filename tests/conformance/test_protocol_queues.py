"""Queues: their names, the one declared last, how they are emptied and how they go."""

import re

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import (
    Topology,
    drain,
    publish_all,
    refusal_of,
    unique_name,
    wait_for,
    wait_for_counts,
)


def exists(connect: Connect, queue: str) -> bool:
    client = connect()
    client.send(1, "queue.declare", queue=queue, passive=True)
    return client.read().name == "queue.declare-ok"


def test_the_broker_names_a_queue_without_a_name(client: RawClient) -> None:
    names = {client.call(1, "queue.declare", exclusive=True)["queue"] for _ in range(20)}
    assert len(names) == 20
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)


def test_a_name_given_by_the_broker_is_reserved(client: RawClient) -> None:
    """It can be asked for but not declared: the prefix is the broker's, also when the queue is there."""
    name = client.call(1, "queue.declare", exclusive=True)["queue"]
    assert client.call(1, "queue.declare", queue=name, passive=True)["queue"] == name
    assert refusal_of(client, "queue.declare", queue=name, exclusive=True).text == (
        f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"
    )


def test_declare_tells_messages_and_consumers(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"%d" % number for number in range(5)])
    consumer = connect()
    consumer.call(1, "basic.qos", prefetch_count=1)
    for tag in ("one", "two"):
        consumer.send(1, "basic.consume", queue=queue, consumer_tag=tag)
    # Two are with the consumers, three are ready.
    wait_for_counts(client, queue, 3, 2)
    declared = client.call(1, "queue.declare", queue=queue)
    assert declared.fields == {"queue": queue, "message_count": 3, "consumer_count": 2}


def test_an_empty_name_means_the_queue_declared_last(client: RawClient, topology: Topology) -> None:
    topology.queue(client)
    queue = topology.queue(client)
    publish_all(client, queue, [b"one", b"two"])
    assert client.call(1, "basic.get", queue="", no_ack=True).body == b"one"
    assert client.call(1, "queue.purge", queue="")["message_count"] == 1
    client.call(1, "basic.consume", queue="")
    wait_for_counts(client, queue, 0, 1)
    assert client.call(1, "queue.delete", queue="")["message_count"] == 0
    assert refusal_of(client, "queue.declare", queue=queue, passive=True).code == 404


def test_the_queue_declared_last_is_each_channels_own(client: RawClient, topology: Topology) -> None:
    client.open_channel(2)
    topology.queue(client, channel=2)
    assert refusal_of(client, "basic.get", queue="").text == "NOT_FOUND - no previously declared queue"


def test_a_passive_declare_counts_as_declared_last(client: RawClient, topology: Topology) -> None:
    wanted = topology.queue(client)
    topology.queue(client)
    client.call(1, "queue.declare", queue=wanted, passive=True)
    client.publish(1, "", wanted, b"found")
    assert client.call(1, "basic.get", queue="").body == b"found"


def test_empty_queue_name_and_key_bind_by_the_queues_name(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "queue.bind", queue="", exchange="amq.direct", routing_key="")
    client.publish(1, "amq.direct", queue, b"by name")
    client.publish(1, "amq.direct", "", b"by nothing")
    assert drain(client, queue) == [b"by name"]


def test_empty_key_with_a_queue_name_is_an_empty_key(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "direct")
    queue = topology.queue(client)
    client.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key="")
    client.publish(1, exchange, queue, b"by name")
    client.publish(1, exchange, "", b"by nothing")
    assert drain(client, queue) == [b"by nothing"]


def test_nowait_is_not_answered(client: RawClient) -> None:
    queue = unique_name("queue")
    client.send(1, "queue.declare", queue=queue, exclusive=True, nowait=True)
    client.send(1, "queue.bind", queue=queue, exchange="amq.direct", routing_key=queue, nowait=True)
    client.publish(1, "amq.direct", queue, b"there")
    client.send(1, "queue.purge", queue=queue, nowait=True)
    client.publish(1, "amq.direct", queue, b"here")
    client.expect_quiet()
    assert drain(client, queue) == [b"here"]
    client.send(1, "queue.delete", queue=queue, nowait=True)
    client.expect_quiet()
    assert refusal_of(client, "queue.declare", queue=queue, passive=True).code == 404


def test_nowait_errors_are_told(client: RawClient) -> None:
    assert refusal_of(client, "queue.declare", queue="amq.mine", nowait=True).code == 403


def test_purge_counts_and_spares_what_is_unacknowledged(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"held", b"a", b"b"])
    held = client.call(1, "basic.get", queue=queue)
    assert client.call(1, "queue.purge", queue=queue)["message_count"] == 2
    client.send(1, "basic.reject", delivery_tag=held["delivery_tag"], requeue=True)
    assert drain(client, queue) == [b"held"]


def test_delete_counts_the_messages(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a", b"b", b"c"])
    assert client.call(1, "queue.delete", queue=queue)["message_count"] == 3


def test_delete_if_unused_and_empty(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    assert client.call(1, "queue.delete", queue=queue, if_unused=True, if_empty=True)["message_count"] == 0


def test_a_deleted_queue_takes_its_bindings_along(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queue = topology.bound_queue(client, exchange, "")
    client.call(1, "queue.delete", queue=queue)
    client.call(1, "queue.declare", queue=queue, exclusive=True)
    client.publish(1, exchange, "", b"lost", mandatory=True)
    assert client.expect(1, "basic.return").body == b"lost"


def test_a_deleted_queue_takes_its_unacknowledged_messages_along(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"held"])
    held = client.call(1, "basic.get", queue=queue)
    client.call(1, "queue.delete", queue=queue)
    client.call(1, "queue.declare", queue=queue, exclusive=True)
    client.send(1, "basic.nack", delivery_tag=held["delivery_tag"], requeue=True)
    assert drain(client, queue) == []


def test_an_exclusive_queue_serves_every_channel_of_its_connection(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    client.call(1, "channel.close")
    client.publish(2, "", queue, b"mine")
    assert drain(client, queue, channel=2) == [b"mine"]


def test_anyone_may_publish_to_an_exclusive_queue(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    other = connect()
    other.publish(1, "", queue, b"for you")
    other.log_out()
    assert drain(client, queue) == [b"for you"]


@pytest.mark.parametrize("durable", [False, True])
def test_an_exclusive_queue_goes_with_its_connection(connect: Connect, topology: Topology, durable: bool) -> None:
    owner = connect()
    queue = topology.queue(owner, durable=durable)
    owner.log_out()
    assert not exists(connect, queue)


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    connect: Connect, client: RawClient, topology: Topology
) -> None:
    queue = topology.queue(client, exclusive=False, auto_delete=True)
    client.call(1, "basic.consume", queue=queue, consumer_tag="one")
    client.call(1, "basic.consume", queue=queue, consumer_tag="two")
    client.call(1, "basic.cancel", consumer_tag="one")
    assert exists(connect, queue)
    client.call(1, "basic.cancel", consumer_tag="two")
    wait_for("the queue to go", lambda: not exists(connect, queue))


@pytest.mark.parametrize("end", ["channel", "connection"])
def test_an_auto_delete_queue_goes_when_its_consumers_channel_ends(
    connect: Connect, topology: Topology, end: str
) -> None:
    consumer = connect()
    queue = topology.queue(consumer, exclusive=False, auto_delete=True)
    consumer.call(1, "basic.consume", queue=queue)
    if end == "channel":
        consumer.call(1, "channel.close")
    else:
        consumer.log_out()
    wait_for("the queue to go", lambda: not exists(connect, queue))


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(
    connect: Connect, client: RawClient, topology: Topology
) -> None:
    maker = connect()
    queue = topology.queue(maker, exclusive=False, auto_delete=True)
    publish_all(maker, queue, [b"waiting"])
    maker.call(1, "basic.get", queue=queue)
    maker.log_out()
    wait_for_counts(client, queue, 1, 0)
