"""Values of AMQP 1.0: each type's octets, and what is refused before it grows in memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from leveret.core.codec.amqp10_values import (
    VALUES_MAX,
    Described,
    Malformed,
    Reader,
    Symbol,
    UInt64,
    Uuid,
    encode_list,
    encode_map,
    encode_value,
)
from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32

READ: list[tuple[str, Any, type]] = [
    ("40", None, type(None)),
    ("41", True, bool),
    ("42", False, bool),
    ("5601", True, bool),
    ("5600", False, bool),
    ("50ff", 255, UInt8),
    ("51ff", -1, Int8),
    ("60ffff", 65535, UInt16),
    ("61ffff", -1, Int16),
    ("70ffffffff", 2**32 - 1, UInt32),
    ("5207", 7, UInt32),
    ("43", 0, UInt32),
    ("71ffffffff", -1, int),
    ("54ff", -1, int),
    ("8100000000000000ff", 255, Int64),
    ("810100000000000000", 2**56, int),
    ("55fe", -2, Int64),
    ("80ffffffffffffffff", 2**64 - 1, UInt64),
    ("5375", 0x75, UInt64),
    ("44", 0, UInt64),
    ("8300000000000003e9", 1, Timestamp),
    ("83ffffffffffffffff", 0, Timestamp),
    ("723fc00000", 1.5, Float32),
    ("823ff8000000000000", 1.5, float),
    ("730001f407", "\U0001f407", str),
    ("98" + "11" * 16, Uuid(b"\x11" * 16), Uuid),
    ("7411223344", b"\x11\x22\x33\x44", bytes),
    ("84" + "11" * 8, b"\x11" * 8, bytes),
    ("94" + "11" * 16, b"\x11" * 16, bytes),
    ("a00178", b"x", bytes),
    ("b00000000178", b"x", bytes),
    ("a102c3a9", "é", str),
    ("b100000002c3a9", "é", str),
    ("a30178", "x", Symbol),
    ("b30000000178", "x", Symbol),
    ("45", [], list),
    ("c004024154ff", [True, -1], list),
    ("d00000000700000002415401", [True, 1], list),
    ("c10602a301785401", {"x": 1}, dict),
    ("e004025101ff", [1, -1], list),
    ("f000000007000000025101ff", [1, -1], list),
]


@pytest.mark.parametrize(("octets", "value", "kind"), READ)
def test_each_type_is_read(octets: str, value: Any, kind: type) -> None:
    data = bytes.fromhex(octets)
    reader = Reader(data)
    read = reader.value()
    assert read == value
    assert type(read) is kind
    assert reader.at == len(data)


def test_a_described_value_keeps_its_descriptor() -> None:
    value = Reader(bytes.fromhex("005375a00178")).value()
    assert isinstance(value, Described)
    assert (value.descriptor, value.value) == (0x75, b"x")


@pytest.mark.parametrize(
    "octets",
    [
        "",
        "ff",
        "46",
        "57",
        "a0",
        "a005aa",
        "b0ffffffff",
        "a101ff",
        "a201ff",
        "73ffffffff",
        "730000d800",
        "c0",
        "c000",
        "c001ff",
        "d0ffffffffffffffff",
        "c1020141",
        "c10402414141",
        "c0050241540140",
        "c20101",
        "e0",
        "e1030151ff",
        "e0ff0151ff",
        "c103024541",
        "98aa",
        "0053",
    ],
)
def test_what_is_no_value_is_refused(octets: str) -> None:
    with pytest.raises(Malformed):
        Reader(bytes.fromhex(octets)).value()


def test_deep_nesting_and_many_values_are_refused() -> None:
    deep = encode_value(1)
    for _ in range(60):
        deep = encode_list([deep])
    with pytest.raises(Malformed):
        Reader(deep).value()
    many = b"\xd0" + (4 + VALUES_MAX + 1).to_bytes(4, "big") + (VALUES_MAX + 1).to_bytes(4, "big")
    with pytest.raises(Malformed):
        Reader(many + b"\x41" * (VALUES_MAX + 1)).value()


def test_an_array_of_nothing_takes_no_memory() -> None:
    # Values of no octets: the count alone would make four thousand million of them.
    array = bytes.fromhex("f000000005ffffffff40")
    tracemalloc.start()
    with pytest.raises(Malformed):
        Reader(array).value()
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        Int8(-5),
        UInt8(200),
        Int16(-300),
        UInt16(60000),
        UInt32(4_000_000_000),
        7,
        -(2**31),
        2**31,
        2**40,
        Int64(3),
        UInt64(3),
        UInt64(2**64 - 1),
        Timestamp(1_700_000_000),
        Float32(0.5),
        0.1,
        "text",
        "x" * 300,
        b"octets",
        b"x" * 300,
        Symbol("symbol"),
        Uuid(bytes(15) + b"\x05"),
        [1, "two", None],
        {"a": [1], "b": {"c": 2}},
        ["x" * 100] * 5,
    ],
)
def test_what_is_written_is_read_again(value: Any) -> None:
    read = Reader(encode_value(value)).value()
    assert read == value
    assert type(read) is type(value)


def test_text_that_is_no_utf8_is_written_as_octets() -> None:
    assert Reader(encode_value("\udcff")).value() == b"\xff"


def test_a_map_keeps_its_order_and_its_keys_kinds() -> None:
    read = Reader(encode_map([(Symbol("b"), 1), ("a", 2)])).value()
    assert list(read.items()) == [("b", 1), ("a", 2)]
    assert [type(key) for key in read] == [Symbol, str]


def test_what_has_no_form_is_an_error_of_ours() -> None:
    with pytest.raises(TypeError):
        encode_value(object())
