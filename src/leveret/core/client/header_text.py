"""Headers as text: each value by itself, for people and SQL, and the whole table as JSON, from which the same table can
be made again.

JSON has no timestamps, octets, decimals, no texts that are not UTF-8 and no numbers beyond the finite ones: each of
these is an object with one field whose name says what it is, `{"!timestamp": 1700000000}`. So is a table that has just
one such field. Numbers lose only how many octets they had."""

import base64
import binascii
import json
import math
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from leveret.core.codec.field_types import Timestamp

__all__ = ["headers_from_json", "headers_to_json", "value_text"]

TIMESTAMP, OCTETS, DECIMAL, NUMBER, TABLE, TEXT = "!timestamp", "!bytes", "!decimal", "!float", "!table", "!text"
TAGS = frozenset((TIMESTAMP, OCTETS, DECIMAL, NUMBER, TABLE, TEXT))


def value_text(value: Any) -> "str | None":
    """A header's value as one text: as it is, in decimals, ISO 8601, or as JSON if it has parts."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Timestamp):
        try:
            return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
        except (OverflowError, OSError, ValueError):
            return str(int(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict | list):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def headers_to_json(headers: "dict[str, Any]") -> str:
    return json.dumps({name: _plain(value) for name, value in headers.items()}, ensure_ascii=False)


def headers_from_json(text: str) -> "dict[str, Any]":
    """The table that headers_to_json has written, or any JSON object. Raises ValueError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the headers are no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("the headers' JSON is no object")
    return {name: _value(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # It came as text and is none.
            return {TEXT: base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()}
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Timestamp):
        return {TIMESTAMP: int(value)}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {NUMBER: str(float(value))}
    if isinstance(value, bytes):
        return {OCTETS: base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {DECIMAL: str(value)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    table = {name: _plain(item) for name, item in value.items()}
    return {TABLE: table} if len(table) == 1 and TAGS & table.keys() else table


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, inner),) = value.items()
        if tag in TAGS:
            return _tagged(tag, inner)
    return {name: _value(item) for name, item in value.items()}


def _tagged(tag: str, inner: Any) -> Any:
    try:
        if tag == TIMESTAMP:
            return Timestamp(inner)
        if tag == OCTETS:
            return base64.b64decode(inner, validate=True)
        if tag == DECIMAL:
            return Decimal(inner)
        if tag == TEXT:
            return base64.b64decode(inner, validate=True).decode("utf-8", "surrogateescape")
        if tag == NUMBER:
            return float(inner)
        return {name: _value(item) for name, item in inner.items()}
    except (AttributeError, TypeError, ValueError, InvalidOperation, binascii.Error) as error:
        raise ValueError(f"the headers' JSON says {tag} of {inner!r}: {error}") from None
