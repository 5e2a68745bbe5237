"""What a method is made of: the field kinds, and the base of every method class.

A method class lists its fields in the order of the wire; codec.py derives from that how it is packed. Reserved
fields are not fields here: RESERVED_BEFORE and RESERVED_AFTER name the kinds that stand before and after the rest.
Never packs or unpacks anything itself. Subclassed in the *_methods files, one per AMQP class."""

from typing import Annotated, ClassVar

import msgspec

from leveret.core.codec.field_types import Table

__all__ = ["Bit", "LongStr", "Method", "ShortStr", "Table", "UInt8", "UInt16", "UInt32", "UInt64", "combine_ids"]

# The kinds of field. The names in the annotations are the codec's.
Bit = Annotated[bool, "bit"]
UInt8 = Annotated[int, "uint8"]
UInt16 = Annotated[int, "uint16"]
UInt32 = Annotated[int, "uint32"]
UInt64 = Annotated[int, "uint64"]
ShortStr = Annotated[str, "shortstr"]
LongStr = Annotated[bytes, "longstr"]
# A table is dict[str, Value]; it needs no annotation to be known.


def combine_ids(class_number: int, method_number: int) -> int:
    """Class and method in one number, as the first four octets of a method frame's payload say them."""
    return class_number << 16 | method_number


class Method(msgspec.Struct, frozen=True):
    """One AMQP method with its fields."""

    METHOD: ClassVar[int] = 0
    RESERVED_BEFORE: ClassVar[tuple[str, ...]] = ()
    RESERVED_AFTER: ClassVar[tuple[str, ...]] = ()

    # RabbitMQ wants UTF-8 in the short strings of control methods, and takes any octets in those of a message.
    TEXT_IS_UTF8: ClassVar[bool] = True

    # A reply text is cut to fit rather than refused: the error it tells of must get out.
    CUT_TO_FIT: ClassVar[tuple[str, ...]] = ()
