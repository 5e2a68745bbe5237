"""How much a micro-batch takes, how long it waits for more, and into how many tasks it is cut."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from leveret.testing import Broker
from tests.spark.conftest import Publish
from tests.spark.tables import archived, checkpoint_offsets, finish, live, name_for, offsets, source, to_files


def test_available_now_has_a_fixed_end_and_keeps_the_limit(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path
) -> None:
    """Each batch makes more messages; what came after the query began waits for the next query."""
    first, second = name_for("bounded"), name_for("bounded")
    publish(first, [b""] * 70)
    publish(second, [b""] * 30)
    table = live(
        spark,
        broker,
        stream=f"{first},{second}",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=40,
        columns="stream,offset",
    )
    sizes = []

    def more(batch: Any, number: int) -> None:
        sizes.append(batch.count())
        publish(first, [b""] * 10)

    query = table.writeStream.foreachBatch(more).option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(query.trigger(availableNow=True).start())
    assert sizes == [40, 40, 20]
    ends = checkpoint_offsets(tmp_path)
    assert ends[-1] == {first: 70, second: 30}
    # Each stream has its share of every batch.
    assert ends[0] == {first: 28, second: 12}
    sizes.clear()
    finish(query.trigger(availableNow=True).start())
    assert sizes == [30]


def test_a_query_waits_for_enough_messages_but_not_for_ever(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path
) -> None:
    stream = name_for("patient")
    publish(stream, [b""] * 10)
    options = {"minOffsetsPerTrigger": 100, "maxTriggerDelay": "6s", "columns": "offset"}
    query = to_files(
        live(spark, broker, stream, startingOffsets="earliest", **options), tmp_path, processingTime="100 milliseconds"
    )
    try:
        begun = time.monotonic()
        # Spark begins a query with a batch in any case; this one has nothing in it.
        while {stream: 10} not in (ends := checkpoint_offsets(tmp_path)):
            assert ends in ([], [{stream: 0}])
            assert time.monotonic() - begun < 40, "it waits for ever"
            time.sleep(0.1)
        waited = time.monotonic() - begun
        assert waited > 3, f"it did not wait for more: {waited:.1f} s"
        publish(stream, [b""] * 120)
        begun = time.monotonic()
        while {stream: 130} not in checkpoint_offsets(tmp_path):
            assert time.monotonic() - begun < 20
            time.sleep(0.1)
        assert len(checkpoint_offsets(tmp_path)) <= 3
    finally:
        query.stop()


def test_ranges_are_cut_into_tasks(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    stream = name_for("wide")
    publish(stream, [b""] * 100)
    table = source(spark, broker, stream, columns="offset")
    assert table.rdd.getNumPartitions() == 1
    for options, tasks in (({"minPartitions": 7}, 7), ({"maxRecordsPerPartition": 30}, 4)):
        cut = source(spark, broker, stream, columns="offset", **options)
        assert cut.rdd.getNumPartitions() == tasks
        assert offsets(cut) == list(range(100))
    growing = live(spark, broker, stream, startingOffsets="earliest", minPartitions=3, columns="offset")
    assert offsets(archived(growing, tmp_path)) == list(range(100))
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
