"""One connection's bytes in: frames cut out of chunks, control methods handed up, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from leveret.errors import AmqpError, HardError, SoftError
from tests.conformance.amqp_codec import encode_frame
from tests.unit.queues.dataplane import Workbench, body_frame, header_frame, method_frame, publish_frames

HEARTBEAT = encode_frame(8, 0, b"")
TX_SELECT = 0x5A000A
PUBLISH = 0x3C0028
CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN = 0x140028, 0x140029, 0x14000A


def opened(*channels: int, frame_max: int = 131072) -> Workbench:
    bench = Workbench(frame_max)
    for number in channels or (1,):
        bench.open_channel(number)
    return bench


def refused(bench: Workbench, octets: bytes) -> AmqpError:
    with pytest.raises(AmqpError) as refusal:
        bench.feed(octets)
    return refusal.value


def test_control_methods_are_handed_up_one_by_one() -> None:
    bench = opened(1, 2)
    chunk = bytearray(method_frame(1, "tx.select") + method_frame(2, "basic.get", queue="q", no_ack=True))
    connection = bench.connection
    assert connection.feed(chunk, len(chunk)) == (1, TX_SELECT, b"")
    assert connection.current == 1
    assert connection.proceed() == (2, 0x3C0046, b"\x00\x00\x01q\x01")
    assert connection.current == 2
    assert connection.proceed() is None


def test_any_split_of_the_stream_gives_the_same_events() -> None:
    stream = (
        method_frame(1, "queue.declare", queue="q", arguments={"x-max-length": 5})
        + publish_frames(1, "", "q", b"one" * 50)
        + HEARTBEAT
        + method_frame(2, "tx.select")
        + publish_frames(2, "", "q", b"")
        + publish_frames(1, "", "q", b"y" * 3000, {"headers": {"a": [1, 2]}})
        + method_frame(0, "connection.close", reply_text="bye")
    )

    def run(sizes: list[int]) -> tuple[list[Any], list[bytes]]:
        bench = opened(1, 2)
        queue = bench.add_queue()
        events, at = [], 0
        for size in sizes:
            events += bench.feed(stream[at : at + size])
            at += size
        assert bench.connection.bytes_received == len(stream)
        return events, [entry.message.body for entry in queue.ready_entries()]

    whole = run([len(stream)])
    assert [event[:2] for event in whole[0]] == [(1, 0x32000A), (2, TX_SELECT), (0, 0xA0032)]
    assert [len(body) for body in whole[1]] == [150, 0, 3000]
    assert run([1] * len(stream)) == whole
    rolls = random.Random(4)
    for _ in range(50):
        sizes: list[int] = []
        while sum(sizes) < len(stream):
            sizes.append(min(rolls.choice((1, 2, 7, 8, 30, 500)), len(stream) - sum(sizes)))
        assert run(sizes) == whole


def test_only_the_given_size_of_the_buffer_is_read() -> None:
    bench = opened()
    frame = method_frame(1, "tx.select")
    assert bench.connection.feed(bytearray(frame + b"garbage"), len(frame)) == (1, TX_SELECT, b"")
    assert bench.connection.proceed() is None


def test_a_detached_rest_survives_the_reuse_of_the_buffer() -> None:
    bench = opened()
    queue = bench.add_queue()
    buffer = bytearray(method_frame(1, "tx.select") + publish_frames(1, "", "q", b"kept") + b"\x01\x00")
    connection = bench.connection
    assert connection.feed(buffer, len(buffer)) is not None
    connection.detach()
    buffer[:] = bytes(len(buffer))
    assert connection.proceed() is None
    assert [entry.message.body for entry in queue.ready_entries()] == [b"kept"]
    assert bench.feed(method_frame(1, "tx.select")[2:]) == [(1, TX_SELECT, b"")]


def test_a_heartbeat_is_no_event() -> None:
    bench = opened()
    assert bench.feed(HEARTBEAT * 3) == []
    assert bench.connection.frames_received == 3


@pytest.mark.parametrize("cut", [7, 8, 50])
def test_a_frame_too_large_is_refused_by_its_head(cut: int) -> None:
    bench = opened(frame_max=4096)
    frame = encode_frame(1, 1, bytes(4097))
    error = refused(bench, frame[:cut])
    assert error.code == 501
    assert error.text == "type 1, all octets = <<>>: {frame_too_large,4097,4088}"


def test_a_frame_too_large_is_refused_though_its_head_comes_in_pieces() -> None:
    bench = opened(frame_max=4096)
    head = encode_frame(1, 1, bytes(2**20))[:7]
    assert bench.feed(head[:5]) == []
    assert refused(bench, head[5:]).code == 501


def test_a_frame_without_its_end_is_refused() -> None:
    error = refused(opened(), method_frame(1, "tx.select")[:-1] + b"X")
    assert (error.code, error.text) == (501, "type 1, all octets = <<0,90,0,10>>: {invalid_frame_end_marker,88}")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (encode_frame(4, 1, b""), 501),
        (encode_frame(8, 0, b"x"), 501),
        (encode_frame(8, 1, b""), 505),
        (encode_frame(2, 0, b""), 505),
        (encode_frame(3, 0, b"x"), 505),
        (encode_frame(1, 1, b"abc"), 501),
        (body_frame(1, b"x"), 505),
        (header_frame(1, 1), 505),
        (header_frame(9, 1), 505),
        (method_frame(1, "basic.publish") + method_frame(1, "tx.select"), 505),
        (method_frame(1, "basic.publish") + body_frame(1, b"x"), 505),
        (method_frame(1, "basic.publish") + header_frame(1, 3) + header_frame(1, 3), 505),
        (method_frame(1, "basic.publish") + header_frame(1, 3) + method_frame(1, "tx.select"), 505),
    ],
    ids=[
        "unknown type",
        "heartbeat with payload",
        "heartbeat on a channel",
        "header on channel 0",
        "body on channel 0",
        "method without id",
        "body without publish",
        "header without publish",
        "header on no channel",
        "method instead of header",
        "body instead of header",
        "second header",
        "method instead of body",
    ],
)
def test_a_frame_out_of_place_ends_the_connection(frame: bytes, code: int) -> None:
    error = refused(opened(), frame)
    assert isinstance(error, HardError)
    assert error.code == code


def test_after_an_error_the_rest_of_the_chunk_goes_on() -> None:
    bench = opened(1, 2)
    queue = bench.add_queue()
    error = refused(bench, method_frame(2, "basic.ack", delivery_tag=9) + publish_frames(1, "", "q", b"on"))
    assert isinstance(error, SoftError)
    assert bench.connection.current == 2
    assert bench.connection.proceed() is None
    assert [entry.message.body for entry in queue.ready_entries()] == [b"on"]


def test_methods_on_a_channel_nobody_opened_are_handed_up() -> None:
    bench = opened()
    assert bench.feed(method_frame(5, "basic.publish", routing_key="q")) == [(5, PUBLISH, b"\x00\x00\x00\x01q\x00")]


def test_on_a_closing_channel_only_the_close_is_heard() -> None:
    bench = opened()
    queue = bench.add_queue()
    bench.connection.find(1).start_closing()
    stream = publish_frames(1, "", "q", b"late") + method_frame(1, "basic.ack", delivery_tag=5)
    stream += method_frame(1, "tx.select") + body_frame(1, b"x")
    assert bench.feed(stream) == []
    assert queue.ready_count() == 0
    closes = method_frame(1, "channel.close") + method_frame(1, "channel.close-ok") + method_frame(1, "channel.open")
    assert [event[1] for event in bench.feed(closes)] == [CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN]


def test_a_muted_connection_hears_only_its_own_channel() -> None:
    bench = opened()
    queue = bench.add_queue()
    bench.connection.muted = True
    stream = publish_frames(1, "", "q") + method_frame(1, "tx.select") + body_frame(1, b"x")
    assert bench.feed(stream + method_frame(0, "connection.close-ok")) == [(0, 0xA0033, b"")]
    assert queue.ready_count() == 0


def test_under_an_alarm_a_publish_is_announced_before_its_content_is_read() -> None:
    bench = opened()
    queue = bench.add_queue()
    connection = bench.connection
    connection.alarmed = True
    chunk = bytearray(method_frame(1, "tx.select") + publish_frames(1, "", "q", b"later"))
    assert connection.feed(chunk, len(chunk)) == (1, TX_SELECT, b"")
    assert connection.proceed() == (1, PUBLISH, b"")
    assert queue.ready_count() == 0
    connection.detach()
    connection.alarmed = False
    assert connection.proceed() is None
    assert [entry.message.body for entry in queue.ready_entries()] == [b"later"]


def test_a_dropped_channel_is_gone_and_its_number_free() -> None:
    bench = opened()
    bench.feed(HEARTBEAT)
    bench.connection.drop_channel(1)
    assert bench.connection.find(1) is None
    assert bench.feed(method_frame(1, "channel.open")) == [(1, CHANNEL_OPEN, b"\x00")]
    again = bench.open_channel(1)
    assert bench.connection.find(1) is again


def test_channel_zero_is_never_a_channel() -> None:
    assert opened().connection.find(0) is None


def test_confirms_leave_at_the_end_of_each_chunk_for_every_channel() -> None:
    bench = opened(1, 2)
    bench.add_queue()
    for number in (1, 2):
        bench.connection.find(number).publish_path.start_confirming()
    bench.feed(publish_frames(1, "", "q") + publish_frames(2, "", "q") + publish_frames(1, "", "q"))
    assert [(sent.channel, sent.fields["delivery_tag"]) for sent in bench.sent()] == [(1, 2), (2, 1)]


def test_a_calm_connection_asks_the_consumers_of_all_its_channels_again() -> None:
    bench = opened(1, 2)
    queues = [bench.add_queue("a"), bench.add_queue("b")]
    bench.write_buffer.write(bytes(262145))
    for number, queue in enumerate(queues, 1):
        bench.consume(bench.connection.find(number), queue)
        bench.feed(publish_frames(1, "", queue.name.decode(), b"x"))
    assert [queue.ready_count() for queue in queues] == [1, 1]
    bench.write_buffer.sent(262145)
    bench.write_buffer.calm_down()
    bench.connection.calm()
    assert [queue.ready_count() for queue in queues] == [0, 0]
