"""Messages between AMQP and JSON: what of one people see, and what they send.

Names and shapes are RabbitMQ's. Numbers that JSON has no name for become plain ones, octets that are no text a note
with their base64; a property in JSON must be of its very kind."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from leveret.catalog.json_tables import is_text
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets, name_text
from leveret.core.codec.properties import PROPERTY_BITS, Properties, encode_properties, parse_properties
from leveret.management.http.errors import HttpError, bad_request
from leveret.management.http.fields import Fields

NUMBERS = {"delivery_mode": 0xFF, "priority": 0xFF, "timestamp": 2**64 - 1}
NOT_TEXT = "Not UTF-8, base64 is: "
AUTO, BASE64 = "auto", "base64"
PERSISTENCE = (1, 2)


# ---- out


def described(
    exchange: bytes,
    key: bytes,
    properties: Properties,
    body: bytes,
    body_size: int,
    encoding: str,
    truncate: int | None,
) -> dict[str, Any]:
    """What every answer with a message says of it."""
    payload, shown_as = payload_of(body, encoding, truncate)
    return {
        "payload_bytes": body_size,
        "exchange": name_of(exchange),
        "routing_key": name_of(key),
        "properties": properties_of(properties),
        "payload": payload,
        "payload_encoding": shown_as,
    }


def payload_of(body: bytes, encoding: str, truncate: int | None) -> tuple[str, str]:
    cut = body if truncate is None else body[:truncate]
    if encoding == AUTO:
        try:
            return cut.decode("utf-8"), "string"
        except UnicodeDecodeError as error:
            # A letter that the cut went through is left out.
            if len(cut) < len(body) and error.reason == "unexpected end of data":
                return cut[: error.start].decode("utf-8"), "string"
    return base64.b64encode(cut).decode("ascii"), BASE64


def properties_of(properties: Properties) -> dict[str, Any]:
    return {name: value_of(value) for name, value in properties.fields().items()}


def value_of(value: Any) -> Any:
    """A value of a table as JSON can say it."""
    if isinstance(value, str):
        octets = name_octets(value)
        try:
            octets.decode("utf-8")
        except UnicodeDecodeError:
            return NOT_TEXT + base64.b64encode(octets).decode("ascii")
        return value
    if isinstance(value, bytes):
        return value_of(name_text(value))
    if isinstance(value, dict):
        return {key: value_of(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [value_of(inner) for inner in value]
    return value


def name_of(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")


# ---- in


def body_of(fields: Fields) -> bytes:
    payload, encoding = fields.values["payload"], fields.values.get("payload_encoding", "string")
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        if not is_text(payload):
            raise bad_request("payload is no valid text")
        return payload.encode("utf-8")
    if encoding != BASE64:
        raise bad_request(["unsupported_encoding", _shown(encoding)])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", _shown(payload)]) from None


def properties_from(fields: Fields) -> Properties:
    """The `properties` of a body; those that AMQP does not have are passed over, as by RabbitMQ."""
    given = fields.values.get("properties", {})
    if given == []:
        # RabbitMQ writes an object without fields like this.
        given = {}
    if not isinstance(given, dict):
        raise bad_request("properties must be an object")
    found: dict[str, Any] = {}
    for name in PROPERTY_BITS:
        if name in given:
            found[name] = _headers(given) if name == "headers" else _property(name, given[name])
    try:
        return parse_properties(encode_properties(**found))
    except (ValueError, TypeError) as error:
        raise bad_request(f"properties: {error}") from None


def _headers(given: dict[str, Any]) -> dict[str, Any]:
    headers = given["headers"]
    if isinstance(headers, dict) and _has_null(headers):
        raise bad_request("null_not_allowed")
    return Fields(given).table("headers")


def _property(name: str, value: Any) -> Any:
    if name in NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(["not_int", name])
        if name == "delivery_mode" and value not in PERSISTENCE:
            raise bad_request(f"406 PRECONDITION_FAILED - invalid message: {{delivery_mode_unknown,{value}}}")
        if not 0 <= value <= NUMBERS[name]:
            raise bad_request(f"{name} is {value}; it must be from 0 to {NUMBERS[name]}")
        return value
    if not isinstance(value, str):
        raise bad_request(["not_string", name])
    if not is_text(value):
        raise bad_request(f"{name} is no valid text")
    if len(value.encode("utf-8")) > NAME_OCTETS_MAX:
        raise bad_request(f"{name} has more than {NAME_OCTETS_MAX} octets")
    return value


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None


def _shown(value: Any) -> str:
    return (value if isinstance(value, str) else repr(value))[:64]


# ---- how people want to see messages


def encoding_of(value: Any) -> str:
    if value not in (AUTO, BASE64):
        raise bad_encoding()
    return str(value)


def bad_encoding() -> HttpError:
    return bad_request("Unsupported encoding. Please use auto or base64.")
