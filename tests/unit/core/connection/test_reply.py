"""Direct reply-to addresses: a reply goes straight to the one who awaits it, or is dropped."""

from __future__ import annotations

from leveret.core.connection.reply import ReplyQueue
from tests.unit.queues.dataplane import Workbench, message

REPLY_BYTES_MAX = 16 * 1024 * 1024


def awaiting() -> tuple[Workbench, ReplyQueue]:
    bench = Workbench()
    reply = ReplyQueue(b"amq.rabbitmq.reply-to.x")
    bench.consume(bench.open_channel(), reply, "ctag", no_ack=True)
    return bench, reply


def test_a_reply_is_delivered_at_once_and_needs_no_ack() -> None:
    bench, reply = awaiting()
    assert reply.publish(message(b"answer")) == 0
    (sent,) = bench.sent()
    assert (sent.body, sent.fields["consumer_tag"], sent.fields["redelivered"]) == (b"answer", "ctag", False)
    assert (reply.delivered_total, reply.dropped_total) == (1, 0)
    assert bench.connection.find(1).unacked.count == 0


def test_a_reply_that_nobody_awaits_is_dropped() -> None:
    bench, reply = awaiting()
    bench.connection.find(1).remove_consumer(b"ctag")
    assert reply.publish(message(b"late")) == 0
    assert (bench.sent(), reply.delivered_total, reply.dropped_total) == ([], 0, 1)


def test_replies_to_a_client_that_does_not_read_are_dropped_past_a_limit() -> None:
    bench, reply = awaiting()
    bench.write_buffer.write(bytes(REPLY_BYTES_MAX))
    reply.publish(message(b"fits"))
    assert reply.delivered_total == 1
    reply.publish(message(b"too much"))
    assert (reply.delivered_total, reply.dropped_total) == (1, 1)


def test_a_reply_address_keeps_nothing() -> None:
    _, reply = awaiting()
    reply.publish(message(b"answer"))
    assert (reply.ready_count(), reply.purge()) == (0, 0)


def test_a_reply_address_knows_its_one_consumer() -> None:
    bench, reply = awaiting()
    assert reply.subscriber_count() == 1
    bench.connection.find(1).remove_consumer(b"ctag")
    assert reply.subscriber_count() == 0
    assert reply.record is None
