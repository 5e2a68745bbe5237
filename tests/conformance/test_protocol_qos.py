"""Prefetch: how many messages a consumer or a channel may hold unacknowledged."""

from collections import Counter

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, bodies_of, deliveries, publish_all


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def full_queue(client: RawClient, topology: Topology, count: int = 10) -> str:
    queue = topology.queue(client)
    publish_all(client, queue, numbered(count))
    return queue


def consume(client: RawClient, queue: str, tag: str, channel: int = 1, no_ack: bool = False) -> None:
    """Starts a consumer without waiting: its messages may come before or after those of others."""
    client.send(channel, "basic.consume", queue=queue, consumer_tag=tag, no_ack=no_ack, nowait=True)


def held_by(client: RawClient, count: int, channel: int = 1) -> dict[str, int]:
    """How many of the next messages each consumer gets; after them nothing may come."""
    held = Counter(method["consumer_tag"] for method in deliveries(client, count, channel))
    client.expect_quiet()
    return held


def held_after(client: RawClient, limit: int, count: int) -> dict[str, int]:
    """Sets a new global limit; the answer and the messages that it lets through may come in any order."""
    client.send(1, "basic.qos", {"prefetch_count": limit, "global": True})
    methods = [client.expect(1, "basic.qos-ok", "basic.deliver") for _ in range(1 + count)]
    assert [method.name for method in methods].count("basic.qos-ok") == 1
    client.expect_quiet()
    return Counter(method["consumer_tag"] for method in methods if method.name == "basic.deliver")


def test_without_a_limit_everything_is_delivered(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology, 100)
    consume(client, queue, "one")
    assert held_by(client, 100) == {"one": 100}


def test_each_consumer_has_its_own_limit(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", prefetch_count=2)
    consume(client, queue, "one")
    consume(client, queue, "two")
    assert held_by(client, 4) == {"one": 2, "two": 2}


def test_the_limit_counts_for_consumers_started_afterwards(client: RawClient, topology: Topology) -> None:
    first, second = full_queue(client, topology), full_queue(client, topology)
    client.call(1, "basic.qos", prefetch_count=2)
    consume(client, first, "two")
    assert held_by(client, 2) == {"two": 2}
    client.call(1, "basic.qos", prefetch_count=3)
    consume(client, second, "three")
    assert held_by(client, 3) == {"three": 3}


def test_an_ack_makes_room_for_one_more(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", prefetch_count=2)
    consume(client, queue, "one")
    first, second = deliveries(client, 2)
    client.expect_quiet()
    client.send(1, "basic.ack", delivery_tag=second["delivery_tag"])
    assert bodies_of(deliveries(client, 1)) == [b"2"]
    client.expect_quiet()
    client.send(1, "basic.reject", delivery_tag=first["delivery_tag"], requeue=False)
    assert bodies_of(deliveries(client, 1)) == [b"3"]
    client.send(1, "basic.ack", delivery_tag=0, multiple=True)
    assert bodies_of(deliveries(client, 2)) == [b"4", b"5"]


def test_a_global_limit_counts_for_the_channel(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", {"prefetch_count": 3, "global": True})
    consume(client, queue, "one")
    consume(client, queue, "two")
    held = held_by(client, 3)
    assert sum(held.values()) == 3
    client.send(1, "basic.ack", delivery_tag=0, multiple=True)
    assert sum(held_by(client, 3).values()) == 3


def test_both_limits_count(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", prefetch_count=2)
    client.call(1, "basic.qos", {"prefetch_count": 3, "global": True})
    consume(client, queue, "one")
    consume(client, queue, "two")
    held = held_by(client, 3)
    assert sorted(held.values()) == [1, 2]


def test_a_new_limit_per_consumer_lifts_the_global_one(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", {"prefetch_count": 3, "global": True})
    client.call(1, "basic.qos", prefetch_count=2)
    consume(client, queue, "one")
    consume(client, queue, "two")
    assert held_by(client, 4) == {"one": 2, "two": 2}


def test_a_global_limit_is_the_channels_own(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.open_channel(2)
    client.call(1, "basic.qos", {"prefetch_count": 1, "global": True})
    consume(client, queue, "one")
    deliveries(client, 1)
    consume(client, queue, "two", channel=2)
    assert held_by(client, 9, channel=2) == {"two": 9}


def test_a_raised_global_limit_takes_effect_at_once(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", {"prefetch_count": 1, "global": True})
    consume(client, queue, "one")
    assert held_by(client, 1) == {"one": 1}
    assert held_after(client, limit=4, count=3) == {"one": 3}
    assert held_after(client, limit=0, count=6) == {"one": 6}


def test_a_lowered_global_limit_waits_for_acks(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", {"prefetch_count": 4, "global": True})
    consume(client, queue, "one")
    tags = [method["delivery_tag"] for method in deliveries(client, 4)]
    client.call(1, "basic.qos", {"prefetch_count": 2, "global": True})
    for tag in tags[:2]:
        client.send(1, "basic.ack", delivery_tag=tag)
    client.expect_quiet()
    client.send(1, "basic.ack", delivery_tag=tags[2])
    assert held_by(client, 1) == {"one": 1}


def test_messages_got_count_for_the_global_limit_alone(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", prefetch_count=2)
    for _ in range(3):
        client.call(1, "basic.get", queue=queue)
    consume(client, queue, "one")
    assert held_by(client, 2) == {"one": 2}


@pytest.mark.parametrize("is_global", [False, True])
def test_consumers_without_acks_have_no_limit(client: RawClient, topology: Topology, is_global: bool) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", {"prefetch_count": 1, "global": is_global})
    consume(client, queue, "one", no_ack=True)
    assert held_by(client, 10) == {"one": 10}


@pytest.mark.parametrize("same_queue", [False, True])
def test_a_full_channel_holds_back_consumers_without_acks(
    client: RawClient, topology: Topology, same_queue: bool
) -> None:
    """They use nothing of the channel's limit, but wait while others have used it up."""
    queue = full_queue(client, topology, 1)
    client.call(1, "basic.qos", {"prefetch_count": 1, "global": True})
    consume(client, queue, "one")
    assert held_by(client, 1) == {"one": 1}
    other = queue if same_queue else full_queue(client, topology)
    consume(client, other, "free", no_ack=True)
    publish_all(client, other, numbered(3))
    client.expect_quiet()
    client.call(1, "basic.cancel", consumer_tag="one")
    client.send(1, "basic.ack", delivery_tag=1)
    count = 3 if same_queue else 13
    assert held_by(client, count) == {"free": count}


def test_lifting_the_channels_limit_lets_consumers_without_acks_go_on(client: RawClient, topology: Topology) -> None:
    client.call(1, "basic.qos", {"prefetch_count": 1, "global": True})
    consume(client, full_queue(client, topology, 1), "one")
    assert held_by(client, 1) == {"one": 1}
    consume(client, full_queue(client, topology), "free", no_ack=True)
    client.expect_quiet()
    assert held_after(client, 2, 10) == {"free": 10}


def test_a_cancelled_consumers_messages_still_use_the_global_limit(client: RawClient, topology: Topology) -> None:
    queue = full_queue(client, topology)
    client.call(1, "basic.qos", {"prefetch_count": 2, "global": True})
    consume(client, queue, "one")
    deliveries(client, 2)
    client.call(1, "basic.cancel", consumer_tag="one")
    consume(client, queue, "two")
    client.expect_quiet()
    client.send(1, "basic.ack", delivery_tag=1)
    assert held_by(client, 1) == {"two": 1}


def test_a_slow_consumer_does_not_hold_up_another(client: RawClient, topology: Topology) -> None:
    """Fair dispatch: what the busy one cannot take goes to the other."""
    queue = topology.queue(client)
    client.open_channel(2)
    for channel in (1, 2):
        client.call(channel, "basic.qos", prefetch_count=1)
        client.call(channel, "basic.consume", queue=queue, consumer_tag="busy" if channel == 1 else "quick")
    client.open_channel(3)
    for number in range(10):
        client.publish(3, "", queue, b"%d" % number)
    first, second = client.read(), client.read()
    assert {first.channel, second.channel} == {1, 2}
    quick = first if first.channel == 2 else second
    for _ in range(8):
        client.send(2, "basic.ack", delivery_tag=quick["delivery_tag"])
        quick = client.expect(2, "basic.deliver")
    client.send(2, "basic.ack", delivery_tag=quick["delivery_tag"])
    client.expect_quiet()
