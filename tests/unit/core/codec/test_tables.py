"""Field tables: each type's octets, what is refused and how it is worded, and the limits."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.core.codec.tables import TABLE_NESTING_MAX, decode_table, encode_table
from leveret.errors import HardError


def table_of(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return len(body).to_bytes(4, "big") + body


def long(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


# The field's octets after the key, the value read, and its Python type.
FIELDS: list[tuple[bytes, Any, type]] = [
    (b"t\x00", False, bool),
    (b"t\x01", True, bool),
    (b"b\x80", -128, Int8),
    (b"b\x7f", 127, Int8),
    (b"B\xff", 255, UInt8),
    (b"s\x80\x00", -32768, Int16),
    (b"s\x7f\xff", 32767, Int16),
    (b"u\xff\xff", 65535, UInt16),
    (b"I\x80\x00\x00\x00", -(2**31), int),
    (b"I\x7f\xff\xff\xff", 2**31 - 1, int),
    (b"i\xff\xff\xff\xff", 2**32 - 1, UInt32),
    (b"i\x00\x00\x00\x01", 1, UInt32),
    (b"l\x80\x00\x00\x00\x00\x00\x00\x00", -(2**63), int),
    (b"l\x7f\xff\xff\xff\xff\xff\xff\xff", 2**63 - 1, int),
    (b"l\x00\x00\x00\x00\x80\x00\x00\x00", 2**31, int),
    (b"l\x00\x00\x00\x00\x7f\xff\xff\xff", 2**31 - 1, Int64),
    (b"l\xff\xff\xff\xff\x80\x00\x00\x00", -(2**31), Int64),
    (b"l\xff\xff\xff\xff\x7f\xff\xff\xff", -(2**31) - 1, int),
    (b"f\x3f\x00\x00\x00", 0.5, Float32),
    (b"d\x3f\xb9\x99\x99\x99\x99\x99\x9a", 0.1, float),
    (b"D\x02\x00\x00\x04\xd2", Decimal("12.34"), Decimal),
    (b"D\xff\xff\xff\xff\xff", Decimal("-1E-255"), Decimal),
    (b"D\x00\x7f\xff\xff\xff", Decimal(2**31 - 1), Decimal),
    (b"S" + long("grüße".encode()), "grüße", str),
    (b"S" + long(b"\xff\x00\xfe"), "\udcff\x00\udcfe", str),
    (b"S" + long(b""), "", str),
    (b"x" + long(b"\x00\xff"), b"\x00\xff", bytes),
    (b"T\xff\xff\xff\xff\xff\xff\xff\xff", 2**64 - 1, Timestamp),
    (b"V", None, type(None)),
    (b"A" + long(b"VI\x00\x00\x00\x07S" + long(b"x")), [None, 7, "x"], list),
    (b"A" + long(b""), [], list),
    (b"F" + long(b"\x01ab\x05"), {"a": 5}, dict),
    (b"F" + long(b""), {}, dict),
]


@pytest.mark.parametrize(("octets", "value", "kind"), FIELDS, ids=[repr(octets[:12]) for octets, _, _ in FIELDS])
def test_a_field_is_read_and_written_back(octets: bytes, value: Any, kind: type) -> None:
    data = table_of(b"\x03key", octets)
    table, end = decode_table(data)
    assert table == {"key": value}
    assert type(table["key"]) is kind
    assert end == len(data)
    assert encode_table(table) == data


def test_the_alias_of_the_long_and_a_sloppy_boolean_are_written_as_rabbitmq_does() -> None:
    data = table_of(b"\x01aL\x00\x00\x00\x00\x00\x00\x00\x05", b"\x01bt\x07")
    table, _ = decode_table(data)
    assert table == {"a": 5, "b": True}
    assert encode_table(table) == table_of(b"\x01al\x00\x00\x00\x00\x00\x00\x00\x05", b"\x01bt\x01")


def test_the_first_of_two_fields_with_one_name_counts() -> None:
    assert decode_table(table_of(b"\x01at\x01", b"\x01bV", b"\x01at\x00"))[0] == {"a": True, "b": None}


def test_a_table_is_read_where_it_stands() -> None:
    data = b"before" + table_of(b"\x01at\x01") + b"after"
    assert decode_table(data, 6) == ({"a": True}, len(data) - 5)


def test_typed_numbers_are_plain_numbers_to_everybody_else() -> None:
    assert Int8(5) == 5 == UInt16(5) and hash(Int64(5)) == hash(5) and {5: "x"}[UInt32(5)] == "x"
    assert Float32(0.5) == 0.5 and hash(Float32(0.5)) == hash(0.5)
    assert isinstance(Timestamp(5), int) and Timestamp(5) + 1 == 6


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (datetime(2020, 1, 1, tzinfo=UTC), b"T\x00\x00\x00\x00\x5e\x0b\xe1\x00"),
        (datetime(2020, 1, 1), b"T\x00\x00\x00\x00\x5e\x0b\xe1\x00"),
        (datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), b"T\x00\x00\x00\x00\x5e\x0b\xe1\x00"),
        ((1, "x"), b"A" + long(b"I\x00\x00\x00\x01S" + long(b"x"))),
        (bytearray(b"ab"), b"x" + long(b"ab")),
        (IntEnum("Level", ["LOW"]).LOW, b"I\x00\x00\x00\x01"),  # type: ignore[attr-defined]
        (Decimal("1E+3"), b"D\x00\x00\x00\x03\xe8"),
    ],
)
def test_what_else_may_be_written(value: Any, octets: bytes) -> None:
    assert encode_table({"k": value}) == table_of(b"\x01k", octets)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        ({"big": 2**63}, ValueError, "'big'.*9223372036854775808 does not fit in 64 bits"),
        ({"low": -(2**63) - 1}, ValueError, "'low'.*does not fit in 64 bits"),
        ({"k" * 256: 1}, ValueError, "256 bytes of at most 255"),
        ({"ü" * 128: 1}, ValueError, "256 bytes of at most 255"),
        ({5: 1}, TypeError, "field 5: a name must be a str, not int"),
        ({"a": {"b": [object()]}}, TypeError, "'a'.*'b'.*type object"),
        ({"d": Decimal("1E+500000")}, ValueError, "'d'.*exponent"),
        ({"d": Decimal("1E-256")}, ValueError, "'d'.*exponent"),
        ({"d": Decimal(2**31)}, ValueError, "'d'.*32 bits"),
        ({"d": Decimal("NaN")}, ValueError, "'d'.*finite"),
        ({"b": Int8(128)}, ValueError, "'b'"),
        ({"t": Timestamp(-1)}, ValueError, "'t'"),
        ({"t": datetime(1969, 1, 1, tzinfo=UTC)}, ValueError, "'t'"),
        ({"f": Float32(1e300)}, ValueError, "'f'"),
        ({"s": "\ud800"}, ValueError, "'s'"),
        ({"\udcff": 1}, ValueError, "surrogates"),
    ],
)
def test_what_cannot_be_written_is_named(table: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        encode_table(table)


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", 502, "length is cut off at byte 0"),
        (b"\x00\x00\x00", 502, "length is cut off"),
        (b"\x00\x00\x00\x01", 502, "table of 1 bytes at byte 0 reaches past the end at 4"),
        (b"\xff\xff\xff\xff\x01a", 502, "table of 4294967295 bytes"),
        (table_of(b"\x00"), 502, "name of 0 bytes at byte 4"),
        (table_of(b"\x01a"), 502, "name of 1 bytes at byte 4"),
        (table_of(b"\xffaV"), 502, "name of 255 bytes at byte 4"),
        (table_of(b"\x01aZ"), 502, "unknown type 'Z' of a table's value at byte 6"),
        (table_of(b"\x01a\x00"), 502, "unknown type"),
        (table_of(b"\x01\xffV"), 501, "Malformed UTF-8 in a table field's name at byte 5"),
        (table_of(b"\x02\xc3(V"), 501, "Malformed UTF-8"),
        (table_of(b"\x01aS\x00\x00\x00"), 502, "length of a table's value at byte 6 is cut off"),
        (table_of(b"\x01aS\xff\xff\xff\xffx"), 502, "type 'S' at byte 6"),
        (table_of(b"\x01aF\x00\x00\x00\x02\x01b"), 502, "name of 1 bytes at byte 11"),
        (table_of(b"\x01aA\x00\x00\x00\x02I\x01"), 502, "type 'I' at byte 11"),
        # The inner table's value would fit in the outer one, but not in its own table.
        (table_of(b"\x01aF\x00\x00\x00\x03\x01bI", b"\x04wxyzV"), 502, "type 'I' at byte 13"),
        *[
            (table_of(b"\x01a" + letter + bytes(size - 1)), 502, "reaches past its end")
            for letter, size in ((b"t", 1), (b"b", 1), (b"B", 1), (b"s", 2), (b"u", 2), (b"I", 4), (b"i", 4), (b"f", 4))
        ],
        *[
            (table_of(b"\x01a" + letter + bytes(size - 1)), 502, "reaches past its end")
            for letter, size in ((b"l", 8), (b"L", 8), (b"d", 8), (b"T", 8), (b"D", 5))
        ],
    ],
)
def test_a_malformed_table_ends_the_connection(data: bytes, code: int, words: str) -> None:
    with pytest.raises(HardError, match=words) as caught:
        decode_table(data)
    assert caught.value.code == code


@pytest.mark.parametrize("at", [-1, 5, 100])
def test_a_position_outside_is_refused(at: int) -> None:
    with pytest.raises(HardError, match="cut off"):
        decode_table(table_of(), at)


def nested(levels: int, kind: str) -> Any:
    """A table that holds levels - 1 containers, one in another."""
    value: Any = None
    for _ in range(levels - 1):
        value = {"k": value} if kind == "tables" else [value]
    return {"k": value}


@pytest.mark.parametrize("kind", ["tables", "arrays"])
def test_nesting_has_a_limit(kind: str) -> None:
    deepest = nested(TABLE_NESTING_MAX, kind)
    data = encode_table(deepest)
    assert decode_table(data)[0] == deepest
    with pytest.raises(ValueError, match="deeper than 32"):
        encode_table(nested(TABLE_NESTING_MAX + 1, kind))
    # One more container around what the deepest one holds.
    too_deep = table_of(b"\x01kF" + data) if kind == "tables" else table_of(b"\x01kA" + long(data[6:]))
    with pytest.raises(HardError, match="deeper than 32 levels") as caught:
        decode_table(too_deep)
    assert caught.value.code == 502


def test_a_table_in_itself_is_refused() -> None:
    ring: dict[str, Any] = {}
    ring["again"] = [ring]
    with pytest.raises(ValueError, match="deeper than 32"):
        encode_table(ring)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "item",
    [
        *(b"V", b"t\x01", b"b\x07", b"s\x10\x01", b"I\x10\x00\x00\x01", b"S\x00\x00\x00\x01\xff"),
        *(b"F\x00\x00\x00\x00", b"F\x00\x00\x00\x02\x00V", b"A\x00\x00\x00\x00", b"A\x00\x00\x00\x01V"),
        b"D\x01\x01\x01\x01\x01",
    ],
)
def test_a_small_table_does_not_grow_large_in_memory(item: bytes) -> None:
    """Most kinds stay below 16 times their octets; a table of one field, at 7 octets, is Python's worst."""
    data = table_of(b"\x01aA" + long(item * (4000 // len(item))))
    decode_table(data)
    tracemalloc.start()
    try:
        table, _ = decode_table(data)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table
    assert used < 26 * len(data)
