"""Octets that a client sends, and what a broker's octets say: frames and methods, built and cut without the broker's
own codec, so that a mistake there cannot hide here."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from tests.conformance.amqp_codec import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    Value,
    decode_method,
    encode_frame,
    encode_method,
    encode_properties,
)
from tests.conformance.raw_client import CAPABILITIES, PROTOCOL_HEADER, Frame, Method

HEARTBEAT: Final = encode_frame(FRAME_HEARTBEAT, 0, b"")
WITH_CONTENT: Final = ("basic.deliver", "basic.get-ok", "basic.return")
FRAME_MAX: Final = 131072


def method(channel: int, name: str, **fields: Value) -> bytes:
    return encode_frame(FRAME_METHOD, channel, encode_method(name, fields))


def header(channel: int, size: int, raw: bytes = b"\x00\x00", class_id: int = 60, weight: int = 0) -> bytes:
    return encode_frame(FRAME_HEADER, channel, struct.pack(">HHQ", class_id, weight, size) + raw)


def body(channel: int, octets: bytes, frame_max: int = FRAME_MAX) -> bytes:
    """Body frames that fit; none at all for an empty body."""
    step = frame_max - 8
    return b"".join(encode_frame(FRAME_BODY, channel, octets[at : at + step]) for at in range(0, len(octets), step))


def publish(
    channel: int,
    exchange: Value,
    routing_key: Value,
    octets: bytes = b"",
    properties: Mapping[str, Value] | None = None,
    frame_max: int = FRAME_MAX,
    **bits: Value,
) -> bytes:
    return (
        method(channel, "basic.publish", exchange=exchange, routing_key=routing_key, **bits)
        + header(channel, len(octets), encode_properties(properties or {}))
        + body(channel, octets, frame_max)
    )


def start_ok(user: str = "guest", password: str = "guest", mechanism: str = "PLAIN") -> bytes:
    return method(
        0,
        "connection.start-ok",
        client_properties={"capabilities": dict(CAPABILITIES)},
        mechanism=mechanism,
        response=f"\0{user}\0{password}",
        locale="en_US",
    )


def handshake(frame_max: int = FRAME_MAX, channel_max: int = 2047, heartbeat: int = 0) -> bytes:
    """Everything a client says up to connection.open. It need not wait for the answers to say it."""
    return (
        PROTOCOL_HEADER
        + start_ok()
        + method(0, "connection.tune-ok", frame_max=frame_max, channel_max=channel_max, heartbeat=heartbeat)
        + method(0, "connection.open", virtual_host="/")
    )


def cut_frames(octets: bytes) -> list[Frame]:
    """All frames in these octets, which must be whole."""
    frames, at = [], 0
    while at < len(octets):
        kind, channel, size = struct.unpack_from(">BHI", octets, at)
        end = at + 7 + size
        assert octets[end : end + 1] == FRAME_END, f"frame of type {kind} at {at} of {len(octets)} octets has no end"
        frames.append(Frame(kind, channel, octets[at + 7 : end]))
        at = end + 1
    return frames


def said(octets: bytes) -> list[Method]:
    """The methods in these octets, each with its content; heartbeats are passed over."""
    return assemble(cut_frames(octets))


def assemble(frames: list[Frame]) -> list[Method]:
    methods: list[Method] = []
    waiting = iter(frames)
    for frame in waiting:
        if frame.kind == FRAME_HEARTBEAT:
            assert (frame.channel, frame.payload) == (0, b"")
            continue
        assert frame.kind == FRAME_METHOD, f"expected a method, got {frame}"
        name, fields = decode_method(frame.payload)
        if name not in WITH_CONTENT:
            methods.append(Method(name, frame.channel, fields))
            continue
        head = next(waiting)
        assert (head.kind, head.channel) == (FRAME_HEADER, frame.channel), head
        class_id, weight, size = struct.unpack_from(">HHQ", head.payload)
        assert (class_id, weight) == (60, 0)
        parts: list[bytes] = []
        have = 0
        while have < size:
            piece = next(waiting)
            assert (piece.kind, piece.channel) == (FRAME_BODY, frame.channel), piece
            assert piece.payload, "an empty body frame"
            parts.append(piece.payload)
            have += len(piece.payload)
        assert have == size
        methods.append(Method(name, frame.channel, fields, head.payload[12:], b"".join(parts), tuple(map(len, parts))))
    return methods
