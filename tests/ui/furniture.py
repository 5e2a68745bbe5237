"""A broker with something to show: orders that flow, dead letters, a stream, policies, users of every kind."""

from __future__ import annotations

import gzip
import json
import threading
import time
from types import TracebackType

import pika

from leveret.testing import Broker
from tests.http_client import Api, name

TAGS = ("administrator", "monitoring", "policymaker", "management", "")
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def make_users(api: Api) -> None:
    for tag in TAGS:
        user = tag or "untagged"
        assert api.put(f"/users/{user}", {"password": user, "tags": tag}).status in (201, 204)
        assert api.put(f"/permissions/%2F/{user}", EVERYTHING).status in (201, 204)


def make_topology(api: Api) -> None:
    for exchange, kind in (("orders", "topic"), ("events", "fanout"), ("dead", "direct"), ("unrouted", "fanout")):
        arguments = {"alternate-exchange": "unrouted"} if exchange == "orders" else {}
        assert (
            api.put(f"/exchanges/%2F/{exchange}", {"type": kind, "durable": True, "arguments": arguments}).status < 300
        )
    dead = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "orders"}
    queues = {
        "orders.new": dead,
        "orders.paid": dead,
        "orders.shipping": {**dead, "x-max-priority": 5},
        "invoices": {"x-message-ttl": 86_400_000, "x-max-length": 100_000},
        "emails": {},
        "orders.dead": {},
        "audit-log": {"x-queue-type": "stream", "x-max-age": "7D"},
    }
    for queue, arguments in queues.items():
        assert api.put(f"/queues/%2F/{name(queue)}", {"durable": True, "arguments": arguments}).status < 300
    bindings = {
        ("orders", "orders.new", "order.*.created"),
        ("orders", "orders.paid", "order.*.paid"),
        ("orders", "orders.shipping", "order.*.shipped"),
        ("orders", "invoices", "order.#.paid"),
        ("events", "emails", ""),
        ("events", "audit-log", ""),
        ("dead", "orders.dead", "orders"),
    }
    for exchange, queue, key in bindings:
        assert api.post(f"/bindings/%2F/e/{exchange}/q/{name(queue)}", {"routing_key": key}).status == 201
    assert api.post("/bindings/%2F/e/orders/e/events", {"routing_key": "order.#"}).status == 201
    policy = {"pattern": "^invoices$", "definition": {"max-length": 50_000}, "apply-to": "queues", "priority": 1}
    assert api.put("/policies/%2F/short-queues", policy).status < 300


def order(number: int) -> bytes:
    lines = [{"sku": "coffee", "count": 2}, {"sku": "tea", "count": 1}]
    return json.dumps({"order": 4700 + number, "customer": f"c-{number % 17}", "total": 12.5, "lines": lines}).encode()


def fill(url: str, scale: int = 1) -> None:
    """Messages that wait, messages that died, bodies of several kinds."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    plain = pika.BasicProperties(delivery_mode=2, content_type="application/json", headers={"tenant": "blue", "try": 1})
    for number in range(40 * scale):
        step = ("created", "paid", "shipped")[number % 3]
        channel.basic_publish("orders", f"order.eu.{step}", order(number), plain)
    packed = pika.BasicProperties(content_type="application/json", content_encoding="gzip")
    channel.basic_publish("", "emails", gzip.compress(order(0)), packed)
    channel.basic_publish("", "emails", b"\x82\xa4kind\xa5order\xa5total\xcb@)\x00\x00\x00\x00\x00\x00")
    for number in range(9 * scale):
        error = ("stock service answered 503", "address is not valid", "card was declined")[number % 3]
        failed = pika.BasicProperties(delivery_mode=2, content_type="application/json", headers={"x-error": error})
        channel.basic_publish("", ("orders.new", "orders.paid")[number % 2], order(number), failed)
    for queue in ("orders.new", "orders.paid"):
        seen = 0
        while (found := channel.basic_get(queue))[0] is not None:
            method, properties, _ = found
            seen += 1
            if "x-error" in (properties.headers or {}):
                channel.basic_reject(method.delivery_tag, requeue=False)
            elif seen > 200 * scale:
                break
    connection.close()


class Traffic:
    """Publishes and consumes as long as it is entered, so that charts have something to draw."""

    def __init__(self, broker: Broker, per_second: float = 40) -> None:
        self._url = broker.url
        self._pause_s = 1 / per_second
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._publish), threading.Thread(target=self._consume)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _connect(self, given_name: str) -> pika.BlockingConnection:
        parameters = pika.URLParameters(self._url)
        parameters.client_properties = {"connection_name": given_name}
        return pika.BlockingConnection(parameters)

    def _publish(self) -> None:
        connection = self._connect("shop-frontend")
        channel = connection.channel()
        number = 0
        while not self._over.is_set():
            number += 1
            step = ("created", "paid", "shipped")[number % 3]
            properties = pika.BasicProperties(delivery_mode=2, content_type="application/json")
            channel.basic_publish("orders", f"order.eu.{step}", order(number), properties)
            time.sleep(self._pause_s * (1.5 if (number // 200) % 2 else 0.6))
        connection.close()

    def _consume(self) -> None:
        connection = self._connect("billing-worker")
        channel = connection.channel()
        channel.basic_qos(prefetch_count=50)
        for queue in ("orders.paid", "emails", "orders.shipping"):
            channel.basic_consume(queue, lambda ch, method, _properties, _body: ch.basic_ack(method.delivery_tag))
        while not self._over.is_set():
            connection.process_data_events(time_limit=0.1)
        connection.close()
