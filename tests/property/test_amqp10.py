"""A message that goes from AMQP 0-9-1 to 1.0 and back is the same message, and no octets make the reader fail."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.codec.amqp10 import from_amqp10, to_amqp10
from leveret.core.codec.field_types import Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.core.codec.properties import encode_properties, parse_properties

short = st.text(max_size=60)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-128, 127).map(Int8),
    st.integers(0, 255).map(UInt8),
    st.integers(-(2**15), 2**15 - 1).map(Int16),
    st.integers(0, 2**16 - 1).map(UInt16),
    st.integers(0, 2**32 - 1).map(UInt32),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1).map(Int64),
    st.integers(2**31, 2**63 - 1),
    st.integers(0, 2**50).map(Timestamp),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
)
nested = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(short, inner, max_size=4), max_leaves=12
)
# Other headers must be simple values, and those with names of our own mean something.
headers = st.dictionaries(short.filter(lambda name: not name.startswith(("x-", "CC"))), scalars, max_size=5)
x_headers = st.dictionaries(short.map("x-h-".__add__), nested, max_size=4)
properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": short,
        "content_encoding": short,
        "delivery_mode": st.sampled_from((1, 2)),
        "priority": st.integers(0, 255),
        "correlation_id": short | st.uuids().map("urn:uuid:{}".format),
        "reply_to": short,
        "expiration": st.integers(0, 2**32 - 1).map(str),
        "message_id": short | st.uuids().map("urn:uuid:{}".format),
        "timestamp": st.integers(0, 2**50),
        "type": short.filter("amqp-1.0".__ne__),
        "user_id": short,
        "app_id": short,
    },
)


@given(properties, headers, x_headers, st.binary(max_size=400), st.binary(max_size=20), st.binary(max_size=20))
def test_a_message_comes_back_as_it_was(
    fields: dict[str, Any], plain: dict[str, Any], special: dict[str, Any], body: bytes, exchange: bytes, key: bytes
) -> None:
    if plain or special:
        fields = {**fields, "headers": {**special, **plain}}
    raw = encode_properties(**fields)
    back, octets = from_amqp10(to_amqp10(raw, body, exchange, key))
    assert octets == body
    assert parse_properties(back).fields() == parse_properties(raw).fields()


@given(
    st.binary(max_size=200), st.sampled_from((b"", b"\x00\x53", b"\x00\x53\x72", b"\x00\x53\x73\xc0", b"\x00\x53\x74"))
)
def test_no_octets_make_it_fail(data: bytes, start: bytes) -> None:
    raw, body = from_amqp10(start + data)
    parse_properties(raw)
    assert body in start + data


@given(properties, headers, st.binary(max_size=50), st.data())
def test_no_damage_makes_it_fail(
    fields: dict[str, Any], plain: dict[str, Any], body: bytes, data: st.DataObject
) -> None:
    octets = bytearray(to_amqp10(encode_properties(**fields, headers=plain), body, b"e", b"k"))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    raw, _ = from_amqp10(bytes(octets))
    parse_properties(raw)
