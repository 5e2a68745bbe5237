"""Tables of AMQP out of JSON: arguments that came over HTTP or in definitions, as RabbitMQ would have taken them.

JSON knows one kind of number, tables have many; RabbitMQ takes every whole number for one of 64 bits."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.catalog.records import Arguments
from leveret.core.codec.field_types import Int64
from leveret.core.codec.tables import encode_table

TABLE_BYTES_MAX = 128 * 1024
_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)


def table_from_json(value: Any) -> Arguments:
    """Raises ValueError with the place in the table and what is wrong there. RabbitMQ writes a table without fields as
    [], and takes it back so."""
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise ValueError("it must be an object")
    made = {_text(key, key): _value(inner, key) for key, inner in value.items()}
    try:
        octets = encode_table(made)
    except (ValueError, OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f"no table of AMQP: {error}") from None
    if len(octets) > TABLE_BYTES_MAX:
        raise ValueError(f"it is larger than {TABLE_BYTES_MAX} bytes")
    return made


def is_text(value: Any) -> bool:
    """A string that can be written as UTF-8: half of a surrogate pair cannot, though JSON has a way to say it."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def kept_bytes(value: Any) -> int:
    """How long a value of JSON is in the catalog's log; raises ValueError if it holds what cannot be written there."""
    try:
        return len(msgspec.msgpack.encode(value))
    except UnicodeEncodeError:
        raise ValueError("it holds what is no valid text") from None
    except OverflowError:
        raise ValueError("it holds a number that does not fit in 64 bits") from None


def _value(value: Any, place: str) -> Any:
    if value is None:
        raise ValueError(f"{place} is null, which no table takes")
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        if value not in _INT64:
            raise ValueError(f"{place} does not fit in 64 bits")
        return Int64(value) if value in _INT32 else value
    if isinstance(value, list):
        return [_value(inner, place) for inner in value]
    return {_text(key, place): _value(inner, f"{place}.{key}") for key, inner in value.items()}


def _text(value: str, place: str) -> str:
    if not is_text(value):
        raise ValueError(f"{place} is no valid text")
    return value
