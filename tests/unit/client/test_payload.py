"""Bodies into typed values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from leveret.client.payload import Decoder, Typed, Undecodable
from leveret.core.codec.properties import parse_properties


class Order(msgspec.Struct):
    number: int


class Received:
    """What of a delivery is read here."""

    def __init__(self, body: bytes, content_type: str | None = None, content_encoding: str | None = None) -> None:
        self.body = body
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.properties = parse_properties(b"\x00\x00")


def decoded(kind: Any, *received: Any) -> Any:
    delivery: Any = Received(*received)
    typed = Decoder(kind).decode(delivery)
    assert isinstance(typed, Typed) and typed.delivery is delivery
    return typed.payload


@pytest.mark.parametrize(
    "content_type", [None, "application/json", "Application/JSON; charset=utf-8", "text/plain", ""]
)
def test_json_is_what_is_expected(content_type: str | None) -> None:
    assert decoded(Order, b'{"number": 1}', content_type) == Order(1)


@pytest.mark.parametrize("content_type", ["application/msgpack", "APPLICATION/X-MSGPACK", "application/order+msgpack"])
def test_msgpack_where_it_is_said(content_type: str) -> None:
    assert decoded(Order, msgspec.msgpack.encode(Order(2)), content_type) == Order(2)


def test_text_and_octets() -> None:
    assert decoded(str, "grün".encode(), "text/plain") == "grün"
    assert decoded(str, b"plain") == "plain"
    assert decoded(str, b'"in JSON"', "application/json") == "in JSON"
    assert decoded(bytes, b"\xff") == b"\xff"
    assert decoded(dict[str, int], b'{"a": 1}') == {"a": 1}
    assert decoded(Order | None, b"null") is None


@pytest.mark.parametrize(
    ("kind", "received"),
    [
        (Order, (b"",)),
        (Order, (b"no JSON",)),
        (Order, (b'{"number": "1"}',)),
        (Order, (b"\xc1", "application/msgpack")),
        (str, (b"\xff", "text/plain")),
        (Any, (b"[" * 100_000,)),
        (Order, (b'{"number": 1}', "application/json", "gzip")),
    ],
)
def test_what_does_not_decode(kind: Any, received: tuple[Any, ...]) -> None:
    with pytest.raises(Undecodable):
        decoded(kind, *received)


def test_names_of_character_sets_are_no_encoding() -> None:
    assert decoded(Order, b'{"number": 1}', "application/json", "UTF-8") == Order(1)
