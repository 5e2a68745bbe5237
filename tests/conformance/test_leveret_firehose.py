"""The firehose: copies of what is published and delivered in a virtual host that is traced, as RabbitMQ makes them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret.operations import firehose
from leveret.testing import Broker
from tests.conformance.own_broker import running
from tests.http_client import Api

TRACE = "amq.rabbitmq.trace"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


def trace(broker: Broker, on: bool, vhost: str = "%2F") -> None:
    assert Api(broker).put(f"/vhosts/{vhost}", {"tracing": on}).status in (201, 204)


@contextmanager
def channel_of(broker: Broker, **more: Any) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        yield connection.channel()
    finally:
        connection.close()


@contextmanager
def traced(broker: Broker, key: str = "#") -> Iterator[Any]:
    """A channel that was opened before tracing is on, and its queue of copies."""
    with channel_of(broker) as channel:
        copies = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(copies, TRACE, key)
        channel.copies = copies
        trace(broker, True)
        try:
            yield channel
        finally:
            trace(broker, False)


def take(channel: Any, count: int) -> list[tuple[str, dict[str, Any], bytes]]:
    """So many copies, in their order: key, headers, body."""
    found: list[tuple[str, dict[str, Any], bytes]] = []
    deadline = time.monotonic() + 20
    while len(found) < count:
        assert time.monotonic() < deadline, found
        method, properties, body = channel.basic_get(channel.copies, auto_ack=True)
        if method is None:
            time.sleep(0.01)
        else:
            assert method.exchange == TRACE
            found.append((method.routing_key, properties.headers, body))
    return found


def test_what_is_published_and_delivered(broker: Broker) -> None:
    with traced(broker) as channel:
        channel.queue_declare("work", exclusive=True)
        channel.exchange_declare("jobs", "topic", auto_delete=True)
        channel.queue_bind("work", "jobs", "a.*")
        given = pika.BasicProperties(
            content_type="text/plain", delivery_mode=1, headers={"n": 5, "CC": ["a.c"]}, timestamp=1700000000
        )
        channel.basic_publish("jobs", "a.b", b"hello", given)
        method, _, _ = channel.basic_get("work")
        channel.basic_nack(method.delivery_tag, requeue=True)
        channel.basic_get("work", auto_ack=True)
        (first, came, body), (second, went, _), (third, again, _) = take(channel, 3)
        assert (first, second, third, body) == ("publish.jobs", "deliver.work", "deliver.work", b"hello")
        own = Api(broker).get("/channels").body[0]
        shared = {
            "exchange_name": "jobs",
            "routing_keys": ["a.b", "a.c"],
            "properties": {
                "content_type": "text/plain",
                "delivery_mode": 1,
                "headers": {"n": 5, "CC": ["a.c"]},
                "timestamp": 1700000000,
            },
            "node": own["node"],
            "vhost": "/",
            "connection": own["connection_details"]["name"],
            "channel": 1,
            "user": "guest",
        }
        assert came == {**shared, "routed_queues": ["work"]}
        assert went == {**shared, "redelivered": 0}
        assert again == {**shared, "redelivered": 1}


def test_consumers_streams_and_what_reaches_no_queue(broker: Broker) -> None:
    with traced(broker) as channel:
        channel.queue_declare("pushed", exclusive=True)
        channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_qos(prefetch_count=10)
        bodies: list[bytes] = []
        for name, options in (("pushed", {}), ("stream", {"arguments": {"x-stream-offset": "first"}})):
            channel.basic_consume(name, lambda _channel, _method, _properties, body: bodies.append(body), **options)
        channel.basic_publish("", "nowhere", b"0")
        channel.basic_publish("", "pushed", b"1")
        channel.basic_publish("", "stream", b"2")
        while len(bodies) < 2:
            channel.connection.process_data_events(1)
        found = take(channel, 5)
        assert sorted((key, body) for key, _, body in found) == [
            ("deliver.pushed", b"1"),
            ("deliver.stream", b"2"),
            ("publish.", b"0"),
            ("publish.", b"1"),
            ("publish.", b"2"),
        ]
        assert [headers["routed_queues"] for _, headers, body in found if body == b"0"] == [[]]
        channel.queue_delete("stream")


def test_requests_over_http(broker: Broker) -> None:
    with traced(broker) as channel:
        channel.queue_declare("asked")
        api = Api(broker)
        message = {"routing_key": "asked", "properties": {}, "payload": "x", "payload_encoding": "string"}
        for _ in range(2):
            assert api.post("/exchanges/%2F/amq.default/publish", message).body == {"routed": True}
        body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        assert len(api.post("/queues/%2F/asked/get", body).body) == 1
        assert len(api.get("/queues/%2F/asked/get").body) == 1
        found = take(channel, 4)
        assert [key for key, _, _ in found] == ["publish.", "publish.", "deliver.asked", "deliver.asked"]
        assert {(one["connection"], one["user"]) for _, one, _ in found} == {("HTTP API", "guest")}
        channel.queue_delete("asked")


def publish(channel: Any, body: bytes) -> None:
    """Is done when the broker has it: what is switched on behind it does not concern it."""
    channel.basic_publish("", "nowhere", body)
    channel.exchange_declare(TRACE, passive=True)


def test_only_while_it_is_on_and_only_its_virtual_host(broker: Broker) -> None:
    assert Api(broker).put("/vhosts/other").status == 201
    with channel_of(broker) as channel:
        channel.copies = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(channel.copies, TRACE, "publish.#")
        trace(broker, True, "other")
        publish(channel, b"before")
        trace(broker, True)
        publish(channel, b"during")
        with channel_of(broker) as later:
            publish(later, b"by a later channel")
        assert [body for _, _, body in take(channel, 2)] == [b"during", b"by a later channel"]
        trace(broker, False)
        publish(channel, b"after")
        trace(broker, True)
        publish(channel, b"again")
        assert [body for _, _, body in take(channel, 1)] == [b"again"]
        trace(broker, False)
    assert Api(broker).delete("/vhosts/other").status == 204


def test_copies_are_not_traced_and_nothing_goes_in_circles(broker: Broker) -> None:
    with traced(broker, "deliver.#") as channel:
        channel.queue_declare("q", exclusive=True)
        for number in range(3):
            channel.basic_publish("", "q", str(number).encode())
            channel.basic_get("q", auto_ack=True)
        assert [key for key, _, _ in take(channel, 3)] == ["deliver.q"] * 3
        # Reading the copies has made no more of them.
        assert channel.basic_get(channel.copies, auto_ack=True)[0] is None


def test_a_crowd_is_copied_whole_and_counted(broker: Broker) -> None:
    """More than become messages in one turn; clients are slowed down to that, and nothing is left out."""
    with traced(broker, "publish.#") as channel:
        before = totals(broker)
        for number in range(1000):
            channel.basic_publish("", "nowhere", str(number).encode())
        found = take(channel, 1000)
        assert [int(body) for _, _, body in found] == list(range(1000))
        noted, missed = totals(broker)
        assert (noted - before[0], missed - before[1]) == (1000, 0)


def test_a_turn_ends_by_the_work_that_the_bindings_make(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever binds many queues to the exchange delays copies, not other clients."""
    monkeypatch.setattr(firehose, "WORK_A_TURN", 1)
    left: list[int] = []
    go_on = firehose.Firehose.go_on

    def watched(one: firehose.Firehose) -> None:
        before = len(one.notes.waiting)
        go_on(one)
        left.append(before - len(one.notes.waiting))

    monkeypatch.setattr(firehose.Firehose, "go_on", watched)
    with traced(broker, "publish.#") as channel:
        for number in range(50):
            channel.basic_publish("", "nowhere", str(number).encode())
        take(channel, 50)
    assert left == [1] * 50


def test_copies_show_no_header_that_clients_never_see(broker: Broker) -> None:
    with traced(broker, "publish.#") as channel:
        headers = {"x-death": [{"queue": "forged"}], "BCC": ["nowhere"], "n": 1}
        channel.basic_publish("", "nowhere", b"", pika.BasicProperties(headers=headers))
        ((_, copy, _),) = take(channel, 1)
        assert copy["properties"]["headers"] == {"x-death": [{"queue": "forged"}], "n": 1}


def totals(broker: Broker) -> tuple[int, int]:
    counted: tuple[int, int] = broker.call(lambda node: (node.firehoses.noted_total, node.firehoses.missed_total))
    return counted


def test_tracing_goes_on_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as broker, channel_of(broker) as channel:
        channel.queue_declare("copies", durable=True)
        channel.queue_bind("copies", TRACE, "#")
        trace(broker, True)
    with running(tmp_path) as broker, channel_of(broker) as channel:
        assert Api(broker).get("/vhosts/%2F").body["tracing"] is True
        channel.copies = "copies"
        channel.basic_publish("", "nowhere", b"x")
        ((key, headers, body),) = take(channel, 1)
        assert (key, headers["exchange_name"], body) == ("publish.", "", b"x")
        assert json.dumps(headers["routing_keys"]) == '["nowhere"]'
