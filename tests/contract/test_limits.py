"""Queues that hold so many messages or octets: the oldest ready messages go first, and may become dead letters."""

import time

import pytest

from tests.conformance.amqp_codec import Value
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, drain
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

# Both ways to say that the head is dropped.
overflow = pytest.mark.parametrize("overflow", [{}, {"x-overflow": "drop-head"}], ids=["by default", "drop-head"])


@overflow
def test_the_oldest_messages_go(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 3, **overflow})
    publisher.publish_all(queue, b"1", b"2", b"3", b"4", b"5")
    assert ready(client, queue) == 3
    assert drain(client, queue) == [b"3", b"4", b"5"]


@overflow
def test_they_are_dead_lettered_in_order(
    client: RawClient, publisher: Publisher, topology: Topology, overflow: dict[str, Value]
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 2, **overflow})
    publisher.publish_all(queue, b"1", b"2", b"3", b"4", b"5")
    letters = collect(client, grave, 3)
    assert [last_words(letter) for letter in letters] == [(b"1", "maxlen"), (b"2", "maxlen"), (b"3", "maxlen")]
    assert drain(client, queue) == [b"4", b"5"]


def test_octets_are_those_of_bodies(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    """Properties and headers weigh nothing, nor do empty bodies."""
    queue = topology.queue(client, arguments={"x-max-length-bytes": 10})
    publisher.publish_all(queue, b"12345", b"67890", content_type="text/plain", headers={"long": "x" * 1000})
    publisher.publish_all(queue, b"", b"")
    assert ready(client, queue) == 4
    publisher.publish_all(queue, b"a")
    assert drain(client, queue) == [b"67890", b"", b"", b"a"]


def test_as_many_go_as_must(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length-bytes": 10})
    publisher.publish_all(queue, b"1", b"22", b"333", b"4444", b"55555555")
    assert collect_bodies(client, grave, 4) == [b"1", b"22", b"333", b"4444"]
    assert drain(client, queue) == [b"55555555"]


def test_a_message_that_never_fits_empties_the_queue(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length-bytes": 10})
    publisher.publish_all(queue, b"1", b"2", b"larger than ten octets")
    assert collect_bodies(client, grave, 3) == [b"1", b"2", b"larger than ten octets"]
    assert ready(client, queue) == 0


@pytest.mark.parametrize(
    ("bodies", "kept"),
    [([b"1", b"2", b"3", b"4"], [b"2", b"3", b"4"]), ([b"4444", b"55555", b"666666"], [b"666666"])],
)
def test_the_limit_that_is_reached_first_counts(
    client: RawClient, publisher: Publisher, topology: Topology, bodies: list[bytes], kept: list[bytes]
) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 3, "x-max-length-bytes": 10})
    publisher.publish_all(queue, *bodies)
    assert drain(client, queue) == kept


@pytest.mark.parametrize("limit", [{"x-max-length": 0}, {"x-max-length-bytes": 0}], ids=["length", "octets"])
class TestNoRoomAtAll:
    """A queue without room passes messages on to consumers that can take them now."""

    def test_nobody_waits(
        self, client: RawClient, publisher: Publisher, topology: Topology, limit: dict[str, Value]
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, limit)
        publisher.publish_all(queue, b"1", b"2")
        assert ready(client, queue) == 0
        assert [last_words(letter) for letter in collect(client, grave, 2)] == [(b"1", "maxlen"), (b"2", "maxlen")]

    def test_a_consumer_waits(
        self, client: RawClient, publisher: Publisher, topology: Topology, limit: dict[str, Value]
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, limit)
        client.call(1, "basic.consume", queue=queue)
        publisher.publish_all(queue, b"1", b"2")
        first, second = (client.expect(1, "basic.deliver") for _ in range(2))
        assert (first.body, second.body) == (b"1", b"2")
        # For what comes back there is no room, though the same consumer waits: only fresh messages are passed on.
        client.send(1, "basic.reject", delivery_tag=second["delivery_tag"], requeue=True)
        client.expect_quiet()
        client.open_channel(2)
        assert [last_words(letter) for letter in collect(client, grave, 1, channel=2)] == [(b"2", "maxlen")]

    def test_given_back_while_nobody_waits(
        self, client: RawClient, publisher: Publisher, topology: Topology, limit: dict[str, Value]
    ) -> None:
        queue, grave = queue_with_dead_letters(client, topology, limit)
        client.call(1, "basic.consume", queue=queue, consumer_tag="mine")
        publisher.publish_all(queue, b"1")
        tag = client.expect(1, "basic.deliver")["delivery_tag"]
        client.call(1, "basic.cancel", consumer_tag="mine")
        client.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        assert collect_bodies(client, grave, 1) == [b"1"]
        assert ready(client, queue) == 0


def test_messages_that_somebody_holds_do_not_count(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-max-length": 2})
    publisher.publish_all(queue, b"1", b"2")
    assert [hold(client, queue) for _ in range(2)] == [1, 2]
    publisher.publish_all(queue, b"3", b"4")
    assert drain(client, queue) == [b"3", b"4"]


def test_held_octets_do_not_count(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, arguments={"x-max-length-bytes": 10})
    publisher.publish_all(queue, b"1234567890")
    hold(client, queue)
    publisher.publish_all(queue, b"abcdefghij")
    assert drain(client, queue) == [b"abcdefghij"]


def test_what_comes_back_counts_and_stands_first_in_line_to_go(
    client: RawClient, publisher: Publisher, topology: Topology
) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 2})
    publisher.publish_all(queue, b"1", b"2")
    tags = [hold(client, queue) for _ in range(2)]
    publisher.publish_all(queue, b"3", b"4")
    client.send(1, "basic.nack", delivery_tag=tags[1], requeue=True)
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"2", "maxlen")]
    client.send(1, "basic.nack", delivery_tag=tags[0], requeue=True)
    assert [last_words(letter) for letter in collect(client, grave, 1)] == [(b"1", "maxlen")]
    assert drain(client, queue) == [b"3", b"4"]


def test_what_comes_back_pushes_older_messages_out(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 3})
    publisher.publish_all(queue, b"1", b"2", b"3")
    tags = [hold(client, queue) for _ in range(3)]
    publisher.publish_all(queue, b"4", b"5")
    # The third fits; then the first two are the oldest of four and five.
    for tag in (tags[2], tags[0], tags[1]):
        client.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    assert collect_bodies(client, grave, 2) == [b"1", b"2"]
    assert drain(client, queue) == [b"3", b"4", b"5"]


def test_a_lost_channel_gives_back_more_than_fits(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 3})
    publisher.publish_all(queue, b"1", b"2", b"3")
    client.open_channel(2)
    assert [hold(client, queue, channel=2) for _ in range(3)] == [1, 2, 3]
    publisher.publish_all(queue, b"4", b"5")
    client.call(2, "channel.close")
    assert collect_bodies(client, grave, 2) == [b"1", b"2"]
    wait_for_ready(client, queue, 3)
    assert drain(client, queue) == [b"3", b"4", b"5"]


def test_dropped_messages_may_meet_a_limit_again(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    last = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": last}
    second = topology.queue(client, arguments={"x-max-length": 1, **reach})
    first = topology.queue(
        client, arguments={"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": second}
    )
    publisher.publish_all(first, b"1", b"2", b"3")
    assert collect_bodies(client, last, 1) == [b"1"]
    assert (drain(client, second), drain(client, first)) == ([b"2"], [b"3"])


def test_without_a_place_to_go_they_vanish(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue = topology.queue(client, durable=True, arguments={"x-max-length": 1})
    publisher.publish_all(queue, b"1", b"2", b"3", delivery_mode=2)
    assert drain(client, queue) == [b"3"]


def test_a_waiting_consumer_means_no_limit(client: RawClient, publisher: Publisher, topology: Topology) -> None:
    queue, grave = queue_with_dead_letters(client, topology, {"x-max-length": 1})
    client.call(1, "basic.consume", queue=queue)
    publisher.publish_all(queue, *[b"%d" % number for number in range(5)])
    assert [client.expect(1, "basic.deliver").body for _ in range(5)] == [b"%d" % number for number in range(5)]
    client.open_channel(2)
    time.sleep(SETTLING_SECONDS)
    assert client.call(2, "queue.declare", queue=grave, passive=True)["message_count"] == 0
