"""Message properties under hypothesis: octets survive, changed copies change nothing else, pika agrees."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.codec.properties import PROPERTY_BITS, encode_properties, parse_properties
from leveret.errors import HardError

short_text = st.text(max_size=60).filter(lambda text: len(text.encode()) <= 255)
header_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | short_text | st.none() | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short_text, inner, max_size=3),
    max_leaves=8,
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    name: {
        "headers": st.dictionaries(short_text | st.sampled_from(["CC", "BCC"]), header_values, max_size=5),
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, 2**64 - 1),
    }.get(name, short_text)
    for name in PROPERTY_BITS
}
property_sets = st.fixed_dictionaries({}, optional=KINDS)
changes = st.fixed_dictionaries({}, optional={name: st.none() | kind for name, kind in KINDS.items()})


@given(property_sets)
def test_what_is_written_is_read(fields: dict[str, Any]) -> None:
    raw = encode_properties(**fields)
    properties = parse_properties(raw)
    assert properties.raw == raw
    assert properties.fields() == fields
    assert properties.flags == sum(PROPERTY_BITS[name] for name in fields)
    assert properties.persistent == (fields.get("delivery_mode") == 2)
    assert properties.priority == fields.get("priority", 0)
    for name in ("expiration", "user_id", "reply_to"):
        assert getattr(properties, name) == (fields[name].encode() if name in fields else None)
    assert properties.has_cc == bool({"CC", "BCC"} & fields.get("headers", {}).keys())


@given(property_sets, changes)
def test_a_changed_copy_is_the_original_with_the_changes(fields: dict[str, Any], changed: dict[str, Any]) -> None:
    original = parse_properties(encode_properties(**fields))
    copy = original.replace(changed)
    wanted = {name: value for name, value in {**fields, **changed}.items() if value is not None}
    assert copy.fields() == wanted
    assert copy.raw == encode_properties(**wanted)
    assert original.fields() == fields


@st.composite
def damaged_headers(draw: st.DrawFn) -> bytes:
    raw = bytearray(encode_properties(**draw(property_sets)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(raw)


@given(st.binary(max_size=60) | damaged_headers())
def test_noise_is_refused_or_read_to_the_last_field(raw: bytes) -> None:
    try:
        properties = parse_properties(raw)
    except HardError as error:
        assert error.code in (501, 502)
        return
    assert properties.raw == raw
    fields = properties.fields()
    assert sum(PROPERTY_BITS[name] for name in fields) == properties.flags & 0xFFFC
    # Removing everything leaves nothing but the unused bit: all lengths have been found right.
    assert properties.replace(dict.fromkeys(PROPERTY_BITS)).raw == (properties.flags & 2).to_bytes(2, "big")
    assert properties.replace({}).raw == raw


# pika's integers are 32 or 64 bits as ours by default; it has no other types for them.
@given(property_sets)
def test_pika_writes_and_reads_the_same_octets(fields: dict[str, Any]) -> None:
    spec = pytest.importorskip("pika.spec")
    theirs = spec.BasicProperties(**fields)
    raw = encode_properties(**fields)
    assert b"".join(theirs.encode()) == raw
    back = spec.BasicProperties()
    back.decode(raw)
    assert {name: getattr(back, name) for name in fields} == fields
