"""What makes a message a dead letter, and what does not: rejections of all kinds, closing, purging, deleting."""

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain
from tests.contract.letters import (
    Publisher,
    collect,
    collect_bodies,
    hold,
    last_words,
    queue_with_dead_letters,
    ready,
    stays_empty,
    wait_for_ready,
)


@pytest.mark.parametrize("manner", ["basic.reject", "basic.nack"])
def test_rejected_one_by_one(client: RawClient, publisher: Publisher, topology: Topology, manner: str) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"a", b"b", b"c")
    tags = [hold(client, queue) for _ in range(3)]
    for tag in (tags[2], tags[0]):
        client.send(1, manner, delivery_tag=tag, requeue=False)
    letters = collect(client, grave, 2)
    assert [last_words(letter) for letter in letters] == [(b"c", "rejected"), (b"a", "rejected")]
    client.send(1, "basic.ack", delivery_tag=tags[1])
    stays_empty(client, queue, grave)


@pytest.mark.parametrize("tag", [3, 0], ids=["up to a tag", "all"])
def test_rejected_together(client: RawClient, publisher: Publisher, topology: Topology, tag: int) -> None:
    """They die in the order in which they were delivered."""
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"1", b"2", b"3", b"4")
    assert [hold(client, queue) for _ in range(4)] == [1, 2, 3, 4]
    client.send(1, "basic.nack", delivery_tag=tag, multiple=True, requeue=False)
    died = tag or 4
    assert collect_bodies(client, grave, died) == [b"1", b"2", b"3", b"4"][:died]
    client.call(1, "channel.close")
    client.open_channel(1)
    wait_for_ready(client, queue, 4 - died)
    stays_empty(client, grave)


def test_rejected_together_from_several_queues(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    one, grave = queue_with_dead_letters(client, topology)
    other, other_grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(one, b"1", b"3")
    publisher.publish_all(other, b"2", b"4")
    for queue in (one, other, one, other):
        hold(client, queue)
    client.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=False)
    assert collect_bodies(client, grave, 2) == [b"1", b"3"]
    assert collect_bodies(client, other_grave, 2) == [b"2", b"4"]


@pytest.mark.parametrize("manner", ["basic.reject", "basic.nack"])
def test_requeued_is_not_dead(client: RawClient, publisher: Publisher, topology: Topology, manner: str) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"a")
    client.send(1, manner, delivery_tag=hold(client, queue), requeue=True)
    wait_for_ready(client, queue, 1)
    stays_empty(client, grave)


@pytest.mark.parametrize("end", ["channel.close", "connection.close", "cut"])
def test_who_goes_kills_nothing(
    client: RawClient, connect: Connect, publisher: Publisher, topology: Topology, end: str
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, exclusive=False)
    publisher.publish_all(queue, b"a", b"b")
    leaving = connect()
    assert [hold(leaving, queue) for _ in range(2)] == [1, 2]
    if end == "cut":
        leaving.socket.close()
    else:
        leaving.call(0 if end == "connection.close" else 1, end)
    wait_for_ready(client, queue, 2)
    stays_empty(client, grave)
    assert drain(client, queue) == [b"a", b"b"]


def test_recovered_is_not_dead(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"a", b"b")
    assert [hold(client, queue) for _ in range(2)] == [1, 2]
    client.call(1, "basic.recover", requeue=True)
    wait_for_ready(client, queue, 2)
    stays_empty(client, grave)
    assert drain(client, queue) == [b"a", b"b"]


def test_acknowledged_is_not_dead(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"a")
    client.send(1, "basic.ack", delivery_tag=hold(client, queue))
    stays_empty(client, queue, grave)


def test_purged_is_not_dead(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"held", b"a", b"b")
    tag = hold(client, queue)
    assert client.call(1, "queue.purge", queue=queue)["message_count"] == 2
    stays_empty(client, queue, grave)
    # The one that was held was not purged, and can still die.
    client.send(1, "basic.reject", delivery_tag=tag)
    assert collect_bodies(client, grave, 1) == [b"held"]


def test_a_deleted_queue_leaves_no_letters(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    publisher.publish_all(queue, b"held", b"a")
    tag = hold(client, queue)
    assert client.call(1, "queue.delete", queue=queue)["message_count"] == 1
    # Rejecting what came from a queue that is gone is no error, and does nothing.
    client.send(1, "basic.reject", delivery_tag=tag)
    client.call(1, "basic.qos")
    stays_empty(client, grave)


def test_auto_deleted_queues_leave_no_letters(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, auto_delete=True)
    publisher.publish_all(queue, b"a", b"b")
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue, consumer_tag="only")
    client.expect(1, "basic.deliver")
    client.call(1, "basic.cancel", consumer_tag="only")
    stays_empty(client, grave)


def test_what_nobody_must_acknowledge_is_not_dead(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    client.call(1, "basic.consume", queue=queue, no_ack=True, consumer_tag="mine")
    publisher.publish_all(queue, b"a")
    client.expect(1, "basic.deliver")
    client.call(1, "basic.cancel", consumer_tag="mine")
    stays_empty(client, queue, grave)


def test_a_rejection_in_a_transaction_waits_for_its_commit(
    client: RawClient, connect: Connect, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, exclusive=False)
    publisher.publish_all(queue, b"a")
    tx = connect()
    tx.call(1, "tx.select")
    tx.send(1, "basic.reject", delivery_tag=hold(tx, queue), requeue=False)
    stays_empty(client, grave)
    tx.call(1, "tx.commit")
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"a", "rejected")]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_a_letter_is_as_lasting_as_it_was(
    client: RawClient, publisher: Publisher, topology: Topology, durable: bool, delivery_mode: int
) -> None:
    grave = topology.queue(client, durable=durable)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue = topology.queue(client, durable=not durable, arguments=reach)
    publisher.publish_all(queue, b"a", delivery_mode=delivery_mode)
    client.send(1, "basic.reject", delivery_tag=hold(client, queue))
    (letter,) = collect(client, grave, 1)
    assert letter.properties["delivery_mode"] == delivery_mode


def test_a_large_body_dies_whole(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology)
    body = bytes(range(256)) * 2000
    publisher.publish_all(queue, body)
    client.send(1, "basic.reject", delivery_tag=hold(client, queue))
    assert collect_bodies(client, grave, 1) == [body]


def test_letters_go_to_waiting_consumers_at_once(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-message-ttl": 100})
    client.open_channel(2)
    client.call(2, "basic.consume", queue=grave, no_ack=True)
    publisher.publish_all(queue, b"a", b"b")
    assert [client.expect(2, "basic.deliver").body for _ in range(2)] == [b"a", b"b"]
    assert ready(client, queue) == 0
