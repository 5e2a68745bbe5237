"""Field tables under hypothesis: octets survive, values agree with another implementation, noise is refused."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.codec.properties import parse_properties
from leveret.core.codec.tables import decode_table, encode_table
from leveret.errors import HardError

# Pairs of a value and its octets with the type letter, written here by struct and not by the code under test.
Pair = tuple[Any, bytes]


def number(letter: str, layout: str, low: int, high: int) -> st.SearchStrategy[Pair]:
    return st.integers(low, high).map(lambda value: (value, letter.encode() + struct.pack(layout, value)))


def with_length(letter: bytes, octets: bytes) -> bytes:
    return letter + struct.pack(">I", len(octets)) + octets


def as_float32(octets: bytes) -> Pair:
    return struct.unpack(">f", octets)[0], b"f" + octets


finite_float32 = st.floats(width=32, allow_nan=False).map(lambda value: struct.pack(">f", value))
scalars: st.SearchStrategy[Pair] = st.one_of(
    st.booleans().map(lambda value: (value, b"t\x01" if value else b"t\x00")),
    number("b", ">b", -(2**7), 2**7 - 1),
    number("B", ">B", 0, 2**8 - 1),
    number("s", ">h", -(2**15), 2**15 - 1),
    number("u", ">H", 0, 2**16 - 1),
    number("I", ">i", -(2**31), 2**31 - 1),
    number("i", ">I", 0, 2**32 - 1),
    number("l", ">q", -(2**63), 2**63 - 1),
    number("T", ">Q", 0, 2**64 - 1),
    finite_float32.map(as_float32),
    st.floats(allow_nan=False).map(lambda value: (value, b"d" + struct.pack(">d", value))),
    st.tuples(st.integers(0, 255), st.integers(-(2**31), 2**31 - 1)).map(
        lambda pair: (Decimal(pair[1]).scaleb(-pair[0]), b"D" + struct.pack(">Bi", *pair))
    ),
    st.binary(max_size=40).map(lambda octets: (octets.decode("utf-8", "surrogateescape"), with_length(b"S", octets))),
    st.binary(max_size=40).map(lambda octets: (octets, with_length(b"x", octets))),
    st.just((None, b"V")),
)


def as_array(pairs: list[Pair]) -> Pair:
    return [value for value, _ in pairs], with_length(b"A", b"".join(octets for _, octets in pairs))


def as_table(fields: dict[str, Pair]) -> Pair:
    body = b"".join(struct.pack(">B", len(key.encode())) + key.encode() + octets for key, (_, octets) in fields.items())
    return {key: value for key, (value, _) in fields.items()}, with_length(b"F", body)


keys = st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(as_array), st.dictionaries(keys, inner, max_size=5).map(as_table)
    ),
    max_leaves=25,
)
tables = st.dictionaries(keys, values, max_size=8).map(as_table)


def decimals(value: Any) -> Any:
    """Decimals in their exact form: Decimal('1.0') and Decimal('1') are equal but not the same octets."""
    match value:
        case Decimal():
            return value.as_tuple()
        case list():
            return [decimals(item) for item in value]
        case dict():
            return {key: decimals(item) for key, item in value.items()}
    return value


@given(tables)
def test_what_comes_in_goes_out(pair: Pair) -> None:
    expected, octets = pair
    data = octets[1:]
    table, end = decode_table(data)
    assert end == len(data)
    assert decimals(table) == decimals(expected)
    assert encode_table(table) == data


@given(tables, st.binary(max_size=10), st.binary(max_size=10))
def test_a_table_is_read_where_it_stands(pair: Pair, before: bytes, after: bytes) -> None:
    data = before + pair[1][1:] + after
    assert decode_table(data, len(before)) == (decode_table(pair[1][1:])[0], len(data) - len(after))


def refusal(data: bytes) -> HardError | None:
    try:
        table, _ = decode_table(data)
    except HardError as error:
        return error
    # What is accepted can be written, and once written is stable.
    again = encode_table(table)
    assert encode_table(decode_table(again)[0]) == again
    return None


@st.composite
def damaged_tables(draw: st.DrawFn) -> bytes:
    """A table with some octets changed, inserted or removed, and its length made to fit again half of the time."""
    data = bytearray(draw(tables)[1][1:])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    if draw(st.booleans()) and len(data) >= 4:
        data[:4] = struct.pack(">I", len(data) - 4)
    return bytes(data)


@given(st.one_of(st.binary(max_size=60), damaged_tables()))
def test_noise_is_read_or_refused_and_nothing_else(data: bytes) -> None:
    error = refusal(data)
    assert error is None or error.code in (501, 502)


@given(st.one_of(tables.map(lambda pair: pair[1][1:]), damaged_tables()))
def test_the_scan_of_a_content_header_judges_headers_as_the_reader_does(data: bytes) -> None:
    """The scan checks without building; if it is content, decoding later must not fail."""
    size = int.from_bytes(data[:4], "big")
    data = data[:4].ljust(4, b"\x00") + data[4 : 4 + size]
    error = refusal(data)
    if error is not None:
        with pytest.raises(HardError):
            parse_properties(b"\x20\x00" + data)
        return
    properties = parse_properties(b"\x20\x00" + data)
    assert encode_table(properties.headers()) == encode_table(decode_table(data)[0])
    assert properties.has_cc == bool({"CC", "BCC"} & properties.headers().keys())


# What other clients can hold too. pamqp writes each whole number in its smallest type, and all others in 32 bits.
plain_values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.text(max_size=20),
        st.none(),
        st.floats(width=32, allow_nan=False),
        st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2100, 1, 1)).map(
            lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
        ),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=15,
)
plain_tables = st.dictionaries(st.text(max_size=10), plain_values, max_size=6)


def seconds(value: Any) -> Any:
    match value:
        case datetime():
            return int(value.timestamp())
        case list():
            return [seconds(item) for item in value]
        case dict():
            return {key: seconds(item) for key, item in value.items()}
    return value


@given(plain_tables)
def test_pamqp_reads_what_we_write(table: dict[str, Any]) -> None:
    decode = pytest.importorskip("pamqp.decode")
    data = encode_table(table)
    consumed, theirs = decode.field_table(data)
    assert consumed == len(data)
    assert theirs == table


@given(plain_tables)
def test_we_read_what_pamqp_writes(table: dict[str, Any]) -> None:
    encode = pytest.importorskip("pamqp.encode")
    data = encode.field_table(table)
    ours, _ = decode_table(data)
    assert ours == seconds(table)
    # In RabbitMQ a number keeps the type its sender chose.
    assert encode_table(ours) == data
