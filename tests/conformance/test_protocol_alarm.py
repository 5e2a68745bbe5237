"""A broker short of memory: publishers are told and held up, consumers go on."""

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import CAPABILITIES, RawClient
from tests.conformance.target import Target
from tests.conformance.topology import Topology, publish_all


@pytest.fixture
def alarm(target: Target) -> Iterator[None]:
    """Raises the alarm for one test."""
    target.raise_memory_alarm()
    yield
    target.clear_memory_alarm()


@pytest.fixture
def stocked(connect: Connect, topology: Topology) -> str:
    """A queue that holds messages from before the alarm."""
    maker = connect()
    queue = topology.queue(maker, exclusive=False)
    publish_all(maker, queue, [b"a", b"b"])
    return queue


def test_publishers_are_told_and_held_up(target: Target, stocked: str, connect: Connect, alarm: None) -> None:
    publisher, consumer = connect(), connect()
    publisher.publish(1, "", stocked, b"c")
    assert publisher.expect(0, "connection.blocked")["reason"] == "low on memory"
    # The consumer gets what was there, but not what is held up.
    consumer.call(1, "basic.consume", queue=stocked)
    assert [consumer.expect(1, "basic.deliver").body for _ in range(2)] == [b"a", b"b"]
    target.clear_memory_alarm()
    # The held up message and the news of the end come on two connections, in either order.
    publisher.expect(0, "connection.unblocked")
    publisher.call(1, "queue.declare", exclusive=True)
    publisher.publish(1, "", stocked, b"d")
    later = [consumer.expect(1, "basic.deliver").body for _ in range(2)]
    assert later == [b"c", b"d"]


def test_clients_without_the_capability_are_not_told(stocked: str, connect: Connect, alarm: None) -> None:
    capabilities = {name: True for name in CAPABILITIES if name != "connection.blocked"}
    publisher = connect(capabilities=capabilities)
    publisher.publish(1, "", stocked, b"c")
    publisher.expect_quiet()


def test_those_who_do_not_publish_are_not_told(client: RawClient, stocked: str, connect: Connect, alarm: None) -> None:
    consumer = connect()
    consumer.call(1, "basic.consume", queue=stocked)
    first = consumer.expect(1, "basic.deliver")
    consumer.send(1, "basic.ack", delivery_tag=first["delivery_tag"])
    assert consumer.expect(1, "basic.deliver").body == b"b"
    consumer.expect_quiet()
