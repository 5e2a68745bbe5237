"""Properties are kept bit for bit: every property, every field type, and what the broker does not know."""

import struct

import pytest

from tests.conformance.amqp_codec import (
    FRAME_HEADER,
    Typed,
    Value,
    encode_longstr,
    encode_properties,
    encode_shortstr,
    encode_table,
)
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import Topology, unique_name

EVERY_PROPERTY: dict[str, Value] = {
    "content_type": "text/plain",
    "content_encoding": "identity",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c" * 255,
    "reply_to": "somewhere",
    "expiration": "600000",
    "message_id": "ä-1",
    "timestamp": 1_700_000_000,
    "type": "order",
    "user_id": "guest",
    "app_id": "tests",
    "cluster_id": "old",
}

EVERY_TYPE: dict[str, Value] = {
    "bool": True,
    "no": False,
    "signed 8": Typed(b"b", -128),
    "unsigned 8": Typed(b"B", 255),
    "signed 16": Typed(b"s", -32768),
    "unsigned 16": Typed(b"u", 65535),
    "signed 32": Typed(b"I", -(2**31)),
    "unsigned 32": Typed(b"i", 2**32 - 1),
    "signed 64": Typed(b"l", -(2**63)),
    "other 64": Typed(b"L", 2**62),
    "float": Typed(b"f", 0.1),
    "double": Typed(b"d", 0.1),
    "decimal": Typed(b"D", (2, 314)),
    "text": "grüße",
    "empty text": "",
    "array": [1, "two", [Typed(b"b", 3)], {"four": None}],
    "empty array": [],
    "timestamp": Typed(b"T", 1_700_000_000),
    "table": {"nested": {"deeper": {"still": [1.5]}}},
    "empty table": {},
    "void": None,
    "octets": b"\x00\xff\xce",
}


def returned_raw(client: RawClient, queue: str, properties_raw: bytes) -> bytes:
    """Sends these octets as properties and gives those that come back with the message."""
    client.send(1, "basic.publish", routing_key=queue)
    client.send_content(1, b"body", properties_raw)
    delivered = client.call(1, "basic.get", queue=queue, no_ack=True)
    assert delivered.body == b"body"
    return delivered.properties_raw


@pytest.mark.parametrize("name", EVERY_PROPERTY)
def test_each_property_alone(client: RawClient, topology: Topology, name: str) -> None:
    raw = encode_properties({name: EVERY_PROPERTY[name]})
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_all_properties_together(client: RawClient, topology: Topology) -> None:
    raw = encode_properties(EVERY_PROPERTY)
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_no_properties(client: RawClient, topology: Topology) -> None:
    assert returned_raw(client, topology.queue(client), b"\0\0") == b"\0\0"


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_each_field_type(client: RawClient, topology: Topology, name: str) -> None:
    raw = encode_properties({"headers": {name: EVERY_TYPE[name]}})
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_all_field_types_together(client: RawClient, topology: Topology) -> None:
    raw = encode_properties({"headers": EVERY_TYPE, "type": "after the headers"})
    assert returned_raw(client, topology.queue(client), raw) == raw


@pytest.mark.parametrize("durable", [False, True])
def test_properties_of_a_persistent_message(client: RawClient, topology: Topology, durable: bool) -> None:
    raw = encode_properties({**EVERY_PROPERTY, "headers": EVERY_TYPE})
    assert returned_raw(client, topology.queue(client, durable=durable), raw) == raw


def test_empty_properties_are_not_absent_ones(client: RawClient, topology: Topology) -> None:
    raw = encode_properties({"content_type": "", "headers": {}, "correlation_id": "", "message_id": ""})
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_a_key_may_come_twice(client: RawClient, topology: Topology) -> None:
    once = encode_shortstr("same") + b"t\x01"
    raw = struct.pack(">H", 0x2000) + encode_longstr(once + once)
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_keys_keep_their_order(client: RawClient, topology: Topology) -> None:
    raw = encode_properties({"headers": {key: key for key in "zaMb19_"}})
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_a_bool_keeps_its_octet(client: RawClient, topology: Topology) -> None:
    raw = struct.pack(">H", 0x2000) + encode_table({"yes": True, "no": False})
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_text_that_is_not_utf8_passes(client: RawClient, topology: Topology) -> None:
    headers = encode_longstr(encode_shortstr("raw") + b"S" + encode_longstr(b"\xff\xfe"))
    raw = struct.pack(">H", 0x2000) + headers
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_large_headers(client: RawClient, topology: Topology) -> None:
    raw = encode_properties({"headers": {f"key {n}": "x" * 1000 for n in range(100)}})
    assert returned_raw(client, topology.queue(client), raw) == raw


def test_a_fanout_gives_every_queue_the_same(client: RawClient, topology: Topology) -> None:
    exchange = topology.exchange(client, "fanout")
    queues = [topology.bound_queue(client, exchange, "") for _ in range(3)]
    raw = encode_properties({**EVERY_PROPERTY, "headers": EVERY_TYPE})
    client.send(1, "basic.publish", exchange=exchange)
    client.send_content(1, b"body", raw)
    for queue in queues:
        assert client.call(1, "basic.get", queue=queue).properties_raw == raw


def test_a_returned_message_keeps_its_properties(client: RawClient) -> None:
    raw = encode_properties({**EVERY_PROPERTY, "headers": EVERY_TYPE})
    client.send(1, "basic.publish", routing_key=unique_name("nobody"), mandatory=True)
    client.send_content(1, b"body", raw)
    assert client.expect(1, "basic.return").properties_raw == raw


def test_a_consumer_sees_the_same_as_a_get(client: RawClient, topology: Topology) -> None:
    raw = encode_properties({**EVERY_PROPERTY, "headers": EVERY_TYPE})
    queue = topology.queue(client)
    client.call(1, "basic.consume", queue=queue)
    client.send(1, "basic.publish", routing_key=queue)
    client.send_frame(FRAME_HEADER, 1, struct.pack(">HHQ", 60, 0, 0) + raw)
    assert client.expect(1, "basic.deliver").properties_raw == raw


def test_what_remains_beside_a_blind_copy_is_kept(client: RawClient, topology: Topology) -> None:
    # RabbitMQ writes this table anew, and then `L` as `l`.
    kept = {name: value for name, value in EVERY_TYPE.items() if name != "other 64"}
    sent = encode_properties({**EVERY_PROPERTY, "headers": {"BCC": ["nobody"], **kept}})
    expected = encode_properties({**EVERY_PROPERTY, "headers": kept})
    assert returned_raw(client, topology.queue(client), sent) == expected
