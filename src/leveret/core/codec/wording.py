"""How RabbitMQ's error texts show values, so that people and test suites find the words they know.

Called wherever a refusal is worded; never on the way of a message."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32

__all__ = ["frame_problem", "shown_octets", "shown_type", "shown_value"]

_TYPES: dict[type, str] = {
    bool: "bool",
    Int8: "byte",
    UInt8: "unsignedbyte",
    Int16: "short",
    UInt16: "unsignedshort",
    UInt32: "unsignedint",
    Int64: "long",
    Timestamp: "timestamp",
    Float32: "float",
    float: "double",
    Decimal: "decimal",
    str: "longstr",
    bytes: "binary",
    list: "array",
    dict: "table",
    type(None): "void",
}
_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}
# A reply text has 255 octets: more of a frame than this never shows.
_SHOWN_OCTETS_MAX = 256


def shown_type(value: Any) -> str:
    """The name RabbitMQ has for the field type this value came with."""
    if type(value) is int:
        # As core.codec.tables writes it: 32 bits where they do, else 64.
        return "signedint" if -0x80000000 <= value < 0x80000000 else "long"
    return _TYPES.get(type(value), type(value).__name__)


def shown_value(value: Any) -> str:
    """The value as Erlang's ~p prints it on one line."""
    if isinstance(value, str):
        return shown_octets(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return shown_octets(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        scale = -exponent if isinstance(exponent, int) else 0
        return f"{{{scale},{'-' if sign else ''}{''.join(map(str, digits))}}}"
    if isinstance(value, list):
        return "[" + ",".join(f"{{{shown_type(item)},{shown_value(item)}}}" for item in value) + "]"
    if isinstance(value, dict):
        fields = (f"{{{shown_value(name)},{shown_type(item)},{shown_value(item)}}}" for name, item in value.items())
        return "[" + ",".join(fields) + "]"
    return str(value)


def shown_octets(octets: bytes) -> str:
    if not octets:
        return "<<>>"
    octets = octets[:_SHOWN_OCTETS_MAX]
    # What Erlang takes for text is Latin-1; the octets of most UTF-8 texts pass for it and come out as they were.
    if all(32 <= octet <= 126 or octet >= 160 or octet in _ESCAPES for octet in octets):
        text = b"".join(_ESCAPES[octet].encode() if octet in _ESCAPES else bytes([octet]) for octet in octets)
        return f'<<"{text.decode("utf-8", "replace")}">>'
    return f"<<{','.join(map(str, octets))}>>"


def frame_problem(kind: int, payload: bytes, problem: str = "") -> str:
    """A frame that cannot be used, as RabbitMQ's reader words it."""
    detail = f": {problem}" if problem else ""
    return f"type {kind}, all octets = {shown_octets(payload)}{detail}"
