"""Taking single messages, and asking for unacknowledged ones again."""

import pytest

from tests.conformance.amqp_methods import METHODS
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, deliveries, drain, publish_all, refusal_of, wait_for_counts


def test_an_empty_queue(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    assert client.call(1, "basic.get", queue=queue).name == "basic.get-empty"


def test_get_tells_how_many_remain(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a", b"b", b"c"])
    got = [client.call(1, "basic.get", queue=queue) for _ in range(3)]
    assert [(method.body, method["message_count"]) for method in got] == [(b"a", 2), (b"b", 1), (b"c", 0)]
    assert got[0]["exchange"] == ""
    assert got[0]["routing_key"] == queue
    assert got[0]["redelivered"] is False
    assert client.call(1, "basic.get", queue=queue).name == "basic.get-empty"


def test_a_message_got_without_ack_is_gone(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a"])
    client.call(1, "basic.get", queue=queue, no_ack=True)
    client.call(1, "channel.close")
    client.open_channel(1)
    assert drain(client, queue) == []


def test_get_sees_what_was_published_before_on_the_channel(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    for number in range(50):
        client.publish(1, "", queue, b"%d" % number)
        assert client.call(1, "basic.get", queue=queue, no_ack=True).body == b"%d" % number


def test_get_beside_a_consumer(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    consumer = connect()
    consumer.call(1, "basic.qos", prefetch_count=1)
    consumer.call(1, "basic.consume", queue=queue)
    publish_all(client, queue, [b"a", b"b"])
    assert consumer.expect(1, "basic.deliver").body == b"a"
    assert client.call(1, "basic.get", queue=queue).body == b"b"


def test_recover_returns_what_is_unacknowledged(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a", b"b", b"c"])
    for _ in range(3):
        client.call(1, "basic.get", queue=queue)
    client.send(1, "basic.ack", delivery_tag=2)
    client.call(1, "basic.recover", requeue=True)
    got = [client.call(1, "basic.get", queue=queue) for _ in range(2)]
    assert [(method.body, method["redelivered"], method["delivery_tag"]) for method in got] == [
        (b"a", True, 4),
        (b"c", True, 5),
    ]


def test_recovered_messages_go_to_anyone(connect: Connect, client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, [b"a"])
    client.call(1, "basic.get", queue=queue)
    other = connect()
    other.call(1, "basic.consume", queue=queue)
    client.call(1, "basic.recover", requeue=True)
    delivered = other.expect(1, "basic.deliver")
    assert (delivered.body, delivered["redelivered"]) == (b"a", True)


def test_recovered_messages_come_back_to_a_lonely_consumer_in_order(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a", b"b", b"c"])
    client.call(1, "basic.consume", queue=queue)
    deliveries(client, 3)
    client.send(1, "basic.recover", requeue=True)
    methods = [client.read() for _ in range(4)]
    again = [method for method in methods if method.name == "basic.deliver"]
    assert [(method.body, method["redelivered"]) for method in again] == [(b"a", True), (b"b", True), (b"c", True)]
    assert sum(method.name == "basic.recover-ok" for method in methods) == 1


def test_recover_makes_old_tags_unknown(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a"])
    client.call(1, "basic.get", queue=queue)
    client.call(1, "basic.recover", requeue=True)
    assert refusal_of(client, "basic.ack", delivery_tag=1).text == "PRECONDITION_FAILED - unknown delivery tag 1"


def test_recover_async_is_not_answered(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, [b"a"])
    client.call(1, "basic.get", queue=queue)
    client.send(1, "basic.recover-async", requeue=True)
    client.expect_quiet()
    wait_for_counts(client, queue, 1, 0)


@pytest.mark.parametrize("name", ["basic.recover", "basic.recover-async"])
def test_recover_without_requeue_is_not_implemented(client: RawClient, name: str) -> None:
    refusal = refusal_of(client, name, requeue=False)
    assert refusal == Refusal("connection", 540, "NOT_IMPLEMENTED - requeue=false", *METHODS[name][:2])
