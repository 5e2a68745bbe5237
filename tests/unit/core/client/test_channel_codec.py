"""A channel codec: publishes become frames and are remembered until they are answered for; the rules of confirms."""

from __future__ import annotations

import pytest

from leveret.core.client.channel_codec import ChannelCodec, DeliveryBuffer
from leveret.core.client.outgoing import Outgoing
from leveret.errors import ClientError, HardError
from tests.unit.core.client_bench import (
    Bench,
    ack,
    deliver,
    give_back,
    nack,
    outgoing,
    read_published,
)


def ids(messages: list[Outgoing]) -> list[str]:
    return [message.message_id.decode() for message in messages]


# ---- publishing


def test_a_publish_is_method_header_and_body() -> None:
    bench = Bench()
    properties = {"delivery_mode": 2}
    message = bench.publish("id", exchange="x", key="k", body=b"hello", bits=1, properties=properties)
    [sent] = read_published(bench.sent())
    assert sent.channel == 1
    assert sent.fields == {"ticket": 0, "exchange": "x", "routing_key": "k", "mandatory": True, "immediate": False}
    assert (sent.properties, sent.body, sent.pieces) == (message.raw, b"hello", (5,))
    assert (bench.kicks, bench.codec.published_total, message.sent_count) == (1, 1, 1)


def test_an_empty_body_has_no_frame() -> None:
    bench = Bench()
    bench.publish("id")
    [sent] = read_published(bench.sent())
    assert (sent.body, sent.pieces) == (b"", ())


@pytest.mark.parametrize("frame_max", [4096, 16392, 131072])
@pytest.mark.parametrize("size", [1, 4087, 4088, 4089, 16383, 16384, 16385, 131064, 131065, 300_000])
def test_a_body_is_cut_where_a_frame_ends(frame_max: int, size: int) -> None:
    bench = Bench(frame_max)
    body = bytes(range(256)) * (size // 256 + 1)
    bench.publish("one", body=body[:size])
    bench.publish("two", body=b"after")
    first, second = read_published(bench.sent())
    payload_max = frame_max - 8
    whole, rest = divmod(size, payload_max)
    assert first.pieces == (payload_max,) * whole + ((rest,) if rest else ())
    assert first.body == body[:size]
    assert second.body == b"after"


def test_the_number_of_the_channel_is_in_every_frame() -> None:
    bench = Bench(4096)
    codec = bench.add_lane(2047)
    bench.publish("id", codec, body=b"x" * 10000)
    [sent] = read_published(bench.sent())
    assert (sent.channel, sent.body) == (2047, b"x" * 10000)


def test_properties_that_fit_into_no_frame_are_refused_before_anything_is_written() -> None:
    bench = Bench(4096, confirming=True)
    message = outgoing("id", properties={"headers": {"large": "x" * 4096}})
    with pytest.raises(ValueError, match="properties have"):
        bench.codec.publish(message)
    assert (bench.sent(), bench.codec.next_tag, bench.codec.unconfirmed) == (b"", 1, {})


def test_properties_that_just_fit_are_sent() -> None:
    bench = Bench(4096)
    overhead = len(outgoing("id", properties={"headers": {"large": ""}}).raw)
    message = bench.publish("id", properties={"headers": {"large": "x" * (4096 - 8 - 12 - overhead)}})
    [sent] = read_published(bench.sent())
    assert sent.properties == message.raw
    with pytest.raises(ValueError, match="properties have"):
        bench.publish("id", properties={"headers": {"large": "x" * (4096 - 8 - 12 - overhead + 1)}})


def test_nothing_is_published_on_a_closed_channel() -> None:
    bench = Bench()
    bench.codec.is_open = False
    with pytest.raises(ClientError, match="closed"):
        bench.publish("id")
    assert bench.sent() == b""


def test_without_confirms_nothing_is_remembered() -> None:
    bench = Bench()
    message = bench.publish("id", body=b"x")
    assert (bench.codec.unconfirmed, bench.codec.unconfirmed_bytes, message.tag) == ({}, 0, 0)


# ---- confirms


def test_tags_count_from_one_and_bytes_are_summed() -> None:
    bench = Bench(confirming=True)
    messages = [bench.publish(str(at), body=b"x" * at) for at in range(1, 4)]
    assert [message.tag for message in messages] == [1, 2, 3]
    assert (bench.codec.next_tag, bench.codec.unconfirmed_bytes) == (4, 6)
    bench.feed(ack(2))
    assert bench.codec.unconfirmed_bytes == 4
    bench.feed(nack(3, multiple=True))
    assert bench.codec.unconfirmed_bytes == 0


@pytest.mark.parametrize(
    ("answers", "settled", "left"),
    [
        (ack(1), "a", "bcde"),
        (ack(3), "c", "abde"),
        (ack(3, multiple=True), "abc", "de"),
        (ack(2) + ack(4, multiple=True), "bacd", "e"),
        (ack(0, multiple=True), "abcde", ""),
        (ack(5) + ack(4) + ack(3) + ack(2) + ack(1), "edcba", ""),
        (ack(2, multiple=True) + ack(2, multiple=True), "ab", "cde"),
        (ack(3, multiple=True) + ack(1, multiple=True), "abc", "de"),
        (nack(2) + ack(0, multiple=True), "bacde", ""),
    ],
)
def test_what_an_answer_covers(answers: bytes, settled: str, left: str) -> None:
    bench = Bench(confirming=True)
    for name in "abcde":
        bench.publish(name)
    assert bench.feed(answers) == []
    assert "".join(ids(bench.codec.take_settled())) == settled
    assert "".join(ids(bench.codec.abandon())) == left


@pytest.mark.parametrize("answers", [ack(4), ack(0), nack(2**64 - 1), ack(4, True), nack(2**64 - 1, True)])
def test_a_confirm_of_what_was_never_sent_is_an_error(answers: bytes) -> None:
    bench = Bench(confirming=True)
    for name in "abc":
        bench.publish(name)
    with pytest.raises(HardError, match="confirms message"):
        bench.feed(answers)
    assert ids(bench.codec.abandon()) == ["a", "b", "c"]


def test_a_message_is_confirmed_once() -> None:
    bench = Bench(confirming=True)
    bench.publish("a")
    bench.feed(ack(1))
    with pytest.raises(HardError, match="waits for no confirm"):
        bench.feed(ack(1))


def test_all_of_nothing_is_nothing() -> None:
    bench = Bench(confirming=True)
    bench.feed(ack(0, multiple=True))
    assert bench.codec.take_settled() == []


def test_the_lane_is_told_of_once_until_its_answers_are_taken() -> None:
    bench = Bench(confirming=True)
    for name in "abc":
        bench.publish(name)
    bench.feed(ack(1) + ack(2))
    assert bench.reader.take_answered() == [bench.codec]
    assert bench.reader.take_answered() == []
    assert ids(bench.codec.take_settled()) == ["a", "b"]
    bench.feed(ack(3))
    assert bench.reader.take_answered() == [bench.codec]


def test_what_is_forgotten_is_neither_told_of_nor_left() -> None:
    bench = Bench(confirming=True)
    one, two, _ = (bench.publish(name, body=b"x") for name in "abc")
    bench.codec.forget(two)
    bench.codec.forget(two)
    assert bench.codec.unconfirmed_bytes == 2
    bench.feed(ack(2))
    assert bench.codec.take_settled() == []
    bench.feed(ack(1))
    assert bench.codec.take_settled() == [one]
    # It is settled already: there is nothing to forget.
    bench.codec.forget(one)
    assert bench.codec.unconfirmed_bytes == 1
    assert ids(bench.codec.abandon()) == ["c"]


def test_what_is_abandoned_comes_in_its_order_and_once() -> None:
    bench = Bench(confirming=True)
    for name in "abcdef":
        bench.publish(name, body=b"x")
    bench.feed(ack(2) + ack(5))
    assert ids(bench.codec.abandon()) == ["a", "c", "d", "f"]
    assert bench.codec.abandon() == []
    assert (bench.codec.is_open, bench.codec.unconfirmed_bytes) == (False, 0)
    # What was answered before is still to be had.
    assert ids(bench.codec.take_settled()) == ["b", "e"]


@pytest.mark.parametrize("late", [ack(1), ack(2, multiple=True), nack(0, multiple=True), give_back("a") + ack(1)])
def test_a_confirm_that_comes_after_the_channel_was_given_up_is_no_error(late: bytes) -> None:
    bench = Bench(confirming=True)
    bench.publish("a")
    bench.publish("b")
    bench.codec.abandon()
    assert bench.feed(late) == []
    assert bench.codec.take_settled() == []


# ---- returns


def test_a_return_is_of_the_first_that_waits_with_its_id() -> None:
    bench = Bench(confirming=True)
    messages = [bench.publish(name) for name in ("a", "twin", "b", "twin")]
    bench.feed(give_back("twin", 312, "NO_ROUTE") + give_back("twin", 313, "NO_CONSUMERS") + ack(4, multiple=True))
    assert bench.codec.take_settled() == messages
    assert [message.is_returned for message in messages] == [False, True, False, True]
    assert [message.is_confirmed for message in messages] == [True, False, True, False]
    assert [(message.reply_code, message.reply_text) for message in messages if message.is_returned] == [
        (312, b"NO_ROUTE"),
        (313, b"NO_CONSUMERS"),
    ]


def test_returns_may_come_in_another_order() -> None:
    bench = Bench(confirming=True)
    messages = {name: bench.publish(name) for name in "abc"}
    bench.feed(give_back("c") + give_back("a") + ack(3, multiple=True))
    assert [name for name, message in messages.items() if message.is_returned] == ["a", "c"]
    assert bench.codec.take_strays() == []


def test_an_id_that_is_no_text_is_found() -> None:
    bench = Bench(confirming=True)
    message = Outgoing(outgoing().address, b"\x00\x80\x02\xff\xfe", b"", b"\xff\xfe", 1)
    bench.codec.publish(message)
    bench.feed(give_back(b"\xff\xfd"))
    assert not message.is_returned, "another id"
    bench.feed(give_back(b"\xff\xfe"))
    assert message.is_returned


@pytest.mark.parametrize("message_id", [None, "unknown", "forgotten", "confirmed"])
def test_what_nobody_waits_for_is_a_stray(message_id: str | None) -> None:
    bench = Bench(confirming=True)
    waits, forgotten = bench.publish("waits"), bench.publish("forgotten")
    bench.publish("confirmed")
    bench.codec.forget(forgotten)
    bench.feed(ack(3))
    bench.codec.take_settled()
    bench.reader.take_answered()
    bench.feed(give_back(message_id, body=b"x"))
    assert bench.reader.take_answered() == [bench.codec]
    [(code, text, stray)] = bench.codec.take_strays()
    assert (code, text, stray.message_id, stray.body) == (312, b"NO_ROUTE", message_id, b"x")
    assert bench.codec.take_strays() == []
    assert not waits.is_returned


def test_many_returns_are_found_without_a_search_for_each() -> None:
    bench = Bench(confirming=True)
    messages = [bench.publish(str(at)) for at in range(20_000)]
    bench.feed(*(give_back(str(at)) for at in range(20_000)))
    assert all(message.is_returned for message in messages)


# ---- receiving


def test_a_sink_counts_what_it_got() -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink()
    bench.feed(deliver(1, b"a") + deliver(2, b"b"))
    assert [item.body for item in delivery_buffer.items] == [b"a", b"b"]
    assert (delivery_buffer.received_total, delivery_buffer.wake, delivery_buffer.tag) == (2, None, b"me")


def test_a_new_lane_is_open_and_empty() -> None:
    bench = Bench()
    codec = ChannelCodec(3, bench.write_buffer, 100)
    assert (codec.number, codec.payload_max, codec.is_open, codec.confirming, codec.is_abandoned) == (
        3,
        100,
        True,
        False,
        False,
    )
    assert (codec.delivery_buffers, codec.take_settled(), codec.take_strays(), codec.abandon()) == ({}, [], [], [])
    assert DeliveryBuffer(b"t").items.maxlen is None
