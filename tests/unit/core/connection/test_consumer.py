"""Consumers and getters: their own prefetch, congestion, and what they say about a delivery."""

from __future__ import annotations

import pytest

from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.queue.contract import make_entry
from tests.unit.queues.dataplane import Workbench, message


def test_a_consumer_stops_at_its_own_prefetch() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = bench.consume(channel, queue, prefetch_count=2)
    for _ in range(3):
        queue.publish(message())
    assert len(bench.sent()) == 2
    assert (consumer.unacked_count, consumer.can_take(), queue.ready_count()) == (2, False, 1)
    channel.settle(1, False, 0, 0)
    assert (consumer.unacked_count, queue.ready_count()) == (2, 0)


def test_a_consumer_stops_at_its_own_prefetch_in_octets() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = bench.consume(channel, queue, prefetch_bytes=10)
    for size in (4, 4, 4, 4):
        queue.publish(message(bytes(size)))
    assert len(bench.sent()) == 3
    assert (consumer.unacked_bytes, queue.ready_count()) == (12, 1)
    channel.settle(3, True, 0, 0)
    assert (consumer.unacked_bytes, queue.ready_count()) == (4, 0)


def test_two_consumers_of_a_channel_have_limits_of_their_own() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.consume(channel, queue, "one", prefetch_count=1)
    bench.consume(channel, queue, "three", prefetch_count=3)
    for _ in range(6):
        queue.publish(message())
    tags = [sent.fields["consumer_tag"] for sent in bench.sent()]
    assert (tags.count("one"), tags.count("three")) == (1, 3)


def test_a_consumer_without_acks_never_reaches_a_prefetch_itself() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = bench.consume(channel, queue, no_ack=True, prefetch_count=1)
    channel.prefetch_count = 1
    for _ in range(5):
        queue.publish(message())
    assert len(bench.sent()) == 5
    assert consumer.unacked_count == 0


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_waits_while_its_connection_is_congested(no_ack: bool) -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = bench.consume(channel, queue, no_ack=no_ack)
    bench.write_buffer.write(bytes(262145))
    assert not consumer.can_take()
    queue.publish(message())
    assert queue.ready_count() == 1


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_waits_while_its_channel_does_not_flow_or_closes(no_ack: bool) -> None:
    bench = Workbench()
    channel = bench.open_channel()
    consumer = bench.consume(channel, bench.add_queue(), no_ack=no_ack)
    assert consumer.can_take()
    channel.flowing = False
    assert not consumer.can_take()
    channel.flowing = True
    assert consumer.can_take()
    channel.start_closing()
    assert not consumer.can_take()


def test_a_consumer_knows_what_it_was_made_with() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = Consumer(channel, queue, b"tag", True, True, -5, 10, 1000, {"x-priority": -5})
    assert (consumer.channel, consumer.queue, consumer.tag) == (channel, queue, b"tag")
    assert (consumer.no_ack, consumer.exclusive, consumer.priority) == (True, True, -5)
    assert (consumer.prefetch_count, consumer.prefetch_bytes) == (10, 1000)
    assert consumer.arguments() == {"x-priority": -5}


def test_deliveries_are_counted() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = bench.consume(channel, queue)
    without_acks = bench.consume(channel, queue, "no ack", no_ack=True)
    for _ in range(4):
        queue.publish(message())
    assert (consumer.delivered_total, without_acks.delivered_total, channel.delivered_total) == (2, 2, 4)


def test_an_entry_taken_is_held_by_the_consumer_with_its_tag() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = bench.consume(channel, queue)
    entry = make_entry(message(b"12"), 1)
    consumer.take(entry)
    assert entry.holder is consumer
    assert (entry.tag, consumer.unacked_bytes, channel.held_bytes) == (1, 2, 2)


def test_a_getter_takes_whatever_the_limits() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    channel.prefetch_count = 1
    for _ in range(3):
        queue.publish(message())
    assert [bench.get(channel, queue) for _ in range(4)] == [True, True, True, False]
    assert (channel.held_count, channel.unacked.count, queue.unacked_count) == (0, 3, 3)


def test_a_getter_without_acks_leaves_nothing_to_settle() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    queue.publish(message(b"gone"))
    assert Getter(channel, queue, True).fetch()
    assert (channel.unacked.count, queue.unacked_count, queue.settled_total) == (0, 0, 1)
    assert bench.sent_bodies() == [b"gone"]


def test_a_getter_tells_a_redelivery() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    queue.publish(message())
    for no_ack in (False, True):
        bench.get(channel, queue, no_ack)
        if not no_ack:
            channel.recover()
    assert [sent.fields["redelivered"] for sent in bench.sent()] == [False, True]
