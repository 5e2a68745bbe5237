"""A message as a test sees it, and in what it differs from the one that the test wants."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from leveret.core.codec.properties import Properties

__all__ = ["SeenMessage", "differences"]

# Of a body that is shown in a line.
SHOWN_BYTES = 80
# Of a body that is compared line by line.
COMPARED_BYTES = 10_000


class SeenMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Properties that the message does not have are not in `properties`."""

    body: bytes
    exchange: str
    routing_key: str
    headers: dict[str, Any]
    properties: dict[str, Any]
    redelivered: bool = False

    @classmethod
    def of(
        cls, exchange: bytes, routing_key: bytes, properties: Properties, body: bytes, redelivered: bool = False
    ) -> SeenMessage:
        fields = properties.fields()
        return cls(
            body=body,
            exchange=exchange.decode("utf-8", "replace"),
            routing_key=routing_key.decode("utf-8", "replace"),
            headers=fields.pop("headers", None) or {},
            properties=fields,
            redelivered=redelivered,
        )

    def json(self) -> Any:
        """The body, decoded. Raises ValueError if it is no JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"the body is no JSON: {error}: {_shortened(self.body)}") from None

    def __str__(self) -> str:
        where = f"to {self.exchange!r} " if self.exchange else ""
        more = {**self.properties, **({"headers": self.headers} if self.headers else {})}
        told = "".join(f" {name}={value!r}" for name, value in sorted(more.items()) if name != "delivery_mode")
        return f"{where}with key {self.routing_key!r}: {_shortened(self.body)}{told}"


def differences(message: SeenMessage, wanted: Mapping[str, Any]) -> list[str]:
    """In what a message is another one than the test wants; nothing if it is that one. Of headers only those that are
    named count."""
    found: list[str] = []
    for name, want in wanted.items():
        if name == "body":
            found.extend(_body_differences(message.body, want))
        elif name == "headers":
            for key, value in want.items():
                if key not in message.headers:
                    found.append(f"header {key!r}: there is none, wanted {value!r}")
                elif message.headers[key] != value:
                    found.append(f"header {key!r}: {message.headers[key]!r}, wanted {value!r}")
        else:
            have = getattr(message, name) if name in ("exchange", "routing_key") else message.properties.get(name)
            if have != want:
                found.append(f"{name}: {have!r}, wanted {want!r}")
    return found


def _body_differences(body: bytes, want: Any) -> list[str]:
    if isinstance(want, str | bytes | bytearray):
        octets = want.encode() if isinstance(want, str) else bytes(want)
        return [] if body == octets else _text_differences(body, octets)
    # Anything else is what the JSON says.
    try:
        have = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [f"body: {_shortened(body)}, wanted JSON: {want!r}"]
    want = msgspec.to_builtins(want)
    if have == want:
        return []
    return ["body:", *_lines(_pretty(have), _pretty(want))]


def _text_differences(body: bytes, want: bytes) -> list[str]:
    if b"\n" not in body + want or len(body) + len(want) > COMPARED_BYTES:
        return [f"body: {_shortened(body)}, wanted {_shortened(want)}"]
    return ["body:", *_lines(body.decode("utf-8", "replace"), want.decode("utf-8", "replace"))]


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode()


def _lines(have: str, want: str) -> list[str]:
    """- is what came, + what was wanted."""
    compared = difflib.ndiff(have.splitlines(), want.splitlines())
    return [f"  {line}" for line in compared if not line.startswith("?")]


def _shortened(body: bytes) -> str:
    if len(body) <= SHOWN_BYTES:
        return repr(body)
    return f"{body[:SHOWN_BYTES]!r}... ({len(body)} bytes)"
