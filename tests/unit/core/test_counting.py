"""Numbers that several parts of the data plane make together: confirms, copies, sizes, times, octets on disk and in
memory; and that whatever happens shows in an object's activity."""

from __future__ import annotations

import random

import pytest

from leveret.core.connection.channel import Channel
from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.matching.matcher import FanoutMatcher
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from tests.unit.core.connection.test_confirms import FullQueue
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.rule_bench import NOW, Bench
from tests.unit.core.takers import Taker
from tests.unit.queues.dataplane import Workbench, message, method_frame, publish_frames

DURABLE = {"delivery_mode": 2}


def opened(disk: FakeDisk) -> tuple[Workbench, Channel, ClassicQueue]:
    bench = Workbench(journal=disk.journal)
    channel = bench.open_channel()
    queue = bench.add_queue("q", paging_context=disk.paging_context, queue_log=disk.queue_log())
    bench.queues[b"full"] = FullQueue(b"full", None)
    bench.router.changed()
    channel.publish_path.start_confirming()
    return bench, channel, queue


def test_a_nack_that_a_later_ack_covers_is_no_confirm() -> None:
    disk = FakeDisk()
    bench, channel, _ = opened(disk)
    kept, refused = publish_frames(1, "", "q", b"1", DURABLE), publish_frames(1, "", "full")
    bench.feed(kept + refused + kept + refused)
    assert (channel.publish_path.confirmed_total, channel.publish_path.refused_total) == (0, 2)
    disk.commit()
    assert channel.publish_path.confirmed_total == 2
    bench.feed(refused + kept)
    disk.commit()
    assert [(sent.name, sent.fields["delivery_tag"]) for sent in bench.sent()] == [
        ("basic.nack", 2),
        ("basic.nack", 4),
        ("basic.ack", 3),
        ("basic.nack", 5),
        ("basic.ack", 6),
    ]
    assert (channel.publish_path.confirmed_total, channel.publish_path.publish_seq) == (3, 6)


def test_an_exchange_counts_messages_in_and_copies_out() -> None:
    bench = Workbench()
    channel = bench.open_channel()
    fan = bench.add_exchange("fan", FanoutMatcher())
    for name in ("a", "b", "c"):
        fan.bind(b"", {}, bench.add_queue(name))
    bench.router.changed()
    bench.feed(publish_frames(1, "fan", "") * 2 + publish_frames(1, "", "nowhere") + publish_frames(1, "", "a"))
    assert (fan.published_total, fan.routed_total, fan.unroutable_total) == (2, 6, 0)
    publish_path = channel.publish_path
    assert (publish_path.published_total, publish_path.routed_total, publish_path.dropped_total) == (4, 7, 1)


def test_sizes_are_counted_however_often_they_change() -> None:
    bench = Workbench(body_bytes_max=1 << 24)
    channel = bench.open_channel()
    bench.add_queue()
    for size in (0, 0, 100, 101, 101, 1000, 1001, 20_000, 0):
        bench.feed(publish_frames(1, "", "q", bytes(size)))
    channel.publish_path.flush_sizes()
    channel.publish_path.flush_sizes()
    assert (bench.office.sizes.counts()[:4], bench.office.sizes.sum) == ([4, 3, 1, 1], 22_303)


def test_a_message_waits_from_its_arrival_to_its_ack_or_to_a_delivery_without_acks() -> None:
    bench, taker = Bench(), Taker()
    queue, waits = bench.queue, bench.office.waits
    bench.publish(b"1", b"2", b"3")
    for _ in range(3):
        queue.get(taker)
    bench.office.now = NOW + 700
    queue.settle(taker.held.pop())
    queue.requeue(taker.held.pop())
    queue.discard(taker.held.pop())
    assert (waits.count, waits.sum) == (1, 700), "only what is done with"
    bench.office.now = NOW + 3000
    channel = Workbench().open_channel()
    getter = Getter(channel, queue, True)
    assert getter.fetch()
    assert (waits.count, waits.sum, waits.counts()[5:7]) == (2, 3700, [1, 1])
    bench.publish(b"4")
    assert getter.fetch()
    queue.subscribe(Consumer(channel, queue, b"c", True, False, 0, 0, 0, {}))
    bench.publish(b"5")
    assert (waits.count, queue.quick_total, queue.handed_total - queue.waited_total) == (2, 1, 1)
    late = message(b"6")
    late.stamp = NOW + 10**9
    queue.publish(late)
    assert (waits.count, queue.handed_total - queue.waited_total) == (2, 2), "nothing waits less than no time"


# ---- on disk and in memory


def test_what_the_log_has_is_known_in_messages_and_octets() -> None:
    disk, taker = FakeDisk(), Taker()
    queue = disk.queue()
    for size in (1, 20, 300):
        queue.publish(persistent(bytes(size)))
    queue.publish(message(bytes(4000)))
    queue_log = queue.queue_log
    assert (queue_log.live, queue_log.live_bytes) == (3, 321)
    queue.get(taker)
    assert (queue_log.live, queue_log.live_bytes) == (3, 321)
    queue.settle(taker.held.pop())
    assert (queue_log.live, queue_log.live_bytes) == (2, 320)
    disk.commit()
    again = FakeDisk().queue()
    again.restore(disk.book(), True)
    assert (again.queue_log.live, again.queue_log.live_bytes, again.in_memory()) == (2, 320, (0, 0))
    queue.purge()
    assert (queue_log.live, queue_log.live_bytes) == (0, 0)


def test_delayed_messages_are_in_the_log_as_well() -> None:
    bench = Bench(FakeDisk())
    for delay_ms in (1000, 2000, 3000):
        late = persistent(bytes(delay_ms))
        late.stamp = NOW + delay_ms
        bench.queue.postpone(late)
    queue_log, delays = bench.queue.queue_log, bench.queue.delays
    assert (queue_log.live, queue_log.live_bytes) == (3, 6000)
    assert delays.cancel(delays.waiting(0, 10)[2][0])
    assert (queue_log.live, queue_log.live_bytes) == (2, 3000)
    bench.office.now = NOW + 1000
    delays.ring()
    assert (queue_log.live, queue_log.live_bytes, bench.queue.ready_count()) == (2, 3000, 1)
    bench.queue.close()
    assert (queue_log.live, queue_log.live_bytes) == (0, 0)


@pytest.mark.parametrize("seed", range(8))
def test_octets_on_disk_and_in_memory_are_right_whatever_happens(seed: int) -> None:
    dice, disk, taker = random.Random(seed), FakeDisk(window_bytes=400), Taker()
    queue = disk.queue(lazy=seed % 4 == 3, priority_max=seed % 2 * 3)
    for _ in range(600):
        step = dice.randrange(10)
        if step < 4:
            queue.publish(persistent(bytes(dice.randrange(90)), priority=dice.randrange(4)))
        elif step < 6:
            queue.get(taker)
        elif step == 6 and taker.held:
            end = dice.choice((queue.settle, queue.requeue, queue.discard, queue.withdraw))
            end(taker.held.pop(dice.randrange(len(taker.held))))
        elif step == 7:
            disk.commit()
            disk.provide_spares()
        elif step == 8:
            disk.load(queue)
        elif dice.randrange(20) == 0:
            queue.purge()
        held = sum(entry.message.body_size for entry in taker.held)
        assert queue.unacked_bytes == held
        assert queue.queue_log.live == queue.ready_count() + len(taker.held)
        assert queue.queue_log.live_bytes == queue.ready_bytes() + held
        here = [entry for entry in queue.ready_entries() if entry.message.body is not None]
        assert queue.in_memory() == (len(here), sum(entry.message.body_size for entry in here))


def test_messages_without_a_record_are_in_memory_until_they_are_paged_out() -> None:
    disk = FakeDisk(window_bytes=50)
    queue = disk.queue(None)
    disk.paging_context.pressed = True
    for _ in range(20):
        queue.publish(message(bytes(10)))
    assert queue.in_memory() == (20, 200)
    queue.page_out(10 * (128 + 10))
    assert queue.in_memory() == (10, 100)
    queue.purge()
    assert queue.in_memory() == (0, 0)


def test_the_head_is_known_while_it_is_in_memory() -> None:
    disk = FakeDisk(window_bytes=0)
    queue = disk.queue(lazy=True)
    assert queue.head() is None
    queue.publish(persistent(b"1"))
    assert queue.head() is None
    disk.commit()
    disk.load(queue)
    assert queue.head().body == b"1"


# ---- activity


def test_whatever_happens_to_a_queue_shows_in_its_activity() -> None:
    bench, taker, last = Bench(length_max=3), Taker(), 0
    queue = bench.queue

    def delayed() -> None:
        late = message(b"")
        late.stamp = NOW + 10**6
        queue.publish(late)

    steps = (
        lambda: bench.publish(b"1", b"2"),
        lambda: queue.get(taker),
        lambda: queue.requeue(taker.held.pop()),
        lambda: queue.get(taker),
        lambda: queue.settle(taker.held.pop()),
        lambda: queue.get(taker),
        lambda: queue.discard(taker.held.pop()),
        lambda: queue.get(taker),
        lambda: bench.publish(b"3", b"4", b"5", b"6"),
        queue.purge,
        delayed,
        lambda: queue.delays.cancel(queue.delays.waiting(0, 1)[0][0]),
    )
    assert queue.activity() == 0
    for step in steps:
        step()
        assert queue.activity() > last
        last = queue.activity()
    assert queue.activity() == last


def test_whatever_happens_on_a_channel_shows_in_its_activity() -> None:
    bench, last = Workbench(), 0
    channel, queue = bench.open_channel(), bench.add_queue()
    consumer = Consumer(channel, queue, b"c", False, False, 0, 1, 0, {})
    steps = (
        lambda: bench.feed(publish_frames(1, "", "q")),
        lambda: queue.subscribe(consumer),
        lambda: bench.feed(method_frame(1, "basic.ack", delivery_tag=1, multiple=False)),
        lambda: bench.get(channel, queue),
        lambda: bench.feed(publish_frames(1, "", "q")),
        lambda: bench.feed(method_frame(1, "basic.reject", delivery_tag=2, requeue=False)),
    )
    assert channel.activity() == 0
    for step in steps:
        step()
        assert channel.activity() > last
        last = channel.activity()


def test_a_queue_of_no_kind_does_nothing() -> None:
    assert (Queue(b"q", None).activity(), Queue(b"q", None).series) == (0, None)


def test_a_connection_knows_what_came_and_went() -> None:
    bench = Workbench()
    bench.open_channel()
    bench.add_queue()
    octets = publish_frames(1, "", "nowhere", mandatory=True)
    for _ in range(3):
        bench.feed(octets)
        bench.sent()
    assert (bench.connection.bytes_received, bench.connection.chunks_received) == (3 * len(octets), 3)
    assert (bench.write_buffer.sends_total, bench.write_buffer.bytes_sent > 0) == (3, True)
