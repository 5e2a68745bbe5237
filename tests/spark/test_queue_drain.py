"""readStream on a queue: its messages are taken into a table, and acknowledged when they are safe there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from leveret.testing import Broker
from tests.spark.conftest import Publish
from tests.spark.tables import WAIT_S, archived, failure, finish, live, name_for, to_files


def bodies(table: Any) -> list[int]:
    return sorted(int(row.body) for row in table.select("body").collect())


def wait_until_empty(broker: Broker, queue: str) -> None:
    watched = broker.queue(queue)
    until = time.monotonic() + WAIT_S
    while watched.count or watched.unacked_count:
        assert time.monotonic() < until, f"{watched.count} wait, {watched.unacked_count} are held"
        time.sleep(0.1)


def test_a_queue_is_emptied_into_a_table(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    queue = name_for("drained")
    publish(queue, [b"%d" % number for number in range(100)], queue_type="classic")
    table = live(spark, broker, queue=queue, maxOffsetsPerTrigger=30, columns="body,stream,offset,timestamp")
    found = archived(table, tmp_path)
    assert bodies(found) == list(range(100))
    assert {row.stream for row in found.collect()} == {queue}
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 4
    # All is acknowledged, the last batch too.
    assert (broker.queue(queue).count, broker.queue(queue).unacked_count) == (0, 0)
    publish(queue, [b"100"], queue_type="classic")
    assert bodies(archived(table, tmp_path)) == list(range(101))


def test_messages_are_held_until_the_batch_is_committed(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path
) -> None:
    """A batch that fails acknowledges nothing: its messages are back in the queue, and come again."""
    queue = name_for("drained")
    publish(queue, [b"%d" % number for number in range(10)], queue_type="classic")
    seen: list[tuple[int, int]] = []

    def fail(batch: Any, number: int) -> None:
        watched = broker.queue(queue)
        seen.append((batch.count(), watched.unacked_count))
        raise RuntimeError("killed before it was committed")

    table = live(spark, broker, queue=queue, columns="body")
    writer = table.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    assert "killed before it was committed" in failure(lambda: finish(writer.foreachBatch(fail).start()))
    assert seen == [(10, 10)]
    broker.queue(queue).expect(10, within_s=10)
    kept: list[int] = []
    finish(writer.foreachBatch(lambda batch, number: kept.extend(bodies(batch))).start())
    assert sorted(kept) == list(range(10))
    wait_until_empty(broker, queue)


def test_it_goes_on_as_messages_come(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    queue = name_for("drained")
    publish(queue, [], queue_type="classic")
    query = to_files(live(spark, broker, queue=queue, columns="body"), tmp_path, processingTime="200 milliseconds")
    try:
        for first in (0, 50):
            publish(queue, [b"%d" % number for number in range(first, first + 50)], queue_type="classic")
            until = time.monotonic() + WAIT_S
            while sum(progress.numInputRows for progress in query.recentProgress) < first + 50:
                assert time.monotonic() < until
                time.sleep(0.2)
        wait_until_empty(broker, queue)
    finally:
        query.stop()
    assert bodies(spark.read.parquet(str(tmp_path / "out"))) == list(range(100))


def test_more_than_a_prefetch_can_say(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    queue = name_for("drained")
    publish(queue, [b"1", b"2"], queue_type="classic")
    table = live(spark, broker, queue=queue, maxOffsetsPerTrigger=1_000_000, columns="body")
    assert bodies(archived(table, tmp_path)) == [1, 2]


def test_no_such_queue(spark: Any, broker: Broker, tmp_path: Path) -> None:
    text = failure(lambda: finish(to_files(live(spark, broker, queue="no-such-queue"), tmp_path)))
    assert "there is no queue 'no-such-queue' in the virtual host '/'" in text
