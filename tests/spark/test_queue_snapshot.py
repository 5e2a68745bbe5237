"""spark.read on a queue: what waits there as a table, with nothing taken and nothing changed."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pika
import pytest
from pyspark.sql.datasource import InputPartition

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.core.codec.field_types import Timestamp
from leveret.spark.options import READ, read_options
from leveret.spark.queue_snapshot import QueueSnapshot
from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import Publish
from tests.spark.tables import failure, name_for, options_for, publish_rows, source


def test_it_shows_all_and_changes_nothing(spark: Any, broker: Broker, publish: Publish) -> None:
    queue = name_for("waiting")
    headers = {"tenant": "a", "n": 5, "at": Timestamp(1_700_000_000), "list": [1, {"x": None}]}
    first = Message(
        body=b"\x00\xff",
        headers=headers,
        message_id="m",
        priority=4,
        timestamp=1_700_000_001,
        content_type="text/plain",
    )
    publish(queue, [first, *(b"%d" % number for number in range(2500))], queue_type="classic")
    before = Api(broker).ask("GET", f"/queues/%2F/{queue}").body
    rows = source(spark, broker, queue=queue).orderBy("offset").collect()
    assert [row.body for row in rows[1:]] == [b"%d" % number for number in range(2500)]
    row = rows[0]
    assert (row.body, row.message_id, row.priority, row.content_type, row.stream) == (
        b"\x00\xff",
        "m",
        4,
        "text/plain",
        queue,
    )
    assert (row.exchange, row.routing_key) == ("", queue)
    assert row.message_timestamp.astimezone(UTC) == datetime.fromtimestamp(1_700_000_001, UTC)
    assert abs(row.timestamp.astimezone(UTC) - datetime.now(UTC)).total_seconds() < 600
    assert (row.headers["tenant"], row.headers["n"]) == ("a", "5")
    assert json.loads(row.headers_json)["list"] == [1, {"x": None}]
    assert (rows[1].headers, rows[1].message_id is None) == (None, False)
    # Once more, and nothing has moved.
    assert source(spark, broker, queue=queue, columns="offset").count() == 2501
    after = Api(broker).ask("GET", f"/queues/%2F/{queue}").body
    for name in ("messages_ready", "messages_unacknowledged", "consumers"):
        assert after[name] == before[name], name
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    method, _, body = connection.channel().basic_get(queue)
    assert (method.redelivered, body) == (False, b"\x00\xff")
    connection.close()


def test_dead_letters_with_sql(spark: Any, broker: Broker, publish: Publish) -> None:
    graves, work = name_for("graves"), name_for("work")
    publish(graves, [Message(headers={"x-first-death-reason": 5, "x-death": "nonsense"})], queue_type="classic")
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(
            Queue(work, message_ttl_ms=1, dead_letter_exchange="", dead_letter_routing_key=graves)
        )
        for _ in range(3):
            connection.producer().publish(b"late", routing_key=work)
    broker.queue(graves).expect(4)
    source(spark, broker, queue=graves).createOrReplaceTempView("deadletters")
    found = spark.sql(
        "select last_death_reason, last_death_queue, count(*), sum(death_count) from deadletters group by 1, 2"
    )
    assert {tuple(row) for row in found.collect()} == {("expired", work, 3, 3), (None, None, 1, None)}


def test_columns_and_limit(spark: Any, broker: Broker, publish: Publish) -> None:
    queue = name_for("waiting")
    publish(queue, [b"%d" % number for number in range(30)], queue_type="classic")
    table = source(spark, broker, queue=queue, columns="body", limit=7)
    assert [row.body for row in table.collect()] == [b"%d" % number for number in range(7)]
    assert source(spark, broker, queue=queue).where("cast(body as string) = '11'").count() == 1


def test_an_empty_queue_and_none(spark: Any, broker: Broker, publish: Publish) -> None:
    queue = name_for("waiting")
    publish(queue, [], queue_type="classic")
    assert source(spark, broker, queue=queue).collect() == []
    text = failure(lambda: source(spark, broker, queue="no-such-queue").collect())
    assert "looking into the queue 'no-such-queue'" in text
    assert "404" in text
    text = failure(lambda: source(spark, broker, queue=queue, startingOffsets="earliest").collect())
    assert "the option queue is given, and startingOffsets, which is for streams" in text


def test_while_a_consumer_eats_the_head(spark: Any, broker: Broker, publish: Publish) -> None:
    """What stays in the queue all the time is seen, and nothing is seen twice."""
    queue = name_for("eaten")
    publish(queue, [b"%d" % number for number in range(6000)], queue_type="classic")
    stopped = threading.Event()

    def eat() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        for _ in range(3000):
            if stopped.is_set():
                break
            channel.basic_get(queue, auto_ack=True)
            time.sleep(0.0005)
        connection.close()

    eating = threading.Thread(target=eat)
    eating.start()
    try:
        found = [int(row.body) for row in source(spark, broker, queue=queue, columns="body").collect()]
    finally:
        stopped.set()
        eating.join()
    assert len(found) == len(set(found))
    left = {int(message.body) for message in broker.queue(queue).messages()}
    assert left <= set(found), f"{len(left - set(found))} that stayed were not seen"


@pytest.mark.parametrize(("count", "mib"), [(60, 3), (24, 10)])
def test_large_messages(broker: Broker, publish: Publish, count: int, mib: int) -> None:
    """The API's answers end at 32 MiB, so a page may have very few: all are seen all the same. Read as a task does it,
    without Spark."""
    queue = name_for("large")
    for number in range(count):
        publish(queue, [b"%d " % number + bytes(mib * 1024 * 1024)], queue_type="classic")
    options = read_options(options_for(broker, {"queue": queue}), READ)
    reader = QueueSnapshot(options, ["offset", "body"])
    found = [
        int(body.as_buffer().slice(0, 8).to_pybytes().split()[0])
        for table in reader.read(InputPartition(0))
        for body in table.column("body")
    ]
    assert found == list(range(count))


def test_what_was_seen_can_be_sent_again(spark: Any, broker: Broker, publish: Publish) -> None:
    queue, stream = name_for("waiting"), name_for("again")
    headers = {"at": Timestamp(1_700_000_000), "octets": b"\xff", "text": "x"}
    publish(queue, [Message(body=b"1", headers=headers)], queue_type="classic")
    publish(stream, [Message(body=b"2", headers=headers)])
    publish_rows(source(spark, broker, queue=queue).select("body", "headers_json"), broker, routingKey=stream)
    exact, seen = source(spark, broker, stream).orderBy("offset").collect()
    kept = {name: value for name, value in json.loads(seen.headers_json).items() if not name.startswith("x-p")}
    assert json.loads(exact.headers_json)["text"] == kept["text"]
    assert kept.keys() == headers.keys()
