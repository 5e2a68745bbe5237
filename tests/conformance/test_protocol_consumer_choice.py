"""Who is served first: consumers with a priority, and queues with a single active consumer."""

from itertools import pairwise

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, bodies_of, deliveries, publish_all, wait_for_counts


def consume(client: RawClient, queue: str, tag: str, priority: int | None = None, channel: int = 1) -> None:
    arguments = {} if priority is None else {"x-priority": priority}
    client.call(channel, "basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)


def tags(client: RawClient, count: int, channel: int = 1) -> list[str]:
    return [method["consumer_tag"] for method in deliveries(client, count, channel)]


def publish(client: RawClient, queue: str, count: int) -> None:
    """From a channel that consumes nothing."""
    for number in range(count):
        client.publish(9, "", queue, b"%d" % number)


@pytest.fixture
def worker(client: RawClient) -> RawClient:
    """A connection that consumes on channel 1 and publishes on channel 9."""
    client.open_channel(9)
    return client


def test_the_highest_priority_is_served_first(worker: RawClient, topology: Topology) -> None:
    queue = topology.queue(worker)
    worker.call(1, "basic.qos", prefetch_count=2)
    for tag, priority in (("low", -1), ("high", 10), ("none", None)):
        consume(worker, queue, tag, priority)
    publish(worker, queue, 6)
    assert tags(worker, 6) == ["high", "high", "none", "none", "low", "low"]


def test_a_priority_is_served_again_as_soon_as_it_can_take_more(worker: RawClient, topology: Topology) -> None:
    queue = topology.queue(worker)
    worker.call(1, "basic.qos", prefetch_count=1)
    consume(worker, queue, "low", 0)
    consume(worker, queue, "high", 5)
    publish(worker, queue, 2)
    high, low = deliveries(worker, 2)
    assert (high["consumer_tag"], low["consumer_tag"]) == ("high", "low")
    worker.send(1, "basic.ack", delivery_tag=high["delivery_tag"])
    # A round trip, so that the queue knows of the ack before the next message.
    wait_for_counts(worker, queue, 0, 2)
    publish(worker, queue, 1)
    assert tags(worker, 1) == ["high"]


def test_consumers_of_one_priority_take_turns(worker: RawClient, topology: Topology) -> None:
    queue = topology.queue(worker)
    for tag, priority in (("low", 1), ("a", 2), ("b", 2)):
        consume(worker, queue, tag, priority)
    publish(worker, queue, 6)
    served = tags(worker, 6)
    assert sorted(served) == ["a"] * 3 + ["b"] * 3
    assert all(one != two for one, two in pairwise(served))


def test_lower_priorities_are_served_when_the_higher_are_gone(worker: RawClient, topology: Topology) -> None:
    queue = topology.queue(worker)
    consume(worker, queue, "low", 1)
    consume(worker, queue, "high", 2)
    worker.call(1, "basic.cancel", consumer_tag="high")
    publish(worker, queue, 2)
    assert tags(worker, 2) == ["low", "low"]


@pytest.fixture
def single(worker: RawClient, topology: Topology) -> str:
    """A queue with a single active consumer."""
    return topology.queue(worker, exclusive=False, arguments={"x-single-active-consumer": True})


def test_only_the_first_consumer_is_served(worker: RawClient, single: str) -> None:
    for tag in ("first", "second", "third"):
        consume(worker, single, tag)
    publish(worker, single, 6)
    assert tags(worker, 6) == ["first"] * 6
    wait_for_counts(worker, single, 0, 3)


def test_the_next_takes_over_when_the_active_is_cancelled(worker: RawClient, single: str) -> None:
    for tag in ("first", "second", "third"):
        consume(worker, single, tag)
    for gone, active in (("first", "second"), ("second", "third")):
        worker.call(1, "basic.cancel", consumer_tag=gone)
        publish(worker, single, 2)
        assert tags(worker, 2) == [active] * 2


def test_the_next_takes_over_when_the_actives_connection_ends(connect: Connect, worker: RawClient, single: str) -> None:
    active = connect()
    consume(active, single, "active")
    consume(worker, single, "waiting")
    publish(worker, single, 3)
    assert tags(active, 3) == ["active"] * 3
    active.socket.close()
    taken = deliveries(worker, 3)
    assert bodies_of(taken) == [b"0", b"1", b"2"]
    assert all(method["redelivered"] for method in taken)


def test_a_full_active_consumer_does_not_pass_messages_on(worker: RawClient, single: str) -> None:
    worker.call(1, "basic.qos", prefetch_count=1)
    consume(worker, single, "first")
    consume(worker, single, "second")
    publish(worker, single, 3)
    first = worker.expect(1, "basic.deliver")
    assert first["consumer_tag"] == "first"
    worker.expect_quiet()
    worker.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    assert tags(worker, 1) == ["first"]


def test_an_exclusive_consumer_is_refused_on_such_a_queue(worker: RawClient, single: str) -> None:
    worker.send(1, "basic.consume", queue=single, exclusive=True)
    refusal = worker.refusal()
    assert refusal[:2] == ("channel", 403)
    assert refusal.text == f"ACCESS_REFUSED - queue '{single}' in vhost '/' in exclusive use"


def test_gets_are_served_beside_the_active_consumer(worker: RawClient, single: str) -> None:
    worker.call(1, "basic.qos", prefetch_count=1)
    publish_all(worker, single, [b"0", b"1"])
    consume(worker, single, "first")
    assert tags(worker, 1) == ["first"]
    assert worker.call(9, "basic.get", queue=single).body == b"1"
