"""Queues with x-delivery-limit: a message that comes back too often becomes a dead letter.

RabbitMQ has this on quorum queues alone, so the oracle is asked about those; Leveret has it on classic queues."""

from collections.abc import Callable

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import Method, RawClient, Refusal
from tests.conformance.target import ORACLE_IS_TARGET
from tests.conformance.topology import Topology, refusal_of
from tests.contract.letters import (
    Publisher,
    Table,
    assert_properties,
    collect,
    collect_bodies,
    death,
    headers_of,
    last_words,
    ready,
    reasons,
    stays_empty,
    wait_for_ready,
)

QUEUE_TYPE = "quorum" if ORACLE_IS_TARGET else "classic"


def limited_queue(client: RawClient, topology: Topology, limit: int, **more: object) -> tuple[str, str]:
    """A queue whose messages may come back this often, and its grave."""
    grave = topology.queue(client)
    arguments: Table = {
        "x-queue-type": QUEUE_TYPE,
        "x-delivery-limit": limit,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": grave,
        **more,
    }
    return topology.queue(client, exclusive=False, durable=True, arguments=arguments), grave


GiveBack = Callable[[RawClient, Method], None]


def by_reject(client: RawClient, letter: Method) -> None:
    client.send(letter.channel, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=True)


def by_nack(client: RawClient, letter: Method) -> None:
    client.send(letter.channel, "basic.nack", delivery_tag=letter["delivery_tag"], multiple=True, requeue=True)


def by_recover(client: RawClient, letter: Method) -> None:
    client.call(letter.channel, "basic.recover", requeue=True)


def by_closing(client: RawClient, letter: Method) -> None:
    client.call(letter.channel, "channel.close")
    client.open_channel(letter.channel)


@pytest.mark.parametrize("give_back", [by_reject, by_nack, by_recover, by_closing])
@pytest.mark.parametrize("limit", [0, 2])
def test_it_is_delivered_once_more_than_it_may_come_back(
    client: RawClient, publisher: Publisher, topology: Topology, limit: int, give_back: GiveBack
) -> None:
    queue, grave = limited_queue(client, topology, limit)
    publisher.publish_all(queue, b"body")
    client.open_channel(2)
    for count in range(limit + 1):
        (letter,) = collect(client, queue, 1, channel=2, no_ack=False)
        assert letter["redelivered"] is (count > 0)
        assert headers_of(letter).get("x-delivery-count", 0) == count
        give_back(client, letter)
    letter = collect(client, grave, 1)[0]
    assert last_words(letter) == (b"body", "delivery_limit")
    stays_empty(client, queue, grave)


def test_the_count_is_a_long_beside_the_headers_of_the_publisher(
    client: RawClient, connect: Connect, publisher: Publisher, topology: Topology
) -> None:
    queue, _ = limited_queue(client, topology, 3)
    assert publisher.publish(queue, b"body", headers={"mine": 1}, content_type="text/plain") == "ack"
    worker = connect()
    worker.call(1, "basic.consume", queue=queue)
    first = worker.expect(1, "basic.deliver")
    assert first.properties == {"content_type": "text/plain", "headers": {"mine": 1}}
    by_reject(worker, first)
    second = worker.expect(1, "basic.deliver")
    assert second["redelivered"] is True
    assert second.properties == {"content_type": "text/plain", "headers": {"mine": 1, "x-delivery-count": 1}}
    assert second.properties_raw.endswith(b"\x10x-delivery-countl\x00\x00\x00\x00\x00\x00\x00\x01")


def test_the_dead_letter_does_not_tell_the_count(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = limited_queue(client, topology, 1)
    publisher.publish_all(queue, b"body", headers={"mine": 1}, content_type="text/plain")
    for _ in range(2):
        by_reject(client, collect(client, queue, 1, no_ack=False)[0])
    (letter,) = collect(client, grave, 1)
    headers = {
        "mine": 1,
        "x-death": [death(queue, "delivery_limit", "", queue)],
        "x-first-death-exchange": "",
        "x-first-death-queue": queue,
        "x-first-death-reason": "delivery_limit",
    }
    assert_properties(letter, {"content_type": "text/plain", "headers": headers})


def test_a_consumer_sees_it_that_often(
    client: RawClient, connect: Connect, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = limited_queue(client, topology, 3)
    worker = connect()
    worker.call(1, "basic.qos", prefetch_count=1)
    worker.call(1, "basic.consume", queue=queue)
    publisher.publish_all(queue, b"poison")
    publisher.publish_all(queue, b"fine")
    counts = []
    while (letter := worker.expect(1, "basic.deliver")).body == b"poison":
        counts.append(headers_of(letter).get("x-delivery-count"))
        by_reject(worker, letter)
    assert counts == [None, 1, 2, 3]
    assert letter.body == b"fine"
    worker.send(1, "basic.ack", delivery_tag=letter["delivery_tag"])
    assert collect_bodies(client, grave, 1) == [b"poison"]
    stays_empty(client, queue, grave)


def test_a_lost_consumer_counts(client: RawClient, connect: Connect, publisher: Publisher, topology: Topology) -> None:
    """Every delivery that was not acknowledged counts, whoever got it."""
    queue, grave = limited_queue(client, topology, 1)
    publisher.publish_all(queue, b"poison")
    for _ in range(2):
        worker = connect()
        worker.call(1, "basic.consume", queue=queue)
        assert worker.expect(1, "basic.deliver").body == b"poison"
        worker.socket.close()
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"poison", "delivery_limit")]
    assert ready(client, queue) == 0


def test_a_rejection_is_no_return(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = limited_queue(client, topology, 1)
    publisher.publish_all(queue, b"body")
    by_reject(client, collect(client, queue, 1, no_ack=False)[0])
    (letter,) = collect(client, queue, 1, no_ack=False)
    client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=False)
    (letter,) = collect(client, grave, 1)
    assert reasons(letter) == [(queue, "rejected", 1)]
    assert "x-delivery-count" not in headers_of(letter)


def test_without_a_place_to_go_it_vanishes(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    arguments = {"x-queue-type": QUEUE_TYPE, "x-delivery-limit": 0}
    queue = topology.queue(client, exclusive=False, durable=True, arguments=arguments)
    publisher.publish_all(queue, b"a", b"b")
    by_reject(client, collect(client, queue, 1, no_ack=False)[0])
    wait_for_ready(client, queue, 1)
    assert collect_bodies(client, queue, 1) == [b"b"]


def test_a_dead_letter_starts_counting_anew(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    last = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": last}
    arguments = {"x-queue-type": QUEUE_TYPE, "x-delivery-limit": 1, **reach}
    second = topology.queue(client, exclusive=False, durable=True, arguments=arguments)
    first = topology.queue(
        client, exclusive=False, durable=True, arguments={**arguments, "x-dead-letter-routing-key": second}
    )
    publisher.publish_all(first, b"body")
    for queue in (first, second):
        for count in range(2):
            (letter,) = collect(client, queue, 1, no_ack=False)
            assert headers_of(letter).get("x-delivery-count", 0) == count
            by_reject(client, letter)
    (letter,) = collect(client, last, 1)
    assert reasons(letter) == [(second, "delivery_limit", 1), (first, "delivery_limit", 1)]


@pytest.mark.parametrize(
    ("again", "difference"),
    [
        ({"x-delivery-limit": 4}, "received '4' but current is '3'"),
        ({}, "received none but current is the value '3' of type 'signedint'"),
    ],
    ids=["other", "less"],
)
def test_declared_again_with_another_limit(
    client: RawClient, topology: Topology, again: Table, difference: str
) -> None:
    first = {"x-queue-type": QUEUE_TYPE, "x-delivery-limit": 3}
    queue = topology.queue(client, exclusive=False, durable=True, arguments=first)
    client.call(1, "queue.declare", queue=queue, durable=True, arguments=first)
    arguments = {"x-queue-type": QUEUE_TYPE, **again}
    refusal = refusal_of(client, "queue.declare", queue=queue, durable=True, arguments=arguments)
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue '{queue}' in vhost '/': {difference}"
    assert refusal == Refusal("channel", 406, text, 50, 10)
