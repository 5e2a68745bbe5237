"""Messages as frames: what basic.deliver, get-ok, return and confirms look like on the wire, octet by octet."""

from __future__ import annotations

import pytest

from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.queues.dataplane import Sent, Workbench, empty_outbox, message, method_frame, publish_frames

# Bodies up to this are copied into the write buffer, larger ones referred to.
COPIED_MAX = 16384


def deliver(bench: Workbench, queue: ClassicQueue, body: bytes, **properties: object) -> Sent:
    queue.publish(message(body, "a.key", "exchange", **properties))
    (sent,) = bench.sent()
    return sent


def bench_with_consumer(frame_max: int = 131072) -> tuple[Workbench, ClassicQueue]:
    bench = Workbench(frame_max)
    queue = bench.add_queue()
    bench.consume(bench.open_channel(7), queue, "tag")
    return bench, queue


def test_a_delivery_says_where_the_message_came_from_and_brings_its_content() -> None:
    bench, queue = bench_with_consumer()
    sent = deliver(bench, queue, b"hello", content_type="text/plain", headers={"a": 1})
    assert (sent.channel, sent.name) == (7, "basic.deliver")
    assert sent.fields == {
        "consumer_tag": "tag",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "exchange",
        "routing_key": "a.key",
    }
    assert sent.body == b"hello"
    assert sent.properties == message(content_type="text/plain", headers={"a": 1}).properties.raw


def test_an_empty_body_has_no_body_frame() -> None:
    bench, queue = bench_with_consumer()
    sent = deliver(bench, queue, b"")
    assert (sent.body, sent.pieces) == (b"", ())


@pytest.mark.parametrize("size", [1, 4087, 4088, 4089, 8176, 8177, COPIED_MAX, COPIED_MAX + 1, 50_000])
@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_a_body_is_split_at_frame_max_less_the_frame_itself(size: int, frame_max: int) -> None:
    bench, queue = bench_with_consumer(frame_max)
    body = bytes(number % 251 for number in range(size))
    sent = deliver(bench, queue, body)
    assert sent.body == body
    whole, rest = divmod(size, frame_max - 8)
    assert sent.pieces == (frame_max - 8,) * whole + ((rest,) if rest else ())


def test_a_large_body_to_many_consumers_exists_once() -> None:
    bench, queue = bench_with_consumer()
    body = bytes(COPIED_MAX + 1)
    queue.publish(message(body))
    referred = [view for view in bench.write_buffer.views(64) if view.obj is body]
    assert [len(view) for view in referred] == [len(body)]
    referred.clear()
    empty_outbox(bench.write_buffer)


def test_longest_names_fit() -> None:
    bench = Workbench()
    queue = bench.add_queue()
    bench.consume(bench.open_channel(65535), queue, "t" * 255)
    queue.publish(message(b"x", "k" * 255, "e" * 255))
    (sent,) = bench.sent()
    assert sent.channel == 65535
    fields = sent.fields
    assert (fields["consumer_tag"], fields["exchange"], fields["routing_key"]) == ("t" * 255, "e" * 255, "k" * 255)


@pytest.mark.parametrize("size", [0, 5, COPIED_MAX + 1])
def test_get_ok_says_how_many_are_left(size: int) -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    for _ in range(3):
        queue.publish(message(bytes(size), "k", "x"))
    assert bench.get(channel, queue)
    (sent,) = bench.sent()
    assert sent.name == "basic.get-ok"
    assert sent.fields == {
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "x",
        "routing_key": "k",
        "message_count": 2,
    }
    assert sent.body == bytes(size)


@pytest.mark.parametrize("size", [0, 5, COPIED_MAX + 1])
def test_a_return_brings_the_message_back_with_the_reason(size: int) -> None:
    bench = Workbench()
    bench.add_exchange("x")
    bench.open_channel()
    assert bench.feed(publish_frames(1, "x", "nowhere", bytes(size), {"app_id": "me"}, mandatory=True)) == []
    (sent,) = bench.sent()
    assert sent.name == "basic.return"
    assert sent.fields == {
        "reply_code": 312,
        "reply_text": "NO_ROUTE",
        "exchange": "x",
        "routing_key": "nowhere",
    }
    assert sent.body == bytes(size)
    assert sent.properties == message(app_id="me").properties.raw


def test_a_redelivery_says_so() -> None:
    bench, queue = bench_with_consumer()
    deliver(bench, queue, b"again")
    assert bench.feed(method_frame(7, "basic.nack", delivery_tag=1, requeue=True)) == []
    (sent,) = bench.sent()
    assert (sent.fields["redelivered"], sent.fields["delivery_tag"], sent.body) == (True, 2, b"again")


def test_a_confirm_is_an_ack_with_the_sequence_number() -> None:
    bench = Workbench()
    bench.add_queue()
    bench.open_channel(3).publish_path.start_confirming()
    bench.feed(publish_frames(3, "", "q"))
    bench.feed(publish_frames(3, "", "q") + publish_frames(3, "", "q"))
    assert [(sent.channel, sent.name, sent.fields) for sent in bench.sent()] == [
        (3, "basic.ack", {"delivery_tag": 1, "multiple": False}),
        (3, "basic.ack", {"delivery_tag": 3, "multiple": True}),
    ]
