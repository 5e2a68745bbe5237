"""Subscriptions of the stream protocol: what stands in a chunk, how many go out, and which a filter lets through."""

from __future__ import annotations

import struct

import pytest

from leveret.core.codec.amqp10 import to_amqp10
from leveret.core.codec.properties import encode_properties
from tests.unit.core.stream_client_bench import Chunk, StreamBench, filtered, publish_frame, simple, sub_batch


def filled(*bodies: bytes, segment_bytes: int = 1 << 20) -> StreamBench:
    """A stream with these messages, each synced for itself."""
    bench = StreamBench(segment_bytes)
    bench.publisher()
    for number, body in enumerate(bodies):
        bench.feed(publish_frame(1, simple(number, body)))
        bench.sync()
    bench.sent()
    return bench


def delivered(bench: StreamBench) -> list[Chunk]:
    bench.stream_store.read()
    return bench.chunks()


def test_what_is_there_goes_out_as_one_chunk() -> None:
    bench = filled(b"one", b"two", b"three")
    subscription = bench.subscription()
    subscription.add_credit(10)
    subscription.begin(0)
    [chunk] = delivered(bench)
    assert (chunk.subscription, chunk.version, chunk.committed) == (7, 1, None)
    assert (chunk.first_offset, chunk.entries, chunk.records, chunk.stamp) == (0, 3, 3, 1000)
    assert chunk.messages() == [b"one", b"two", b"three"]
    assert (subscription.credit, subscription.chunks_total, subscription.messages_total) == (9, 1, 3)
    assert bench.stream.delivered_total == 3


def test_each_chunk_takes_one_credit_and_without_there_is_none() -> None:
    bench = filled(*[bytes([65 + number]) * 40000 for number in range(4)])
    subscription = bench.subscription()
    subscription.begin(0)
    assert delivered(bench) == []
    subscription.add_credit(2)
    assert [chunk.first_offset for chunk in delivered(bench)] == [0, 1]
    assert subscription.credit == 0
    subscription.add_credit(5)
    assert [chunk.messages() for chunk in delivered(bench)] == [[b"C" * 40000], [b"D" * 40000]]


def test_the_tail_is_sent_as_it_comes() -> None:
    bench = filled()
    subscription = bench.subscription(version=2)
    subscription.add_credit(10)
    subscription.begin(0)
    for number in range(3):
        bench.feed(publish_frame(1, simple(number, b"x"), simple(number, b"y")))
        assert bench.sent() == []
        bench.sync()
        frames = bench.sent()
        assert [each[1] for each in frames] == [8, 3]
        assert int.from_bytes(frames[0][5:13], "big") == 2 * number + 1


def test_it_starts_where_it_was_told_and_can_start_again() -> None:
    bench = filled(*[bytes([number]) for number in range(10)])
    subscription = bench.subscription()
    subscription.add_credit(10)
    subscription.begin(7)
    [chunk] = delivered(bench)
    assert (chunk.first_offset, chunk.messages()) == (7, [b"\x07", b"\x08", b"\x09"])
    subscription.pause()
    bench.feed(publish_frame(1, simple(11, b"\x0a")))
    bench.sync()
    assert [each[1] for each in bench.sent()] == [3]
    subscription.begin(9)
    [chunk] = delivered(bench)
    assert (chunk.first_offset, chunk.messages()) == (9, [b"\x09", b"\x0a"])


def test_an_offset_within_a_sub_batch_begins_with_all_of_it() -> None:
    bench = StreamBench()
    bench.publisher()
    bench.feed(publish_frame(1, simple(1, b"a"), sub_batch(2, 10, 0, b"many"), simple(3, b"b")))
    bench.sync()
    bench.sent()
    subscription = bench.subscription()
    subscription.add_credit(1)
    subscription.begin(6)
    [chunk] = delivered(bench)
    assert (chunk.first_offset, chunk.entries, chunk.records) == (1, 2, 11)
    assert chunk.messages() == [struct.pack(">BHII", 0x80, 10, 99, 4) + b"many", b"b"]


def test_a_message_of_amqp_0_9_1_is_sent_as_sections() -> None:
    bench = StreamBench()
    for body in (b"x", b"y" * 300, b""):
        bench.publish_amqp(body, content_type="a/b", headers={"n": 1})
    bench.publish_amqp(b"other", b"ex", b"key")
    bench.publish_amqp(b"\x00\x53\x77\xa1\x02hi", b"ex", b"key", type="amqp-1.0")
    bench.sync()
    subscription = bench.subscription()
    subscription.add_credit(1)
    subscription.begin(0)
    [chunk] = delivered(bench)
    raw = encode_properties(content_type="a/b", headers={"n": 1})
    assert chunk.messages() == [
        to_amqp10(raw, b"x", b"e", b"k"),
        to_amqp10(raw, b"y" * 300, b"e", b"k"),
        to_amqp10(raw, b"", b"e", b"k"),
        to_amqp10(b"\x00\x00", b"other", b"ex", b"key"),
        to_amqp10(encode_properties(type="amqp-1.0"), b"\x00\x53\x77\xa1\x02hi", b"ex", b"key"),
    ]


def test_a_chunk_has_so_many_octets_unless_one_message_has_more() -> None:
    bench = filled(b"a" * 600, b"b" * 600, b"c" * 5000, b"d", b"e")
    subscription = bench.subscription(bytes_max=1300)
    subscription.add_credit(10)
    subscription.begin(0)
    assert [[len(body) for body in chunk.messages()] for chunk in delivered(bench)] == [[600, 600], [5000], [1, 1]]


def test_a_chunk_has_so_many_entries() -> None:
    bench = filled()
    bench.feed(publish_frame(1, *(simple(number, b"") for number in range(5000))))
    bench.sync()
    bench.sent()
    subscription = bench.subscription()
    subscription.add_credit(10)
    subscription.begin(0)
    assert [(chunk.first_offset, chunk.entries) for chunk in delivered(bench)] == [(0, 4096), (4096, 904)]


def test_segments_do_not_show() -> None:
    bodies = [bytes([number]) * 100 for number in range(50)]
    bench = filled(*bodies, segment_bytes=1000)
    assert len(bench.log.segments) > 3
    subscription = bench.subscription()
    subscription.add_credit(1000)
    subscription.begin(0)
    chunks = delivered(bench)
    assert [body for chunk in chunks for body in chunk.messages()] == bodies
    following = 0
    for chunk in chunks:
        assert chunk.first_offset == following
        following += chunk.records


def test_it_stops_while_the_outbox_is_congested() -> None:
    bench = filled(*[b"x" * 60000 for _ in range(20)])
    subscription = bench.subscription()
    subscription.add_credit(100)
    subscription.begin(0)
    bench.stream_store.read()
    assert bench.write_buffer.congested
    count = len(bench.chunks())
    assert 4 <= count <= 6
    subscription.transport()
    bench.stream_store.read()
    assert bench.chunks()[0].first_offset == count


def test_credit_has_a_limit() -> None:
    subscription = StreamBench().subscription()
    for _ in range(40000):
        subscription.add_credit(65535)
    assert subscription.credit == 1 << 30


# ---- filters


def chosen(bench: StreamBench, values: list[bytes], unfiltered: bool = False) -> list[Chunk]:
    subscription = bench.subscription()
    subscription.filter(values, unfiltered)
    subscription.add_credit(1000)
    subscription.begin(0)
    return delivered(bench)


def with_values(*values: bytes | None, size: int = 1) -> StreamBench:
    bench = StreamBench()
    bench.publisher()
    entries = [filtered(number, value, bytes([number]) * size) for number, value in enumerate(values)]
    bench.feed(publish_frame(1, *entries, version=2))
    bench.sync()
    bench.sent()
    return bench


def test_a_chunk_begins_and_ends_with_what_matches() -> None:
    bench = with_values(b"no", b"yes", b"no", b"too", b"no", None)
    [chunk] = chosen(bench, [b"yes", b"too"])
    assert (chunk.first_offset, chunk.records) == (1, 3)
    assert chunk.messages() == [b"\x01", b"\x02", b"\x03"]


def test_nothing_is_sent_if_nothing_matches() -> None:
    assert chosen(with_values(b"no", None, b"no"), [b"yes"]) == []


@pytest.mark.parametrize("unfiltered", [False, True])
def test_what_has_no_value_matches_only_if_that_is_asked_for(unfiltered: bool) -> None:
    chunks = chosen(with_values(b"no", None, b"", b"yes", b"no"), [b"yes"], unfiltered)
    assert [(chunk.first_offset, chunk.records) for chunk in chunks] == [(1, 3) if unfiltered else (3, 1)]


def test_a_long_gap_ends_a_chunk() -> None:
    chunks = chosen(with_values(b"yes", *[b"no"] * 12, b"yes", size=1000), [b"yes"])
    assert [(chunk.first_offset, chunk.records) for chunk in chunks] == [(0, 1), (13, 1)]


def test_a_filter_goes_on_at_the_tail() -> None:
    bench = with_values(b"no")
    subscription = bench.subscription()
    subscription.filter([b"yes"], False)
    subscription.add_credit(10)
    subscription.begin(0)
    assert delivered(bench) == []
    bench.feed(publish_frame(1, filtered(5, b"no", b"a"), filtered(6, b"yes", b"b"), version=2))
    bench.sync()
    bench.stream_store.read()
    [chunk] = [each for each in bench.sent() if each[1] == 8]
    assert chunk.endswith(b"\x00\x00\x00\x01b")
