"""Queues with x-max-priority: the highest priority first, first come first served within one."""

import random
import time

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.topology import Topology, drain, refusal_of, unique_name
from tests.contract.letters import (
    SETTLING_SECONDS,
    Publisher,
    collect,
    collect_bodies,
    hold,
    last_words,
    queue_with_dead_letters,
    ready,
    wait_for_ready,
)

LIMIT = {"x-max-priority": 5}


def publish(publisher: Publisher, queue: str, *messages: tuple[bytes, int], **more: Value) -> None:
    for body, priority in messages:
        publisher.publish_all(queue, body, priority=priority, **more)


@pytest.fixture
def queue(client: RawClient, topology: Topology) -> str:
    return topology.queue(client, arguments=LIMIT)


MIXED = [(b"a0", 0), (b"b3", 3), (b"c5", 5), (b"d3", 3), (b"e1", 1), (b"f5", 5), (b"g0", 0)]
MIXED_SERVED = [b"c5", b"f5", b"b3", b"d3", b"e1", b"a0", b"g0"]


def test_got_in_order(client: RawClient, publisher: Publisher, queue: str) -> None:
    publish(publisher, queue, *MIXED)
    letters = collect(client, queue, len(MIXED))
    assert [letter.body for letter in letters] == MIXED_SERVED
    assert [letter["message_count"] for letter in letters] == list(range(6, -1, -1))


def test_delivered_in_order(client: RawClient, publisher: Publisher, queue: str) -> None:
    publish(publisher, queue, *MIXED)
    client.call(1, "basic.consume", queue=queue)
    assert [client.expect(1, "basic.deliver").body for _ in MIXED] == MIXED_SERVED


def test_no_priority_is_the_lowest(client: RawClient, publisher: Publisher, queue: str) -> None:
    publisher.publish_all(queue, b"none")
    publish(publisher, queue, (b"zero", 0), (b"one", 1))
    publisher.publish_all(queue, b"none again")
    letters = collect(client, queue, 4)
    assert [letter.body for letter in letters] == [b"one", b"none", b"zero", b"none again"]
    assert [letter.properties for letter in letters] == [{"priority": 1}, {}, {"priority": 0}, {}]


def test_above_the_highest_is_the_highest(client: RawClient, publisher: Publisher, queue: str) -> None:
    """The property itself is delivered as it came."""
    publish(publisher, queue, (b"a", 4), (b"b", 200), (b"c", 5), (b"d", 255), (b"e", 6))
    letters = collect(client, queue, 5)
    assert [(letter.body, letter.properties["priority"]) for letter in letters] == [
        (b"b", 200),
        (b"c", 5),
        (b"d", 255),
        (b"e", 6),
        (b"a", 4),
    ]


def test_every_priority(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-max-priority": 255})
    priorities = list(range(256))
    random.Random(7).shuffle(priorities)
    raw = publisher.client
    for priority in priorities:
        raw.publish(1, "", queue, b"%d" % priority, {"priority": priority})
    while raw.expect(1, "basic.ack")["delivery_tag"] < 256:
        pass
    wait_for_ready(client, queue, 256)
    assert drain(client, queue) == [b"%d" % priority for priority in range(255, -1, -1)]


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 0}], ids=["absent", "zero"])
def test_queues_without_priorities(
    client: RawClient, publisher: Publisher, topology: Topology, arguments: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments=arguments)
    publish(publisher, queue, (b"a", 0), (b"b", 9), (b"c", 5))
    assert drain(client, queue) == [b"a", b"b", b"c"]


def test_a_message_given_back_takes_its_old_place(client: RawClient, publisher: Publisher, queue: str) -> None:
    publish(publisher, queue, (b"a2", 2), (b"b2", 2), (b"c1", 1), (b"d1", 1))
    tags = [hold(client, queue) for _ in range(3)]
    publish(publisher, queue, (b"e2", 2), (b"f3", 3), (b"g1", 1))
    for tag in (tags[2], tags[0], tags[1]):
        client.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    letters = collect(client, queue, 7)
    assert [letter.body for letter in letters] == [b"f3", b"a2", b"b2", b"e2", b"c1", b"d1", b"g1"]
    assert [letter["redelivered"] for letter in letters] == [False, True, True, False, True, False, False]


def test_what_a_consumer_holds_is_not_overtaken_any_more(client: RawClient, publisher: Publisher, queue: str) -> None:
    client.call(1, "basic.qos", prefetch_count=1)
    client.call(1, "basic.consume", queue=queue)
    publish(publisher, queue, (b"low", 0))
    tag = client.expect(1, "basic.deliver")["delivery_tag"]
    publish(publisher, queue, (b"middle", 2), (b"high", 4))
    client.expect_quiet()
    client.send(1, "basic.ack", delivery_tag=tag)
    high = client.expect(1, "basic.deliver")
    assert high.body == b"high"
    client.send(1, "basic.ack", delivery_tag=high["delivery_tag"])
    assert client.expect(1, "basic.deliver").body == b"middle"


def test_purge_and_counts_see_every_priority(client: RawClient, publisher: Publisher, queue: str) -> None:
    publish(publisher, queue, (b"a", 0), (b"b", 5), (b"c", 2))
    assert ready(client, queue) == 3
    assert client.call(1, "queue.purge", queue=queue)["message_count"] == 3
    assert drain(client, queue) == []


class TestWithALimit:
    """What is dropped is what would be delivered next: the head is that of the highest priority."""

    def test_the_next_to_be_served_is_dropped(
        self, client: RawClient, publisher: Publisher, topology: Topology
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, {**LIMIT, "x-max-length": 3})
        publish(publisher, queue, (b"a1", 1), (b"b3", 3), (b"c2", 2), (b"d0", 0), (b"e1", 1), (b"f5", 5))
        letters = collect(client, grave, 3)
        assert [last_words(letter) for letter in letters] == [(b"b3", "maxlen"), (b"c2", "maxlen"), (b"f5", "maxlen")]
        assert drain(client, queue) == [b"a1", b"e1", b"d0"]

    def test_octets(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        queue, grave = queue_with_dead_letters(client, topology, {**LIMIT, "x-max-length-bytes": 10})
        publish(publisher, queue, (b"1111", 1), (b"33", 3), (b"22", 2), (b"00000", 0))
        assert collect_bodies(client, grave, 2) == [b"33", b"22"]
        assert drain(client, queue) == [b"1111", b"00000"]

    def test_refusals(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """A full queue refuses whatever comes, however urgent."""
        arguments = {**LIMIT, "x-max-length": 1, "x-overflow": "reject-publish"}
        queue = topology.queue(client, arguments=arguments)
        assert [publisher.publish(queue, b"%d" % number, priority=number) for number in (1, 5)] == ["ack", "nack"]
        assert drain(client, queue) == [b"1"]

    def test_given_back(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        queue, grave = queue_with_dead_letters(client, topology, {**LIMIT, "x-max-length": 2})
        publish(publisher, queue, (b"a1", 1))
        tag = hold(client, queue)
        publish(publisher, queue, (b"b3", 3), (b"c0", 0))
        client.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        assert collect_bodies(client, grave, 1) == [b"b3"]
        assert drain(client, queue) == [b"a1", b"c0"]


class TestWithExpiry:
    """Messages expire at the head, which is that of the highest priority."""

    def test_one_life_for_all(self, client: RawClient, publisher: Publisher, topology: Topology) -> None:
        """They die in the order in which they would have been served."""
        queue, grave = queue_with_dead_letters(client, topology, {**LIMIT, "x-message-ttl": 400})
        raw = publisher.client
        for body, priority in MIXED:
            raw.publish(1, "", queue, body, {"priority": priority})
        letters = collect(client, grave, len(MIXED))
        assert sorted(letter.body for letter in letters) == sorted(MIXED_SERVED)
        by_priority = {priority: [body for body, one in MIXED if one == priority] for _, priority in MIXED}
        for bodies in by_priority.values():
            assert [letter.body for letter in letters if letter.body in bodies] == bodies
        assert ready(client, queue) == 0

    def test_a_live_message_of_higher_priority_keeps_expired_ones(
        self, client: RawClient, publisher: Publisher, topology: Topology
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, LIMIT)
        publish(publisher, queue, (b"low", 1), expiration="100")
        publish(publisher, queue, (b"high", 4))
        time.sleep(SETTLING_SECONDS)
        # The low one was at the head first, so it may be gone; once the high one stands before it, it stays.
        publish(publisher, queue, (b"low again", 1), expiration="100")
        time.sleep(SETTLING_SECONDS)
        assert ready(client, queue) in (2, 3)
        assert collect_bodies(client, queue, 1) == [b"high"]
        assert collect_bodies(client, grave, 2) == [b"low", b"low again"]
        assert ready(client, queue) == 0

    def test_an_expired_message_of_higher_priority_is_not_served(
        self, client: RawClient, publisher: Publisher, topology: Topology
    ) -> None:
        """It came first. (RabbitMQ misses the moment of one that comes to the head of a queue that is not empty.)"""
        queue, grave = queue_with_dead_letters(client, topology, LIMIT)
        publish(publisher, queue, (b"high", 4), expiration="200")
        publish(publisher, queue, (b"low", 1))
        assert collect_bodies(client, grave, 1) == [b"high"]
        assert drain(client, queue) == [b"low"]


def test_dead_letters_keep_their_priority(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    grave = topology.queue(client, arguments=LIMIT)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    queue = topology.queue(client, arguments=reach)
    publish(publisher, queue, (b"a1", 1), (b"b4", 4), (b"c9", 9))
    for _ in range(3):
        hold(client, queue)
    client.send(1, "basic.nack", delivery_tag=3, multiple=True, requeue=False)
    wait_for_ready(client, grave, 3)
    letters = collect(client, grave, 3)
    assert [(letter.body, letter.properties["priority"]) for letter in letters] == [(b"c9", 9), (b"b4", 4), (b"a1", 1)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (256, "{max_value_exceeded,256}"),
        (-1, "{value_negative,-1}"),
        ("5", '"expected integer, got longstr"'),
        (True, '"expected integer, got bool"'),
    ],
)
def test_bad_limits(client: RawClient, value: Value, reason: str) -> None:
    queue = unique_name("queue")
    refusal = refusal_of(client, "queue.declare", queue=queue, arguments={"x-max-priority": value})
    text = f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{queue}' in vhost '/': {reason}"
    assert refusal == Refusal("channel", 406, text, 50, 10)
