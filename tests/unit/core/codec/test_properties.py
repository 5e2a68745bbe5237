"""Message properties: the flag bits, what the scan finds and refuses, and changed copies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from leveret.core.codec.field_types import Int64, Timestamp
from leveret.core.codec.properties import PROPERTY_BITS, encode_properties, parse_properties
from leveret.core.codec.tables import encode_table
from leveret.errors import HardError

EVERYTHING: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 200,
    "correlation_id": "c-1",
    "reply_to": "replies",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1577836800,
    "type": "order",
    "user_id": "guest",
    "app_id": "shop",
    "cluster_id": "x",
}


def test_the_octets_of_every_property() -> None:
    assert encode_properties(**EVERYTHING) == (
        b"\xff\xfc\x0atext/plain\x04gzip\x00\x00\x00\x07\x01aI\x00\x00\x00\x01\x02\xc8\x03c-1\x07replies\x0560000"
        b"\x03m-1\x00\x00\x00\x00\x5e\x0b\xe1\x00\x05order\x05guest\x04shop\x01x"
    )


@pytest.mark.parametrize("name", EVERYTHING)
def test_each_property_has_its_bit(name: str) -> None:
    raw = encode_properties(**{name: EVERYTHING[name]})
    assert int.from_bytes(raw[:2], "big") == PROPERTY_BITS[name]
    assert parse_properties(raw).fields() == {name: EVERYTHING[name]}


def test_what_the_data_plane_needs_stands_ready() -> None:
    properties = parse_properties(encode_properties(**EVERYTHING))
    assert properties.flags == 0xFFFC
    assert properties.persistent is True
    assert properties.priority == 200
    assert properties.expiration == b"60000"
    assert properties.user_id == b"guest"
    assert properties.reply_to == b"replies"
    assert properties.has_cc is False


def test_the_rest_is_decoded_when_asked_for() -> None:
    properties = parse_properties(encode_properties(**EVERYTHING))
    for name in EVERYTHING.keys() - {"headers", "expiration", "user_id", "reply_to"}:
        assert getattr(properties, name) == EVERYTHING[name], name
    assert properties.fields() == EVERYTHING
    assert list(properties.fields()) == list(EVERYTHING)
    assert type(properties.timestamp) is Timestamp
    assert properties.headers() == {"a": 1}
    assert properties.headers() is properties.headers()
    assert repr(properties) == f"Properties({EVERYTHING})"


def test_nothing_is_there_when_nothing_came() -> None:
    properties = parse_properties(b"\x00\x00")
    assert properties.raw == b"\x00\x00" and properties.flags == 0 and properties.fields() == {}
    assert (properties.persistent, properties.priority, properties.has_cc) == (False, 0, False)
    assert properties.expiration is properties.user_id is properties.reply_to is None
    assert properties.headers() == {}
    for name in EVERYTHING.keys() - {"headers", "priority", "expiration", "user_id", "reply_to"}:
        assert getattr(properties, name) is None, name


@pytest.mark.parametrize(("mode", "persistent"), [(0, False), (1, False), (2, True), (3, False), (255, False)])
def test_only_delivery_mode_2_is_persistent(mode: int, persistent: bool) -> None:
    assert parse_properties(encode_properties(delivery_mode=mode)).persistent is persistent


@pytest.mark.parametrize(
    ("headers", "has_cc"),
    [
        ({"CC": ["a"]}, True),
        ({"BCC": []}, True),
        ({"x": 1, "y": {"z": 2}, "BCC": "even a wrong type"}, True),
        ({"CC": None, "x": 1}, True),
        ({"cc": ["a"], "XCC": 1, "BCCC": 1, "C": 1, "BC": 1, "BBC": 1, "": 1}, False),
        ({"deep": {"CC": ["a"]}, "list": [{"BCC": 1}]}, False),
        ({}, False),
    ],
)
def test_copies_are_noticed(headers: dict[str, Any], has_cc: bool) -> None:
    assert parse_properties(encode_properties(headers=headers)).has_cc is has_cc


def test_text_that_is_not_utf8_goes_out_as_it_came() -> None:
    raw = b"\x84\x20\x02\xff\xfe\x01\x80\x01\xc3"
    properties = parse_properties(raw)
    assert properties.content_type == "\udcff\udcfe"
    assert encode_properties(**properties.fields()) == raw


def test_bytes_and_moments_may_be_given() -> None:
    raw = encode_properties(reply_to=b"\xffx", timestamp=datetime(2020, 1, 1, tzinfo=UTC))
    assert parse_properties(raw).reply_to == b"\xffx"
    assert parse_properties(raw).timestamp == 1577836800


# What follows the flags, and the words of the refusal.
MALFORMED = [
    (b"", 501, "0 of 2 bytes"),
    (b"\x80", 501, "1 of 2 bytes"),
    (b"\x00\x01", 501, "second word of property flags"),
    (b"\x80\x01\x00\x00\x01a", 501, "second word of property flags"),
    (b"\x00\x00x", 501, "1 bytes after its last property"),
    (b"\x80\x00", 501, "short string at byte 2"),
    (b"\x80\x00\x02a", 501, "short string at byte 2"),
    (b"\x80\x00\x01ab", 501, "1 bytes after"),
    (b"\x20\x00", 501, "length of its headers"),
    (b"\x20\x00\x00\x00\x00", 501, "length of its headers"),
    (b"\x20\x00\x00\x00\x00\x01", 501, "headers of 1 bytes reach past its end by 1"),
    (b"\x20\x00\xff\xff\xff\xff\x00", 501, "headers of 4294967295 bytes"),
    (b"\x20\x00\x00\x00\x00\x02\x01a", 502, "name of 1 bytes"),
    (b"\x20\x00\x00\x00\x00\x03\x01\xffV", 501, "Malformed UTF-8"),
    (b"\x20\x00\x00\x00\x00\x08\x01aF\x00\x00\x00\x01\x05", 502, "name of 5 bytes"),
    (b"\x20\x00\x00\x00\x00\x08\x01aA\x00\x00\x00\x01Q", 502, "unknown type 'Q'"),
    (b"\x10\x00", 501, "before its delivery mode"),
    (b"\x08\x00", 501, "before its priority"),
    (b"\x18\x00\x02", 501, "before its priority"),
    (b"\x00\x40" + bytes(7), 501, "within its timestamp"),
    *[(bit.to_bytes(2, "big") + b"\x05abcd", 501, "short string") for bit in (0x4000, 0x0400, 0x0200, 0x0100, 0x0080)],
    *[(bit.to_bytes(2, "big") + b"\x05abcd", 501, "short string") for bit in (0x0020, 0x0010, 0x0008, 0x0004)],
]


@pytest.mark.parametrize(("raw", "code", "words"), MALFORMED)
def test_malformed_properties_end_the_connection(raw: bytes, code: int, words: str) -> None:
    with pytest.raises(HardError, match=words) as caught:
        parse_properties(raw)
    assert caught.value.code == code


def test_every_cut_of_a_header_is_refused() -> None:
    raw = encode_properties(**EVERYTHING)
    for end in range(len(raw)):
        with pytest.raises(HardError):
            parse_properties(raw[:end])


def test_the_unused_bit_is_ignored_and_kept_as_rabbitmq_does() -> None:
    properties = parse_properties(b"\x10\x02\x02")
    assert properties.raw == b"\x10\x02\x02" and properties.persistent
    assert properties.replace({"priority": 1}).raw == b"\x18\x02\x02\x01"


def test_a_changed_copy_leaves_the_rest_bit_for_bit() -> None:
    # A table with a second `a` and a sloppy boolean: no encoder of ours would write it.
    table = b"\x00\x00\x00\x08\x01at\x07\x01at\x01"
    original = parse_properties(b"\xa1\x00\x01t" + table + b"\x0510000")
    changed = original.replace({"expiration": None, "priority": 5, "content_type": "xy"})
    assert changed.raw == b"\xa8\x00\x02xy" + table + b"\x05"
    assert changed.expiration is None and changed.priority == 5
    assert original.raw == b"\xa1\x00\x01t" + table + b"\x0510000" and original.expiration == b"10000"


def test_headers_can_be_replaced_and_removed() -> None:
    original = parse_properties(encode_properties(headers={"CC": ["a"], "n": Int64(1)}, message_id="m"))
    kept = {key: value for key, value in original.headers().items() if key != "CC"}
    changed = original.replace({"headers": kept})
    assert changed.raw == b"\x20\x80" + encode_table({"n": Int64(1)}) + b"\x01m"
    assert original.has_cc and not changed.has_cc and changed.headers() == {"n": 1}
    assert original.replace({"headers": None}).raw == b"\x00\x80\x01m"
    assert original.replace({}).raw == original.raw


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"colour": 1}, ValueError, "unknown message property: colour"),
        ({"message_id": "x" * 256}, ValueError, "message_id"),
        ({"message_id": 5}, TypeError, "message_id"),
        ({"priority": 256}, ValueError, "priority"),
        ({"priority": -1}, ValueError, "priority"),
        ({"priority": "5"}, TypeError, "priority"),
        ({"delivery_mode": 1.5}, TypeError, "delivery_mode"),
        ({"timestamp": -1}, ValueError, "timestamp"),
        ({"timestamp": 2**64}, ValueError, "timestamp"),
        ({"headers": [1]}, TypeError, "headers"),
        ({"headers": {"deep": {"bad": 2**70}}}, ValueError, "headers.*'deep'.*'bad'"),
    ],
)
def test_what_cannot_be_written_is_named(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        encode_properties(**fields)


@pytest.mark.compiled
def test_properties_do_not_change() -> None:
    with pytest.raises(AttributeError):
        parse_properties(b"\x00\x00").priority = 5


# ---- what makes a queue look


@pytest.mark.parametrize(
    ("expiration", "ttl_ms"),
    [
        ("0", 0),
        ("60000", 60_000),
        ("007", 7),
        ("+5", 5),
        ("-5", 5),
        ("9" * 18, 10**18 - 1),
        ("0" * 30 + "7", 7),
        ("0" * 30, 0),
        ("", -1),
        ("-", -1),
        ("soon", -1),
        ("5s", -1),
        (" 5", -1),
        ("1" * 19, -1),
    ],
)
def test_an_expiration_is_a_number_of_milliseconds_or_none(expiration: str, ttl_ms: int) -> None:
    """A sign is for the gate to judge; what passes it is read as it stands."""
    properties = parse_properties(encode_properties(expiration=expiration))
    assert (properties.ttl_ms, properties.special) == (ttl_ms, ttl_ms >= 0)


def test_without_an_expiration_a_message_does_not_expire() -> None:
    properties = parse_properties(encode_properties(message_id="5", priority=3))
    assert (properties.ttl_ms, properties.special, properties.has_delay) == (-1, False, False)


@pytest.mark.parametrize("value", [5, -5, "5", None])
def test_a_delay_header_of_any_value_is_noticed(value: Any) -> None:
    properties = parse_properties(encode_properties(headers={"a": 1, "x-delay": value}))
    assert (properties.has_delay, properties.special, properties.has_cc) == (True, True, False)


@pytest.mark.parametrize("name", ["x-delays", "X-Delay", "x-dela", "delay"])
def test_other_headers_are_no_delay(name: str) -> None:
    properties = parse_properties(encode_properties(headers={name: 5, "nested": {"x-delay": 5}}))
    assert not properties.has_delay and not properties.special


def test_delay_expiration_and_copies_are_noticed_together() -> None:
    properties = parse_properties(encode_properties(headers={"CC": ["a"], "x-delay": 5}, expiration="9"))
    assert (properties.has_cc, properties.has_delay, properties.special, properties.ttl_ms) == (True, True, True, 9)
