"""What queues and channels count, by RabbitMQ's names; sums of several, and of those that are gone."""

from __future__ import annotations

from typing import Any

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.mover import Mover
from leveret.core.tally import (
    CHANNEL_VALUES,
    QUEUE_VALUES,
    ChannelTally,
    QueueTally,
    add_queues,
    channel_values,
    queue_values,
)
from tests.unit.core.rule_bench import Bench
from tests.unit.core.stream.test_chunk import filled
from tests.unit.queues.dataplane import Workbench, message, method_frame, publish_frames

COUNTED = (
    *("publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack", "requeued"),
    *(
        "rejected",
        "purged",
        "withdrawn",
        "expired",
        "quarantined",
        "dropped",
        "limited",
        "refused",
        "buried",
        "quick",
        "streamed",
    ),
)
NOW = ("queues", "consumers", "ready", "unacked", "delayed", "ready_bytes", "unacked_bytes")
CHANNEL_COUNTED = (
    *("publish", "publish_confirm", "confirm", "routed", "return_unroutable", "drop_unroutable", "refused", "deliver"),
    *("deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack", "rejected"),
)


def used(tally: Any, names: tuple[str, ...]) -> dict[str, int]:
    return {name: getattr(tally, name) for name in names if getattr(tally, name)}


def of_queue(queue: Any) -> dict[str, int]:
    tally = QueueTally()
    tally.add(queue)
    return used(tally, COUNTED)


def of_channel(channel: Any) -> dict[str, int]:
    tally = ChannelTally()
    tally.add(channel)
    return used(tally, CHANNEL_COUNTED)


def test_what_is_delivered_is_told_apart_by_how() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.feed(publish_frames(1, "", "q", b"1") * 5)
    assert bench.get(channel, queue) and bench.get(channel, queue, no_ack=True)
    manual = bench.consume(channel, queue, "manual", prefetch_count=2)
    assert (queue.ready_count(), manual.unacked_count) == (1, 2)
    bench.feed(method_frame(1, "basic.ack", delivery_tag=3, multiple=False))
    channel.remove_consumer(b"manual")
    bench.consume(channel, queue, "auto", no_ack=True)
    bench.feed(publish_frames(1, "", "q", b"2"))
    assert not bench.get(channel, queue)
    expected = {"publish": 6, "deliver": 3, "deliver_no_ack": 1, "get": 1, "get_no_ack": 1, "get_empty": 1, "ack": 1}
    assert of_queue(queue) == {**expected, "quick": 3}
    assert of_channel(channel) == {**expected, "routed": 6}
    assert queue_values(queue) == tuple(
        {**expected, "messages_unacknowledged": 3}.get(name, 0) for name in QUEUE_VALUES
    )
    assert channel_values(channel) == tuple(expected.get(name, 0) for name in CHANNEL_VALUES)


def test_what_comes_back_is_requeued_and_delivered_again() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.feed(publish_frames(1, "", "q", b"1"))
    bench.consume(channel, queue, prefetch_count=1)
    bench.feed(method_frame(1, "basic.nack", delivery_tag=1, multiple=False, requeue=True))
    bench.feed(method_frame(1, "basic.reject", delivery_tag=2, requeue=False))
    expected = {"publish": 1, "deliver": 2, "redeliver": 1, "rejected": 1}
    assert of_queue(queue) == {**expected, "requeued": 1}
    assert of_channel(channel) == {**expected, "routed": 1}


def test_what_rules_do_is_told_apart_by_the_reason() -> None:
    bench = Bench(length_max=2)
    office, queue = bench.office, bench.queue
    bench.publish(*[b"1234"] * 5, expiration="50")
    bench.at(51)
    assert of_queue(queue) == {"publish": 5, "dropped": 3, "expired": 2}
    assert [office.lost_total(reason) for reason in (1, 2, 3, 4)] == [0, 2, 3, 0]
    queue.publish(message(b"1"))
    queue.purge()
    assert of_queue(queue) == {"publish": 6, "dropped": 3, "expired": 2, "purged": 1}


def test_what_the_broker_takes_away_is_nobodys_ack() -> None:
    queue = ClassicQueue(b"q", None)
    queue.publish(message(b"1"))
    mover = Mover(queue)
    assert mover.fetch()
    mover.settle()
    assert not mover.fetch()
    assert of_queue(queue) == {"publish": 1, "withdrawn": 1}


def test_a_stream_counts_by_protocol() -> None:
    bench = filled(b"1", b"2", b"3")
    subscription = bench.subscription()
    subscription.add_credit(10)
    subscription.begin(0)
    bench.stream_store.read()
    assert of_queue(bench.stream) == {"publish": 3, "deliver": 3, "streamed": 3}


def test_sums_of_all_queues_by_kind_and_of_those_that_are_gone() -> None:
    bench, streams = Workbench(), filled(b"1")
    channel, one, two = bench.open_channel(), bench.add_queue("one"), bench.add_queue("two")
    for name, count in (("one", 3), ("two", 4)):
        bench.feed(publish_frames(1, "", name, b"12345") * count)
    assert bench.get(channel, one)
    bench.consume(channel, two, prefetch_count=1)
    classic, stream, gone = QueueTally(), QueueTally(), QueueTally()
    gone.add(one)
    add_queues({b"one": one, b"two": two, b"s": streams.stream}, classic, stream)
    expected = {"publish": 7, "get": 1, "deliver": 1}
    now = {"queues": 2, "consumers": 1, "ready": 5, "unacked": 2, "ready_bytes": 25, "unacked_bytes": 10}
    assert (used(classic, COUNTED), used(classic, NOW)) == (expected, now)
    assert (used(stream, COUNTED), used(stream, NOW)) == ({"publish": 1}, {"queues": 1, "ready": 1})
    classic.merge(gone)
    assert used(classic, COUNTED) == {"publish": 10, "get": 2, "deliver": 1}
    assert used(classic, NOW) == now, "what is gone is not there"


def test_channels_of_which_some_are_gone() -> None:
    bench = Workbench()
    one, two = bench.open_channel(1), bench.open_channel(2)
    bench.add_queue()
    two.publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "q", b"1" * 50) + publish_frames(1, "", "nowhere", b"1" * 500, mandatory=True))
    bench.feed(publish_frames(2, "", "nowhere", b"1" * 5000))
    gone, here = ChannelTally(), ChannelTally()
    gone.add(one)
    here.add(two)
    here.merge(gone)
    assert used(here, CHANNEL_COUNTED) == {
        "publish": 3,
        "publish_confirm": 1,
        "confirm": 1,
        "routed": 1,
        "return_unroutable": 1,
        "drop_unroutable": 1,
    }
    assert (here.channels, here.publishers, here.consumers) == (1, 1, 0)
    assert bench.office.sizes.counts()[:4] == [1, 1, 1, 0], "asking brings the histogram up to date"
