"""The archive: each message of a stream once, whatever happens to the query on the way."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.spark.errors import InvalidOption
from leveret.spark.pipeline.archive import archiving, read_archive, start_archive
from leveret.spark.pipeline.archive.landing import Landing
from leveret.spark.pipeline.lake import Lake
from leveret.testing import Broker

pytestmark = pytest.mark.timeout(600)
NOW = {"availableNow": True}


def publish(
    broker: Broker, queue: str, count: int, first: int = 0, kind: str = "stream", named: bool = True, **more: Any
) -> None:
    numbers = range(first, first + count)
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue(queue, queue_type=kind))
        connection.producer(routing_key=queue).publish_batch(
            [Message(body=f"{queue} {n}".encode(), message_id=f"m{n}" if named else None, **more) for n in numbers]
        )


def run(spark: SparkSession, lake: Lake, broker: Broker, name: str = "archive", **source: str) -> None:
    query = start_archive(spark, lake, {"url": broker.url, **source}, trigger=NOW, name=name)
    query.awaitTermination(90)
    assert not query.isActive


def bodies(spark: SparkSession, lake: Lake) -> Counter[str]:
    return Counter(bytes(row.body).decode() for row in read_archive(spark, lake).select("body").collect())


def once(queue: str, count: int) -> Counter[str]:
    return Counter(f"{queue} {n}" for n in range(count))


def forget_last_commit(lake: Lake, name: str = "archive") -> int:
    """As if Spark had been killed after the batch was written and before it wrote that down."""
    commits = Path(lake.checkpoint(name)) / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdecimal())
    for one in (f"{last}", f".{last}.crc"):
        (commits / one).unlink(missing_ok=True)
    return last


def test_an_archive_that_is_empty(spark: SparkSession, lake: Lake) -> None:
    assert read_archive(spark, lake).count() == 0
    assert read_archive(spark, lake).schema == archiving.ARCHIVED


def test_each_message_once_over_several_runs(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    publish(broker, "orders", 50)
    run(spark, lake, broker, stream="orders", maxOffsetsPerTrigger="20")
    run(spark, lake, broker, stream="orders")
    publish(broker, "orders", 30, first=50)
    run(spark, lake, broker, stream="orders")
    assert bodies(spark, lake) == once("orders", 80)
    row = read_archive(spark, lake).where("offset = 7").first()
    assert row is not None
    assert (row.stream, row.partition, row.message_id, row.routing_key) == ("orders", 0, "m7", "orders")
    assert row.date == datetime.now(UTC).date()


def test_a_batch_that_landed_before_spark_knew_it(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    publish(broker, "orders", 20)
    run(spark, lake, broker, stream="orders")
    forget_last_commit(lake)
    publish(broker, "orders", 20, first=20)
    run(spark, lake, broker, stream="orders")
    assert bodies(spark, lake) == once("orders", 40)


def test_a_batch_that_died_before_it_landed(
    spark: SparkSession, lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(broker, "orders", 20)

    def die(*_: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(Landing, "commit", die)
    with pytest.raises(Exception, match="killed"):
        run(spark, lake, broker, stream="orders")
    monkeypatch.undo()
    # The files are there, and nobody sees them.
    assert list(Path(lake.archive).glob("landing/job=*/attempt=*/stream=orders/*/*.parquet"))
    assert bodies(spark, lake) == Counter()
    run(spark, lake, broker, stream="orders")
    assert bodies(spark, lake) == once("orders", 20)


def test_a_lost_checkpoint_is_seen(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    """The control: exactly once is the checkpoint's doing, and the tests above would see it if it were not."""
    publish(broker, "orders", 10)
    run(spark, lake, broker, stream="orders")
    os.rename(lake.checkpoint("archive"), lake.checkpoint("gone"))
    run(spark, lake, broker, stream="orders")
    assert set(bodies(spark, lake).values()) == {2}


def test_names_that_are_special_in_paths(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    names = ["a/b", "007", "x=y", "50%", "né w", "{q}*?[z]", "c:d", "_e", "..", "orders"]
    for name in names:
        publish(broker, name, 3)
    management = {"managementUrl": broker.management_url}
    run(spark, lake, broker, streamPattern=".*", **management)
    counts = read_archive(spark, lake).groupBy("stream").count().collect()
    assert {row.stream: row["count"] for row in counts} == dict.fromkeys(names, 3)
    assert read_archive(spark, lake).where("stream = '007'").count() == 3


def test_new_streams_of_a_pattern_join(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    publish(broker, "app.a", 5)
    run(spark, lake, broker, streamPattern="app[.].*", managementUrl=broker.management_url)
    publish(broker, "app.b", 5)
    publish(broker, "other", 5)
    run(spark, lake, broker, streamPattern="app[.].*", managementUrl=broker.management_url)
    assert bodies(spark, lake) == once("app.a", 5) + once("app.b", 5)


def test_a_column_that_is_new(spark: SparkSession, lake: Lake, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that an older version wrote have null there."""
    publish(broker, "orders", 5)
    run(spark, lake, broker, stream="orders")
    newer = StructType([*archiving.ARCHIVED.fields, StructField("colour", StringType())])
    monkeypatch.setattr(archiving, "ARCHIVED", newer)
    assert [row.colour for row in read_archive(spark, lake).collect()] == [None] * 5


def test_columns_are_all_there(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    with pytest.raises(InvalidOption, match="whole messages"):
        start_archive(spark, lake, {"url": broker.url, "stream": "s", "columns": "body"}, trigger=NOW)


def test_a_queue_of_dead_letters(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    moment = int(datetime(2024, 5, 6, 12, tzinfo=UTC).timestamp())
    publish(broker, "leveret.archive", 10, kind="classic", timestamp=moment)
    run(spark, lake, broker, "letters", queue="leveret.archive")
    publish(broker, "leveret.archive", 5, first=10, kind="classic")
    # Times that make no sense.
    publish(broker, "leveret.archive", 5, first=15, kind="classic", timestamp=253_402_300_799 * 2)
    run(spark, lake, broker, "letters", queue="leveret.archive")
    assert bodies(spark, lake) == once("leveret.archive", 20)
    rows = read_archive(spark, lake).select("offset", "date").collect()
    assert len({row.offset for row in rows}) == 20
    assert Counter(row.date for row in rows) == {date(2024, 5, 6): 10, datetime.now(UTC).date(): 10}


def test_letters_that_come_again_are_known(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    """The batch was written and not acknowledged: the queue gives it again, and more with it."""
    publish(broker, "letters", 10, kind="classic")
    run(spark, lake, broker, "letters", queue="letters")
    forget_last_commit(lake, "letters")
    publish(broker, "letters", 15, kind="classic")
    # In smaller pieces too.
    run(spark, lake, broker, "letters", queue="letters", maxOffsetsPerTrigger="6")
    assert bodies(spark, lake) == once("letters", 15)


def test_letters_without_an_id_are_never_taken_for_the_same(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    publish(broker, "letters", 1, kind="classic", named=False)
    run(spark, lake, broker, "letters", queue="letters")
    publish(broker, "letters", 1, kind="classic", named=False)
    run(spark, lake, broker, "letters", queue="letters")
    assert bodies(spark, lake) == Counter({"letters 0": 2})
