"""One thing wrong at a time, and the one right answer to it: which close, with which code, or none at all.

The texts are compared with RabbitMQ's in tests/conformance; here it is about the state the connection was in."""

from __future__ import annotations

import struct
from typing import Final

import pytest

from tests.conformance.amqp_codec import encode_frame
from tests.conformance.raw_client import PROTOCOL_HEADER
from tests.fuzz.conversation import Neighbour, check_answers, check_nothing_left
from tests.fuzz.frames import HEARTBEAT, body, handshake, header, method, publish, start_ok
from tests.fuzz.workbench import Workbench

OPENED: Final = handshake() + method(1, "channel.open")
STAGE: Final = OPENED + method(1, "queue.declare", queue="q")
PUBLISH: Final = method(1, "basic.publish", routing_key="q")
# A channel that the broker has closed, because there is no such exchange.
CLOSED: Final = STAGE + publish(1, "nope", "q", b"x")
TUNE_OK: Final = method(0, "connection.tune-ok", frame_max=131072, channel_max=2047)


def connection(code: int) -> list[tuple[str, int]]:
    return [("connection.close", code)]


def channel(code: int) -> list[tuple[str, int]]:
    return [("channel.close", code)]


IGNORED: Final[list[tuple[str, int]]] = []
# What is said, and the closes it is answered with.
CASES: Final[dict[str, tuple[bytes, list[tuple[str, int]]]]] = {
    # before the login
    "a channel's method first": (PROTOCOL_HEADER + method(1, "channel.open"), connection(503)),
    "the wrong method first": (PROTOCOL_HEADER + method(0, "connection.open", virtual_host="/"), connection(504)),
    "content first": (PROTOCOL_HEADER + header(1, 1), connection(505)),
    "content on channel 0 first": (PROTOCOL_HEADER + header(0, 1), connection(505)),
    "a heartbeat first": (PROTOCOL_HEADER + HEARTBEAT, IGNORED),
    "an unknown mechanism": (PROTOCOL_HEADER + start_ok(mechanism="NONE"), connection(503)),
    "a login twice": (PROTOCOL_HEADER + start_ok() * 2, connection(504)),
    "a channel before open": (PROTOCOL_HEADER + start_ok() + TUNE_OK + method(1, "channel.open"), connection(503)),
    "a frame larger than strangers may send": (PROTOCOL_HEADER + struct.pack(">BHI", 1, 0, 4097), connection(501)),
    "no limits wanted": (PROTOCOL_HEADER + start_ok() + method(0, "connection.tune-ok"), connection(530)),
    "an unknown virtual host": (
        PROTOCOL_HEADER + start_ok() + TUNE_OK + method(0, "connection.open", virtual_host="nope"),
        connection(530),
    ),
    # frames
    "a frame without its end": (OPENED + HEARTBEAT[:-1] + b"\xcd", connection(501)),
    "a frame of no known type": (OPENED + encode_frame(4, 1, b"x"), connection(501)),
    "a heartbeat on a channel": (OPENED + encode_frame(8, 1, b""), connection(505)),
    "a heartbeat with a payload": (OPENED + encode_frame(8, 0, b"x"), connection(501)),
    "a method of three octets": (OPENED + encode_frame(1, 1, b"\x00\x14\x00"), connection(501)),
    "a frame that is too large": (OPENED + struct.pack(">BHI", 3, 1, 131073), connection(501)),
    # methods
    "an unknown class": (OPENED + encode_frame(1, 1, b"\x00\x63\x00\x0a"), connection(503)),
    "an unknown method": (OPENED + encode_frame(1, 1, b"\x00\x32\x00\x63"), connection(503)),
    "a method that ends early": (OPENED + encode_frame(1, 1, b"\x00\x32\x00\x0a\x00\x00\x05q"), connection(501)),
    "a method with something after it": (OPENED + encode_frame(1, 1, b"\x00\x5a\x00\x0a\x00"), connection(501)),
    "a name that is not UTF-8": (OPENED + method(1, "queue.declare", queue=b"\xff"), connection(501)),
    "an answer to nothing": (OPENED + method(1, "basic.qos-ok"), connection(503)),
    "a publish that ends early": (OPENED + encode_frame(1, 1, b"\x00\x3c\x00\x28\x00\x00"), connection(501)),
    "a publish with a lying name": (OPENED + encode_frame(1, 1, b"\x00\x3c\x00\x28\0\0\xff\0\0"), connection(501)),
    "an ack that ends early": (OPENED + encode_frame(1, 1, b"\x00\x3c\x00\x50\x00"), connection(501)),
    "a publish that must be immediate": (STAGE + method(1, "basic.publish", immediate=True), connection(540)),
    # channels
    "a channel that is not open": (handshake() + method(1, "queue.declare"), connection(504)),
    "a publish on a channel that is not open": (handshake() + PUBLISH, connection(504)),
    "an ack on a channel that is not open": (handshake() + method(1, "basic.ack", delivery_tag=1), connection(504)),
    "a channel opened twice": (OPENED + method(1, "channel.open"), connection(504)),
    "a channel closed that is not open": (handshake() + method(1, "channel.close"), connection(504)),
    "one channel too many": (
        handshake(channel_max=1) + method(1, "channel.open") + method(2, "channel.open"),
        connection(530),
    ),
    # content
    "a header without a publish": (STAGE + header(1, 1), connection(505)),
    "a body without a publish": (STAGE + body(1, b"x"), connection(505)),
    "a body without a header": (STAGE + PUBLISH + body(1, b"x"), connection(505)),
    "two headers": (STAGE + PUBLISH + header(1, 2) * 2, connection(505)),
    "a method in the middle of content": (STAGE + PUBLISH + method(1, "basic.get", queue="q"), connection(505)),
    "a method in the middle of a body": (STAGE + PUBLISH + header(1, 2) + body(1, b"x") + PUBLISH, connection(505)),
    "more body than announced": (STAGE + PUBLISH + header(1, 2) + body(1, b"xyz"), connection(505)),
    "a body after an empty one": (STAGE + PUBLISH + header(1, 0) + body(1, b"x"), connection(505)),
    "content of another class": (STAGE + PUBLISH + header(1, 1, class_id=50), connection(505)),
    "content with a weight": (STAGE + PUBLISH + header(1, 1, weight=1), connection(505)),
    "content on another channel": (STAGE + method(2, "channel.open") + PUBLISH + header(2, 1), connection(505)),
    "content on a channel that is not open": (STAGE + PUBLISH + header(2, 1), connection(505)),
    "content on channel 0": (STAGE + body(0, b"x"), connection(505)),
    "a header of thirteen octets": (STAGE + PUBLISH + encode_frame(2, 1, bytes(13)), connection(501)),
    "properties that end early": (STAGE + PUBLISH + header(1, 1, b"\x80\x00\x05ab"), connection(501)),
    "properties with something after them": (STAGE + PUBLISH + header(1, 1, b"\x00\x00\x00"), connection(501)),
    "a second word of property flags": (STAGE + PUBLISH + header(1, 1, b"\x00\x01\x00\x00"), connection(501)),
    # what only ends a channel, and what comes after that
    "an unknown exchange": (CLOSED, channel(404)),
    "more for a closed channel": (CLOSED + publish(1, "", "q", b"x") * 5 + method(1, "queue.purge"), channel(404)),
    "half a message for a closed channel": (CLOSED + body(1, b"x") + header(1, 5), channel(404)),
    "a closed channel opened again": (CLOSED + method(1, "channel.close-ok") + method(1, "channel.open"), channel(404)),
    "a close that crosses": (CLOSED + method(1, "channel.close") + method(1, "channel.close-ok"), channel(404)),
    "a closed channel opened too early": (CLOSED + method(1, "channel.open"), [*channel(404), *connection(504)]),
    "a tag nobody was given": (STAGE + method(1, "basic.ack", delivery_tag=1), channel(406)),
    "the largest tag": (
        STAGE
        + publish(1, "", "q", b"x")
        + method(1, "basic.get", queue="q")
        + method(1, "basic.ack", delivery_tag=2**64 - 1),
        channel(406),
    ),
    "the largest tag and all before": (
        STAGE
        + publish(1, "", "q", b"x")
        + method(1, "basic.get", queue="q")
        + method(1, "basic.nack", delivery_tag=2**63, multiple=True),
        channel(406),
    ),
    "a commit without a transaction": (STAGE + method(1, "tx.commit"), channel(406)),
    # after a close
    "garbage after the broker's close": (STAGE + header(1, 1) + b"\xff" * 100, connection(505)),
    "a login after the broker's close": (STAGE + header(1, 1) + start_ok(), connection(505)),
    "work after the broker's close": (STAGE + header(1, 1) + publish(1, "", "q", b"x") * 3, connection(505)),
    "work after the client's close": (STAGE + method(0, "connection.close") + publish(1, "", "q", b"x"), IGNORED),
}  # fmt: skip


@pytest.mark.parametrize("step", [1, 1_000_000], ids=["octets", "whole"])
@pytest.mark.parametrize("case", CASES)
def test_refusal(case: str, step: int) -> None:
    stream, expected = CASES[case]
    with Workbench() as bench:
        neighbour = Neighbour(bench)
        line = bench.connect()
        line.say(*(stream[at : at + step] for at in range(0, len(stream), step)))
        told = check_answers(bytes(line.heard))
        assert [(one.name, one["reply_code"]) for one in told if one.name.endswith(".close")] == expected
        if "after" in case and "close" in case:
            assert bench.bodies("q") == []
        # The client does not answer: it is not waited for for ever.
        bench.advance(30)
        if expected and expected[-1][0] == "connection.close":
            assert line.ended is not None
        line.hang_up()
        neighbour.check()
        neighbour.line.hang_up()
        check_nothing_left(bench, line, 0)


@pytest.mark.parametrize(
    "octets", [b"HTTP/1.1", b"AMQP\x00\x01\x00\x00", b"AMQP\x01\x01\x00\x0a", b"AMQPX", b"\x16\x03\x01"]
)
@pytest.mark.parametrize("step", [1, 100])
def test_another_protocol(octets: bytes, step: int) -> None:
    with Workbench() as bench:
        line = bench.connect()
        line.say(*(octets[at : at + step] for at in range(0, len(octets), step)))
        assert line.heard == PROTOCOL_HEADER
        assert line.ended == "closed"
        check_nothing_left(bench, line, 0)


@pytest.mark.parametrize("capable", [True, False])
def test_a_wrong_password(capable: bool) -> None:
    """Clients that can be told are told; others only see the connection end."""
    capabilities = {"authentication_failure_close": True} if capable else {}
    said = method(
        0,
        "connection.start-ok",
        client_properties={"capabilities": capabilities},
        mechanism="PLAIN",
        response=b"\0guest\0wrong",
        locale="en_US",
    )
    with Workbench() as bench:
        line = bench.connect()
        line.say(PROTOCOL_HEADER + said + method(0, "connection.open", virtual_host="/"))
        bench.advance(1)
        told = check_answers(bytes(line.heard))
        if capable:
            assert [one["reply_code"] for one in told if one.name == "connection.close"] == [403]
            bench.advance(10)
        else:
            assert [one.name for one in told] == ["connection.start"]
        assert line.ended is not None
        check_nothing_left(bench, line, 0)


def test_a_client_that_hangs_up_while_its_password_is_checked() -> None:
    with Workbench() as bench:
        line = bench.connect()
        line.say(PROTOCOL_HEADER + start_ok("slow", "right") + TUNE_OK)
        line.hang_up()
        bench.advance(5)
        check_nothing_left(bench, line, 0)


def test_a_handshake_has_a_deadline_however_busy_it_looks() -> None:
    with Workbench(handshake_deadline_s=10) as bench:
        line = bench.connect()
        stream = PROTOCOL_HEADER + start_ok()
        for at in range(len(stream)):
            line.say(stream[at : at + 1])
            bench.advance(9.9 / len(stream))
            assert line.ended is None
        bench.advance(0.2)
        assert line.ended == "handshake timeout"
        check_nothing_left(bench, line, 0)
