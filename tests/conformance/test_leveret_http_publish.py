"""Publishing over HTTP: RabbitMQ's requests, answers and refusals, and what stands behind them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.conformance.http_scene import Scene


@pytest.fixture
def scene(broker: Any) -> Scene:
    return Scene(broker)


BODY: dict[str, Any] = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}


def test_a_published_message_says_where_it_went_and_is_there(scene: Scene) -> None:
    name = scene.queue()
    reply = scene.publish(name, "hello")
    assert (reply.status, reply.body) == (200, {"routed": True})
    (got,) = scene.get(name).body
    assert got == {
        "payload_bytes": 5,
        "redelivered": False,
        "exchange": "",
        "routing_key": name,
        "message_count": 0,
        "properties": {"delivery_mode": 2},
        "payload": "hello",
        "payload_encoding": "string",
    }


def test_what_reaches_no_queue_is_not_routed(scene: Scene) -> None:
    assert scene.publish("nowhere", "x").body == {"routed": False}


def test_the_answer_comes_when_the_message_is_on_disk(scene: Scene) -> None:
    name = scene.queue()
    before = scene.broker.call(lambda node: node.store.journal.synced_batch)
    scene.publish(name, "x")
    assert scene.broker.call(lambda node: node.store.journal.synced_batch) > before


# What RabbitMQ 3.10.8 says, word for word; but for the last few, where it answers 500.
REFUSALS: list[tuple[dict[str, Any], Any]] = [
    ({"properties": {"delivery_mode": "2"}}, ["not_int", "delivery_mode"]),
    ({"properties": {"delivery_mode": 1.5}}, ["not_int", "delivery_mode"]),
    ({"properties": {"timestamp": "5"}}, ["not_int", "timestamp"]),
    ({"properties": {"content_type": 5}}, ["not_string", "content_type"]),
    ({"properties": {"expiration": 5}}, ["not_string", "expiration"]),
    ({"properties": {"expiration": "abc"}}, "406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer"),
    ({"properties": {"delivery_mode": 7}}, "406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,7}"),
    ({"properties": {"headers": {"n": None}}}, "null_not_allowed"),
    (
        {"properties": {"user_id": "bob"}},
        "406 PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'",
    ),
    (
        {"properties": {"reply_to": "amq.rabbitmq.reply-to"}},
        "406 PRECONDITION_FAILED - fast reply consumer does not exist",
    ),
    ({"payload_encoding": "hex"}, ["unsupported_encoding", "hex"]),
    ({"payload_encoding": "base64", "payload": "!!!"}, ["not_base64", "!!!"]),
    ({"payload": 5}, "payload_not_string"),
    ({"payload": {"a": 1}}, "payload_not_string"),
    ({"properties": "x"}, "properties must be an object"),
    ({"properties": {"headers": "x"}}, "headers: it must be an object"),
    ({"properties": {"priority": -1}}, "priority is -1; it must be from 0 to 255"),
    ({"properties": {"content_type": "x" * 256}}, "content_type has more than 255 octets"),
    ({"routing_key": "x" * 256}, "406 PRECONDITION_FAILED - the routing key has 256 octets of at most 255"),
    ({"routing_key": 5}, "routing_key is 5; it must be a text"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSALS)
def test_what_cannot_be_published_is_refused_with_the_reason(scene: Scene, change: dict[str, Any], reason: Any) -> None:
    reply = scene.api.post("/exchanges/%2F/amq.default/publish", {**BODY, **change})
    assert (reply.status, reply.body) == (400, {"error": "bad_request", "reason": reason})


def test_missing_keys_are_all_named(scene: Scene) -> None:
    reply = scene.api.post("/exchanges/%2F/amq.default/publish", {"routing_key": "q", "payload": "x"})
    reason = "[{key_missing,properties},{key_missing,payload_encoding}]"
    assert (reply.status, reply.body["reason"]) == (400, reason)
    assert scene.api.post("/exchanges/%2F/amq.default/publish", raw=b"{").body["reason"] == "not_json"


def test_an_exchange_that_is_not_there_or_not_for_clients(scene: Scene) -> None:
    reply = scene.api.post("/exchanges/%2F/nosuch/publish", BODY)
    assert (reply.status, reply.body["reason"]) == (400, "404 NOT_FOUND - no exchange 'nosuch' in vhost '/'")
    scene.api.put("/exchanges/%2F/http-inner", {"type": "fanout", "internal": True})
    reply = scene.api.post("/exchanges/%2F/http-inner/publish", BODY)
    reason = "403 ACCESS_REFUSED - cannot publish to internal exchange 'http-inner' in vhost '/'"
    assert (reply.status, reply.body["reason"]) == (400, reason)
    assert scene.api.post("/exchanges/nosuch/x/publish", BODY).status == 404


def test_a_full_queue_that_refuses_is_told(scene: Scene) -> None:
    name = scene.queue({"x-max-length": 1, "x-overflow": "reject-publish"})
    assert scene.publish(name, "1").status == 200
    reply = scene.publish(name, "2")
    assert (reply.status, reply.body["reason"]) == (400, "rejected Unable to publish message. Check queue limits.")
    assert scene.payloads(name) == ["1"]


def test_every_property_and_kind_of_header_comes_back(scene: Scene) -> None:
    name = scene.queue()
    properties = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "delivery_mode": 1,
        "priority": 5,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "600000",
        "message_id": "m",
        "timestamp": 1700000000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
        "headers": {"i": 1, "big": 2**40, "f": 1.5, "b": True, "l": [1, "é", {"z": 2}], "t": {"x": {"y": []}}},
        "bogus": "is passed over",
    }
    assert scene.publish(name, "x", properties=properties).status == 200
    (got,) = scene.get(name).body
    del properties["bogus"]
    assert got["properties"] == properties


def test_whole_numbers_in_headers_have_64_bits_as_with_rabbitmq(scene: Scene) -> None:
    name = scene.queue()
    scene.publish(name, "x", properties={"headers": {"i": 1}})
    raw = scene.of_queue(name, lambda queue: queue.ready_entries()[0].message.properties.raw)
    assert b"\x01il" + (1).to_bytes(8, "big") in raw


@pytest.mark.parametrize("size", [0, 1, 16 * 1024 * 1024 - 1024])
def test_bodies_of_every_size_pass_unchanged(scene: Scene, size: int) -> None:
    name = scene.queue()
    body = bytes(range(256)) * (size // 256) + b"\xff" * (size % 256)
    encoded = base64.b64encode(body).decode()
    reply = scene.publish(name, encoded, payload_encoding="base64")
    if len(encoded) > 20 * 1024 * 1024 - 1024:
        assert reply.status == 413
        return
    assert reply.status == 200
    (got,) = scene.get(name, encoding="base64").body
    assert (got["payload_bytes"], base64.b64decode(got["payload"])) == (size, body)


def test_alarms_hold_publishers_up(scene: Scene) -> None:
    name = scene.queue()
    scene.broker.raise_alarm("memory")
    try:
        reply = scene.publish(name, "x")
        assert (reply.status, reply.body["error"]) == (503, "blocked")
        assert "memory" in reply.body["reason"]
        assert reply.headers["retry-after"]
    finally:
        scene.broker.clear_alarm("memory")
    assert scene.publish(name, "x").status == 200


def test_publishing_takes_write_and_topics_are_asked_for(scene: Scene) -> None:
    nobody = scene.user("management", read=".*")
    reply = nobody.post("/exchanges/%2F/amq.default/publish", BODY)
    assert reply.status == 400
    assert reply.body["reason"].startswith("403 ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused")
    assert scene.user("", write=".*").post("/exchanges/%2F/amq.default/publish", BODY).status == 401
    assert scene.user("management").post("/exchanges/%2F/amq.default/publish", BODY).status == 401
    writer = scene.user("management", write=".*")
    name = writer.get("/whoami").body["name"]
    scene.api.put(f"/topic-permissions/%2F/{name}", {"exchange": "amq.topic", "write": "^mine\\.", "read": ""})
    assert writer.post("/exchanges/%2F/amq.topic/publish", {**BODY, "routing_key": "mine.x"}).status == 200
    refused = writer.post("/exchanges/%2F/amq.topic/publish", {**BODY, "routing_key": "yours.x"})
    assert (refused.status, "access to topic 'yours.x'" in refused.body["reason"]) == (400, True)


def test_copies_alternates_and_delays_work_as_for_clients(scene: Scene) -> None:
    first, second = scene.queue(), scene.queue()
    reply = scene.publish(first, "x", properties={"headers": {"CC": [second], "BCC": [second]}})
    assert reply.body == {"routed": True}
    assert scene.payloads(second) == ["x"]
    (got,) = scene.get(first).body
    assert got["properties"]["headers"] == {"CC": [second]}, "nobody sees BCC"
    scene.api.put("/exchanges/%2F/http-ae", {"type": "fanout"})
    scene.api.post(f"/bindings/%2F/e/http-ae/q/{first}", {})
    scene.api.put("/exchanges/%2F/http-main", {"type": "direct", "arguments": {"alternate-exchange": "http-ae"}})
    assert scene.publish("k", "x", "http-main").body == {"routed": True}
    assert scene.payloads(first) == ["x"]
    later = scene.publish(second, "later", properties={"headers": {"x-delay": 60000}})
    assert later.body == {"routed": True}
    assert "later" not in scene.payloads(second)


def test_what_is_published_counts_like_any_other(scene: Scene) -> None:
    name = scene.queue()
    before = scene.broker.call(lambda node: node.statistics.totals().protocols["amqp091"].received)
    scene.fill(name, "1", "2")
    assert scene.broker.call(lambda node: node.statistics.totals().protocols["amqp091"].received) == before + 2
    assert scene.of_queue(name, lambda queue: queue.published_total) == 2
