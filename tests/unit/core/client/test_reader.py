"""The reader: frames out of chunks, messages to their sinks, control methods in their order, nonsense refused."""

from __future__ import annotations

import contextlib
import struct

import pytest

from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.reader import Reader
from leveret.errors import HardError
from tests.conformance.amqp_codec import encode_frame, encode_method
from tests.unit.core.client_bench import HEARTBEAT, Bench, ack, content, deliver, get_ok, give_back, nack
from tests.unit.queues.dataplane import body_frame, header_frame, method_frame

DECLARE_OK = method_frame(1, "queue.declare-ok", queue="q", message_count=1, consumer_count=2)
CLOSE_OK = method_frame(0, "connection.close-ok")


def test_control_methods_come_in_their_order_with_their_arguments() -> None:
    bench = Bench()
    events = bench.feed(DECLARE_OK + HEARTBEAT + CLOSE_OK + DECLARE_OK)
    declare = (
        1,
        0x0032000B,
        encode_method("queue.declare-ok", {"queue": "q", "message_count": 1, "consumer_count": 2})[4:],
    )
    assert events == [declare, (0, 0x000A0033, b""), declare]
    assert (bench.reader.frames_received, bench.reader.chunks_received) == (4, 1)
    assert bench.reader.bytes_received == len(DECLARE_OK + HEARTBEAT + CLOSE_OK + DECLARE_OK)


def test_what_a_get_gave_stands_among_the_control_methods() -> None:
    events = Bench().feed(DECLARE_OK + get_ok(1, b"got", left=3) + DECLARE_OK)
    assert [method for _, method, _ in events] == [0x0032000B, 0x003C0047, 0x0032000B]
    assert (events[1][2].body, events[1][2].message_count) == (b"got", 3)


def test_deliveries_go_to_the_sink_of_their_consumer() -> None:
    bench = Bench()
    other = bench.add_lane(2)
    one, two, elsewhere = bench.add_sink("one"), bench.add_sink("two"), bench.add_sink("one", other)
    octets = deliver(1, b"a", tag="one") + deliver(2, b"b", tag="two") + deliver(1, b"c", tag="one", channel=2)
    assert bench.feed(octets + deliver(3, b"d", tag="one")) == []
    assert [item.body for item in one.items] == [b"a", b"d"]
    assert [item.body for item in two.items] == [b"b"]
    assert [item.body for item in elsewhere.items] == [b"c"]
    assert bench.reader.take_woken() == [one, two, elsewhere]
    assert bench.reader.take_woken() == []
    bench.feed(deliver(4, tag="two"))
    assert bench.reader.take_woken() == [two]


def test_what_comes_for_a_cancelled_consumer_is_passed_over() -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink("there")
    assert bench.feed(deliver(1, b"lost", tag="gone") + deliver(2, b"found", tag="there")) == []
    assert [item.body for item in delivery_buffer.items] == [b"found"]


def test_what_comes_for_a_dropped_channel_is_passed_over() -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink()
    first = deliver(1, b"x" * 1000, pieces=(500,))
    bench.feed(first[:600])
    bench.reader.drop_lane(1)
    # Its content is nobody's; a method is still shown, since the channel's end is one.
    assert bench.feed(first[600:] + header_frame(1, 5) + body_frame(1, b"12345") + CLOSE_OK) == [(0, 0x000A0033, b"")]
    [(number, method, _)] = bench.feed(deliver(2, b"more"))
    assert (number, method) == (1, 0x003C003C)
    assert not delivery_buffer.items


def test_a_number_may_be_used_again() -> None:
    bench = Bench()
    old = bench.add_sink()
    half = deliver(1, b"x" * 100, pieces=(50,))
    # Exactly the second body frame is missing.
    bench.feed(half[:-58])
    bench.reader.drop_lane(1)
    fresh = ChannelCodec(1, bench.write_buffer, 4088)
    bench.reader.add_lane(fresh)
    delivery_buffer = bench.add_sink("me", fresh)
    # A new channel begins with a method, whatever the old one waited for.
    bench.feed(deliver(1, b"fresh"))
    assert ([item.body for item in delivery_buffer.items], list(old.items)) == ([b"fresh"], [])


@pytest.mark.parametrize("pieces", [(), (1,), (1, 1, 1), (4, 0, 2), (99,)])
def test_a_body_may_come_in_many_frames(pieces: tuple[int, ...]) -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink()
    body = bytes(range(100))
    bench.feed(deliver(1, body, pieces=pieces) + deliver(2, b"next"))
    assert [item.body for item in delivery_buffer.items] == [body, b"next"]


def test_contents_of_two_channels_may_be_interleaved() -> None:
    bench = Bench()
    other = bench.add_lane(2)
    one, two = bench.add_sink(), bench.add_sink("me", other)
    first, second = deliver(1, b"abcd"), deliver(1, b"wxyz", channel=2)
    method = len(method_frame(1, "basic.deliver", consumer_tag="me", delivery_tag=1, exchange="", routing_key="q"))
    header = method + len(header_frame(1, 4, {}))
    bench.feed(
        first[:method] + second[:method] + second[method:header] + first[method:header] + first[header:] + DECLARE_OK,
        second[header:],
    )
    assert ([item.body for item in one.items], [item.body for item in two.items]) == ([b"abcd"], [b"wxyz"])


def test_confirms_are_control_methods_where_nobody_asked_for_them() -> None:
    events = Bench(confirming=False).feed(ack(1) + nack(2))
    assert [method for _, method, _ in events] == [0x003C0050, 0x003C0078]


def test_a_chunk_may_be_smaller_than_its_buffer() -> None:
    bench = Bench()
    buffer = bytearray(DECLARE_OK + CLOSE_OK)
    assert len(bench.reader.feed(buffer, len(DECLARE_OK))) == 1
    assert bench.reader.bytes_received == len(DECLARE_OK)


# ---- nonsense


def deliver_method(payload: bytes) -> bytes:
    return encode_frame(1, 1, b"\x00\x3c\x00\x3c" + payload)


WHOLE_DELIVER = encode_method(
    "basic.deliver", {"consumer_tag": "me", "delivery_tag": 1, "exchange": "x", "routing_key": "key"}
)
WHOLE_RETURN = encode_method(
    "basic.return", {"reply_code": 312, "reply_text": "NO_ROUTE", "exchange": "x", "routing_key": "key"}
)
WHOLE_GET_OK = encode_method(
    "basic.get-ok", {"delivery_tag": 1, "exchange": "x", "routing_key": "key", "message_count": 1}
)


@pytest.mark.parametrize("whole", [WHOLE_DELIVER, WHOLE_RETURN, WHOLE_GET_OK], ids=["deliver", "return", "get-ok"])
def test_a_method_that_is_cut_off_is_refused_wherever_it_is_cut(whole: bytes) -> None:
    for size in range(len(whole)):
        bench = Bench()
        with pytest.raises(HardError) as caught:
            bench.feed(encode_frame(1, 1, whole[:size]))
        assert caught.value.code == 501, size
    assert Bench().feed(encode_frame(1, 1, whole)) == []


@pytest.mark.parametrize("confirm", [b"", b"\0" * 8, b"\0" * 10])
def test_a_confirm_of_a_wrong_size_is_refused(confirm: bytes) -> None:
    bench = Bench(confirming=True)
    bench.publish("a")
    with pytest.raises(HardError, match="wrong size"):
        bench.feed(encode_frame(1, 1, b"\x00\x3c\x00\x50" + confirm))


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (DECLARE_OK[:-1] + b"\x00", 501),
        (encode_frame(4, 1, b""), 501),
        (encode_frame(0, 0, b"x"), 501),
        (encode_frame(99, 77, b"of a channel that is not there"), 501),
        (b"HTTP/1.1 400 Bad Request\r\n", 501),
        (b"AMQP\x00\x00\x09\x01", 501),
        (struct.pack(">BHI", 1, 0, 131073), 501),
        (struct.pack(">BHI", 3, 1, 2**32 - 1), 501),
        (header_frame(1, 5), 505),
        (body_frame(1, b"x"), 505),
        (deliver(1, b"x")[:-9] + DECLARE_OK[:0] + deliver(2), 505),
        (deliver(1, b"abc") + body_frame(1, b"more"), 505),
        (deliver(1) + body_frame(1, b""), 505),
        (deliver_method(WHOLE_DELIVER[4:]) + body_frame(1, b"x"), 505),
        (deliver_method(WHOLE_DELIVER[4:]) + encode_frame(2, 1, b"\x00\x3c\x00\x00" + bytes(8)), 505),
        (deliver_method(WHOLE_DELIVER[4:]) + encode_frame(2, 1, b"\x00\x3b\x00\x00" + bytes(10)), 505),
        (deliver_method(WHOLE_DELIVER[4:]) + encode_frame(2, 1, b"\x00\x3c\x00\x00" + b"\xff" * 8 + b"\0\0"), 501),
        (deliver_method(WHOLE_DELIVER[4:]) + encode_frame(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\0\x05"), 501),
        (deliver_method(WHOLE_DELIVER[4:]) + header_frame(1, 3) + body_frame(1, b"four"), 501),
        (deliver_method(WHOLE_DELIVER[4:]) + header_frame(1, 3) + body_frame(1, b"1") + body_frame(1, b"234"), 501),
        (deliver_method(WHOLE_DELIVER[4:]) + header_frame(1, 2**63) + body_frame(1, b"1"), 501),
    ],
)
def test_nonsense_is_a_hard_error(octets: bytes, code: int) -> None:
    for cut in range(len(octets)):
        bench = Bench()
        with pytest.raises(HardError) as caught:
            bench.feed(octets[:cut], octets[cut:])
        assert caught.value.code == code
        # It is believed no more, but must not come to harm if somebody tries.
        for more in (b"", DECLARE_OK, octets):
            with contextlib.suppress(HardError):
                bench.feed(more)


def test_the_largest_frame_is_what_both_sides_agreed_on() -> None:
    bench = Bench(4096)
    assert len(bench.feed(encode_frame(1, 0, b"\x00\x0a\x00\x0b" + bytes(4092)))) == 1
    with pytest.raises(HardError, match="a frame of 4097 bytes, where 4096 were agreed on"):
        bench.feed(struct.pack(">BHI", 1, 0, 4097))
    reader = Reader(4096)
    reader.frame_max = 8192
    assert len(reader.feed(bytearray(encode_frame(1, 0, b"\x00\x0a\x00\x0b" + bytes(8000))), 8012)) == 1


def test_what_stood_before_nonsense_counts() -> None:
    bench = Bench(confirming=True)
    message = bench.publish("a")
    delivery_buffer = bench.add_sink()
    with pytest.raises(HardError):
        bench.feed(ack(1) + deliver(1, b"x") + encode_frame(4, 1, b""))
    assert bench.reader.take_answered() == [bench.codec]
    assert bench.codec.take_settled() == [message]
    assert bench.reader.take_woken() == [delivery_buffer]


def test_a_return_without_a_body_is_whole_with_its_header() -> None:
    bench = Bench()
    bench.feed(give_back(None))
    [(_, _, stray)] = bench.codec.take_strays()
    assert (stray.body, stray.message_id) == (b"", None)
    assert content(1, b"", None) == header_frame(1, 0)
