"""`prefetch_size`: RabbitMQ refuses it (540); Leveret gives a consumer no more once so many octets are unacked."""

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, bodies_of, deliveries, publish_all


def sized(*sizes: int) -> list[bytes]:
    return [b"x" * size for size in sizes]


@pytest.mark.parametrize("is_global", [False, True])
def test_the_window_holds_so_many_octets(client: RawClient, topology: Topology, is_global: bool) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, sized(40, 60, 1))
    client.call(1, "basic.qos", {"prefetch_size": 100, "global": is_global})
    client.call(1, "basic.consume", queue=queue)
    assert bodies_of(deliveries(client, 2)) == sized(40, 60)
    client.expect_quiet()
    client.send(1, "basic.ack", delivery_tag=1)
    assert bodies_of(deliveries(client, 1)) == sized(1)


def test_a_single_message_is_never_too_large(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, sized(1000, 1))
    client.call(1, "basic.qos", prefetch_size=100)
    client.call(1, "basic.consume", queue=queue)
    assert bodies_of(deliveries(client, 1)) == sized(1000)
    client.expect_quiet()
    client.send(1, "basic.ack", delivery_tag=1)
    assert bodies_of(deliveries(client, 1)) == sized(1)


def test_both_windows_count(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, sized(10, 10, 10))
    client.call(1, "basic.qos", prefetch_size=1000, prefetch_count=2)
    client.call(1, "basic.consume", queue=queue)
    deliveries(client, 2)
    client.expect_quiet()


def test_each_consumer_has_its_own_window(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, sized(60, 60, 60, 60, 60))
    client.call(1, "basic.qos", prefetch_size=100)
    for tag in ("one", "two"):
        client.send(1, "basic.consume", queue=queue, consumer_tag=tag, nowait=True)
    # A window is full once it holds its size or more, so each takes two.
    assert sorted(str(method["consumer_tag"]) for method in deliveries(client, 4)) == ["one", "one", "two", "two"]
    client.expect_quiet()


def test_consumers_without_acks_have_no_window(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    publish_all(client, queue, sized(60, 60, 60))
    client.call(1, "basic.qos", prefetch_size=100)
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    assert bodies_of(deliveries(client, 3)) == sized(60, 60, 60)
