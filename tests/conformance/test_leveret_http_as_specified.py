"""Every HTTP request of the specification's documents, as it is written there, and the answer that is shown for it.

Bodies are the documents' octets without the comments. Each request goes over a socket as it stands here, so that
nothing is added that the documents do not have."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from leveret.testing import Broker
from tests.http_client import Api

LOGIN = "Authorization: Basic " + base64.b64encode(b"guest:guest").decode()

EXCHANGE = b"""{
    "type": "topic",
    "durable": true,
    "auto_delete": false
  }"""
MESSAGE = rb"""{
    "routing_key": "order.created",
    "properties": {
      "delivery_mode": 2,
      "content_type": "application/json",
      "message_id": "msg_abc123",
      "correlation_id": "req_xyz",
      "expiration": "60000",
      "headers": {"x-retry-count": 0}
    },
    "payload": "{\"order_id\": 12345, \"amount\": 99.99}"
  }"""
QUEUE = b"""{
    "durable": true,
    "exclusive": false,
    "auto_delete": false,
    "arguments": {
      "x-dead-letter-exchange": "dlx",
      "x-dead-letter-routing-key": "dead.order",
      "x-message-ttl": 300000,
      "x-max-length": 1000000,
      "x-max-priority": 10
    }
  }"""
BINDING = b"""{ "routing_key": "order.*" }"""
ACK = b"""{ "delivery_tag": 1, "multiple": false }"""
NACK = b"""{ "delivery_tag": 1, "requeue": false }"""
PAYLOAD = '{"order_id": 12345, "amount": 99.99}'
PROPERTIES = {
    "delivery_mode": 2,
    "content_type": "application/json",
    "message_id": "msg_abc123",
    "correlation_id": "req_xyz",
    "expiration": "60000",
    "headers": {"x-retry-count": 0},
}
DELIVERED = {
    "delivery_tag": 1,
    "exchange": "orders",
    "routing_key": "order.created",
    "properties": PROPERTIES,
    "payload": PAYLOAD,
    "redelivered": False,
}
# low-level-design.md has types where system-design.md has values.
TYPED_MESSAGE = (
    rb"""{"routing_key": "order.created", "properties": {}, "payload": "aGVsbG8=", "payload_encoding": "base64"}"""
)


@dataclass(frozen=True)
class Answer:
    status: int
    head: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(broker: Broker, line: str, body: bytes = b"") -> Answer:
    """One request, and all that comes back."""
    head = f"{line} HTTP/1.1\r\nHost: broker\r\n{LOGIN}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((broker.host, broker.management_port), timeout=20) as sock:
        sock.sendall(head.encode() + body)
        octets = b""
        while chunk := sock.recv(65536):
            octets += chunk
    told, _, rest = octets.partition(b"\r\n\r\n")
    text = told.decode("latin-1")
    if "transfer-encoding: chunked" in text.lower():
        rest = b"".join(chunks(rest))
    return Answer(int(text.split()[1]), text, rest)


def chunks(octets: bytes) -> Iterator[bytes]:
    while octets:
        size, _, octets = octets.partition(b"\r\n")
        yield octets[: int(size, 16)]
        octets = octets[int(size, 16) + 2 :]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def vhost(broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """One of its own, with nothing in it."""
    name = request.node.name.replace("[", "-").rstrip("]")
    api = Api(broker)
    assert api.put(f"/vhosts/{name}").status == 201
    yield name
    assert api.delete(f"/vhosts/{name}").status == 204


def declare(broker: Broker, vhost: str) -> None:
    """What the requests of system-design.md declare, in its order, and the queue of its dead letters."""
    api = Api(broker)
    assert send(broker, f"PUT /exchanges/{vhost}/orders", EXCHANGE).status == 201
    assert send(broker, f"PUT /queues/{vhost}/orders.new", QUEUE).status == 201
    assert send(broker, f"POST /bindings/{vhost}/e/orders/q/orders.new", BINDING).status == 201
    assert api.put(f"/exchanges/{vhost}/dlx", {"type": "direct", "durable": True}).status == 201
    assert api.put(f"/queues/{vhost}/dead-letter-orders", {"durable": True}).status == 201
    assert api.post(f"/bindings/{vhost}/e/dlx/q/dead-letter-orders", {"routing_key": "dead.order"}).status == 201


def count(broker: Broker, vhost: str, queue: str) -> tuple[int, int]:
    found = Api(broker).get(f"/queues/{vhost}/{queue}").body
    return found["messages_ready"], found["messages_unacked"]


def until(broker: Broker, vhost: str, **wanted: tuple[int, int]) -> None:
    """Waits until queues have so many messages: dead letters are carried when the request is answered."""
    deadline = time.monotonic() + 20
    while (found := {name: count(broker, vhost, name) for name in wanted}) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


# What is asked for before a request, and then the request and what is answered: a body, or None for none at all.
PUBLISH = "POST /exchanges/{vhost}/orders/publish"
GET = "GET /queues/{vhost}/orders.new/get?count=10&ack_mode=manual"
SYSTEM_DESIGN: list[tuple[str, list[tuple[str, bytes]], str, bytes, int, Any]] = [
    ("declare_exchange", [], "PUT /exchanges/{vhost}/returns", EXCHANGE, 201, None),
    ("publish", [], PUBLISH, MESSAGE, 200, {"routed": True}),
    ("declare_queue", [], "PUT /queues/{vhost}/returns", QUEUE, 201, None),
    ("bind", [], "POST /bindings/{vhost}/e/orders/q/orders.new", BINDING, 201, None),
    ("get", [(PUBLISH, MESSAGE)], GET, b"", 200, {"messages": [DELIVERED]}),
    ("get_nothing", [], GET, b"", 200, {"messages": []}),
    (
        "ack",
        [(PUBLISH, MESSAGE), (GET, b"")],
        "POST /queues/{vhost}/orders.new/ack",
        ACK,
        200,
        {"acked": 1, "unknown": []},
    ),
    (
        "nack",
        [(PUBLISH, MESSAGE), (GET, b"")],
        "POST /queues/{vhost}/orders.new/nack",
        NACK,
        200,
        {"nacked": 1, "unknown": []},
    ),
]


@pytest.mark.parametrize(
    ("before", "line", "body", "status", "answer"),
    [row[1:] for row in SYSTEM_DESIGN],
    ids=[row[0] for row in SYSTEM_DESIGN],
)
def test_requests_of_system_design(
    broker: Broker, vhost: str, before: list[tuple[str, bytes]], line: str, body: bytes, status: int, answer: Any
) -> None:
    declare(broker, vhost)
    for earlier, earlier_body in before:
        assert send(broker, earlier.format(vhost=vhost), earlier_body).status == 200
    found = send(broker, line.format(vhost=vhost), body)
    assert (found.status, found.json if found.body else None) == (status, answer)


def test_an_answer_is_written_as_the_document_has_it(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    assert send(broker, f"POST /exchanges/{vhost}/orders/publish", MESSAGE).body == b'{"routed":true}'
    got = send(broker, f"GET /queues/{vhost}/orders.new/get?count=10&ack_mode=manual")
    assert list(got.json["messages"][0]) == list(DELIVERED), "the same names in the same order"
    assert "Cache-Control: no-store" in got.head


def test_reprocess_as_written(broker: Broker, vhost: str) -> None:
    """POST /queues/{vhost}/dead-letter-orders/reprocess moves all messages back to where they came from."""
    declare(broker, vhost)
    send(broker, f"POST /exchanges/{vhost}/orders/publish", MESSAGE)
    send(broker, f"GET /queues/{vhost}/orders.new/get?count=10&ack_mode=manual")
    assert send(broker, f"POST /queues/{vhost}/orders.new/nack", NACK).json == {"nacked": 1, "unknown": []}
    until(broker, vhost, **{"dead-letter-orders": (1, 0)})
    assert send(broker, f"POST /queues/{vhost}/dead-letter-orders/reprocess").status in (200, 202)
    until(broker, vhost, **{"dead-letter-orders": (0, 0), "orders.new": (1, 0)})


def test_requests_of_low_level_design(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    published = send(broker, f"POST /api/exchanges/{vhost}/orders/publish", TYPED_MESSAGE)
    assert (published.status, published.body) == (200, b'{"routed":true}')
    queues = send(broker, f"GET /api/queues/{vhost}")
    assert {(one["name"], one["messages"], one["consumers"], one["state"]) for one in queues.json} == {
        ("orders.new", 1, 0, "running"),
        ("dead-letter-orders", 0, 0, "running"),
    }
    queue = send(broker, f"GET /api/queues/{vhost}/orders.new").json
    shown = {name: queue[name] for name in ("name", "messages_ready", "messages_unacked", "consumers")}
    assert shown == {"name": "orders.new", "messages_ready": 1, "messages_unacked": 0, "consumers": 0}
    assert queue["memory"] > 0
    columns = send(broker, f"GET /api/queues/{vhost}?columns=name,messages_unacked&sort=messages_unacked")
    assert {"name": "orders.new", "messages_unacked": 0} in columns.json
    # RabbitMQ's clients want a 204, which has no body: the number is in a header.
    purged = send(broker, f"DELETE /api/queues/{vhost}/orders.new/contents")
    assert (purged.status, purged.body) == (204, b"")
    assert "Messages-Deleted: 1" in purged.head
    send(broker, f"POST /exchanges/{vhost}/orders/publish", MESSAGE)
    purged = send(broker, f"DELETE /queues/{vhost}/orders.new/contents")
    assert (purged.status, purged.body) == (200, b'{"messages_deleted":1}')


# ---- what the documents do not show, and what must hold all the same


def fetch(broker: Broker, vhost: str, query: str = "count=10") -> list[dict[str, Any]]:
    found = send(broker, f"GET /queues/{vhost}/orders.new/get?{query}")
    assert found.status == 200, found
    messages: list[dict[str, Any]] = found.json["messages"]
    return messages


def settle(broker: Broker, vhost: str, how: str, **body: Any) -> Any:
    return send(broker, f"POST /queues/{vhost}/orders.new/{how}", json.dumps(body).encode()).json


def publish(broker: Broker, vhost: str, *payloads: str) -> None:
    for payload in payloads:
        body = json.dumps({"routing_key": "order.x", "payload": payload}).encode()
        assert send(broker, f"POST /exchanges/{vhost}/orders/publish", body).json == {"routed": True}


def test_tags_count_on_and_name_nothing_twice(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    publish(broker, vhost, "a", "b", "c", "d")
    assert [one["delivery_tag"] for one in fetch(broker, vhost, "count=2")] == [1, 2]
    assert settle(broker, vhost, "ack", delivery_tag=2, multiple=True) == {"acked": 2, "unknown": []}
    assert [one["delivery_tag"] for one in fetch(broker, vhost, "count=1")] == [3]
    # Sent again, as by a client that did not get the answer: nobody else's message is acknowledged.
    assert settle(broker, vhost, "ack", delivery_tag=2) == {"acked": 0, "unknown": [2]}
    assert settle(broker, vhost, "nack", delivery_tag=3, requeue=True) == {"nacked": 1, "unknown": []}
    again = fetch(broker, vhost)
    assert [(one["delivery_tag"], one["payload"], one["redelivered"]) for one in again] == [
        (4, "c", True),
        (5, "d", False),
    ]
    assert settle(broker, vhost, "nack", delivery_tag=0, multiple=True, requeue=False) == {"nacked": 2, "unknown": []}
    until(broker, vhost, **{"orders.new": (0, 0), "dead-letter-orders": (2, 0)})


def test_leases_asked_for_under_api_are_others(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    publish(broker, vhost, "a", "b")
    api = Api(broker)
    (other,) = api.get(f"/queues/{vhost}/orders.new/get?count=1").body
    (own,) = fetch(broker, vhost)
    assert (own["delivery_tag"], own["payload"]) == (1, "b")
    assert settle(broker, vhost, "ack", delivery_tag=0, multiple=True) == {"acked": 1, "unknown": []}
    acked = api.post(f"/queues/{vhost}/orders.new/ack", {"delivery_ids": [other["delivery_id"]]}).body
    assert acked == {"acked": 1, "unknown": []}


def test_tags_begin_again_with_a_new_queue(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    publish(broker, vhost, "a")
    assert fetch(broker, vhost)[0]["delivery_tag"] == 1
    assert Api(broker).delete(f"/queues/{vhost}/orders.new").status == 204
    declare_again = send(broker, f"PUT /queues/{vhost}/orders.new", QUEUE)
    assert declare_again.status == 201
    assert send(broker, f"POST /bindings/{vhost}/e/orders/q/orders.new", BINDING).status == 201
    publish(broker, vhost, "b")
    assert fetch(broker, vhost)[0]["delivery_tag"] == 1


def test_what_is_taken_for_good_and_what_is_no_text(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    body = json.dumps({"routing_key": "order.x", "payload": "//4=", "payload_encoding": "base64"}).encode()
    assert send(broker, f"POST /exchanges/{vhost}/orders/publish", body).json == {"routed": True}
    (got,) = fetch(broker, vhost, "ack_mode=auto")
    assert (got["payload"], got["payload_encoding"]) == ("//4=", "base64")
    assert count(broker, vhost, "orders.new") == (0, 0)
    assert settle(broker, vhost, "ack", delivery_tag=got["delivery_tag"])["acked"] == 0


@pytest.mark.parametrize(
    ("line", "body", "reason"),
    [
        ("PUT /queues/{vhost}/own", {"exclusive": True}, "a queue cannot be exclusive here"),
        ("POST /exchanges/{vhost}/orders/publish", {"payload": "x"}, "key_missing,routing_key"),
        ("POST /queues/{vhost}/orders.new/ack", {"multiple": True}, "key_missing,delivery_tag"),
        ("POST /queues/{vhost}/orders.new/ack", {"delivery_tag": -1}, "delivery_tag is -1"),
        ("GET /queues/{vhost}/orders.new/get?count=0", None, "count is 0"),
        ("GET /queues/{vhost}/orders.new/get?ack_mode=x", None, "ack_mode must be"),
    ],
    ids=["exclusive", "no-key", "no-tag", "negative-tag", "no-messages", "ack-mode"],
)
def test_refusals(broker: Broker, vhost: str, line: str, body: Any, reason: str) -> None:
    declare(broker, vhost)
    found = send(broker, line.format(vhost=vhost), b"" if body is None else json.dumps(body).encode())
    assert (found.status, found.json["error"]) == (400, "bad_request")
    assert reason in found.json["reason"]


def test_changes_are_in_the_audit_log(broker: Broker, vhost: str) -> None:
    declare(broker, vhost)
    noted = [one["action"] for one in Api(broker).get("/audit?count=200").body if one["names"].get("vhost") == vhost]
    assert "PUT /exchanges/{vhost}/{exchange}" in noted
    assert "POST /bindings/{vhost}/e/{exchange}/q/{queue}" in noted
