"""Properties that many messages share: filled with an id they are what the codec writes for all of them together."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.template import Template
from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.core.codec.properties import PROPERTY_BITS, encode_properties, parse_properties

ALL: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1, "b": [True, None, "x"]},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "1000",
    "timestamp": Timestamp(1700000000),
    "type": "t",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "k",
}


def test_all_properties_but_the_id_are_kept() -> None:
    assert ALL.keys() | {"message_id"} == PROPERTY_BITS.keys()
    template = Template(encode_properties(**ALL))
    assert template.fill(b"id-1") == encode_properties(message_id="id-1", **ALL)
    assert template.fill(b"another") == encode_properties(message_id="another", **ALL)
    assert template.fill(b"") == encode_properties(**ALL)


def test_an_id_among_the_properties_is_left_out() -> None:
    template = Template(encode_properties(message_id="of the template", type="t"))
    assert template.fill(b"") == encode_properties(type="t")
    assert template.fill(b"new") == encode_properties(message_id="new", type="t")


def test_nothing_at_all() -> None:
    assert Template(b"\x00\x00").fill(b"") == b"\x00\x00"
    assert Template(b"\x00\x00").fill(b"x") == encode_properties(message_id="x")


@pytest.mark.parametrize("size", [1, 254, 255])
def test_an_id_may_be_as_long_as_a_short_string(size: int) -> None:
    message_id = b"i" * size
    filled = parse_properties(Template(encode_properties(app_id="a")).fill(message_id))
    assert filled.message_id == message_id.decode()
    assert filled.app_id == "a"


def test_a_longer_id_is_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        Template(b"\x00\x00").fill(b"i" * 256)


def test_octets_that_are_no_text_stay_as_they_are() -> None:
    assert Template(b"\x00\x00").fill(b"\xff\x00\xfe")[2:] == b"\x03\xff\x00\xfe"


def test_header_values_keep_their_types() -> None:
    headers = {
        "b": Int8(-1),
        "B": UInt8(1),
        "s": Int16(-2),
        "u": UInt16(2),
        "i": UInt32(3),
        "l": Int64(5),
        "f": Float32(0.5),
        "d": 0.25,
        "D": Decimal("1.5"),
        "T": Timestamp(7),
        "x": b"\x00\xff",
        "F": {"deep": [{"deeper": 1}]},
    }
    raw = encode_properties(headers=headers)
    assert Template(raw).fill(b"") == raw


@given(
    st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in ALL.items()}),
    st.binary(max_size=255),
)
def test_any_choice_of_properties_is_what_the_codec_writes(fields: dict[str, Any], message_id: bytes) -> None:
    expected = encode_properties(**fields, **({"message_id": message_id} if message_id else {}))
    assert Template(encode_properties(**fields)).fill(message_id) == expected
