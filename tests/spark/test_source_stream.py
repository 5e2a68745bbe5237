"""spark.readStream.format("leveret"): queries that go on where they were, find what is new, and outlive the broker."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Binding, Exchange, Queue
from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import Publish, publish_to
from tests.spark.tables import WAIT_S, archived, finish, live, name_for, rows_in, source, to_files, wait_for


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def bodies(table: Any) -> list[int]:
    return sorted(int(row.body) for row in table.select("body").collect())


def test_a_query_goes_on_where_it_was(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    """And tells the broker how far it is, for people to see the lag."""
    stream = name_for("growing")
    publish(stream, numbers(0, 100))
    table = live(spark, broker, stream, startingOffsets="earliest", groupName="archive", columns="body,offset")
    assert bodies(archived(table, tmp_path)) == list(range(100))
    publish(stream, numbers(100, 150))
    assert bodies(archived(table, tmp_path)) == list(range(150))
    # Nothing is new: nothing is done.
    assert bodies(archived(table, tmp_path)) == list(range(150))
    tracking = Api(broker).ask("GET", f"/stream/%2F/{stream}/tracking").body
    assert tracking["offsets"] == {"archive": 149}
    stored = source(spark, broker, stream, startingOffsets="stored", groupName="archive")
    assert stored.count() == 0


def test_from_the_end_and_as_it_comes(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    """A query that runs: what was there before is not read, what comes is, and its progress has the lag."""
    stream = name_for("flowing")
    publish(stream, numbers(0, 5))
    query = to_files(
        live(spark, broker, stream, columns="body", groupName="flow"), tmp_path, processingTime="200 milliseconds"
    )
    try:
        wait_for(
            "the first trigger",
            lambda: (tmp_path / "checkpoint" / "offsets" / "0").exists() or query.lastProgress is not None,
        )
        for first in range(5, 35, 10):
            publish(stream, numbers(first, first + 10))
            wait_for("what was published", lambda end=first + 5: rows_in(query) >= end)
        tracked = lambda: Api(broker).ask("GET", f"/stream/%2F/{stream}/tracking").body["offsets"]  # noqa: E731
        last = [progress for progress in query.recentProgress if progress.numInputRows][-1].sources[0]
        assert f'"{stream}": 35' in str(last.latestOffset) or f'"{stream}":35' in str(last.latestOffset)
        wait_for("the group's offset", lambda: tracked().get("flow") == 34)
    finally:
        query.stop()
    assert bodies(spark.read.parquet(str(tmp_path / "out"))) == list(range(5, 35))


def make_super_stream(broker: Broker, name: str, partitions: range) -> None:
    with blocking.connect(broker.url) as connection:
        topology = connection.topology
        topology.declare(Exchange(name, "x-super-stream", arguments={"x-super-stream": True}))
        for number in partitions:
            topology.declare(Queue(f"{name}-{number}", queue_type="stream"))
            topology.declare(
                Binding(name, f"{name}-{number}", str(number), arguments={"x-stream-partition-order": number})
            )


def publish_spread(broker: Broker, exchange: str, first: int, end: int) -> None:
    messages = [Message(body=b"%d" % number, routing_key=f"customer-{number}") for number in range(first, end)]
    with blocking.connect(broker.url) as connection:
        connection.producer(exchange=exchange).publish_batch(messages)


def test_a_super_stream_grows(spark: Any, broker: Broker, tmp_path: Path) -> None:
    name = name_for("super")
    make_super_stream(broker, name, range(2))
    publish_spread(broker, name, 0, 40)
    everything = source(spark, broker, superStream=name).select("stream", "partition", "body").collect()
    assert {(row.stream, row.partition) for row in everything} == {(f"{name}-0", 0), (f"{name}-1", 1)}
    assert len(everything) == 40
    table = live(spark, broker, superStream=name, startingOffsets="earliest", columns="body,partition")
    query = to_files(table, tmp_path, processingTime="200 milliseconds")
    try:
        wait_for("what there is", lambda: rows_in(query) >= 40)
        make_super_stream(broker, name, range(2, 3))
        publish_spread(broker, name, 40, 100)
        wait_for("what came with the new partition", lambda: rows_in(query) >= 100)
    finally:
        query.stop()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert bodies(found) == list(range(100))
    assert {row.partition for row in found.select("partition").distinct().collect()} == {0, 1, 2}


def test_streams_by_pattern_and_new_ones(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    start = name_for("tap")
    publish(f"{start}.a", numbers(0, 3))
    publish(f"{start}.b", numbers(3, 6))
    publish(f"{start}.queue", [b"99"], queue_type="classic")
    publish(f"x{start}.a", [b"99"])
    table = live(spark, broker, streamPattern=f"{start}\\..*", startingOffsets="earliest", columns="body,stream")
    assert bodies(archived(table, tmp_path)) == list(range(6))
    publish(f"{start}.c", numbers(6, 9))
    publish(f"{start}.a", numbers(9, 10))
    assert bodies(archived(table, tmp_path)) == list(range(10))
    # One that is deleted: the query does not go on as if nothing had been there, unless it is told to.
    Api(broker).ask("DELETE", f"/queues/%2F/{start}.b")
    publish(f"{start}.a", numbers(10, 11))
    query = to_files(table, tmp_path)
    try:
        query.awaitTermination(WAIT_S)
        raise AssertionError("a stream was deleted and nobody said so")
    except Exception as error:  # noqa: BLE001  # Spark's own class, with ours in its text
        assert f"{start}.b, which is not read any more" in str(error)
    careless = live(spark, broker, streamPattern=f"{start}\\..*", failOnDataLoss="false", columns="body,stream")
    assert bodies(archived(careless, tmp_path)) == list(range(11))


def test_nothing_matches_the_pattern_yet(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    start = name_for("later")
    table = live(spark, broker, streamPattern=f"{start}-.*", startingOffsets="earliest", columns="body")
    finish(to_files(table, tmp_path))
    publish(f"{start}-1", numbers(0, 4))
    assert bodies(archived(table, tmp_path)) == list(range(4))


def test_a_broker_that_is_restarted_while_it_is_read(spark: Any, lasting: Broker, tmp_path: Path) -> None:
    """In the middle of a batch of a table, and under a query: every message comes once."""
    count = 30_000
    publish_to(lasting, "long", [b"%d" % number + b"." * 1000 for number in range(count)])

    def restart() -> None:
        # As soon as somebody reads.
        until = time.monotonic() + WAIT_S
        while lasting.call(lambda node: int(node.broker.vhosts["/"].queues[b"long"].delivered_total)) < 1000:
            assert time.monotonic() < until
            time.sleep(0.005)
        lasting.stop()
        time.sleep(0.5)
        lasting.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    table = source(spark, lasting, "long", minPartitions=2, columns="body,offset")
    found = table.selectExpr("offset", "cast(split(cast(body as string), '[.]')[0] as int) as number").collect()
    restarting.join()
    assert sorted(row.offset for row in found) == list(range(count))
    assert all(row.offset == row.number for row in found)
    query = to_files(
        live(spark, lasting, "long", startingOffsets="earliest", columns="offset", maxOffsetsPerTrigger=5000),
        tmp_path,
        processingTime="0 seconds",
    )
    try:
        wait_for("the first batches", lambda: rows_in(query) >= 5000)
        lasting.stop()
        time.sleep(1)
        lasting.start()
        wait_for("all of it", lambda: rows_in(query) >= count)
    finally:
        query.stop()
    kept = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.offset for row in kept.collect()) == list(range(count))
