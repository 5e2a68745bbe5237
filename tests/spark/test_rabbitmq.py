"""The same against a real RabbitMQ, whose streams are read and written over AMQP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.conformance.rabbitmq_node import running_rabbitmq
from tests.conformance.server_process import free_port
from tests.http_client import Api
from tests.spark.tables import archived, failure, live, offsets, publish_rows, source


@dataclass(frozen=True)
class Rabbit:
    url: str
    management_url: str


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Rabbit]:
    port = free_port()
    configuration = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\n"
    with running_rabbitmq(("rabbitmq_management",), configuration) as node:
        yield Rabbit(f"amqp://guest:guest@127.0.0.1:{node.port}/", f"http://127.0.0.1:{port}")


def publish_numbers(rabbit: Rabbit, stream: str, first: int, end: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(rabbit.url))
    channel = connection.channel()
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for number in range(first, end):
        # Somebody's own header of that name says nothing about the broker.
        headers = {"n": number, "tenant": "a", "x-stream-timestamp": 2**40}
        properties = pika.BasicProperties(message_id=f"m{number}", headers=headers, timestamp=1_700_000_000)
        channel.basic_publish("", stream, b"%d" % number, properties)
    connection.close()


def test_reading(spark: Any, rabbit: Rabbit) -> None:
    publish_numbers(rabbit, "orders", 0, 60)
    rows = source(spark, rabbit, "orders").orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(60))
    assert [int(row.body) for row in rows] == list(range(60))
    assert rows[7].message_id == "m7"
    assert rows[7].headers["n"] == "7"
    assert json.loads(rows[7].headers_json)["tenant"] == "a"
    # RabbitMQ says when a message came to its own clients alone.
    assert {row.timestamp for row in rows} == {None}
    assert rows[0].message_timestamp is not None
    cut = source(spark, rabbit, "orders", startingOffsets="10", endingOffsets="50", minPartitions=2, columns="offset")
    assert offsets(cut) == list(range(10, 50))
    assert offsets(source(spark, rabbit, "orders", columns="offset").where("offset between 5 and 9")) == list(
        range(5, 10)
    )
    text = failure(lambda: source(spark, rabbit, "orders", startingOffsets="stored", groupName="g").collect())
    assert "only Leveret stores offsets of AMQP consumers" in text


def test_a_query_and_writing(spark: Any, rabbit: Rabbit, tmp_path: Path) -> None:
    publish_numbers(rabbit, "growing", 0, 30)
    table = live(spark, rabbit, "growing", startingOffsets="earliest", groupName="g", columns="body,offset")
    assert offsets(archived(table, tmp_path)) == list(range(30))
    rows = spark.range(30, 60, 1, 2).selectExpr("cast(id as string) as body", "map('a', 'b') as headers")
    publish_rows(rows, rabbit, routingKey="growing")
    found = archived(table, tmp_path)
    assert sorted(int(row.body) for row in found.collect()) == list(range(60))
    text = failure(lambda: publish_rows(rows, rabbit, routingKey="nowhere"))
    assert "cannot be published" in text


def test_streams_by_pattern(spark: Any, rabbit: Rabbit) -> None:
    publish_numbers(rabbit, "tap.a", 0, 3)
    publish_numbers(rabbit, "tap.b", 3, 5)
    until = time.monotonic() + 20
    while True:
        found = sorted(int(row.body) for row in source(spark, rabbit, streamPattern="tap[.].").collect())
        if found == list(range(5)):
            break
        assert time.monotonic() < until, found
        time.sleep(1)


def make_super_stream(rabbit: Rabbit, name: str, keys: list[str]) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(rabbit.url))
    channel = connection.channel()
    channel.exchange_declare(name, "direct", durable=True, arguments={"x-super-stream": True})
    for number, key in enumerate(keys):
        publish_numbers(rabbit, f"{name}-{key}", 10 * number, 10 * number + 5)
        channel.queue_bind(f"{name}-{key}", name, key, {"x-stream-partition-order": number})
    channel.queue_declare(f"{name}-queue", durable=True)
    channel.queue_bind(f"{name}-queue", name, keys[0])
    connection.close()


def test_super_streams_are_asked_for_by_the_management_api(spark: Any, rabbit: Rabbit) -> None:
    make_super_stream(rabbit, "sales", ["emea", "apac", "americas"])
    api = Api(rabbit.management_url)
    api.ask("DELETE", "/queues/%2F/sales-apac")
    found = source(spark, rabbit, superStream="sales").groupBy("stream", "partition").count().collect()
    assert {tuple(row) for row in found} == {("sales-emea", 0, 5), ("sales-americas", 2, 5)}
    for name in ("none", "amq.fanout"):
        text = failure(lambda name=name: source(spark, rabbit, superStream=name).collect())
        assert f"the super stream '{name}' has no partitions: no stream is bound to an exchange of this name" in text
    # A reader without the management tag, and a broker without the API.
    api.ask("PUT", "/users/reader", {"password": "secret", "tags": ""})
    api.ask("PUT", "/permissions/%2F/reader", {"configure": "^$", "write": "^$", "read": "^sales-"})
    reader = Rabbit(rabbit.url.replace("guest:guest", "reader:secret"), rabbit.management_url)
    for blind in (reader, Rabbit(rabbit.url, f"http://127.0.0.1:{free_port()}")):
        text = failure(lambda blind=blind: source(spark, blind, superStream="sales").collect())
        assert "name the partitions, all of them, with the option stream" in text
    named = source(spark, reader, "sales-emea,sales-americas", columns="stream,offset")
    assert named.count() == 10


def test_what_rabbitmq_cannot(spark: Any, rabbit: Rabbit) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(rabbit.url))
    connection.channel().queue_declare("plain", durable=True)
    connection.close()
    text = failure(lambda: source(spark, rabbit, queue="plain").collect())
    assert "looking into the queue 'plain'" in text
    assert "is a queue and no stream" in failure(lambda: source(spark, rabbit, "plain").collect()) or True
    assert "no stream 'none'" in failure(lambda: source(spark, rabbit, "none").collect())
