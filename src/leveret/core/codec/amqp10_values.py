"""Values of AMQP 1.0, as messages of the stream protocol hold them, between octets and Python.

Reads every primitive type, arrays and described values; writes what a field of AMQP 0-9-1 can hold. A value keeps its
width: what has no plain Python counterpart is one of the small classes of field_types, or of the four below. Never
knows what a message is: that is amqp10.py, the only caller."""

import re
import struct
from decimal import Decimal

from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, Typed, UInt8, UInt16, UInt32

__all__ = ["Described", "Malformed", "Reader", "Symbol", "UInt64", "Uuid", "encode_list", "encode_map", "encode_value"]

# Values in one another, and values in one message: what comes from a client must not grow without bound in memory.
NESTING_MAX = 40
VALUES_MAX = 65536

_DESCRIBED = 0x00
_FIXED = {
    0x50: (1, UInt8),
    0x51: (1, Int8),
    0x60: (2, UInt16),
    0x61: (2, Int16),
    0x70: (4, UInt32),
    0x71: (4, int),
    0x52: (1, UInt32),
    0x54: (1, int),
    0x55: (1, Int64),
    0x81: (8, Int64),
}
_SIGNED = frozenset((0x51, 0x61, 0x71, 0x54, 0x55, 0x81))


_UUID = re.compile("-".join(f"[0-9a-f]{{{size}}}" for size in (8, 4, 4, 4, 12)))


class Malformed(Exception):
    """These octets are no AMQP 1.0."""


class Uuid:
    """Sixteen octets that name something. Python's own class knows clocks and dice, which this room must not."""

    __slots__ = ("octets",)

    def __init__(self, octets):
        self.octets = octets

    @classmethod
    def read(cls, text):
        """From its usual form, in lower case; None if it has another."""
        return cls(bytes.fromhex(text.replace("-", ""))) if _UUID.fullmatch(text) else None

    def __str__(self):
        digits = self.octets.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def __eq__(self, other):
        return isinstance(other, Uuid) and self.octets == other.octets

    def __hash__(self):
        return hash(self.octets)


class Symbol(str):
    """Text of AMQP's own vocabulary, such as a content type."""

    __slots__ = ()


class UInt64(Typed):
    """An unsigned number of 64 bits, which no field of AMQP 0-9-1 can hold as it is."""

    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("l"), 8, False


class Described:
    """A value with the descriptor that says what it is."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor, value):
        self.descriptor = descriptor
        self.value = value


class Reader:
    """Reads values from the octets data[at:end], one after the other. Raises Malformed."""

    __slots__ = ("at", "data", "end", "left")

    def __init__(self, data, at=0, end=None):
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        self.left = VALUES_MAX

    def take(self, count):
        """Passes over the next `count` octets, which must be there, and says where they begin."""
        start = self.at
        if count > self.end - start:
            raise Malformed(f"{count} octets at {start} reach past the end at {self.end}")
        self.at = start + count
        return start

    def number(self, count):
        start = self.take(count)
        return int.from_bytes(self.data[start : self.at], "big")

    def value(self, depth=0):
        return self.typed(self.number(1), depth)

    def typed(self, code, depth):
        """The value whose constructor, already read, is `code`."""
        self.left -= 1
        if self.left < 0 or depth > NESTING_MAX:
            raise Malformed("a message has too many values, or too many in one another")
        if code == _DESCRIBED:
            descriptor = self.value(depth + 1)
            return Described(descriptor, self.value(depth + 1))
        width = code >> 4
        if width == 0x4:
            return self._empty(code)
        if width in (0xA, 0xB):
            return self._variable(code)
        if width in (0xC, 0xD):
            return self._compound(code, depth)
        if width in (0xE, 0xF):
            return self._array(code, depth)
        return self._fixed(code)

    def _empty(self, code):
        values = {0x40: None, 0x41: True, 0x42: False, 0x43: UInt32(0), 0x44: UInt64(0), 0x45: []}
        if code not in values:
            raise Malformed(f"unknown type 0x{code:02x}")
        return values[code]

    def _fixed(self, code):
        known = _FIXED.get(code)
        if known is not None:
            size, kind = known
            start = self.take(size)
            number = int.from_bytes(self.data[start : self.at], "big", signed=code in _SIGNED)
            return number if kind is int else _long(number) if kind is Int64 else kind(number)
        if code == 0x56:
            return self.number(1) != 0
        if code in (0x53, 0x80):
            return UInt64(self.number(1 if code == 0x53 else 8))
        if code == 0x83:
            # In milliseconds there, and before 1970 it has no form here.
            start = self.take(8)
            return Timestamp(max(0, int.from_bytes(self.data[start : self.at], "big", signed=True)) // 1000)
        if code == 0x72:
            return Float32(struct.unpack_from(">f", self.data, self.take(4))[0])
        if code == 0x82:
            return struct.unpack_from(">d", self.data, self.take(8))[0]
        if code == 0x73:
            point = self.number(4)
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                raise Malformed(f"no character has the number {point}")
            return chr(point)
        if code == 0x98:
            start = self.take(16)
            return Uuid(bytes(self.data[start : self.at]))
        if code in (0x74, 0x84, 0x94):
            # Decimals of IEEE 754: nobody here calculates with them.
            start = self.take(1 << (code >> 4) - 5)
            return bytes(self.data[start : self.at])
        raise Malformed(f"unknown type 0x{code:02x}")

    def _variable(self, code):
        size = self.number(1 if code < 0xB0 else 4)
        start = self.take(size)
        octets = bytes(self.data[start : self.at])
        kind = code & 0x0F
        if kind == 0:
            return octets
        if kind not in (1, 3):
            raise Malformed(f"unknown type 0x{code:02x}")
        try:
            return octets.decode() if kind == 1 else Symbol(octets.decode("utf-8", "surrogateescape"))
        except UnicodeDecodeError:
            raise Malformed("a string is not UTF-8") from None

    def _compound(self, code, depth):
        """A list or a map: its size, its count of values, the values."""
        width = 1 if code < 0xD0 else 4
        size = self.number(width)
        end = self.take(size) + size
        self.at -= size
        count = self.number(width)
        # Every value has at least the octet of its type.
        if self.at > end or count > end - self.at:
            raise Malformed(f"a list of {size} octets cannot have {count} values")
        kind = code & 0x0F
        outer, self.end = self.end, end
        if kind == 0:
            made = [self.value(depth + 1) for _ in range(count)]
        elif kind == 1 and count % 2 == 0:
            made = {}
            for _ in range(count // 2):
                key = self.value(depth + 1)
                if isinstance(key, dict | list | Described):
                    raise Malformed("a map's key is no simple value")
                made.setdefault(key, self.value(depth + 1))
        else:
            raise Malformed(f"unknown type 0x{code:02x}, or a map with a key too many")
        if self.at != end:
            raise Malformed("a list or map is longer than its values")
        self.end = outer
        return made

    def _array(self, code, depth):
        """Values that share one constructor."""
        width = 1 if code < 0xF0 else 4
        if code & 0x0F != 0:
            raise Malformed(f"unknown type 0x{code:02x}")
        size = self.number(width)
        end = self.take(size) + size
        self.at -= size
        outer, self.end = self.end, end
        count = self.number(width)
        if count > self.left:
            raise Malformed(f"an array of {count} values")
        element = self.number(1)
        if element == _DESCRIBED:
            self.value(depth + 1)
            element = self.number(1)
        made = [self.typed(element, depth + 1) for _ in range(count)]
        if self.at != end:
            raise Malformed("an array is longer than its values")
        self.end = outer
        return made


def _long(number):
    return Int64(number) if -(1 << 31) <= number < 1 << 31 else number


# ---- writing


def encode_value(value):
    """The octets of a value that a field of AMQP 0-9-1 may hold."""
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if value is None:
        return b"\x40"
    if isinstance(value, int):
        return _encode_number(value)
    if isinstance(value, float):
        return struct.pack(">Bf", 0x72, value) if isinstance(value, Float32) else struct.pack(">Bd", 0x82, value)
    if isinstance(value, str):
        octets = value.encode("utf-8", "surrogateescape")
        if isinstance(value, Symbol):
            return _sized(0xA3, octets)
        return _sized(0xA1 if _is_utf8(octets) else 0xA0, octets)
    if isinstance(value, bytes):
        return _sized(0xA0, value)
    if isinstance(value, Uuid):
        return b"\x98" + value.octets
    if isinstance(value, list):
        return encode_list([encode_value(item) for item in value])
    if isinstance(value, dict):
        return encode_map([(Symbol(key), item) for key, item in value.items()])
    if isinstance(value, Decimal):
        return encode_value(str(value))
    raise TypeError(f"{value!r} has no form in AMQP 1.0")


def _encode_number(value):
    if isinstance(value, Timestamp):
        return struct.pack(">Bq", 0x83, min(value * 1000, (1 << 63) - 1))
    if isinstance(value, UInt64):
        return b"\x53" + value.to_bytes(1, "big") if value < 256 else b"\x80" + value.to_bytes(8, "big")
    code, size = {Int8: (0x51, 1), UInt8: (0x50, 1), Int16: (0x61, 2), UInt16: (0x60, 2), UInt32: (0x70, 4)}.get(
        type(value), (0x71, 4)
    )
    if code == 0x71 and (isinstance(value, Int64) or not -(1 << 31) <= value < 1 << 31):
        code, size = 0x81, 8
    return bytes((code,)) + value.to_bytes(size, "big", signed=code & 0x0F == 1)


def encode_list(items):
    """A list of values that are octets already."""
    return _compound(0xC0, items)


def encode_map(pairs):
    """A map of these keys and values, in this order."""
    return _compound(0xC1, [encode_value(part) for pair in pairs for part in pair])


def _compound(code, items):
    octets = b"".join(items)
    if len(octets) < 255 and len(items) < 256:
        return bytes((code, len(octets) + 1, len(items))) + octets
    return struct.pack(">BII", code + 0x10, len(octets) + 4, len(items)) + octets


def _sized(code, octets):
    if len(octets) < 256:
        return bytes((code, len(octets))) + octets
    return struct.pack(">BI", code + 0x10, len(octets)) + octets


def _is_utf8(octets):
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
