"""Queues with x-expires go when nobody has used them for that long: no consumer, no get, no declare."""

import time

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, refusal_of, wait_for
from tests.contract.letters import Publisher, Table, queue_with_dead_letters, stays_empty


def exists(publisher: Publisher, queue: str) -> bool:
    """Whether the queue is there, found out without using it."""
    return publisher.publish(queue, b"is anybody there", mandatory=True) == "ack"


def wait_until_gone(publisher: Publisher, queue: str) -> None:
    wait_for(f"{queue} to go", lambda: not exists(publisher, queue))


def test_an_unused_queue_goes(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False, arguments={"x-expires": 200})
    wait_until_gone(publisher, queue)
    refusal = refusal_of(client, "queue.declare", queue=queue, passive=True)
    assert (refusal.code, refusal.text) == (404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")


def test_its_messages_are_not_dead_lettered(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-expires": 300})
    publisher.publish_all(queue, b"a", b"b")
    wait_until_gone(publisher, queue)
    stays_empty(client, grave)


def test_its_bindings_go_with_it(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queue = topology.queue(client, arguments={"x-expires": 1500})
    client.call(1, "queue.bind", queue=queue, exchange=exchange)
    assert publisher.publish("", b"a", exchange=exchange, mandatory=True) == "ack"
    wait_until_gone(publisher, queue)
    assert publisher.publish("", b"b", exchange=exchange, mandatory=True) == "return ack"


@pytest.mark.parametrize(
    ("method", "flags"),
    [("queue.declare", {"exclusive": True}), ("queue.declare", {"passive": True}), ("basic.get", {})],
    ids=["declare", "passive declare", "get"],
)
def test_using_it_keeps_it(
    client: RawClient, publisher: Publisher, topology: Topology, method: str, flags: Table
) -> None:
    arguments: Table = {"arguments": {"x-expires": 1500}} if method == "queue.declare" else {}
    queue = topology.queue(client, arguments={"x-expires": 1500})
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        client.call(1, method, queue=queue, **flags, **arguments)
        time.sleep(0.05)
    assert exists(publisher, queue)
    wait_until_gone(publisher, queue)


def test_publishing_does_not_keep_it(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-expires": 300})
    # Waiting publishes all the time.
    wait_until_gone(publisher, queue)


def test_a_consumer_keeps_it(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-expires": 800})
    client.call(1, "basic.consume", queue=queue, consumer_tag="mine", no_ack=True)
    time.sleep(1.6)
    publisher.publish_all(queue, b"a")
    assert client.expect(1, "basic.deliver").body == b"a"
    client.call(1, "basic.cancel", consumer_tag="mine")
    wait_until_gone(publisher, queue)


def test_a_held_message_does_not_keep_it(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-expires": 1500})
    publisher.publish_all(queue, b"a")
    held = client.call(1, "basic.get", queue=queue)
    assert held.body == b"a"
    wait_until_gone(publisher, queue)
    # The tag is still known to the channel, though its queue is gone.
    client.send(1, "basic.ack", delivery_tag=held["delivery_tag"])
    client.call(1, "basic.qos", prefetch_count=1)


def test_a_name_can_be_used_again(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-expires": 200})
    publisher.publish_all(queue, b"a")
    wait_until_gone(publisher, queue)
    assert client.call(1, "queue.declare", queue=queue, exclusive=True)["message_count"] == 0
    time.sleep(0.5)
    assert exists(publisher, queue)
