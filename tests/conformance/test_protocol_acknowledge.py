"""Delivery tags, acknowledgements and what comes back when a message is refused."""

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.amqp_methods import METHODS
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import (
    Topology,
    bodies_of,
    deliveries,
    drain,
    publish_all,
    refusal_of,
    wait_for_counts,
)


def unknown_tag(tag: int, name: str = "basic.ack") -> Refusal:
    return Refusal("channel", 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", *METHODS[name][:2])


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def take(client: RawClient, queue: str, count: int) -> list[int]:
    """Gets messages and leaves them unacknowledged; their tags."""
    return [client.call(1, "basic.get", queue=queue)["delivery_tag"] for _ in range(count)]


def after_close(client: RawClient, queue: str) -> list[bytes]:
    """What is in the queue when everything unacknowledged is back."""
    client.call(1, "channel.close")
    client.open_channel(1)
    return drain(client, queue)


def test_tags_count_across_consumers_and_gets(client: RawClient, topology: Topology) -> None:
    got, consumed = topology.queue(client), topology.queue(client)
    publish_all(client, got, numbered(2))
    assert take(client, got, 1) == [1]
    client.call(1, "basic.consume", queue=consumed, consumer_tag="a")
    client.call(1, "basic.consume", queue=consumed, consumer_tag="b", no_ack=True)
    tags = []
    for _ in range(3):
        client.publish(1, "", consumed)
        tags.append(client.expect(1, "basic.deliver")["delivery_tag"])
    assert tags == [2, 3, 4]
    assert take(client, got, 1) == [5]


def test_tags_count_per_channel(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(2))
    client.open_channel(2)
    assert [client.call(channel, "basic.get", queue=queue)["delivery_tag"] for channel in (1, 2)] == [1, 1]


def test_an_acknowledged_message_is_gone(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(3))
    tags = take(client, queue, 3)
    client.send(1, "basic.ack", delivery_tag=tags[1])
    assert after_close(client, queue) == [b"0", b"2"]


def test_multiple_acknowledges_everything_up_to_the_tag(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(5))
    tags = take(client, queue, 5)
    client.send(1, "basic.ack", delivery_tag=tags[2], multiple=True)
    assert after_close(client, queue) == [b"3", b"4"]


@pytest.mark.parametrize("name", ["basic.ack", "basic.nack"])
def test_tag_zero_with_multiple_means_all(client: RawClient, topology: Topology, name: str) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(5))
    take(client, queue, 5)
    client.send(1, name, delivery_tag=0, multiple=True)
    assert after_close(client, queue) == []


@pytest.mark.parametrize("name", ["basic.ack", "basic.nack"])
def test_tag_zero_with_multiple_is_fine_when_nothing_is_outstanding(client: RawClient, name: str) -> None:
    client.send(1, name, delivery_tag=0, multiple=True)
    client.call(1, "queue.declare", exclusive=True)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("basic.ack", {"delivery_tag": 7}),
        ("basic.ack", {"delivery_tag": 7, "multiple": True}),
        ("basic.ack", {"delivery_tag": 0}),
        ("basic.nack", {"delivery_tag": 7, "requeue": True}),
        ("basic.nack", {"delivery_tag": 7, "multiple": True}),
        ("basic.nack", {"delivery_tag": 0}),
        ("basic.reject", {"delivery_tag": 7}),
        ("basic.reject", {"delivery_tag": 0, "requeue": True}),
    ],
)
@pytest.mark.parametrize("outstanding", [0, 2])
def test_unknown_tags(
    client: RawClient, topology: Topology, name: str, fields: dict[str, Value], outstanding: int
) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(outstanding))
    take(client, queue, outstanding)
    assert refusal_of(client, name, **fields) == unknown_tag(fields["delivery_tag"], name)


@pytest.mark.parametrize("multiple", [False, True])
def test_a_tag_counts_once(client: RawClient, topology: Topology, multiple: bool) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(2))
    take(client, queue, 2)
    client.send(1, "basic.ack", delivery_tag=1)
    assert refusal_of(client, "basic.ack", delivery_tag=1, multiple=multiple) == unknown_tag(1)


def test_a_message_that_needs_no_ack_has_no_tag_to_acknowledge(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(1))
    client.call(1, "basic.get", queue=queue, no_ack=True)
    assert refusal_of(client, "basic.ack", delivery_tag=1) == unknown_tag(1)


def test_a_tag_belongs_to_its_channel(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(1))
    take(client, queue, 1)
    client.open_channel(2)
    assert refusal_of(client, "basic.ack", channel=2, delivery_tag=1) == unknown_tag(1)


@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_refused_messages_are_dropped(client: RawClient, topology: Topology, name: str) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(2))
    take(client, queue, 2)
    client.send(1, name, delivery_tag=1, requeue=False)
    assert after_close(client, queue) == [b"1"]


@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_requeued_messages_go_back_to_their_place(client: RawClient, topology: Topology, name: str) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(5))
    take(client, queue, 4)
    # Out of order on purpose.
    for tag in (3, 1, 2):
        client.send(1, name, delivery_tag=tag, requeue=True)
    got = [client.call(1, "basic.get", queue=queue, no_ack=True) for _ in range(4)]
    assert [(method.body, method["redelivered"]) for method in got] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
        (b"4", False),
    ]


def test_nack_multiple_requeues_all_in_order(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(6))
    take(client, queue, 5)
    client.send(1, "basic.ack", delivery_tag=2)
    client.send(1, "basic.nack", delivery_tag=4, multiple=True, requeue=True)
    assert drain(client, queue) == [b"0", b"2", b"3", b"5"]


@pytest.mark.parametrize("end", ["channel", "connection", "cut"])
def test_messages_of_an_ended_channel_go_back_to_their_place(
    connect: Connect, client: RawClient, topology: Topology, end: str
) -> None:
    queue = topology.queue(client, exclusive=False)
    publish_all(client, queue, numbered(5))
    leaving = connect()
    take(leaving, queue, 3)
    assert client.call(1, "basic.get", queue=queue, no_ack=True).body == b"3"
    if end == "cut":
        leaving.socket.close()
    else:
        leaving.call(1 if end == "channel" else 0, f"{end}.close")
    wait_for_counts(client, queue, 4, 0)
    got = [client.call(1, "basic.get", queue=queue, no_ack=True) for _ in range(4)]
    assert [(method.body, method["redelivered"]) for method in got] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
        (b"4", False),
    ]


def test_a_requeued_message_may_come_back_to_the_same_consumer(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue)
    client.publish(1, "", queue, b"again and again")
    for round_number in range(5):
        delivered = client.expect(1, "basic.deliver")
        assert (delivered.body, delivered["redelivered"]) == (b"again and again", round_number > 0)
        client.send(1, "basic.reject", delivery_tag=delivered["delivery_tag"], requeue=True)


def test_requeued_messages_come_before_newer_ones(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(4))
    client.call(1, "basic.qos", prefetch_count=2)
    client.call(1, "basic.consume", queue=queue)
    first, second = deliveries(client, 2)
    client.send(1, "basic.nack", delivery_tag=second["delivery_tag"], multiple=True, requeue=True)
    assert bodies_of(deliveries(client, 2)) == [first.body, second.body]


def test_a_large_multiple_ack(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(2000))
    client.call(1, "basic.consume", queue=queue)
    last = deliveries(client, 2000)[-1]
    client.send(1, "basic.ack", delivery_tag=last["delivery_tag"], multiple=True)
    assert after_close(client, queue) == []
