"""Messages between AMQP 0-9-1 and 1.0: where each property goes, and what is no AMQP 1.0 at all."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.amqp10 import from_amqp10, head_amqp10, to_amqp10
from leveret.core.codec.amqp10_values import Reader, Symbol, UInt64, encode_list, encode_map, encode_value
from leveret.core.codec.field_types import Int64, Timestamp, UInt8, UInt32
from leveret.core.codec.properties import encode_properties, parse_properties


def sections(data: bytes) -> dict[int, Any]:
    reader, found = Reader(data), {}
    while reader.at < reader.end:
        section = reader.value()
        found[int(section.descriptor)] = section.value
    return found


def section(number: int, octets: bytes) -> bytes:
    return bytes((0x00, 0x53, number)) + octets


def data_section(body: bytes) -> bytes:
    return section(0x75, encode_value(body))


def back(data: bytes) -> tuple[dict[str, Any], bytes]:
    raw, body = from_amqp10(data)
    return parse_properties(raw).fields(), body


def test_where_everything_of_a_0_9_1_message_goes() -> None:
    raw = encode_properties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"x-kept": 1, "plain": "yes", "CC": ["a"], "dropped": {"no": "maps"}},
        delivery_mode=2,
        priority=7,
        correlation_id="c-1",
        reply_to="answers",
        expiration="5000",
        message_id="urn:uuid:11111111-2222-3333-4444-555555555555",
        timestamp=1_700_000_000,
        type="order",
        user_id="guest",
        app_id="shop",
    )
    found = sections(to_amqp10(raw, b"body", b"orders", b"new.eu"))
    assert list(found) == [0x70, 0x72, 0x73, 0x74, 0x75]
    assert found[0x70] == [True, 7, 5000]
    assert found[0x72] == {
        "x-exchange": "orders",
        "x-routing-key": "new.eu",
        "x-kept": 1,
        "x-cc": ["a"],
        "x-basic-type": "order",
    }
    assert all(type(key) is Symbol for key in found[0x72])
    known = found[0x73]
    assert str(known[0]) == "11111111-2222-3333-4444-555555555555"
    assert known[1] == b"guest"
    assert known[2:4] == [None, None]
    assert known[4:8] == ["answers", "c-1", "text/plain", "gzip"]
    assert type(known[6]) is Symbol
    assert known[8:] == [None, 1_700_000_000, "shop"]
    assert found[0x74] == {"plain": "yes"}
    assert found[0x75] == b"body"


def test_a_message_without_properties_has_only_its_address_and_its_body() -> None:
    found = sections(to_amqp10(b"\x00\x00", b"x" * 1000, b"", b"q"))
    assert found == {0x72: {"x-exchange": "", "x-routing-key": "q"}, 0x75: b"x" * 1000}


def test_the_head_is_the_same_for_all_bodies() -> None:
    raw = encode_properties(content_type="a/b")
    head, encoded = head_amqp10(raw, b"e", b"k")
    assert not encoded
    for size in (0, 1, 255, 256, 70000):
        assert to_amqp10(raw, bytes(size), b"e", b"k").startswith(head)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70000])
def test_a_lone_data_section_is_the_body(size: int) -> None:
    assert from_amqp10(data_section(bytes(size))) == (b"\x00\x00", bytes(size))


def test_data_sections_are_joined() -> None:
    assert back(data_section(b"one ") + data_section(b"two")) == ({}, b"one two")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain text",
        b"\x00",
        b"\x00\x53",
        b"\x00\x53\x75\xa0\x05abc",
        b"\x00\x53\x75\xb0\xff\xff\xff\xffabc",
        b"\x00\x53\x75\xb0\x00\x00",
        b"\x00\x53\x75\x41",
        b"\x00\x53\x10\xa0\x01a",
        b"\x00\xa3\x01zA",
        b"\x00\x53\x73\x41" + data_section(b"x"),
        b"\x00\x53\x72\x45" + data_section(b"x"),
        data_section(b"x") + section(0x72, encode_map([])),
        data_section(b"x") + b"\x41",
    ],
)
def test_what_is_no_amqp_1_0_is_a_body(data: bytes) -> None:
    assert from_amqp10(data) == (b"\x00\x00", data)


def test_what_a_stream_client_sends_becomes_properties() -> None:
    data = b"".join(
        (
            section(0x70, encode_list([encode_value(v) for v in (False, UInt8(3), UInt32(99))])),
            section(0x71, encode_map([(Symbol("unseen"), 1)])),
            section(0x72, encode_map([(Symbol("x-trace"), "t"), (Symbol("other"), 1), (Symbol("x-exchange"), "lie")])),
            section(
                0x73,
                encode_list(
                    [encode_value(v) for v in (UInt64(5), b"me", "to", "subject", "reply", "corr")]
                    + [encode_value(Symbol("a/b")), encode_value(Symbol("gzip")), b"\x40", encode_value(Timestamp(9))]
                    + [encode_value("group"), b"\x40", b"\x40"]
                ),
            ),
            section(0x74, encode_map([("n", Int64(5)), ("u", UInt64(2**64 - 1)), ("t", Timestamp(3)), ("v", None)])),
            data_section(b"body"),
            section(0x78, encode_map([(Symbol("foot"), 1)])),
        )
    )
    fields, body = back(data)
    assert body == b"body"
    assert fields == {
        "delivery_mode": 1,
        "priority": 3,
        "expiration": "99",
        "message_id": "5",
        "user_id": "me",
        "reply_to": "reply",
        "correlation_id": "corr",
        "content_type": "a/b",
        "content_encoding": "gzip",
        "timestamp": 9,
        "app_id": "group",
        "headers": {"x-trace": "t", "n": 5, "u": str(2**64 - 1), "t": 3, "v": None},
    }


def test_ids_that_are_no_short_strings_become_headers() -> None:
    data = section(0x73, encode_list([encode_value("i" * 300), *[b"\x40"] * 4, encode_value(b"\xff")]))
    fields, body = back(data + data_section(b""))
    assert fields == {"headers": {"x-message-id": "i" * 300, "x-correlation-id": b"\xff"}}
    assert body == b""


@pytest.mark.parametrize("body", [section(0x77, encode_value("text")), section(0x76, encode_list([b"\x41"])) * 2])
def test_a_body_of_values_stays_encoded_and_says_so(body: bytes) -> None:
    fields, octets = back(section(0x72, encode_map([])) + body + section(0x78, encode_map([])))
    assert fields == {"type": "amqp-1.0"}
    assert octets == body
    # And on the way back it is what it was.
    raw = encode_properties(type="amqp-1.0")
    assert to_amqp10(raw, body, b"", b"").endswith(body)
    # But nobody's claim is believed unseen.
    assert sections(to_amqp10(raw, b"garbage", b"", b""))[0x75] == b"garbage"


def test_sections_named_by_symbols_are_known() -> None:
    data = b"\x00" + encode_value(Symbol("amqp:data:binary")) + encode_value(b"b")
    assert from_amqp10(data) == (b"\x00\x00", b"b")


def test_names_that_are_no_text_are_octets() -> None:
    found = sections(to_amqp10(encode_properties(reply_to=b"\xff", message_id=b"\xfe"), b"", b"\xff", b"k"))
    assert found[0x72]["x-exchange"] == b"\xff"
    assert found[0x73] == [b"\xfe"]
