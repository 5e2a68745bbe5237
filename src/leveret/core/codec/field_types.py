"""What a table's field may hold in Python, and the numbers that remember how they came.

A number whose field type is not the one its plain Python value would be written with is read as one of these; it
compares, hashes and calculates like the plain number. Never reads or writes octets: that is tables.py."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Union

# What a field may hold. A datetime is accepted when a table is written and comes back as a Timestamp.
if TYPE_CHECKING:
    Value = Union[bool, int, float, Decimal, str, bytes, datetime, None, "list[Value]", "dict[str, Value]"]
else:
    # Whoever resolves annotations while running (msgspec, hypothesis) does not find the names of this module.
    Value = bool | int | float | Decimal | str | bytes | datetime | None | list | dict
Table = dict[str, Value]


class Typed(int):
    """A whole number that keeps the field type it came with. Equal to, and hashed like, the plain number."""

    __slots__ = ()
    LETTER: ClassVar[int]
    SIZE: ClassVar[int]
    SIGNED: ClassVar[bool]


class Int8(Typed):
    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("b"), 1, True


class UInt8(Typed):
    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("B"), 1, False


class Int16(Typed):
    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("s"), 2, True


class UInt16(Typed):
    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("u"), 2, False


class UInt32(Typed):
    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("i"), 4, False


class Int64(Typed):
    """A 64-bit number that would also fit in 32 bits; a larger one is a plain int, which is written as 64 bits."""

    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("l"), 8, True


class Timestamp(Typed):
    """Seconds since 1970 in UTC."""

    __slots__ = ()
    LETTER, SIZE, SIGNED = ord("T"), 8, False


class Float32(float):
    """A number that came as 32-bit float and is written as one."""

    __slots__ = ()
