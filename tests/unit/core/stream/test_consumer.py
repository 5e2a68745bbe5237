"""Consumers of a stream: credit, ranges, filters, names, and messages of the other protocol."""

from __future__ import annotations

from typing import Any

from leveret.core.stream.consumer import StreamConsumer
from leveret.core.stream.segment import make_bloom
from tests.conformance import amqp_codec
from tests.unit.core.stream_client_bench import StreamBench
from tests.unit.queues.dataplane import Sent, Workbench, message


class Reading(StreamBench):
    """A stream, and a connection that reads it."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        super().__init__(segment_bytes)
        self.bench = Workbench(journal=self.disk.journal, office=self.office)
        self.channel = self.bench.open_channel()

    def publish(self, count: int, size: int = 10, **headers: Any) -> None:
        for _ in range(count):
            body = b"%d" % self.stream.next_offset
            self.stream.publish(message(body.ljust(size, b"."), headers=headers) if headers else message(body))
        self.sync()

    def consume(self, offset: int = 0, prefetch: int = 1000, **settings: Any) -> StreamConsumer:
        consumer = StreamConsumer(self.channel, self.stream, b"tag", prefetch, 0, {})
        for name, value in settings.items():
            setattr(consumer, name, value)
        self.channel.add_consumer(consumer)
        self.stream.subscribe(consumer)
        consumer.begin(offset)
        self.stream_store.read()
        return consumer

    def came(self) -> list[int]:
        """The offsets that were delivered since the last call."""
        return [offset_of(sent) for sent in self.bench.sent()]

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.channel.settle(tag, multiple, 0, 0)
        self.stream_store.read()


def headers_of(sent: Sent) -> dict[str, Any]:
    headers: dict[str, Any] = amqp_codec.decode_properties(sent.properties).get("headers", {})
    return headers


def offset_of(sent: Sent) -> int:
    offset: int = headers_of(sent)["x-stream-offset"]
    return offset


def test_everything_from_an_offset_on_with_its_offset() -> None:
    reading = Reading()
    reading.publish(5)
    reading.consume(2)
    sent = reading.bench.sent()
    assert [(offset_of(one), one.body) for one in sent] == [(2, b"2"), (3, b"3"), (4, b"4")]
    assert [one.fields["delivery_tag"] for one in sent] == [1, 2, 3]
    assert not any(one.fields["redelivered"] for one in sent)
    reading.publish(1)
    assert reading.came() == [5]


def test_credit_is_what_is_acknowledged() -> None:
    reading = Reading()
    reading.publish(10)
    consumer = reading.consume(0, prefetch=3)
    assert reading.came() == [0, 1, 2]
    reading.ack(2)
    assert reading.came() == [3]
    reading.ack(4, multiple=True)
    assert reading.came() == [4, 5, 6]
    assert (consumer.unacked_count, reading.stream.settled_total) == (3, 4)
    assert reading.stream.ready_count() == 10, "nothing is taken away"


def test_two_consumers_have_places_of_their_own() -> None:
    reading = Reading()
    reading.publish(3)
    reading.consume(0)
    assert reading.came() == [0, 1, 2]
    reading.consume(1)
    assert reading.came() == [1, 2]
    reading.publish(1)
    assert reading.came() == [3, 3]


def test_a_range_ends_and_says_so() -> None:
    reading = Reading()
    reading.publish(10)
    ended: list[StreamConsumer] = []
    consumer = reading.consume(2, stop_offset=5, on_stop=ended.append)
    assert reading.came() == [2, 3, 4] and ended == [consumer]
    assert consumer.cursor is None and reading.log.cursors == 0
    reading.publish(1)
    assert reading.came() == []


def test_a_range_that_ends_in_the_future_waits() -> None:
    reading = Reading()
    reading.publish(2)
    ended: list[StreamConsumer] = []
    reading.consume(0, stop_offset=4, on_stop=ended.append)
    assert reading.came() == [0, 1] and not ended
    reading.publish(3)
    assert reading.came() == [2, 3] and len(ended) == 1


def test_a_filter_lets_only_its_values_through() -> None:
    reading = Reading(segment_bytes=5000)
    for value in ("red", "blue", None, "red"):
        reading.publish(10, 300, **({"x-stream-filter-value": value} if value else {"other": 1}))
    red, none = set(range(10)) | set(range(30, 40)), set(range(20, 30))
    filtering = {"values": frozenset([b"red"]), "blooms": [make_bloom(b"red")]}
    reading.consume(0, **filtering)
    assert set(reading.came()) == red
    reading.consume(0, **filtering, unfiltered=True)
    assert reading.came() == sorted(red | none)
    reading.publish(1, 10, **{"x-stream-filter-value": "blue"})
    assert reading.came() == []
    reading.publish(1, 10, **{"x-stream-filter-value": "red"})
    assert reading.came() == [41, 41]


def test_a_name_remembers_what_was_acknowledged_in_order() -> None:
    reading = Reading()
    reading.publish(10)
    reading.consume(0, name=b"me")
    assert reading.stream.stored_offset(b"me") == -1
    reading.ack(3)
    reading.ack(2)
    assert reading.stream.stored_offset(b"me") == -1, "the first is still held"
    reading.ack(1)
    assert reading.stream.stored_offset(b"me") == 2
    reading.ack(6, multiple=True)
    assert reading.stream.stored_offset(b"me") == 5


def test_the_offset_is_the_brokers_whatever_was_published() -> None:
    reading = Reading()
    reading.publish(1, **{"x-stream-offset": 77, "mine": "kept"})
    reading.publish(1, BCC=["elsewhere"], mine="kept")
    reading.consume(0)
    first, second = (headers_of(one) for one in reading.bench.sent())
    assert first == {"mine": "kept", "x-stream-offset": 0}
    assert second == {"mine": "kept", "x-stream-offset": 1}


def test_a_body_larger_than_a_frame() -> None:
    reading = Reading(1 << 22)
    reading.stream.publish(message(b"y" * 300_000))
    reading.publish(1)
    reading.consume(0)
    (large,) = reading.bench.sent()
    reading.channel.unpark()
    reading.stream_store.read()
    (small,) = reading.bench.sent()
    assert large.body == b"y" * 300_000 and len(large.pieces) == 3 and offset_of(large) == 0
    assert small.body == b"1" and offset_of(small) == 1


def raw(body: bytes) -> bytes:
    """An AMQP 1.0 message with this body."""
    return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body


def test_messages_of_the_other_protocol_come_one_by_one() -> None:
    reading = Reading()
    reading.stream.append_entry(raw(b"alone"), 1, 1, b"", None)
    batch = b"".join(len(raw(body)).to_bytes(4, "big") + raw(body) for body in (b"a", b"b", b"c"))
    extra = b"\x00" + len(batch).to_bytes(4, "big")
    reading.stream.append_entry(batch, 3, 2, extra, None)
    reading.publish(1)
    reading.consume(0, prefetch=3)
    assert [(offset_of(one), one.body) for one in reading.bench.sent()] == [(0, b"alone"), (1, b"a"), (2, b"b")]
    reading.ack(3, multiple=True)
    assert [(offset_of(one), one.body) for one in reading.bench.sent()] == [(3, b"c"), (4, b"4")]
    # In the middle of a batch.
    ended: list[StreamConsumer] = []
    reading.consume(2, stop_offset=3, on_stop=ended.append)
    assert reading.came() == [2] and len(ended) == 1


def test_a_full_socket_stops_it() -> None:
    reading = Reading(1 << 24)
    for _ in range(100):
        reading.stream.publish(message(b"z" * 20_000))
    reading.sync()
    reading.consume(0)
    assert reading.bench.write_buffer.congested
    first = reading.came()
    assert 0 < len(first) < 100
    got = list(first)
    while len(got) < 100:
        reading.channel.unpark()
        reading.stream_store.read()
        more = reading.came()
        assert more, "it goes on when the socket has taken what there was"
        got += more
    assert got == list(range(100))


def test_one_that_drains_says_when_nothing_is_held() -> None:
    reading = Reading()
    reading.publish(3)
    consumer = reading.consume(0)
    done: list[bool] = []
    consumer.drain(lambda: done.append(True))
    reading.publish(1)
    assert reading.came() == [0, 1, 2]
    reading.ack(2, multiple=True)
    assert not done
    reading.ack(3)
    assert done == [True]


def test_a_cancelled_one_gets_nothing_more() -> None:
    reading = Reading()
    reading.publish(1)
    consumer = reading.consume(0)
    gone: list[bool] = []
    consumer.on_gone = lambda: gone.append(True)
    reading.stream.unsubscribe(consumer)
    reading.publish(1)
    assert reading.came() == [0] and reading.log.cursors == 0 and gone == [True]
    assert reading.stream.subscriber_count() == 0


def test_one_that_has_ended_does_not_begin() -> None:
    """It was cancelled while its place was looked up."""
    reading = Reading()
    reading.publish(3)
    consumer = StreamConsumer(reading.channel, reading.stream, b"tag", 10, 0, {})
    reading.stream.subscribe(consumer)
    reading.stream.unsubscribe(consumer)
    consumer.begin(0)
    assert consumer.cursor is None
    assert reading.stream.log.cursors == 0
    assert reading.came() == []


def test_with_each_turn_it_counts_anew() -> None:
    """What it held when its turn ended comes again; acks of both deliveries of a message are one."""
    reading = Reading()
    reading.publish(4)
    consumer = reading.consume(0, name=b"n")
    reading.ack(1)
    consumer.pause()
    consumer.begin(1)
    reading.stream_store.read()
    # Tags 2 to 4 are of the first turn, 5 to 7 of the second: offsets 1 to 3 each.
    reading.ack(3)
    assert reading.stream.stored_offset(b"n") == 0
    reading.ack(5)
    assert reading.stream.stored_offset(b"n") == 2
    for tag in (2, 6, 7, 4):
        reading.ack(tag)
    assert reading.stream.stored_offset(b"n") == 3


def test_what_it_acknowledges_late_takes_no_other_back() -> None:
    reading = Reading()
    reading.publish(4)
    consumer = reading.consume(0, name=b"n")
    consumer.pause()
    # Another one of its group has had its turn.
    reading.stream.store_offset(b"n", 3)
    reading.ack(2, multiple=True)
    assert reading.stream.stored_offset(b"n") == 3
