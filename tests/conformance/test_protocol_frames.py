"""Frames that are broken or come out of order. All of it is the connection's error."""

import struct

import pytest

from tests.conformance.amqp_codec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    encode_longstr,
    encode_method,
)
from tests.conformance.conftest import Connect
from tests.conformance.raw_client import PROTOCOL_HEADER, RawClient, Refusal
from tests.conformance.topology import Topology, drain

NOT_A_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NOT_A_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NOT_A_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"


def header_payload(size: int, class_id: int = 60, weight: int = 0, properties_raw: bytes = b"\0\0") -> bytes:
    return struct.pack(">HHQ", class_id, weight, size) + properties_raw


def frame_error(text: str) -> Refusal:
    return Refusal("connection", 501, f"FRAME_ERROR - {text}", 0, 0)


def expect_refusal(client: RawClient, refusal: Refusal) -> None:
    assert client.refusal() == refusal
    client.expect_eof()


def test_a_frame_must_end_with_its_mark(client: RawClient) -> None:
    client.send_bytes(struct.pack(">BHI", FRAME_METHOD, 1, 4) + struct.pack(">HH", 50, 10) + b"\x00")
    expect_refusal(client, frame_error("type 1, all octets = <<0,50,0,10>>: {invalid_frame_end_marker,0}"))


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 255])
@pytest.mark.parametrize("channel", [0, 1])
def test_an_unknown_frame_type(client: RawClient, kind: int, channel: int) -> None:
    client.send_frame(kind, channel, b"abc")
    expect_refusal(client, frame_error(f'type {kind}, all octets = <<"abc">>: unknown_frame'))


@pytest.mark.parametrize(("payload", "shown"), [(b"", "<<>>"), (b"\0\x32", "<<0,50>>"), (b"abc", '<<"abc">>')])
def test_a_method_frame_too_short_for_its_numbers(client: RawClient, payload: bytes, shown: str) -> None:
    client.send_frame(FRAME_METHOD, 1, payload)
    expect_refusal(client, frame_error(f"type 1, all octets = {shown}: unknown_frame"))


@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_a_frame_above_frame_max(connect: Connect, frame_max: int) -> None:
    client = connect(frame_max=frame_max)
    # Only the head: the broker must not wait for a body that it will not take.
    client.send_bytes(struct.pack(">BHI", FRAME_BODY, 1, frame_max + 1))
    expect_refusal(
        client, frame_error(f"type 3, all octets = <<>>: {{frame_too_large,{frame_max + 1},{frame_max - 8}}}")
    )


def test_a_second_protocol_header_is_a_frame_far_too_large(client: RawClient) -> None:
    client.send_bytes(PROTOCOL_HEADER)
    expect_refusal(client, frame_error("type 65, all octets = <<>>: {frame_too_large,1342177289,131064}"))


def test_a_heartbeat_belongs_to_no_channel(client: RawClient) -> None:
    client.send_frame(FRAME_HEARTBEAT, 1, b"")
    expect_refusal(client, Refusal("connection", 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", 0, 0))


def test_a_heartbeat_has_no_payload(client: RawClient) -> None:
    client.send_frame(FRAME_HEARTBEAT, 0, b"abc")
    expect_refusal(client, frame_error('type 8, all octets = <<"abc">>: unknown_frame'))


@pytest.mark.parametrize("channel", [1, 7])
@pytest.mark.parametrize(("kind", "payload"), [(FRAME_BODY, b"abc"), (FRAME_HEADER, header_payload(3))])
def test_content_without_a_method(client: RawClient, channel: int, kind: int, payload: bytes) -> None:
    """On an open channel, and on one that was never opened."""
    client.send_frame(kind, channel, payload)
    expect_refusal(client, Refusal("connection", 505, NOT_A_METHOD, 0, 0))


@pytest.mark.parametrize(
    ("kind", "payload", "shown"),
    [(FRAME_BODY, b"abc", '<<"abc">>'), (FRAME_HEADER, header_payload(3), "<<0,60,0,0,0,0,0,0,0,0,0,3,0,0>>")],
)
def test_content_on_channel_zero(client: RawClient, kind: int, payload: bytes, shown: str) -> None:
    client.send_frame(kind, 0, payload)
    expect_refusal(client, Refusal("connection", 505, f"UNEXPECTED_FRAME - type {kind}, all octets = {shown}", 0, 0))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (FRAME_METHOD, encode_method("queue.declare", {})),
        (FRAME_METHOD, encode_method("channel.close", {})),
        (FRAME_BODY, b"abc"),
        (FRAME_HEADER, header_payload(3, weight=1)),
    ],
    ids=["method", "close", "body", "weight"],
)
def test_publish_must_be_followed_by_a_header(client: RawClient, kind: int, payload: bytes) -> None:
    client.send(1, "basic.publish")
    client.send_frame(kind, 1, payload)
    expect_refusal(client, Refusal("connection", 505, NOT_A_HEADER, 60, 40))


def test_the_header_must_be_of_the_methods_class(client: RawClient) -> None:
    client.send(1, "basic.publish")
    client.send_frame(FRAME_HEADER, 1, header_payload(3, class_id=50))
    text = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
    expect_refusal(client, Refusal("connection", 505, text, 60, 40))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(FRAME_METHOD, encode_method("queue.declare", {})), (FRAME_HEADER, header_payload(3))],
    ids=["method", "header"],
)
def test_a_header_must_be_followed_by_the_whole_body(client: RawClient, kind: int, payload: bytes) -> None:
    client.send(1, "basic.publish")
    client.send_frame(FRAME_HEADER, 1, header_payload(3))
    client.send_frame(FRAME_BODY, 1, b"ab")
    client.send_frame(kind, 1, payload)
    expect_refusal(client, Refusal("connection", 505, NOT_A_BODY, 60, 40))


@pytest.mark.parametrize("pieces", [(b"abcd",), (b"ab", b"cd")])
def test_a_body_longer_than_promised(client: RawClient, pieces: tuple[bytes, ...]) -> None:
    client.send(1, "basic.publish")
    client.send_frame(FRAME_HEADER, 1, header_payload(3))
    for piece in pieces:
        client.send_frame(FRAME_BODY, 1, piece)
    # RabbitMQ notices with the next frame; to notice at once is as good.
    client.send(1, "queue.declare", exclusive=True)
    assert client.refusal()[:2] == ("connection", 505)


def test_an_empty_message_has_no_body_frame(client: RawClient) -> None:
    client.send(1, "basic.publish")
    client.send_frame(FRAME_HEADER, 1, header_payload(0))
    client.send_frame(FRAME_BODY, 1, b"")
    expect_refusal(client, Refusal("connection", 505, NOT_A_METHOD, 0, 0))


def test_an_empty_body_frame_within_a_body_is_passed_over(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    client.send(1, "basic.publish", routing_key=queue)
    client.send_frame(FRAME_HEADER, 1, header_payload(3))
    for piece in (b"", b"ab", b"", b"c"):
        client.send_frame(FRAME_BODY, 1, piece)
    assert drain(client, queue) == [b"abc"]


def test_channels_may_interleave_their_content(client: RawClient, topology: Topology) -> None:
    client.open_channel(2)
    queue = topology.queue(client)
    for channel in (1, 2):
        client.send(channel, "basic.publish", routing_key=queue)
    for channel in (2, 1):
        client.send_frame(FRAME_HEADER, channel, header_payload(4))
    for channel, piece in ((1, b"on"), (2, b"tw"), (2, b"o."), (1, b"e.")):
        client.send_frame(FRAME_BODY, channel, piece)
    # A closed channel has done all that it was sent.
    client.call(2, "channel.close")
    assert sorted(drain(client, queue)) == [b"one.", b"two."]


def test_frames_may_come_octet_by_octet(client: RawClient) -> None:
    payload = encode_method("queue.declare", {"exclusive": True})
    frame = struct.pack(">BHI", FRAME_METHOD, 1, len(payload)) + payload + b"\xce"
    for octet in frame:
        client.send_bytes(bytes([octet]))
    client.expect(1, "queue.declare-ok")


DECLARE = encode_method("queue.declare", {"queue": "abc"})


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (DECLARE[:8], "<<0,0,3,97>>"),
        (DECLARE + b"zz", "<<0,0,3,97,98,99,0,0,0,0,0,122,122>>"),
        (DECLARE[:-4] + b"\0\0\0\x20abc", "<<0,0,3,97,98,99,0,0,0,0,32,97,98,99>>"),
    ],
    ids=["ends early", "too long", "table ends early"],
)
def test_a_method_that_cannot_be_decoded(client: RawClient, payload: bytes, shown: str) -> None:
    client.send_frame(FRAME_METHOD, 1, payload)
    expect_refusal(client, Refusal("connection", 501, f"FRAME_ERROR - cannot decode {shown}", 50, 10))


@pytest.mark.parametrize("table", [b"\x01aZ", b"\x01aS\0\0\0\x05a", b"\x05a", b"\x01aI\0\0"])
def test_a_table_that_cannot_be_decoded(client: RawClient, table: bytes) -> None:
    client.send_frame(FRAME_METHOD, 1, DECLARE[:-4] + encode_longstr(table))
    refusal = client.expect_end()
    # RabbitMQ drops the socket; a broker may explain itself.
    assert refusal is None or refusal.code in (501, 502, 541)


@pytest.mark.parametrize(("class_id", "method_id"), [(50, 99), (99, 10), (10, 99)])
@pytest.mark.parametrize("channel", [0, 1, 7])
def test_an_unknown_method(client: RawClient, channel: int, class_id: int, method_id: int) -> None:
    client.send_frame(FRAME_METHOD, channel, struct.pack(">HH", class_id, method_id))
    refusal = client.expect_end()
    # RabbitMQ drops the socket; a broker may explain itself.
    assert refusal is None or refusal.code in (501, 503, 504, 540, 541)


@pytest.mark.parametrize("properties_raw", [b"", b"\x80\x00\x05ab", b"\x00\x01\x00\x00", b"\x20\x00\0\0\0\x09\x01aI"])
def test_properties_that_cannot_be_decoded(client: RawClient, topology: Topology, properties_raw: bytes) -> None:
    queue = topology.queue(client)
    client.send(1, "basic.publish", routing_key=queue)
    client.send_frame(FRAME_HEADER, 1, header_payload(0, properties_raw=properties_raw))
    client.send(1, "basic.get", queue=queue)
    refusal = client.expect_end()
    assert refusal is None or refusal.code in (501, 502, 541)


@pytest.mark.parametrize("name", ["queue.declare", "queue.delete"])
def test_names_are_utf8(client: RawClient, name: str) -> None:
    client.send(1, name, queue=b"\xff\xfe")
    expect_refusal(client, frame_error("Malformed UTF-8 in shortstr"))


def test_a_name_may_be_any_utf8(client: RawClient) -> None:
    name = "hårë \t'\"\u20ac"
    assert client.call(1, "queue.declare", queue=name, exclusive=True)["queue"] == name


def test_line_ends_are_dropped_from_names(client: RawClient, topology: Topology) -> None:
    queue = topology.queue(client)
    folded = f"{queue[:5]}\r\n{queue[5:]}\n"
    assert client.call(1, "queue.declare", queue=folded, exclusive=True)["queue"] == queue
    assert client.call(1, "queue.delete", queue=folded)["message_count"] == 0
    assert client.call(1, "queue.declare", queue=queue)["queue"] == queue
    client.call(1, "queue.delete", queue=queue)
