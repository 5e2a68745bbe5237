"""One object's counters: a group is there once one of it was used; and what a queue holds."""

from __future__ import annotations

from leveret.core.codec.field_types import Timestamp
from leveret.operations.statistics.views import channel_stats, exchange_stats, queue_sizes, queue_stats
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.rule_bench import NOW, Bench
from tests.unit.core.stream.test_chunk import filled
from tests.unit.core.takers import Taker
from tests.unit.queues.dataplane import Workbench, message, publish_frames


def test_what_was_never_used_says_nothing() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    assert (queue_stats(queue), channel_stats(channel), exchange_stats(bench.exchanges[b""])) == ({}, {}, {})


def test_groups_come_as_a_whole() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.feed(publish_frames(1, "", "q"))
    assert queue_stats(queue) == {"publish": 1}
    assert channel_stats(channel) == {"confirm": 0, "drop_unroutable": 0, "publish": 1, "return_unroutable": 0}
    assert exchange_stats(bench.exchanges[b""]) == {"publish_in": 1, "publish_out": 1}
    other = bench.open_channel(2)
    assert bench.get(other, queue, no_ack=True)
    deliveries = {
        "ack": 0,
        "deliver": 0,
        "deliver_get": 1,
        "deliver_no_ack": 0,
        "get": 0,
        "get_empty": 0,
        "get_no_ack": 1,
        "redeliver": 0,
    }
    assert (queue_stats(queue), channel_stats(other)) == ({**deliveries, "publish": 1}, deliveries)


def test_what_a_queue_holds() -> None:
    disk, taker = FakeDisk(window_bytes=100), Taker()
    bench = Bench(disk)
    queue = bench.queue
    bench.publish(b"x" * 10, delivery_mode=2, timestamp=Timestamp(1234))
    bench.publish(b"x" * 30)
    for _ in range(8):
        bench.publish(b"x" * 50, delivery_mode=2)
    queue.get(taker)
    late = persistent(b"x" * 7)
    late.stamp = NOW + 5000
    queue.postpone(late)
    disk.commit()
    assert queue_sizes(queue, NOW + 250) == {
        "messages": 10,
        "messages_ready": 9,
        "messages_unacknowledged": 1,
        "messages_delayed": 1,
        "messages_quarantined": 0,
        "messages_ram": 4,
        "messages_ready_ram": 3,
        "messages_unacknowledged_ram": 1,
        "messages_paged_out": 6,
        "messages_persistent": 10,
        "message_bytes": 440,
        "message_bytes_ready": 430,
        "message_bytes_unacknowledged": 10,
        "message_bytes_ram": 140,
        "message_bytes_paged_out": 300,
        "message_bytes_persistent": 417,
        "head_message_timestamp": None,
        "oldest_message_age_ms": 250,
    }
    queue.requeue(taker.held.pop())
    assert queue_sizes(queue, NOW + 250)["head_message_timestamp"] == 1234


def test_an_empty_queue_has_no_head() -> None:
    found = queue_sizes(Bench().queue, NOW)
    assert (found["oldest_message_age_ms"], found["head_message_timestamp"]) == (None, None)
    assert not any(value for value in found.values())


def test_a_message_from_before_the_clock_was_set_back_is_not_older_than_nothing() -> None:
    bench = Bench()
    one = message(b"")
    one.stamp = NOW + 100
    bench.queue.publish(one)
    assert queue_sizes(bench.queue, NOW)["oldest_message_age_ms"] == 0


def test_a_stream_has_what_it_has() -> None:
    bench = filled(b"1", b"2")
    assert queue_sizes(bench.stream, NOW) == {"messages": 2, "messages_ready": 2, "messages_unacknowledged": 0}
    assert queue_stats(bench.stream) == {"publish": 2}
