"""The consuming side of a channel: delivery tags, acks of every kind, prefetch over all consumers, transactions."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.connection.channel import Channel
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.errors import HardError, SoftError
from tests.conformance.amqp_codec import encode_frame
from tests.unit.queues.dataplane import Workbench, message, method_frame, publish_frames

SETTLED, DISCARDED, REQUEUED = 0, 1, 2
CLOSED = 2


class Stage:
    """A channel whose consumer was sent messages 1 to `count`."""

    def __init__(self, count: int = 0, **limits: int) -> None:
        self.bench = Workbench()
        self.channel: Channel = self.bench.open_channel()
        self.queue: ClassicQueue = self.bench.add_queue()
        self.consumer = self.bench.consume(self.channel, self.queue, **limits)
        self.publish(count)
        self.bench.sent()

    def publish(self, count: int, size: int = 1) -> None:
        for _ in range(count):
            self.queue.publish(message(bytes(size)))

    def send(self, name: str, **fields: Any) -> None:
        assert self.bench.feed(method_frame(1, name, **fields)) == []

    def tags_sent(self) -> list[int]:
        return [sent.fields["delivery_tag"] for sent in self.bench.sent()]

    def tags_held(self) -> list[int]:
        return [entry.tag for entry in self.channel.unacked.entries()]


def test_delivery_tags_count_across_consumers_and_gets() -> None:
    stage = Stage()
    bench, other = stage.bench, stage.bench.add_queue("other")
    bench.consume(stage.channel, other, "no ack", no_ack=True)
    stage.publish(1)
    other.publish(message())
    stage.publish(1)
    spare = bench.add_queue("spare")
    spare.publish(message())
    bench.get(stage.channel, spare)
    assert stage.tags_sent() == [1, 2, 3, 4]
    assert stage.tags_held() == [1, 3, 4]
    assert stage.channel.delivered_total == 4


def test_an_ack_settles_one_message() -> None:
    stage = Stage(3)
    stage.send("basic.ack", delivery_tag=2)
    assert stage.tags_held() == [1, 3]
    assert (stage.queue.settled_total, stage.channel.acked_total, stage.queue.unacked_count) == (1, 1, 2)


def test_an_ack_of_many_settles_everything_up_to_the_tag() -> None:
    stage = Stage(4)
    stage.send("basic.ack", delivery_tag=3, multiple=True)
    assert stage.tags_held() == [4]
    assert stage.queue.settled_total == 3


def test_tag_zero_with_multiple_is_everything_even_if_that_is_nothing() -> None:
    stage = Stage(3)
    stage.send("basic.ack", delivery_tag=0, multiple=True)
    assert stage.tags_held() == []
    stage.send("basic.ack", delivery_tag=0, multiple=True)
    assert stage.channel.acked_total == 3


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack", "basic.reject"])
@pytest.mark.parametrize("tag", [0, 2, 4, 2**64 - 1])
def test_a_tag_that_is_not_outstanding_is_refused_and_nothing_settled(method: str, tag: int) -> None:
    stage = Stage(3)
    stage.send("basic.ack", delivery_tag=2)
    with pytest.raises(SoftError) as refusal:
        stage.send(method, delivery_tag=tag)
    assert (refusal.value.code, refusal.value.text) == (406, f"unknown delivery tag {tag}")
    assert refusal.value.method in (0x3C0050, 0x3C0078, 0x3C005A)
    assert stage.tags_held() == [1, 3]


@pytest.mark.parametrize("tag", [2, 9])
def test_an_unknown_tag_with_multiple_is_refused_and_nothing_settled(tag: int) -> None:
    stage = Stage(3)
    stage.send("basic.ack", delivery_tag=2)
    with pytest.raises(SoftError, match=f"unknown delivery tag {tag}"):
        stage.send("basic.ack", delivery_tag=tag, multiple=True)
    assert stage.tags_held() == [1, 3]


@pytest.mark.parametrize(("method", "number"), [("ack", 80), ("nack", 120), ("reject", 90)])
@pytest.mark.parametrize("size", [0, 8, 10])
def test_a_settling_method_of_the_wrong_length_ends_the_connection(method: str, number: int, size: int) -> None:
    stage = Stage(1)
    with pytest.raises(HardError) as refusal:
        stage.bench.feed(encode_frame(1, 1, bytes([0, 60, 0, number]) + bytes(size)))
    assert (refusal.value.code, refusal.value.text) == (501, f"basic.{method} has the wrong length")
    assert stage.tags_held() == [1]


@pytest.mark.parametrize(("method", "more"), [("basic.reject", {}), ("basic.nack", {}), ("basic.nack", {"m": 1})])
def test_rejecting_without_requeue_discards(method: str, more: dict[str, int]) -> None:
    stage = Stage(2)
    stage.send(method, delivery_tag=2, **({"multiple": True} if more else {}))
    assert stage.queue.discarded_total == (2 if more else 1)
    assert (stage.queue.ready_count(), stage.bench.sent()) == (0, [])


@pytest.mark.parametrize("method", ["basic.reject", "basic.nack"])
def test_rejecting_with_requeue_delivers_again_from_the_old_place(method: str) -> None:
    stage = Stage(2, prefetch_count=2)
    stage.publish(1)
    stage.send(method, delivery_tag=1, requeue=True)
    (again,) = stage.bench.sent()
    assert (again.fields["delivery_tag"], again.fields["redelivered"]) == (3, True)
    assert stage.tags_held() == [2, 3]


def test_many_requeued_at_once_come_back_in_their_order() -> None:
    stage = Stage()
    for body in (b"1", b"2", b"3"):
        stage.queue.publish(message(body))
    stage.bench.sent()
    stage.send("basic.nack", delivery_tag=3, multiple=True, requeue=True)
    assert stage.bench.sent_bodies() == [b"1", b"2", b"3"]


def test_the_channels_prefetch_counts_all_its_consumers() -> None:
    stage = Stage()
    stage.channel.prefetch_count = 2
    other = stage.bench.add_queue("other")
    stage.bench.consume(stage.channel, other, "other")
    stage.publish(2)
    other.publish(message())
    assert stage.tags_sent() == [1, 2]
    assert (stage.channel.held_count, other.ready_count()) == (2, 1)
    stage.send("basic.ack", delivery_tag=1)
    assert stage.tags_sent() == [3]


def test_gets_and_deliveries_without_acks_do_not_count_for_prefetch() -> None:
    stage = Stage()
    stage.channel.prefetch_count = 1
    spare = stage.bench.add_queue("spare")
    spare.publish(message())
    stage.bench.get(stage.channel, spare)
    stage.bench.consume(stage.channel, spare, "no ack", no_ack=True)
    spare.publish(message())
    stage.publish(1)
    assert stage.tags_sent() == [1, 2, 3]
    assert stage.channel.held_count == 1


@pytest.mark.parametrize("limit", ["prefetch_count", "prefetch_bytes"])
def test_a_consumer_without_acks_waits_while_others_have_used_up_the_channels_prefetch(limit: str) -> None:
    stage = Stage()
    setattr(stage.channel, limit, 1)
    spare = stage.bench.add_queue("spare")
    stage.bench.consume(stage.channel, spare, "no ack", no_ack=True)
    stage.publish(1)
    spare.publish(message())
    spare.publish(message())
    assert stage.tags_sent() == [1]
    assert spare.ready_count() == 2
    stage.send("basic.ack", delivery_tag=1)
    assert stage.tags_sent() == [2, 3]


def test_the_channels_prefetch_in_octets_stops_once_it_is_reached() -> None:
    stage = Stage()
    stage.channel.prefetch_bytes = 10
    stage.publish(3, size=6)
    assert stage.tags_sent() == [1, 2]
    assert stage.channel.held_bytes == 12
    stage.send("basic.ack", delivery_tag=1)
    assert stage.tags_sent() == [3]


def test_a_raised_prefetch_takes_effect_when_unparked() -> None:
    stage = Stage()
    stage.channel.prefetch_count = 1
    stage.publish(3)
    assert stage.tags_sent() == [1]
    stage.channel.prefetch_count = 2
    stage.channel.unpark()
    assert stage.tags_sent() == [2]


def test_of_all_who_can_take_again_the_higher_priority_comes_first() -> None:
    """Both were parked while the channel was full, the lower one first."""
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    channel.prefetch_count = 1
    bench.consume(channel, queue, "low", priority=0)
    queue.publish(message())
    bench.consume(channel, queue, "high", priority=9)
    queue.publish(message())
    queue.publish(message())
    assert [sent.fields["consumer_tag"] for sent in bench.sent()] == ["low"]
    channel.settle(1, False, SETTLED, 0)
    assert [sent.fields["consumer_tag"] for sent in bench.sent()] == ["high"]


def test_queues_that_share_a_channels_prefetch_take_turns() -> None:
    bench = Workbench()
    channel, queues = bench.open_channel(), [bench.add_queue(name) for name in ("a", "b")]
    channel.prefetch_count = 1
    for queue in queues:
        bench.consume(channel, queue, queue.name.decode())
        for _ in range(20):
            queue.publish(message())
    tags = []
    for tag in range(1, 21):
        tags += [sent.fields["consumer_tag"] for sent in bench.sent()]
        channel.settle(tag, False, SETTLED, 0)
    assert tags.count("a") >= 5
    assert tags.count("b") >= 5


def test_a_channel_that_does_not_flow_gets_nothing_until_it_does() -> None:
    stage = Stage()
    stage.channel.flowing = False
    stage.publish(2)
    assert stage.tags_sent() == []
    stage.channel.flowing = True
    stage.channel.unpark()
    assert stage.tags_sent() == [1, 2]


def test_a_congested_connection_gets_nothing_until_it_is_calm() -> None:
    stage = Stage()
    stage.publish(1, size=300_000)
    stage.publish(1)
    assert stage.bench.write_buffer.congested
    assert stage.queue.ready_count() == 1
    assert stage.tags_sent() == [1]
    stage.bench.connection.calm()
    assert stage.tags_sent() == [2]


def test_recover_sends_everything_unacked_again() -> None:
    stage = Stage(2)
    stage.channel.recover()
    assert [(sent.fields["delivery_tag"], sent.fields["redelivered"]) for sent in stage.bench.sent()] == [
        (3, True),
        (4, True),
    ]


def test_a_removed_consumer_leaves_what_it_holds_with_the_channel() -> None:
    stage = Stage(1)
    assert stage.channel.remove_consumer(b"c") is stage.consumer
    assert stage.queue.subscriber_count() == 0
    assert stage.channel.remove_consumer(b"c") is None
    stage.publish(1)
    assert (stage.queue.ready_count(), stage.tags_held()) == (1, [1])
    stage.send("basic.ack", delivery_tag=1)
    assert stage.queue.settled_total == 1


def test_a_removed_consumer_that_was_parked_is_not_woken() -> None:
    stage = Stage(1, prefetch_count=1)
    stage.publish(1)
    stage.channel.remove_consumer(b"c")
    stage.send("basic.ack", delivery_tag=1)
    assert (stage.queue.ready_count(), stage.bench.sent()) == (1, [])


# ---- transactions


def test_acks_of_a_transaction_take_effect_at_commit() -> None:
    stage = Stage(2)
    stage.channel.start_transaction()
    stage.send("basic.ack", delivery_tag=1)
    stage.send("basic.nack", delivery_tag=2, requeue=True)
    assert (stage.queue.settled_total, stage.queue.unacked_count, stage.bench.sent()) == (0, 2, [])
    stage.channel.commit()
    assert stage.queue.settled_total == 1
    assert stage.tags_sent() == [3]


def test_acks_of_a_transaction_hold_their_place_in_the_prefetch_until_commit() -> None:
    stage = Stage(1, prefetch_count=1)
    stage.publish(1)
    stage.channel.start_transaction()
    stage.send("basic.ack", delivery_tag=1)
    assert stage.bench.sent() == []
    stage.channel.commit()
    assert stage.tags_sent() == [2]


def test_a_tag_acked_in_the_transaction_cannot_be_acked_again() -> None:
    stage = Stage(1)
    stage.channel.start_transaction()
    stage.send("basic.ack", delivery_tag=1)
    with pytest.raises(SoftError, match="unknown delivery tag 1"):
        stage.send("basic.ack", delivery_tag=1)


def test_rollback_makes_acks_undone_and_redelivers_nothing() -> None:
    stage = Stage(3)
    stage.channel.start_transaction()
    stage.send("basic.ack", delivery_tag=3)
    stage.send("basic.reject", delivery_tag=1)
    stage.channel.rollback()
    assert (stage.tags_held(), stage.bench.sent()) == ([1, 2, 3], [])
    stage.send("basic.ack", delivery_tag=3, multiple=True)
    stage.channel.commit()
    assert stage.queue.settled_total == 3


def test_publishes_of_a_transaction_are_invisible_until_commit_and_gone_after_rollback() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    channel.start_transaction()
    bench.feed(publish_frames(1, "", "q", b"kept"))
    assert queue.ready_count() == 0
    channel.commit()
    assert queue.ready_count() == 1
    bench.feed(publish_frames(1, "", "q", b"undone"))
    channel.rollback()
    channel.commit()
    assert [entry.message.body for entry in queue.ready_entries()] == [b"kept"]


def test_starting_a_transaction_twice_keeps_what_it_holds() -> None:
    stage = Stage(1)
    stage.channel.start_transaction()
    stage.send("basic.ack", delivery_tag=1)
    stage.channel.start_transaction()
    stage.channel.commit()
    assert stage.queue.settled_total == 1


# ---- timeouts


def time_out(stage: Stage, *tags: int) -> None:
    stage.channel.time_out([entry for entry in stage.channel.unacked.entries() if entry.tag in tags])


def test_what_timed_out_is_delivered_again_and_the_rest_stays() -> None:
    stage = Stage(3)
    time_out(stage, 2)
    (again,) = stage.bench.sent()
    assert (again.fields["delivery_tag"], again.fields["redelivered"]) == (4, True)
    assert stage.tags_held() == [1, 3, 4]
    assert stage.channel.unacked.entries()[2].delivery_count == 1
    assert (stage.channel.timed_out_total, stage.queue.requeued_total) == (1, 1)


def test_a_timeout_makes_room_in_the_prefetch() -> None:
    stage = Stage(1, prefetch_count=1)
    stage.publish(1)
    stage.channel.remove_consumer(b"c")
    other = stage.bench.consume(stage.channel, stage.queue, "other", prefetch_count=1)
    stage.bench.sent()
    time_out(stage, 1)
    # The other one is full and must not get it.
    assert (stage.queue.ready_count(), other.unacked_count, stage.channel.held_count) == (1, 1, 1)
    stage.send("basic.ack", delivery_tag=2)
    assert [(sent.fields["delivery_tag"], sent.fields["redelivered"]) for sent in stage.bench.sent()] == [(3, True)]


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack", "basic.reject"])
@pytest.mark.parametrize("tag", [1, 2])
def test_an_ack_that_comes_too_late_is_ignored_once(method: str, tag: int) -> None:
    stage = Stage(2)
    time_out(stage, 1, 2)
    stage.bench.sent()
    stage.send(method, delivery_tag=tag)
    assert stage.tags_held() == [3, 4]
    assert (stage.channel.late_acks_total, stage.queue.settled_total, stage.queue.discarded_total) == (1, 0, 0)
    with pytest.raises(SoftError, match=f"unknown delivery tag {tag}"):
        stage.send(method, delivery_tag=tag)


@pytest.mark.parametrize("tag", [3, 4])
def test_a_late_ack_of_many_counts_for_those_below_that_are_still_held(tag: int) -> None:
    """Also if its own tag is not among the late."""
    stage = Stage(5)
    time_out(stage, 1, 3)
    stage.bench.sent()
    stage.send("basic.ack", delivery_tag=tag, multiple=True)
    assert stage.tags_held() == list(range(tag + 1, 8))
    assert (stage.channel.late_acks_total, stage.channel.acked_total) == (2, tag - 2)
    with pytest.raises(SoftError):
        stage.send("basic.ack", delivery_tag=1)


def test_an_unknown_tag_is_refused_although_others_timed_out() -> None:
    stage = Stage(3)
    time_out(stage, 2)
    with pytest.raises(SoftError, match="unknown delivery tag 9"):
        stage.send("basic.ack", delivery_tag=9)
    with pytest.raises(SoftError, match="unknown delivery tag 9"):
        stage.send("basic.ack", delivery_tag=9, multiple=True)
    assert stage.channel.late_acks_total == 0


def test_a_late_ack_in_a_transaction_may_come_again_after_a_rollback_but_not_after_a_commit() -> None:
    stage = Stage(2)
    stage.channel.start_transaction()
    time_out(stage, 1)
    for end in (stage.channel.rollback, stage.channel.commit):
        stage.send("basic.ack", delivery_tag=1)
        end()
    assert (stage.channel.late_acks_total, stage.queue.settled_total) == (2, 0)
    with pytest.raises(SoftError, match="unknown delivery tag 1"):
        stage.send("basic.ack", delivery_tag=1)


def test_recover_leaves_late_acks_excused() -> None:
    stage = Stage(2)
    time_out(stage, 1)
    stage.channel.recover()
    stage.send("basic.ack", delivery_tag=1)
    assert stage.channel.late_acks_total == 1


# ---- the end


def test_everything_goes_back_when_the_channel_closes() -> None:
    stage = Stage(3)
    stage.channel.start_transaction()
    stage.send("basic.ack", delivery_tag=2)
    stage.channel.start_closing()
    stage.channel.remove_consumer(b"c")
    stage.channel.requeue_all()
    stage.channel.close()
    assert stage.channel.state == CLOSED
    assert [entry.delivery_count for entry in stage.queue.ready_entries()] == [1, 1, 1]
    assert (stage.queue.unacked_count, stage.channel.unacked.count, stage.bench.sent()) == (0, 0, [])


def test_what_a_closing_channel_gives_back_goes_to_others() -> None:
    stage = Stage(2)
    other = stage.bench.open_channel(2)
    stage.bench.consume(other, stage.queue, "other")
    stage.channel.start_closing()
    stage.channel.remove_consumer(b"c")
    stage.channel.requeue_all()
    assert [(sent.channel, sent.fields["redelivered"]) for sent in stage.bench.sent()] == [(2, True), (2, True)]


def test_a_closing_channel_gets_nothing() -> None:
    stage = Stage()
    stage.channel.start_closing()
    stage.publish(1)
    assert (stage.bench.sent(), stage.queue.ready_count()) == ([], 1)
