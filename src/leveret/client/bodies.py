"""What users hand over as a message's body, and get out of it: octets, text, or any type that msgspec knows."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from leveret.client.errors import ClientError

__all__ = ["Undecodable", "decode_body", "encode_body"]

T = TypeVar("T")
OCTETS, TEXT, JSON, MSGPACK = "application/octet-stream", "text/plain", "application/json", "application/msgpack"


class Undecodable(ClientError, ValueError):
    """A message's body is not what its reader expects."""


def encode_body(body: Any) -> tuple[bytes, str]:
    """The octets, and the content type that goes with them. What is neither octets nor text becomes JSON."""
    if isinstance(body, bytes):
        return body, OCTETS
    if isinstance(body, bytearray | memoryview):
        return bytes(body), OCTETS
    if isinstance(body, str):
        return body.encode(), TEXT
    try:
        return msgspec.json.encode(body), JSON
    except (TypeError, msgspec.MsgspecError) as error:
        raise TypeError(f"a body of the type {type(body).__name__} cannot be sent: {error}") from None


def decode_body(body: bytes, content_type: str | None, kind: type[T]) -> T:
    """Reads JSON, or msgpack if the content type says so. `bytes` are taken as they are, `str` unless it is JSON."""
    if kind is bytes:
        return body  # type: ignore[return-value]
    try:
        if kind is str and content_type != JSON:
            return body.decode()  # type: ignore[return-value]
        if content_type in (MSGPACK, "application/x-msgpack", "application/vnd.msgpack"):
            return msgspec.msgpack.decode(body, type=kind)
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Undecodable(f"a body of {len(body)} bytes is no {kind!r}: {error}") from None
