"""Publishing rows: whatever Spark runs again, a stream has each of them once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from leveret.client import blocking
from leveret.client.topology import Binding, Exchange, Queue
from leveret.testing import Broker
from tests.spark.conftest import Publish, publish_to
from tests.spark.tables import failure, finish, live, name_for, options_for, publish_rows, source

PROGRAM = Path(__file__).with_name("program_retries.py")


def make(broker: Broker, *streams: str) -> None:
    for name in streams:
        publish_to(broker, name, [])


def values(spark: Any, broker: Broker, stream: str) -> list[int]:
    return sorted(int(row.body) for row in source(spark, broker, stream, columns="body").collect())


def rows(spark: Any, count: int, tasks: int = 2) -> Any:
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) as body")


class TestTables:
    def test_columns_become_messages(self, spark: Any, broker: Broker) -> None:
        exchange, stream = name_for("sink"), name_for("sink")
        make(broker, stream)
        with blocking.connect(broker.url) as connection:
            connection.topology.declare(Exchange(exchange, "topic"))
            connection.topology.declare(Binding(exchange, stream, "orders.#"))
        table = spark.sql(
            f"""select '{{"n": 1}}' as value, '{exchange}' as exchange, 'orders.de' as routing_key, 'm-1' as message_id,
            map('tenant', 'a', 'none', null) as headers, 'application/json' as content_type, 3 as priority,
            timestamp'2026-01-02 03:04:05' as message_timestamp, '60000' as expiration, 'c' as correlation_id"""
        )
        publish_rows(table, broker)
        publish_rows(
            rows(spark, 1),
            broker,
            exchange=exchange,
            routingKey="orders.fr",
            priority=9,
            persistent="false",
            contentType="text/plain",
        )
        first, second = source(spark, broker, stream).orderBy("offset").collect()
        assert (first.body, first.exchange, first.routing_key, first.message_id) == (
            b'{"n": 1}',
            exchange,
            "orders.de",
            "m-1",
        )
        assert (first.content_type, first.priority, first.expiration, first.correlation_id) == (
            "application/json",
            3,
            "60000",
            "c",
        )
        assert (first.headers["tenant"], first.headers["none"], first.delivery_mode) == ("a", None, 2)
        assert first.message_timestamp.isoformat().startswith("2026-01-02T03:04:05")
        assert (second.routing_key, second.priority, second.delivery_mode, second.content_type) == (
            "orders.fr",
            9,
            1,
            "text/plain",
        )
        assert second.message_id.startswith("spark-")

    def test_written_again_with_its_id(self, spark: Any, broker: Broker) -> None:
        """And the negative control: without one everything is there twice."""
        stream = name_for("again")
        make(broker, stream)
        for _ in range(2):
            publish_rows(rows(spark, 100), broker, routingKey=stream, writeId="load-1")
        assert values(spark, broker, stream) == list(range(100))
        publish_rows(rows(spark, 100), broker, routingKey=stream, writeId="load-2")
        assert values(spark, broker, stream) == sorted(2 * list(range(100)))

    def test_ids_of_the_data(self, spark: Any, broker: Broker) -> None:
        """Where tasks have other rows the next time: each row says itself what it is."""
        stream = name_for("own")
        make(broker, stream)
        ids = "concat('p', id % 3) as producer_name, id as publishing_id"
        query = f"select cast(id as string) as body, {ids} from range({{}})"
        publish_rows(
            spark.sql(query.format(50)).repartition(1).sortWithinPartitions("publishing_id"), broker, routingKey=stream
        )
        publish_rows(
            spark.sql(query.format(60)).repartition(1).sortWithinPartitions("publishing_id"), broker, routingKey=stream
        )
        assert values(spark, broker, stream) == list(range(60))

    def test_a_task_that_is_run_again(self, broker: Broker, publish: Publish, tmp_path: Path) -> None:
        """A task dies when it has published everything; Spark runs it once more. Spark runs a task just once in the
        session of the other tests, so this has a process of its own."""
        stream = name_for("retried")
        publish(stream, [])
        command = [sys.executable, str(PROGRAM), broker.url, stream, str(tmp_path / "died")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found = broker.queue(stream).messages()
        assert len(found) == 30_000
        assert sorted(int(message.body) for message in found) == list(range(30_000))
        # It was published by both attempts, and the stream knew what it had.
        known = broker.call(lambda node: int(node.broker.vhosts["/"].queues[stream.encode()].known_total))
        assert known > 0

    def test_what_cannot_be_written(self, spark: Any, broker: Broker) -> None:
        stream = name_for("wrong")
        make(broker, stream)
        one = rows(spark, 1)
        cases = [
            (
                one.withColumnRenamed("body", "text"),
                {"routingKey": stream},
                "a column body (or value) must be there; there are text",
            ),
            (
                one.selectExpr("body", "1 as colour"),
                {"routingKey": stream},
                "nobody knows what the columns colour are for",
            ),
            (
                one.selectExpr("1 as body"),
                {"routingKey": stream},
                "the column body is int; it must be binary or string",
            ),
            (one, {}, "a column routing_key or the option routingKey must be there"),
            (
                one.selectExpr("body", "'p' as producer_name"),
                {"routingKey": stream},
                "producer_name and publishing_id go together",
            ),
            (one, {"routingKey": stream, "badRows": "divert"}, 'badRows="divert" and badRowsPath go together'),
            (one, {"routingKey": stream, "startingOffsets": "earliest"}, "'startingOffsets' is for reading alone"),
        ]
        for table, options, why in cases:
            assert why in failure(lambda table=table, options=options: publish_rows(table, broker, **options))
        writer = one.write.format("leveret").options(**options_for(broker, {"routingKey": stream})).mode("overwrite")
        assert 'a broker cannot be overwritten: use mode("append")' in failure(writer.save)
        assert values(spark, broker, stream) == []

    def test_a_broker_that_is_restarted_while_rows_are_written(self, spark: Any, lasting: Broker) -> None:
        publish_to(lasting, "out", [])
        count = 40_000

        def restart() -> None:
            until = time.monotonic() + 60
            while lasting.call(lambda node: int(node.broker.vhosts["/"].queues[b"out"].published_total)) < 1000:
                assert time.monotonic() < until
                time.sleep(0.005)
            lasting.stop()
            time.sleep(0.5)
            lasting.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        table = spark.range(0, count, 1, 2).selectExpr("concat(cast(id as string), '.', repeat('x', 500)) as body")
        publish_rows(table, lasting, routingKey="out")
        restarting.join()
        found = (
            source(spark, lasting, "out", columns="body")
            .selectExpr("split(cast(body as string), '[.]')[0] as n")
            .collect()
        )
        assert sorted(int(row.n) for row in found) == list(range(count))


class TestQueries:
    @pytest.fixture
    def streams(self, broker: Broker, publish: Publish) -> tuple[str, str]:
        first, second = name_for("from"), name_for("to")
        publish(first, [b"%d" % number for number in range(200)])
        make(broker, second)
        return first, second

    def start(self, spark: Any, broker: Broker, streams: tuple[str, str], checkpoint: Path, **options: Any) -> Any:
        first, second = streams
        table = live(
            spark, broker, first, startingOffsets="earliest", maxOffsetsPerTrigger=60, columns="body", minPartitions=2
        )
        writer = table.writeStream.format("leveret").options(**options_for(broker, {"routingKey": second, **options}))
        return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()

    def test_a_batch_that_is_run_again(
        self, spark: Any, broker: Broker, streams: tuple[str, str], tmp_path: Path
    ) -> None:
        """It was published, and the query ended before Spark had noted that: the batch comes again. The negative
        control is a new checkpoint, which is another query."""
        finish(self.start(spark, broker, streams, tmp_path / "a"))
        assert values(spark, broker, streams[1]) == list(range(200))
        commits = sorted((tmp_path / "a" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        assert len(commits) == 4
        commits[-1].unlink()
        (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
        finish(self.start(spark, broker, streams, tmp_path / "a"))
        assert (tmp_path / "a" / "commits" / commits[-1].name).exists(), "the batch was not run again"
        assert values(spark, broker, streams[1]) == list(range(200))
        finish(self.start(spark, broker, streams, tmp_path / "b"))
        assert len(values(spark, broker, streams[1])) == 400

    @pytest.mark.parametrize("columns", ["stream,offset,body", "body"])
    def test_a_batch_that_failed_and_is_run_again_in_other_tasks(
        self, spark: Any, broker: Broker, publish: Publish, tmp_path: Path, columns: str
    ) -> None:
        """One row has no queue at first. What the tasks of that attempt have published comes in other tasks the next
        time: known by stream and offset it is there once; by contents alone it may be there twice, but is not lost."""
        count, odd = 4_000, 3_100
        first, second, late = name_for("from"), name_for("to"), name_for("late")
        publish(first, [b"%d" % number for number in range(count)])
        make(broker, second)

        def attempt(tasks: int) -> None:
            table = live(spark, broker, first, startingOffsets="earliest", columns=columns, minPartitions=tasks)
            key = f"if(cast(body as string) = '{odd}', '{late}', '{second}') as routing_key"
            writer = table.selectExpr("*", key).writeStream.format("leveret").options(**options_for(broker, {}))
            finish(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())

        assert late in failure(lambda: attempt(4))
        assert values(spark, broker, second), "the first attempt has published something"
        make(broker, late)
        attempt(2)
        assert values(spark, broker, late) == [odd]
        found, expected = values(spark, broker, second), [number for number in range(count) if number != odd]
        assert (found if "offset" in columns else sorted(set(found))) == expected

    def test_complete_mode_is_refused(
        self, spark: Any, broker: Broker, streams: tuple[str, str], tmp_path: Path
    ) -> None:
        counted = live(spark, broker, streams[0]).groupBy("routing_key").count()
        table = counted.selectExpr("cast(count as string) as body")
        writer = table.writeStream.format("leveret").options(**options_for(broker, {"routingKey": streams[1]}))
        query = writer.outputMode("complete").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert 'the output mode "complete"' in failure(lambda: finish(query.start()))


def test_queues_with_deduplication(spark: Any, broker: Broker) -> None:
    """A queue knows messages by their ids, if it was declared so."""
    name = name_for("once")
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue(name, arguments={"x-message-deduplication": True, "x-cache-ttl": 600_000}))
    for _ in range(2):
        publish_rows(rows(spark, 20), broker, routingKey=name, writeId="load")
    assert broker.queue(name).count == 20
