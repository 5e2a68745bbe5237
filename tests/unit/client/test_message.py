"""Messages as users hand them over: bodies, and properties that are checked by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from leveret.client.message import Message, encode_body, written_properties
from leveret.core.codec.properties import parse_properties


class Order(msgspec.Struct):
    number: int


@pytest.mark.parametrize(
    ("body", "octets", "content_type"),
    [
        (b"raw", b"raw", None),
        (bytearray(b"raw"), b"raw", None),
        (memoryview(b"raw"), b"raw", None),
        ("tëxt", "tëxt".encode(), "text/plain"),
        (Order(17), b'{"number":17}', "application/json"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
        ([1, 2], b"[1,2]", "application/json"),
    ],
)
def test_bodies(body: Any, octets: bytes, content_type: str | None) -> None:
    assert encode_body(body) == (octets, content_type)
    assert type(encode_body(body)[0]) is bytes


@pytest.mark.parametrize("body", [None, object(), {"a": object()}])
def test_a_body_that_cannot_be_written(body: Any) -> None:
    with pytest.raises(TypeError, match="body"):
        encode_body(body)


def written(**properties: Any) -> dict[str, Any]:
    return parse_properties(written_properties(properties, None, "")).fields()


@pytest.mark.parametrize(
    ("expiration", "milliseconds"),
    [(1, "1000"), (0.25, "250"), ("1500", "1500"), (timedelta(minutes=1), "60000"), (0, "0")],
)
def test_expiration_is_in_seconds_or_as_amqp_has_it(expiration: Any, milliseconds: str) -> None:
    assert written(expiration=expiration) == {"expiration": milliseconds}


def test_timestamp() -> None:
    assert written(timestamp=1_700_000_000)["timestamp"] == 1_700_000_000
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert written(timestamp=moment)["timestamp"] == moment.timestamp()


def test_what_is_none_is_left_out() -> None:
    assert written(app_id=None, priority=3) == {"priority": 3}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", 256),
        ("priority", -1),
        ("priority", True),
        ("priority", "high"),
        ("delivery_mode", 3),
        ("delivery_mode", "persistent"),
        ("expiration", "soon"),
        ("expiration", -1),
        ("expiration", []),
        ("timestamp", -5),
        ("timestamp", "now"),
        ("correlation_id", 17),
        ("content_type", b"text/plain"),
        ("reply_to", "x" * 256),
        ("app_id", "ü" * 128),
        ("cluster_id", "x"),
        ("prioritty", 1),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        written(**{name: value})


@pytest.mark.parametrize("headers", [[1], {1: 2}, {"a": object()}, "x"])
def test_wrong_headers(headers: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="headers"):
        written_properties({}, headers, "")


def test_a_message_knows_what_was_given() -> None:
    message = Message(b"x", priority=0, type="order", headers={"a": 1}, message_id="7")
    assert message.properties() == {"priority": 0, "type": "order"}
