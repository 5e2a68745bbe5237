"""Bytes of AMQP 0-9-1 fields, tables, methods and content headers, for the raw client.

Says what was on the wire and nothing more: no defaults that hide a value, no limits, so that a test can also build
what a decent client never sends."""

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tests.conformance.amqp_methods import METHODS, NAMES

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = b"\xce"

# Field values are whatever a table can hold; a test compares them with plain Python values.
Value = Any


class Typed(NamedTuple):
    """A table value with its wire type spelt out: `Typed(b"s", -3)` is a signed 16 bit integer."""

    tag: bytes
    value: Value


_NUMBERS: Final = {
    b"b": ">b",
    b"B": ">B",
    b"s": ">h",
    b"u": ">H",
    b"I": ">i",
    b"i": ">I",
    b"l": ">q",
    b"L": ">q",
    b"f": ">f",
    b"d": ">d",
    b"T": ">Q",
}

PROPERTIES: Final = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "longlong"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)


def _octets(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def encode_shortstr(value: str | bytes) -> bytes:
    raw = _octets(value)
    return bytes([len(raw)]) + raw


def encode_longstr(value: str | bytes) -> bytes:
    raw = _octets(value)
    return struct.pack(">I", len(raw)) + raw


def encode_value(value: Value) -> bytes:
    """A table value with its type octet; plain Python values take the type most clients give them."""
    match value:
        case Typed(tag=b"D", value=(scale, unscaled)):
            return b"D" + struct.pack(">Bi", scale, unscaled)
        case Typed(tag=b"x", value=raw):
            return b"x" + encode_longstr(raw)
        case Typed(tag=tag, value=number):
            return tag + struct.pack(_NUMBERS[tag], number)
        case bool():
            return b"t" + bytes([value])
        case int():
            return b"I" + struct.pack(">i", value) if -(2**31) <= value < 2**31 else b"l" + struct.pack(">q", value)
        case float():
            return b"d" + struct.pack(">d", value)
        case str():
            return b"S" + encode_longstr(value)
        case bytes():
            return b"x" + encode_longstr(value)
        case None:
            return b"V"
        case list():
            return b"A" + encode_longstr(b"".join(encode_value(item) for item in value))
        case dict():
            return b"F" + encode_table(value)
    raise TypeError(f"no wire type for {value!r}")


def encode_table(table: Mapping[str, Value]) -> bytes:
    return encode_longstr(b"".join(encode_shortstr(key) + encode_value(value) for key, value in table.items()))


_SIMPLE: Final = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}


def encode_field(kind: str, value: Value) -> bytes:
    if kind == "shortstr":
        return encode_shortstr(value or "")
    if kind == "longstr":
        return encode_longstr(value or "")
    if kind == "table":
        return encode_table(value or {})
    return struct.pack(_SIMPLE[kind], value or 0)


def encode_method(name: str, fields: Mapping[str, Value]) -> bytes:
    """The payload of a method frame; fields not given are zero, empty or false."""
    spec = METHODS[name]
    unknown = set(fields) - {field for field, _ in spec.fields}
    assert not unknown, f"{name} has no field {unknown}"
    payload = struct.pack(">HH", spec.class_id, spec.method_id)
    bits: list[bool] = []
    for field, kind in spec.fields:
        value = fields.get(field)
        if kind == "bit":
            bits.append(bool(value))
            continue
        payload += _encode_bits(bits) + encode_field(kind, value)
        bits = []
    return payload + _encode_bits(bits)


def _encode_bits(bits: list[bool]) -> bytes:
    return bytes([sum(bit << place for place, bit in enumerate(bits))]) if bits else b""


def encode_properties(properties: Mapping[str, Value]) -> bytes:
    """Flags and values of a content header, in the one order the protocol allows."""
    flags, values = 0, b""
    for place, (name, kind) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 1 << (15 - place)
            values += encode_field(kind, properties[name])
    unknown = set(properties) - {name for name, _ in PROPERTIES}
    assert not unknown, f"no property {unknown}"
    return struct.pack(">H", flags) + values


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


class Reader:
    """Takes fields off a payload, front to back."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.place = 0

    def take(self, size: int) -> bytes:
        piece = self.payload[self.place : self.place + size]
        assert len(piece) == size, f"payload ends early at {self.place}: {self.payload!r}"
        self.place += size
        return piece

    def number(self, layout: str) -> Value:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def field(self, kind: str) -> Value:
        if kind == "shortstr":
            return self.take(self.number(">B")).decode("utf-8", "surrogateescape")
        if kind == "longstr":
            return self.take(self.number(">I"))
        if kind == "table":
            return self.table()
        return self.number(_SIMPLE[kind])

    def table(self) -> dict[str, Value]:
        inner, table = Reader(self.take(self.number(">I"))), {}
        while inner.place < len(inner.payload):
            key = inner.field("shortstr")
            table[key] = inner.value()
        return table

    def value(self) -> Value:
        tag = self.take(1)
        if tag in _NUMBERS:
            return self.number(_NUMBERS[tag])
        match tag:
            case b"t":
                return self.take(1) != b"\x00"
            case b"S":
                return self.take(self.number(">I")).decode("utf-8", "surrogateescape")
            case b"x":
                return self.take(self.number(">I"))
            case b"V":
                return None
            case b"D":
                return struct.unpack(">Bi", self.take(5))
            case b"F":
                return self.table()
            case b"A":
                inner, items = Reader(self.take(self.number(">I"))), []
                while inner.place < len(inner.payload):
                    items.append(inner.value())
                return items
        raise AssertionError(f"unknown field type {tag!r}")


def decode_method(payload: bytes) -> tuple[str, dict[str, Value]]:
    """Name and fields of a method frame's payload."""
    reader = Reader(payload)
    name = NAMES[reader.number(">H"), reader.number(">H")]
    fields: dict[str, Value] = {}
    bit_count, bit_octet = 0, 0
    for field, kind in METHODS[name].fields:
        if kind != "bit":
            bit_count = 0
            fields[field] = reader.field(kind)
            continue
        if bit_count % 8 == 0:
            bit_octet = reader.number(">B")
        fields[field] = bool(bit_octet >> (bit_count % 8) & 1)
        bit_count += 1
    assert reader.place == len(payload), f"{name} has {len(payload) - reader.place} octets too many"
    return name, fields


def decode_properties(raw: bytes) -> dict[str, Value]:
    reader = Reader(raw)
    flags = reader.number(">H")
    present = [(name, kind) for place, (name, kind) in enumerate(PROPERTIES) if flags >> (15 - place) & 1]
    return {name: reader.field(kind) for name, kind in present}
