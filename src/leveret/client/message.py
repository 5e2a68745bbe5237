"""Messages as users hand them over: what may stand in one, and how it is written.

A value that is wrong is refused here, with the name of its field, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

import msgspec

from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.core.codec.properties import encode_properties

__all__ = ["Body", "Message", "MessageProperties", "check_headers", "encode_body", "written_properties"]

# bytes go as they are, text as UTF-8, and anything else that msgspec knows as JSON: Structs, dicts, lists, dataclasses.
Body = Any

TEXT, JSON = "text/plain", "application/json"
EXPIRATION_S_MAX = 315_360_000
TEXTS = frozenset(
    ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "user_id", "app_id")
)


class MessageProperties(TypedDict, total=False):
    """The properties of a message that are given by name; what is None is left out.

    `expiration` is a number of seconds, a timedelta, or the milliseconds as a text of digits as AMQP has them.
    `timestamp` is a datetime or the seconds since 1970. `delivery_mode` is 2, which survives a restart of the broker,
    unless 1 is given."""

    content_type: str | None
    content_encoding: str | None
    delivery_mode: int
    priority: int | None
    correlation_id: str | None
    reply_to: str | None
    expiration: float | str | timedelta | None
    timestamp: int | datetime | None
    type: str | None
    user_id: str | None
    app_id: str | None


class Message(msgspec.Struct, omit_defaults=True):
    """A message for `publish_batch`, or wherever a body is taken. What is None is as the producer has it."""

    body: Body = b""
    exchange: str | None = None
    routing_key: str | None = None
    mandatory: bool | None = None
    headers: Mapping[str, Any] | None = None
    message_id: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: float | str | timedelta | None = None
    timestamp: int | datetime | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None

    def properties(self) -> dict[str, Any]:
        """Those that are given, without headers and message id."""
        return {name: value for name in _PROPERTIES if (value := getattr(self, name)) is not None}


_PROPERTIES = Message.__struct_fields__[6:]


def encode_body(body: Body) -> tuple[bytes, str | None]:
    """Its octets, and its content type if that follows from what it is."""
    if type(body) is bytes:
        return body, None
    if isinstance(body, str):
        return body.encode(), TEXT
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), None
    if body is None:
        raise TypeError("body is None; an empty message has b'' as its body")
    try:
        return msgspec.json.encode(body), JSON
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise TypeError(f"body is a {type(body).__name__} that cannot be written as JSON: {error}") from None


def written_properties(properties: Mapping[str, Any], headers: Mapping[str, Any] | None, message_id: str) -> bytes:
    """As they stand on the wire. Raises TypeError or ValueError, naming the field."""
    fields: dict[str, Any] = {}
    for name, value in properties.items():
        if value is not None:
            fields[name] = _checked(name, value)
    if headers is not None:
        check_headers(headers)
        fields["headers"] = dict(headers)
    if message_id:
        fields["message_id"] = _checked("message_id", message_id)
    return encode_properties(**fields)


def _checked(name: str, value: Any) -> Any:
    if name in TEXTS:
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a text")
        size = len(name_octets(value))
        if size > NAME_OCTETS_MAX:
            raise ValueError(f"{name} has {size} bytes, more than {NAME_OCTETS_MAX}")
        return value
    check = _CHECKS.get(name)
    if check is None:
        raise TypeError(f"a message has no property {name!r}; there are {', '.join(_PROPERTIES)}")
    return check(value)


def check_headers(headers: Mapping[str, Any] | None) -> None:
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {headers!r}, not a mapping")
    for key in headers:
        if not isinstance(key, str):
            raise TypeError(f"headers has the key {key!r}, which is not a text")


def _delivery_mode(value: Any) -> int:
    if value not in (1, 2):
        raise ValueError(f"delivery_mode is {value!r}, not 1 (transient) or 2 (persistent)")
    return int(value)


def _priority(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 255:
        raise ValueError(f"priority is {value!r}, not a number from 0 to 255")
    return value


def _timestamp(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"timestamp is {value!r}, not a datetime or the seconds since 1970")
    return value


def _expiration(value: Any) -> str:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f"expiration is {value!r}; as a text it is milliseconds in digits")
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= EXPIRATION_S_MAX:
        raise ValueError(f"expiration is {value!r}, not seconds from 0 to {EXPIRATION_S_MAX}")
    return str(round(seconds * 1000))


_CHECKS = {
    "delivery_mode": _delivery_mode,
    "priority": _priority,
    "timestamp": _timestamp,
    "expiration": _expiration,
}
