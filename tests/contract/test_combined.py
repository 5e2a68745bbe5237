"""Priority, expiry, a limit and dead letters on one queue: which message goes where, in which order, and why."""

import time

import pytest

from tests.conformance.amqp_codec import Value
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
    reasons,
    stays_empty,
    wait_for_ready,
)

MINUTE = 60_000
EVERYTHING: dict[str, Value] = {"x-max-priority": 5, "x-max-length": 4, "x-message-ttl": MINUTE}


def publish(publisher: Publisher, queue: str, *messages: tuple[bytes, int], **more: Value) -> None:
    for body, priority in messages:
        publisher.publish_all(queue, body, priority=priority, **more)


def test_one_of_each_death(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, EVERYTHING)
    # One too many: the head, which has the highest priority, is dropped.
    publish(publisher, queue, (b"a1", 1), (b"b4", 4), (b"c2", 2), (b"d0", 0), (b"e3", 3))
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"b4", "maxlen")]
    # The next in line is rejected, one is held and so makes room for another.
    client.send(1, "basic.reject", delivery_tag=hold(client, queue))
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"e3", "rejected")]
    held = hold(client, queue)
    publish(publisher, queue, (b"f2", 2), (b"g0", 0))
    assert ready(client, queue) == 4
    # What was held comes back to the head of its priority, and is the head that is dropped.
    client.send(1, "basic.reject", delivery_tag=held, requeue=True)
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"c2", "maxlen")]
    # A message that may not wait, and does not reach the head, drops the head and stays behind the new one.
    publish(publisher, queue, (b"h0", 0), expiration="0")
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"f2", "maxlen")]
    assert ready(client, queue) == 4
    # Served in order; what expired is not among them, but a dead letter when it would be its turn.
    assert [letter.body for letter in collect(client, queue, 3)] == [b"a1", b"d0", b"g0"]
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"h0", "expired")]
    wait_for_ready(client, queue, 0)
    stays_empty(client, queue, grave)


def test_expiry_makes_room(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish", "x-message-ttl": 300}
    queue, grave = queue_with_dead_letters(client, topology, arguments)
    publisher.publish_all(queue, b"1", b"2")
    collected = collect(client, grave, 2)
    assert [last_words(letter) for letter in collected] == [(b"1", "expired"), (b"2", "expired")]
    assert publisher.publish(queue, b"3") == "ack"


def test_expired_messages_behind_the_head_take_room(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue, grave = queue_with_dead_letters(client, topology, arguments)
    publisher.publish_all(queue, b"head")
    publisher.publish_all(queue, b"expired", expiration="50")
    time.sleep(0.5)
    assert publisher.publish(queue, b"refused") == "nack"
    assert collect_bodies(client, queue, 1) == [b"head"]
    assert collect_bodies(client, grave, 1) == [b"expired"]
    assert publisher.publish(queue, b"fits") == "ack"


def test_dropped_before_it_expires(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1, "x-message-ttl": 1500})
    publisher.publish_all(queue, b"1", b"2")
    letters = collect(client, grave, 2)
    assert [last_words(letter) for letter in letters] == [(b"1", "maxlen"), (b"2", "expired")]
    stays_empty(client, queue, grave)


def test_dropping_the_head_shows_one_that_has_expired(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 3})
    publisher.publish_all(queue, b"head")
    publisher.publish_all(queue, b"expired", expiration="50")
    publisher.publish_all(queue, b"tail")
    time.sleep(0.5)
    publisher.publish_all(queue, b"last")
    letters = collect(client, grave, 2)
    assert [last_words(letter) for letter in letters] == [(b"head", "maxlen"), (b"expired", "expired")]
    assert drain(client, queue) == [b"tail", b"last"]


@pytest.mark.parametrize("priority", [{}, {"x-max-priority": 3}], ids=["plain", "priority"])
def test_requeue_of_an_expired_message_into_a_full_queue(
    client: RawClient, publisher: Publisher, topology: Topology, priority: dict[str, Value]
) -> None:
    """It has both reasons to go; the limit is looked at first."""
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1, **priority})
    publisher.publish_all(queue, b"old", expiration="1000")
    tag = hold(client, queue)
    publisher.publish_all(queue, b"new")
    time.sleep(1.2)
    client.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"old", "maxlen")]
    assert drain(client, queue) == [b"new"]


def test_through_queues_of_every_kind(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Expired out of one, dropped from the next, rejected in the third: the last word of each is told first."""
    last = topology.queue(client)

    def before(grave: str, **arguments: Value) -> str:
        reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
        return topology.queue(client, arguments={**reach, **arguments})

    third = before(last)
    second = before(third, **{"x-max-length": 0})
    first = before(second, **{"x-message-ttl": 50, "x-max-priority": 2})
    publisher.publish_all(first, b"a", priority=2)
    client.send(1, "basic.reject", delivery_tag=hold(client, third))
    (letter,) = collect(client, last, 1)
    told = reasons(letter)
    assert told[0] == (third, "rejected", 1)
    assert sorted(told) == sorted([(third, "rejected", 1), (second, "maxlen", 1), (first, "expired", 1)])
    assert letter.properties["priority"] == 2
