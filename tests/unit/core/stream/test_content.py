"""An entry as basic.deliver: the octets of the record with the offset among the headers, and nothing else changed."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.codec.message import new_message
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.stream.content import message_at, with_offset
from tests.conformance import amqp_codec
from tests.unit.core.stream.test_consumer import Reading

PROPERTIES: list[dict[str, Any]] = [
    {},
    {"content_type": "text/plain"},
    {"content_encoding": "gzip"},
    {"content_type": "t" * 255, "content_encoding": "", "headers": {}},
    {"headers": {"a": 1, "b": "two", "c": {"d": [1, 2]}}},
    {"content_type": "x", "headers": {"a": None}, "delivery_mode": 2, "priority": 9},
    {"delivery_mode": 1, "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m"},
    {"timestamp": 1_700_000_000, "type": "t", "user_id": "guest", "app_id": "a"},
]


@pytest.mark.parametrize("properties", PROPERTIES)
@pytest.mark.parametrize("body", [b"", b"b", b"body" * 100])
def test_a_delivery_is_what_was_published_and_its_offset(properties: dict[str, Any], body: bytes) -> None:
    reading = Reading()
    raw = parse_properties(amqp_codec.encode_properties(properties))
    for _ in range(3):
        reading.stream.publish(new_message(b"exchange", b"key", raw, body))
    reading.sync()
    reading.consume(2)
    (sent,) = reading.bench.sent()
    assert sent.name == "basic.deliver" and sent.body == body
    assert (sent.fields["exchange"], sent.fields["routing_key"]) == ("exchange", "key")
    found = amqp_codec.decode_properties(sent.properties)
    headers = found.pop("headers")
    assert headers.pop("x-stream-offset") == 2
    assert (headers, found) == (properties.get("headers", {}), {k: v for k, v in properties.items() if k != "headers"})


def test_offsets_of_all_sizes() -> None:
    reading = Reading()
    for offset in (0, 1 << 31, (1 << 32) + 5, (1 << 62)):
        reading.log.resume(reading.log.segments, offset, 0, 0, True)
        reading.publish(1)
        reading.consume(offset)
        assert reading.came()[-1] == offset


def test_the_message_in_an_entry() -> None:
    reading = Reading()
    raw = parse_properties(encode_properties(content_type="a/b", headers={"x": 1}))
    reading.office.now = 12345
    reading.stream.publish(new_message(b"e", b"k", raw, b"body"))
    reading.sync()
    image = reading.stream_store.images[0]
    found = message_at(image, 64 + 32)
    assert (found.address, found.body, found.stamp) == (b"\x01e\x01k", b"body", 12345)
    assert found.properties.raw == raw.raw
    dressed = with_offset(found, 9, False)
    assert dressed.properties.headers() == {"x": 1, "x-stream-offset": 9}
    assert dressed.properties.content_type == found.properties.content_type
    assert found.properties.headers() == {"x": 1}, "what is in the stream stays what it is"
