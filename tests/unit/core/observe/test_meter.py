"""Work is counted, and a chunk is left when it is too much: nothing is lost, nothing overtakes, and acks are right."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.connection.connection import CONGESTED, UNFINISHED
from leveret.core.matching.matcher import FanoutMatcher
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.core.observe.meter import Meter
from leveret.errors import SoftError
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import Workbench, method_frame, publish_frames

PERSISTENT = {"delivery_mode": 2}
# As core.connection.channel and core.queue.plain_queue have them.
SETTLED_A_STEP = 8192
GIVEN_A_STEP = 4096
# What these tests allow.
TRANSACTION_WORK_MAX = 4096


class Left(Workbench):
    """A connection that may do so much work in one go, and how often it was left for that."""

    def __init__(self, allowed: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.allowed = allowed
        self.times_left = 0

    def feed(self, octets: bytes) -> list[Any]:
        events = []
        self.office.meter.allow(self.allowed)
        event = self.connection.feed(bytearray(octets), len(octets))
        while event is not None:
            if event is UNFINISHED:
                self.times_left += 1
                self.connection.detach()
            else:
                events.append(event)
            self.office.meter.allow(self.allowed)
            event = self.connection.proceed()
        return events


def bodies(queue: Any) -> list[bytes]:
    return [seen.body for seen in glance_all(queue)]


def glance_all(queue: Any) -> list[Any]:
    taken = []
    while queue.ready.count:
        taken.append(queue.ready.pop().message)
    return taken


def fanned(bench: Workbench, count: int) -> list[Any]:
    exchange = bench.add_exchange("all", FanoutMatcher())
    queues = [bench.add_queue(f"q{number}") for number in range(count)]
    for queue in queues:
        exchange.bind(b"", {}, queue)
    bench.router.changed()
    return queues


def wide_topic(bench: Workbench, depth: int = 6) -> Any:
    """A trie in which a key of many words reaches most of its nodes at each of them."""
    exchange = bench.add_exchange("t", TopicMatcher())
    queue = bench.add_queue("wide")
    for number in range(3**depth):
        words = [b"a*#"[number // 3**at % 3 : number // 3**at % 3 + 1] for at in range(depth)]
        exchange.bind(b".".join(words), {}, queue)
    bench.router.changed()
    return queue


# ---- the meter


def test_a_meter_is_over_when_what_it_allows_is_spent() -> None:
    meter = Meter()
    assert not meter.is_over()
    meter.spent += 1000
    meter.allow(10)
    assert not meter.is_over()
    meter.spent += 10
    assert meter.is_over()


@pytest.mark.parametrize(("count", "least"), [(1, 3), (200, 600)])
def test_a_message_costs_what_its_queues_cost(count: int, least: int) -> None:
    bench = Workbench()
    fanned(bench, count)
    bench.open_channel()
    before = bench.office.meter.spent
    bench.feed(publish_frames(1, "all", "", b"x"))
    assert least <= bench.office.meter.spent - before < 2 * least + 10


def test_nodes_of_a_trie_and_predicates_are_charged() -> None:
    bench = Workbench()
    wide_topic(bench)
    bench.open_channel()
    before = bench.office.meter.spent
    bench.feed(publish_frames(1, "t", ".".join("a" * 100), b"x"))
    assert bench.office.meter.spent - before > 100 * 300 // 4


# ---- leaving and going on


def test_a_chunk_is_left_after_each_message_that_is_too_much_and_gone_on_with_in_order() -> None:
    bench = Left(30)
    queues = fanned(bench, 20)
    bench.open_channel()
    bench.feed(b"".join(publish_frames(1, "all", "", b"%d" % number) for number in range(10)))
    assert bench.times_left == 9, "after the last one there is nothing to leave"
    for queue in queues:
        assert bodies(queue) == [b"%d" % number for number in range(10)]


def test_what_is_cheap_is_not_left() -> None:
    bench = Left(30_000)
    bench.add_queue()
    bench.open_channel()
    bench.feed(b"".join(publish_frames(1, "", "q", b"x") for _ in range(1000)))
    assert bench.times_left == 0


def test_a_frame_that_came_in_two_chunks_is_not_lost_when_the_first_is_left() -> None:
    bench = Left(1)
    queue = bench.add_queue()
    bench.open_channel()
    stream = b"".join(publish_frames(1, "", "q", b"%d" % number * 40) for number in range(6))
    for at in range(0, len(stream), 37):
        bench.feed(stream[at : at + 37])
    assert bodies(queue) == [b"%d" % number * 40 for number in range(6)]


def test_the_routing_of_one_message_is_left_between_two_words() -> None:
    bench = Left(50)
    queue = wide_topic(bench)
    bench.open_channel()
    bench.feed(publish_frames(1, "t", ".".join("a" * 50), b"long") + publish_frames(1, "", "wide", b"next"))
    assert bench.times_left > 20
    assert bodies(queue) == [b"long", b"next"]


def test_bindings_may_change_while_a_message_is_routed() -> None:
    bench = Left(50)
    queue = wide_topic(bench)
    bench.open_channel()
    bench.office.meter.allow(50)
    chunk = publish_frames(1, "t", ".".join("a" * 50), b"long")
    assert bench.connection.feed(bytearray(chunk), len(chunk)) is UNFINISHED
    exchange = bench.exchanges[b"t"]
    exchange.unbind(b"a.a.a.a.a.a", {}, queue)
    exchange.bind(b"b.#", {}, bench.add_queue("other"))
    bench.router.changed()
    while bench.connection.proceed() is not None:
        pass
    assert bodies(queue) == [b"long"]


def test_confirms_go_out_when_a_chunk_is_left_and_count_what_was_taken() -> None:
    bench = Left(30)
    fanned(bench, 20)
    channel = bench.open_channel()
    channel.publish_path.start_confirming()
    chunk = b"".join(publish_frames(1, "all", "", b"x") for _ in range(3))
    bench.office.meter.allow(30)
    assert bench.connection.feed(bytearray(chunk), len(chunk)) is UNFINISHED
    assert [sent.fields["delivery_tag"] for sent in bench.sent()] == [1]
    bench.office.meter.allow(10_000)
    assert bench.connection.proceed() is None
    assert [(sent.fields["delivery_tag"], sent.fields["multiple"]) for sent in bench.sent()] == [(3, True)]


def test_a_message_whose_routing_was_left_is_confirmed_once_it_is_in_its_queue() -> None:
    bench = Left(50)
    queue = wide_topic(bench)
    channel = bench.open_channel()
    channel.publish_path.start_confirming()
    bench.office.meter.allow(50)
    chunk = publish_frames(1, "t", ".".join("a" * 50), b"long")
    assert bench.connection.feed(bytearray(chunk), len(chunk)) is UNFINISHED
    assert (bench.sent(), queue.ready_count()) == ([], 0)
    while bench.connection.proceed() is not None:
        assert bench.sent() == []
    assert [sent.name for sent in bench.sent()] == ["basic.ack"]
    assert queue.ready_count() == 1


def test_a_channel_that_closes_while_a_message_is_routed_never_publishes_it() -> None:
    bench = Left(50)
    queue = wide_topic(bench)
    channel = bench.open_channel()
    bench.office.meter.allow(50)
    chunk = publish_frames(1, "t", ".".join("a" * 50), b"long") + publish_frames(1, "", "wide", b"next")
    assert bench.connection.feed(bytearray(chunk), len(chunk)) is UNFINISHED
    channel.start_closing()
    channel.publish_path.abandon()
    bench.office.meter.allow(1000)
    assert bench.connection.proceed() is None
    assert queue.ready_count() == 0


def test_a_muted_connection_goes_on_with_nothing() -> None:
    bench = Left(50)
    queue = wide_topic(bench)
    bench.open_channel()
    bench.office.meter.allow(50)
    chunk = publish_frames(1, "t", ".".join("a" * 50), b"long")
    assert bench.connection.feed(bytearray(chunk), len(chunk)) is UNFINISHED
    bench.connection.muted = True
    assert bench.connection.proceed() is None
    assert queue.ready_count() == 0


# ---- acks of many


def holding(bench: Workbench, count: int) -> tuple[Any, Any]:
    queue = bench.add_queue()
    channel = bench.open_channel()
    bench.consume(channel, queue)
    frame = publish_frames(1, "", "q", b"x")
    for _ in range(count):
        bench.feed(frame)
        if bench.write_buffer.congested:
            bench.sent()
            bench.connection.calm()
    while channel.unacked.count < count:
        bench.sent()
        bench.connection.calm()
    return queue, channel


MANY = 2 * SETTLED_A_STEP + 10


def test_an_ack_of_many_is_done_in_steps_and_what_follows_waits() -> None:
    bench = Workbench()
    queue, channel = holding(bench, MANY + 1)
    bench.office.meter.allow(1)
    ack = method_frame(1, "basic.ack", delivery_tag=MANY, multiple=True)
    chunk = ack + method_frame(1, "basic.reject", delivery_tag=MANY + 1, requeue=False)
    assert bench.connection.feed(bytearray(chunk), len(chunk)) is UNFINISHED
    assert (channel.acked_total, channel.rejected_total) == (SETTLED_A_STEP, 0)
    while bench.connection.proceed() is not None:
        assert channel.rejected_total == 0
    assert (channel.acked_total, channel.rejected_total, queue.unacked_count) == (MANY, 1, 0)


def test_what_was_acked_is_not_given_back_when_the_channel_closes_in_the_middle() -> None:
    bench = Workbench()
    queue, channel = holding(bench, MANY + 1)
    ack = method_frame(1, "basic.ack", delivery_tag=MANY, multiple=True)
    assert bench.connection.feed(bytearray(ack), len(ack)) is UNFINISHED
    channel.start_closing()
    channel.requeue_all()
    assert (queue.ready_count(), queue.unacked_count, channel.acked_total) == (1, 0, MANY)


def test_a_channel_that_held_much_gives_it_back_in_steps_in_order() -> None:
    bench = Workbench()
    queue, channel = holding(bench, MANY)
    channel.remove_consumer(b"c")
    channel.start_closing()
    channel.requeue_all()
    assert (queue.ready_count(), queue.unacked_count) == (SETTLED_A_STEP, MANY - SETTLED_A_STEP)
    found: dict[Any, Any] = {}
    bench.office.collect_located(0, found)
    steps = 0
    while bench.office.unfinished:
        for worker in bench.office.take_unfinished():
            worker.go_on()
            steps += 1
    assert (steps, queue.ready_count(), queue.unacked_count, bench.office.returning) == (2, MANY, 0, {})
    positions = [queue.ready.pop().position for _ in range(MANY)]
    assert positions == sorted(positions)


def test_compaction_sees_what_a_closed_channel_has_not_given_back_yet() -> None:
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal)
    queue = bench.add_queue(paging_context=disk.paging_context, queue_log=disk.queue_log())
    channel = bench.open_channel()
    count = SETTLED_A_STEP + 5
    frame = publish_frames(1, "", "q", b"x", PERSISTENT)
    bench.feed(frame * count)
    for _ in range(count):
        bench.get(channel, queue)
    segment = disk.journal.segment.id
    channel.start_closing()
    channel.requeue_all()
    found: dict[Any, Any] = {}
    bench.office.collect_located(segment, found)
    assert len(found) == count - SETTLED_A_STEP


def test_a_queue_hands_out_in_steps() -> None:
    bench = Workbench()
    queue = bench.add_queue()
    channel = bench.open_channel()
    bench.feed(publish_frames(1, "", "q", b"") * (GIVEN_A_STEP + 5))
    # So that their write buffers are not what stops it.
    for number in range(40):
        queue.pause(True)
        bench.consume(channel, queue, f"c{number}", prefetch_count=GIVEN_A_STEP // 40 + 10)
    queue.pause(False)
    given = GIVEN_A_STEP + 5 - queue.ready_count()
    assert given <= GIVEN_A_STEP
    while bench.office.unfinished or bench.write_buffer.congested:
        bench.sent()
        bench.connection.calm()
        for worker in bench.office.take_unfinished():
            worker.go_on()
    assert queue.ready_count() == 0


# ---- transactions


def transacting(bench: Workbench, work_max: int = TRANSACTION_WORK_MAX) -> Any:
    channel = bench.open_channel()
    channel.publish_path.transaction_work_max = work_max
    channel.start_transaction()
    return channel


def test_a_transaction_holds_no_more_than_one_turn_can_do() -> None:
    bench = Workbench()
    fanned(bench, 128)
    channel = transacting(bench)
    frame = publish_frames(1, "all", "", b"x")
    held = TRANSACTION_WORK_MAX // 129
    bench.feed(frame * held)
    with pytest.raises(SoftError, match="commit more often") as refusal:
        bench.feed(frame)
    assert refusal.value.code == 406
    assert len(channel.publish_path.pending) == held
    channel.commit()
    bench.feed(frame * held)
    channel.rollback()
    bench.feed(frame * held)


def test_acks_count_in_a_transaction_and_stay_outstanding_if_they_are_too_many() -> None:
    bench = Workbench()
    fanned(bench, 128)
    _, channel = holding(bench, 1000)
    channel.publish_path.transaction_work_max = TRANSACTION_WORK_MAX
    channel.start_transaction()
    bench.feed(publish_frames(1, "all", "", b"x") * (TRANSACTION_WORK_MAX // 129))
    with pytest.raises(SoftError, match="commit more often"):
        bench.feed(method_frame(1, "basic.ack", delivery_tag=1000, multiple=True))
    assert channel.unacked.count == 1000


def test_a_single_message_always_fits_a_transaction() -> None:
    bench = Workbench()
    fanned(bench, 128)
    channel = transacting(bench, 10)
    bench.feed(publish_frames(1, "all", "", b"x"))
    with pytest.raises(SoftError, match=r"limits\.transaction_work_max \(10\)"):
        bench.feed(publish_frames(1, "all", "", b"x"))
    channel.commit()
    assert channel.publish_path.pending_work == 0


@pytest.mark.parametrize(("properties", "held"), [(PERSISTENT, 10), ({}, 50)])
def test_octets_for_the_log_count_in_a_transaction(properties: dict[str, int], held: int) -> None:
    bench = Workbench()
    bench.add_queue()
    channel = transacting(bench, 100)
    # Two for the message and its copy, and 8 KiB for the log.
    frame = publish_frames(1, "", "q", bytes(8192), properties)
    with pytest.raises(SoftError, match="commit more often"):
        for _ in range(200):
            bench.feed(frame)
    assert len(channel.publish_path.pending) == held


def test_without_a_limit_a_transaction_grows() -> None:
    bench = Workbench()
    fanned(bench, 128)
    channel = transacting(bench, 0)
    bench.feed(publish_frames(1, "all", "", b"x") * 100)
    assert channel.publish_path.pending_work == 100 * 129


def test_a_transaction_that_the_log_has_no_room_for_takes_no_effect() -> None:
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal)
    queue = bench.add_queue(paging_context=disk.paging_context, queue_log=disk.queue_log())
    channel = bench.open_channel()
    channel.start_transaction()
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT))
    disk.journal.segment.end = (1 << 32) - (1 << 29)
    with pytest.raises(SoftError, match="too large"):
        channel.commit()
    assert queue.ready_count() == 0


# ---- the disk


def test_a_message_that_the_log_has_no_room_for_is_refused_by_all_its_queues() -> None:
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal)
    queue = bench.add_queue(paging_context=disk.paging_context, queue_log=disk.queue_log())
    channel = bench.open_channel()
    channel.publish_path.start_confirming()
    disk.journal.segment.end = (1 << 32) - (1 << 29)
    bench.feed(publish_frames(1, "", "q", b"x", PERSISTENT))
    assert [sent.name for sent in bench.sent()] == ["basic.nack"]
    assert (queue.ready_count(), disk.journal.end) == (0, 0)


def test_no_message_is_completed_while_the_disk_is_far_behind() -> None:
    disk = FakeDisk()
    bench = Workbench(1 << 21, journal=disk.journal)
    queue = bench.add_queue(paging_context=disk.paging_context, queue_log=disk.queue_log())
    bench.open_channel()
    large = publish_frames(1, "", "q", bytes(1 << 20), PERSISTENT)
    count = 0
    event = None
    while event is None:
        event = bench.connection.feed(bytearray(large), len(large))
        count += 1
        assert count < 100, "it must stop"
    assert event is CONGESTED
    bench.connection.detach()
    assert bench.connection.proceed() is CONGESTED
    assert queue.ready_count() == count - 1
    disk.commit()
    assert bench.connection.proceed() is None
    assert queue.ready_count() == count
