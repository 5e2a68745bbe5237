"""Consumers: who gets the next message, who may consume at all, and how consuming ends."""

import re

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import CAPABILITIES, RawClient, Refusal
from tests.conformance.topology import (
    Topology,
    bodies_of,
    counts,
    deliveries,
    drain,
    publish_all,
    refusal_of,
    wait_for_counts,
)

IN_USE = "ACCESS_REFUSED - queue '{}' in vhost '/' in exclusive use"


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_the_broker_names_a_consumer_without_a_tag(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    tags = {client.call(1, "basic.consume", queue=queue)["consumer_tag"] for _ in range(10)}
    assert len(tags) == 10
    assert all(re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", tag) for tag in tags)


def test_a_delivery_says_all_about_itself(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "topic")
    queue = topology.bound_queue(client, exchange, "#")
    client.call(1, "basic.consume", queue=queue, consumer_tag="me")
    client.publish(1, exchange, "some.key", b"body")
    assert client.expect(1, "basic.deliver").fields == {
        "consumer_tag": "me",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": exchange,
        "routing_key": "some.key",
    }


def test_messages_waiting_are_delivered_after_consume_ok(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(3))
    client.call(1, "basic.consume", queue=queue)
    assert bodies_of(deliveries(client, 3)) == numbered(3)


def test_no_local_is_ignored(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue, no_local=True)
    client.publish(1, "", queue, b"own")
    assert client.expect(1, "basic.deliver").body == b"own"


def test_a_consumer_without_an_answer(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.send(1, "basic.consume", queue=queue, consumer_tag="me", nowait=True)
    client.publish(1, "", queue, b"1")
    assert client.expect(1, "basic.deliver")["consumer_tag"] == "me"
    client.send(1, "basic.cancel", consumer_tag="me", nowait=True)
    client.publish(1, "", queue, b"2")
    client.expect_quiet()
    wait_for_counts(client, queue, 1, 0)


def test_without_acks_a_message_is_gone_when_it_is_delivered(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    client.publish(1, "", queue, b"gone")
    client.expect(1, "basic.deliver")
    client.call(1, "channel.close")
    client.open_channel(1)
    assert drain(client, queue) == []


@pytest.mark.parametrize("where", ["channel", "connection"])
def test_consumers_take_turns(connect: Connect, client: RawClient, topology: Topology, where: str) -> None:
    queue = topology.queue(client, exclusive=False)
    if where == "channel":
        consumers = [(client, "a"), (client, "b"), (client, "c")]
    else:
        consumers = [(connect(), "a"), (connect(), "b"), (connect(), "c")]
    for consumer, tag in consumers:
        consumer.call(1, "basic.consume", queue=queue, consumer_tag=tag)
    publisher = connect()
    for body in numbered(9):
        publisher.publish(1, "", queue, body)
    if where == "channel":
        got = [(method["consumer_tag"], int(method.body)) for method in deliveries(client, 9)]
    else:
        got = [(tag, int(method.body)) for consumer, tag in consumers for method in deliveries(consumer, 3)]
    by_tag = {tag: [number for owner, number in got if owner == tag] for tag in "abc"}
    assert sorted(by_tag.values()) == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_a_duplicate_tag_is_the_connections_error(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="same")
    refusal = refusal_of(client, "basic.consume", queue=queue, consumer_tag="same")
    assert refusal == Refusal("connection", 530, "NOT_ALLOWED - attempt to reuse consumer tag 'same'", 60, 20)


def test_a_tag_is_free_again_after_cancel_and_on_other_channels(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.open_channel(2)
    for channel in (1, 2):
        assert client.call(channel, "basic.consume", queue=queue, consumer_tag="same")["consumer_tag"] == "same"
    client.call(1, "basic.cancel", consumer_tag="same")
    client.call(1, "basic.consume", queue=queue, consumer_tag="same")


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_consumer_is_alone(client: RawClient, topology: Topology, first: bool, second: bool) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="first", exclusive=first)
    refusal = refusal_of(client, "basic.consume", queue=queue, consumer_tag="second", exclusive=second)
    assert refusal == Refusal("channel", 403, IN_USE.format(queue), 60, 20)


def test_an_exclusive_consumer_excludes_other_connections_too(
    connect: Connect, client: RawClient, topology: Topology
) -> None:
    queue = topology.queue(client, exclusive=False)
    holder = connect()
    holder.call(1, "basic.consume", queue=queue, consumer_tag="holder", exclusive=True)
    assert refusal_of(client, "basic.consume", queue=queue).text == IN_USE.format(queue)
    holder.call(1, "basic.cancel", consumer_tag="holder")
    client.open_channel(1)
    client.call(1, "basic.consume", queue=queue, exclusive=True)


def test_cancel_keeps_what_was_delivered(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(2))
    client.call(1, "basic.consume", queue=queue, consumer_tag="me")
    first, second = deliveries(client, 2)
    assert client.call(1, "basic.cancel", consumer_tag="me")["consumer_tag"] == "me"
    # Neither returned to the queue nor lost: both can still be settled.
    assert counts(client, queue) == (0, 0)
    client.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    client.send(1, "basic.reject", delivery_tag=second["delivery_tag"], requeue=True)
    assert drain(client, queue) == [b"1"]


def test_nothing_is_delivered_after_cancel_ok(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="me", no_ack=True)
    client.call(1, "basic.cancel", consumer_tag="me")
    publish_all(client, queue, numbered(3))
    client.expect_quiet()
    assert drain(client, queue) == numbered(3)


def test_consumers_are_told_when_their_queue_is_deleted(
    connect: Connect, client: RawClient, topology: Topology
) -> None:
    queue = topology.queue(client, exclusive=False)
    consumer = connect()
    for tag in ("a", "b"):
        consumer.call(1, "basic.consume", queue=queue, consumer_tag=tag)
    client.call(1, "queue.delete", queue=queue)
    cancels = [consumer.expect(1, "basic.cancel") for _ in range(2)]
    assert {(cancel["consumer_tag"], cancel["nowait"]) for cancel in cancels} == {("a", True), ("b", True)}
    # The channel goes on, and the tag is free.
    other = topology.queue(consumer)
    consumer.call(1, "basic.consume", queue=other, consumer_tag="a")


def test_clients_that_do_not_ask_for_it_are_not_told(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    capabilities = {name: True for name in CAPABILITIES if name != "consumer_cancel_notify"}
    consumer = connect(capabilities=capabilities)
    consumer.call(1, "basic.consume", queue=queue, consumer_tag="me")
    client.call(1, "queue.delete", queue=queue)
    consumer.expect_quiet()


def test_deleting_ones_own_consumed_queue_tells_too(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue, consumer_tag="me")
    client.send(1, "queue.delete", queue=queue)
    assert {client.read().name for _ in range(2)} == {"queue.delete-ok", "basic.cancel"}


def test_consume_arguments_are_checked(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    refusal = refusal_of(client, "basic.consume", queue=queue, arguments={"x-priority": "high"})
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': "
        '"expected integer, got longstr"'
    )
    assert refusal == Refusal("channel", 406, text, 60, 20)
