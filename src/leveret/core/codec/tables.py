"""Field tables: the typed dictionaries of AMQP, between octets and Python values, as RabbitMQ reads and writes them.

Owns the octets of the 18 field types and the limit on nesting. Never keeps a table and never looks at what its keys
mean, but for `CC` and `BCC`, which the publish path asks for. Called by core.codec.properties, by wire for method
arguments, and by whoever keeps arguments in a file.

What comes in goes out with the same octets: a number whose type is not the one its Python value would get is read as
one of the small classes of field_types, which remember it. RabbitMQ's own rewritings are kept: `L` is written as `l`,
and a boolean other than 0 as 1. Of two fields with one name the first counts, as in RabbitMQ's lookups; the second is
dropped when the table is written again."""

import calendar
import struct
from datetime import datetime
from decimal import Decimal
from typing import Any

import cython

from leveret.core.codec.field_types import (
    Float32,
    Int8,
    Int16,
    Int64,
    Table,
    Timestamp,
    Typed,
    UInt8,
    UInt16,
    UInt32,
    Value,
)
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.errors import HardError

__all__ = [
    "KEY_BYTES_MAX",
    "TABLE_NESTING_MAX",
    "Float32",
    "Int8",
    "Int16",
    "Int64",
    "Table",
    "Timestamp",
    "Typed",
    "UInt8",
    "UInt16",
    "UInt32",
    "Value",
    "decode_table",
    "encode_table",
]

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u16, read_u32, read_u64, same_octets, take

    BOOLEAN, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, INT64_ALIAS = b"tbBsuIilL"
    FLOAT32, FLOAT64, DECIMAL, TEXT, ARRAY, TIMESTAMP, TABLE, VOID, BLOB = b"fdDSATFVx"
    NESTING_MAX = 32
    NOTED_COPIES, NOTED_BLIND, NOTED_DELAY, NOTED_STREAM, NOTED_DEATH = 1, 2, 4, 8, 16

    def signed64(value):
        return value - (1 << 64) if value >> 63 else value


# Levels of tables and arrays in one another, the outermost table included.
TABLE_NESTING_MAX = NESTING_MAX
KEY_BYTES_MAX = NAME_OCTETS_MAX

_FLOAT32 = struct.Struct(">f")
_FLOAT64 = struct.Struct(">d")


# Written by the broker alone: what it knows itself of the first death of a message whose x-death a client wrote.
ORIGIN_HEADER = "x-leveret-origin"
ORIGIN_OCTETS = ORIGIN_HEADER.encode()

# One object for each value of the one-octet types: an array of them must not grow twentyfold in memory.
INT8_VALUES = [Int8(number if number < 128 else number - 256) for number in range(256)]
UINT8_VALUES = [UInt8(number) for number in range(256)]


def decode_table(data: bytes, at: int = 0) -> "tuple[dict[str, Any], int]":
    """The table whose 4-byte length stands at `at`, and the position after it."""
    if at < 0 or at + 4 > len(data):
        raise HardError(502, f"a table's length is cut off at byte {at}")
    start = at + 4
    end = start + int.from_bytes(data[at:start], "big")
    if end > len(data):
        raise HardError(502, f"a table of {end - start} bytes at byte {at} reaches past the end at {len(data)}")
    return read_table(data, start, end, 0), end


def encode_table(table: Table) -> bytes:
    """The table with its 4-byte length before it."""
    out = bytearray()
    write_table(out, table, 0)
    return bytes(out)


# Reading.


def read_table(p, at, end, depth):
    _check_depth(at, depth)
    table = {}
    while at < end:
        key_end = _find_key_end(p, at, end)
        value_end = _find_value_end(p, key_end, end)
        table.setdefault(_read_key(p, at + 1, key_end), _read_value(p, key_end, value_end, depth))
        at = value_end
    return table


def _read_array(p, at, end, depth):
    _check_depth(at, depth)
    items = []
    while at < end:
        value_end = _find_value_end(p, at, end)
        items.append(_read_value(p, at, value_end, depth))
        at = value_end
    return items


def _find_key_end(p, at, end):
    """Where the key at `at` ends; at least the octet of the value's type follows it."""
    key_end = at + 1 + p[at]
    if key_end >= end:
        raise HardError(502, f"a table field's name of {p[at]} bytes at byte {at} reaches past the end at {end}")
    return key_end


def _find_value_end(p, at, end):
    """Where the value whose type letter stands at `at` ends: its own length is checked, not what it holds."""
    tag = p[at]
    if tag in (TEXT, TABLE, ARRAY, BLOB):
        if end - at < 5:
            raise HardError(502, f"the length of a table's value at byte {at} is cut off at {end}")
        # Widened before it is added to: in 32 bits a length near 2**32 would wrap to a small one.
        size = read_u32(p, at + 1)
        size += 5
    elif tag in (INT32, UINT32, FLOAT32):
        size = 5
    elif tag in (INT64, INT64_ALIAS, TIMESTAMP, FLOAT64):
        size = 9
    elif tag in (BOOLEAN, INT8, UINT8):
        size = 2
    elif tag in (INT16, UINT16):
        size = 3
    elif tag == DECIMAL:
        size = 6
    elif tag == VOID:
        size = 1
    else:
        raise HardError(502, f"unknown type {chr(tag)!r} of a table's value at byte {at}")
    if size > end - at:
        raise HardError(502, f"a table's value of type {chr(tag)!r} at byte {at} reaches past its end at {end}")
    return at + size


def _read_value(p, at, end, depth):
    """The value from its type letter at `at` to `end`, which _find_value_end has given."""
    tag = p[at]
    if tag == TEXT:
        return p[at + 5 : end].decode("utf-8", "surrogateescape")
    if tag == INT32:
        number = read_u32(p, at + 1)
        return number if number < 0x80000000 else number - 0x100000000
    if tag == BOOLEAN:
        return p[at + 1] != 0
    if tag in (INT64, INT64_ALIAS):
        number = signed64(read_u64(p, at + 1))
        # Only a number that fits in 32 bits would be written with another letter.
        return Int64(number) if -0x80000000 <= number < 0x80000000 else number
    if tag == TABLE:
        return read_table(p, at + 5, end, depth + 1)
    if tag == ARRAY:
        return _read_array(p, at + 5, end, depth + 1)
    if tag == VOID:
        return None
    if tag == TIMESTAMP:
        return Timestamp(read_u64(p, at + 1))
    return _read_rare_value(p, at, end)


def _read_rare_value(p, at, end):
    tag = p[at]
    if tag == BLOB:
        return take(p, at + 5, end)
    if tag == INT8:
        return INT8_VALUES[p[at + 1]]
    if tag == UINT8:
        return UINT8_VALUES[p[at + 1]]
    if tag == INT16:
        number = read_u16(p, at + 1)
        return Int16(number if number < 0x8000 else number - 0x10000)
    if tag == UINT16:
        return UInt16(read_u16(p, at + 1))
    if tag == UINT32:
        return UInt32(read_u32(p, at + 1))
    if tag == FLOAT64:
        return _FLOAT64.unpack(take(p, at + 1, end))[0]
    if tag == FLOAT32:
        return Float32(_FLOAT32.unpack(take(p, at + 1, end))[0])
    assert tag == DECIMAL
    # RabbitMQ keeps the two halves as they are; clients write the number signed.
    unscaled = int.from_bytes(take(p, at + 2, end), "big", signed=True)
    return Decimal(unscaled).scaleb(-p[at + 1])


def _read_key(p, at, end):
    _check_key(p, at, end)
    return p[at:end].decode("utf-8")


# Checking without building: what passes here can be read later, when no connection is left to complain to.


def check_table(p, at, end, depth):
    _check_depth(at, depth)
    noted = 0
    while at < end:
        key_end = _find_key_end(p, at, end)
        value_end = _find_value_end(p, key_end, end)
        _check_key(p, at + 1, key_end)
        _check_value(p, key_end, value_end, depth)
        noted |= _noted(p, at + 1, key_end)
        at = value_end
    return noted


def _check_array(p, at, end, depth):
    _check_depth(at, depth)
    while at < end:
        value_end = _find_value_end(p, at, end)
        _check_value(p, at, value_end, depth)
        at = value_end
    return True


def _check_value(p, at, end, depth):
    tag = p[at]
    if tag == TABLE:
        check_table(p, at + 5, end, depth + 1)
    elif tag == ARRAY:
        _check_array(p, at + 5, end, depth + 1)
    return True


def _check_key(p, at, end):
    for i in range(at, end):
        if p[i] >= 0x80:
            try:
                p[at:end].decode("utf-8")
            except UnicodeDecodeError:
                raise HardError(501, f"Malformed UTF-8 in a table field's name at byte {at}") from None
            break
    return True


def _check_depth(at, depth):
    if depth >= NESTING_MAX:
        raise HardError(502, f"tables and arrays at byte {at} are nested deeper than {NESTING_MAX} levels")
    return True


def _noted(p, at, end):
    """Which of the headers that a broker heeds this one is: CC or BCC, x-delay, x-death or the broker's own note about
    it, perhaps one of streams, or none."""
    if end - at == 2:
        return NOTED_COPIES if p[at] == 67 and p[at + 1] == 67 else 0
    if end - at == 3:
        return NOTED_COPIES | NOTED_BLIND if p[at] == 66 and p[at + 1] == 67 and p[at + 2] == 67 else 0
    if end - at == 7:
        if p[at] != 120 or p[at + 1] != 45 or p[at + 2] != 100 or p[at + 3] != 101:
            return 0
        if p[at + 6] == 121:
            return NOTED_DELAY if p[at + 4] == 108 and p[at + 5] == 97 else 0
        return NOTED_DEATH if p[at + 4] == 97 and p[at + 5] == 116 and p[at + 6] == 104 else 0
    if end - at == 16:
        own = ORIGIN_OCTETS
        return NOTED_DEATH | NOTED_BLIND if same_octets(own, 0, p, at, 16) else 0
    if (end - at == 15 or end - at == 18 or end - at == 21) and p[at] == 120 and p[at + 1] == 45:
        # x-stream-offset, x-producer-name, x-publishing-id, x-stream-timestamp, x-stream-filter-value: a stream looks
        # closer.
        return NOTED_STREAM
    return 0


# Writing.


def write_table(out, table, depth):
    if depth >= NESTING_MAX:
        raise ValueError(f"tables and arrays are nested deeper than {NESTING_MAX} levels")
    start = len(out)
    out += b"\x00\x00\x00\x00"
    for key, value in table.items():
        if not isinstance(key, str):
            raise TypeError(f"table field {key!r}: a name must be a str, not {type(key).__name__}")
        try:
            name = key.encode("utf-8")
            if len(name) > KEY_BYTES_MAX:
                raise ValueError(f"the name has {len(name)} bytes of at most {KEY_BYTES_MAX}")
            out.append(len(name))
            out += name
            _write_value(out, value, depth)
        except TypeError as error:
            raise TypeError(f"table field {key!r}: {error}") from None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"table field {key!r}: {error}") from None
    return _fill_length(out, start)


def _write_value(out, value, depth):
    if isinstance(value, str):
        return _write_long(out, TEXT, value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bool):
        out.append(BOOLEAN)
        out.append(1 if value else 0)
        return True
    if isinstance(value, int):
        return _write_number(out, value)
    if isinstance(value, dict):
        out.append(TABLE)
        return write_table(out, value, depth + 1)
    return _write_other(out, value, depth)


def _write_number(out, value):
    if isinstance(value, Typed):
        out.append(value.LETTER)
        out += value.to_bytes(value.SIZE, "big", signed=value.SIGNED)
    elif -0x80000000 <= value < 0x80000000:
        out.append(INT32)
        _append_u32(out, value & 0xFFFFFFFF)
    elif -0x8000000000000000 <= value < 0x8000000000000000:
        out.append(INT64)
        out += value.to_bytes(8, "big", signed=True)
    else:
        raise ValueError(f"the number {value} does not fit in 64 bits")
    return True


def _write_other(out, value, depth):
    if isinstance(value, list | tuple):
        if depth + 1 >= NESTING_MAX:
            raise ValueError(f"tables and arrays are nested deeper than {NESTING_MAX} levels")
        out.append(ARRAY)
        start = len(out)
        out += b"\x00\x00\x00\x00"
        for item in value:
            _write_value(out, item, depth + 1)
        return _fill_length(out, start)
    if value is None:
        out.append(VOID)
    elif isinstance(value, Float32):
        out.append(FLOAT32)
        out += _FLOAT32.pack(value)
    elif isinstance(value, float):
        out.append(FLOAT64)
        out += _FLOAT64.pack(value)
    elif isinstance(value, bytes | bytearray):
        return _write_long(out, BLOB, bytes(value))
    elif isinstance(value, Decimal):
        return _write_decimal(out, value)
    elif isinstance(value, datetime):
        # A datetime without a zone is taken as UTC, as clients do.
        return _write_number(out, Timestamp(calendar.timegm(value.utctimetuple())))
    else:
        raise TypeError(f"a value of type {type(value).__name__} has no AMQP field type")
    return True


def _write_decimal(out, value):
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"the decimal {value} is not a finite number")
    # The bound comes first: Decimal('1E+999999') must not become a number of a million digits.
    if not -255 <= exponent <= 9:
        raise ValueError(f"the decimal {value} has an exponent of {exponent}; -255 to 9 can be written")
    scale = max(0, -exponent)
    unscaled = int(value.scaleb(scale))
    if not -0x80000000 <= unscaled < 0x80000000:
        raise ValueError(f"the decimal {value} without its point does not fit in 32 bits")
    out.append(DECIMAL)
    out.append(scale)
    out += unscaled.to_bytes(4, "big", signed=True)
    return True


def _write_long(out, tag, octets):
    if len(octets) > 0xFFFFFFFF:
        raise ValueError(f"the value has {len(octets)} bytes of at most {0xFFFFFFFF}")
    out.append(tag)
    _append_u32(out, len(octets))
    out += octets
    return True


def _append_u32(out, number):
    # Octet by octet: four appends in C are quicker than a bytes object.
    out.append(number >> 24 & 0xFF)
    out.append(number >> 16 & 0xFF)
    out.append(number >> 8 & 0xFF)
    out.append(number & 0xFF)
    return True


def _fill_length(out, start):
    """Writes the length of what follows the 4 octets at `start` into them."""
    size = len(out) - start - 4
    out[start] = size >> 24 & 0xFF
    out[start + 1] = size >> 16 & 0xFF
    out[start + 2] = size >> 8 & 0xFF
    out[start + 3] = size & 0xFF
    return True
