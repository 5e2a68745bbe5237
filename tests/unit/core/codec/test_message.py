"""A message: its address, properties and body, and that it never changes."""

from __future__ import annotations

import pytest

from leveret.core.codec.message import make_message, new_message
from leveret.core.codec.properties import encode_properties, parse_properties

PROPERTIES = parse_properties(encode_properties(app_id="me"))


@pytest.mark.parametrize(
    ("exchange", "key"), [(b"x", b"k"), (b"", b"queue"), (b"x", b""), (b"", b""), (b"e" * 255, b"\xff" * 255)]
)
def test_a_message_knows_where_it_was_published(exchange: bytes, key: bytes) -> None:
    made = new_message(exchange, key, PROPERTIES, b"body")
    assert (made.exchange, made.routing_key) == (exchange, key)
    assert made.address == bytes([len(exchange)]) + exchange + bytes([len(key)]) + key


def test_a_message_holds_what_it_was_made_of_without_copies() -> None:
    body, address = b"body" * 10, b"\x01x\x01k"
    made = make_message(address, PROPERTIES, body)
    assert made.body is body
    assert made.address is address
    assert made.properties is PROPERTIES


@pytest.mark.parametrize(("exchange", "key"), [(b"x" * 256, b""), (b"", b"k" * 256)])
def test_names_that_do_not_fit_a_short_string_are_our_mistake(exchange: bytes, key: bytes) -> None:
    with pytest.raises(ValueError, match="256"):
        new_message(exchange, key, PROPERTIES, b"")


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["address", "properties", "body"])
def test_a_message_never_changes(name: str) -> None:
    made = new_message(b"x", b"k", PROPERTIES, b"body")
    with pytest.raises(AttributeError):
        setattr(made, name, b"")
