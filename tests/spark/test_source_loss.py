"""Retention that is faster than a reader: an error that names both offsets, or a warning, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import Publish
from tests.spark.tables import (
    archived,
    checkpoint_positions,
    failure,
    finish,
    live,
    name_for,
    offsets,
    rows_in,
    source,
    to_files,
    wait_for,
)

SMALL: dict[str, Any] = {"arguments": {"x-max-length-bytes": 60_000, "x-stream-max-segment-size-bytes": 20_000}}


def publish_much(publish: Publish, stream: str) -> None:
    """More than the stream keeps, in several steps: a segment ends between them."""
    for _ in range(10):
        publish(stream, [b"x" * 1000] * 20, **SMALL)


def first_offset(spark: Any, broker: Broker, stream: str) -> int:
    return offsets(source(spark, broker, stream, columns="offset"))[0]


def test_a_batch_that_begins_too_early(spark: Any, broker: Broker, publish: Publish) -> None:
    stream = name_for("short")
    publish_much(publish, stream)
    first = first_offset(spark, broker, stream)
    assert 0 < first < 200
    text = failure(lambda: source(spark, broker, stream, startingOffsets="0").collect())
    assert f"startingOffsets of '{stream}' is 0, and the oldest message there is is {first}" in text
    assert "failOnDataLoss=false" in text
    table = source(spark, broker, stream, startingOffsets="0", failOnDataLoss="false")
    assert offsets(table) == list(range(first, 200))
    text = failure(lambda: source(spark, broker, stream, endingOffsets="201").collect())
    assert f"endingOffsets of '{stream}' is 201, and the stream ends at 200" in text


def test_a_query_that_comes_too_late(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    stream = name_for("short")
    publish(stream, [b"x"] * 10, **SMALL)
    table = live(spark, broker, stream, startingOffsets="earliest", columns="offset")
    assert offsets(archived(table, tmp_path)) == list(range(10))
    publish_much(publish, stream)
    first = first_offset(spark, broker, stream)
    text = failure(lambda: finish(to_files(table, tmp_path)))
    assert f"the messages 10 to {first - 1} of the stream '{stream}' are gone" in text
    careless = live(spark, broker, stream, failOnDataLoss="false", columns="offset")
    assert offsets(archived(careless, tmp_path)) == [*range(10), *range(first, 210)]


@pytest.mark.parametrize("fails", [True, False])
def test_retention_while_a_range_is_read(spark: Any, broker: Broker, publish: Publish, fails: bool) -> None:
    """The range was cut while everything was there; when the task reads it, some of it is not."""
    stream = name_for("race")
    publish(stream, [b"x" * 1000] * 10, **SMALL)
    table = source(spark, broker, stream, columns="offset", failOnDataLoss=str(fails).lower())
    # The plan is made, with the ranges in it, and kept.
    plan = table._jdf.queryExecution().executedPlan()
    assert plan is not None
    tasks = table.rdd
    assert tasks.getNumPartitions() == 1
    publish_much(publish, stream)
    if fails:
        text = failure(tasks.collect)
        assert f"the messages 0 to 9 of the stream '{stream}' are gone: they were deleted by its retention" in text
    else:
        assert tasks.collect() == []


def test_a_group_that_comes_back_too_late(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    """What is behind the stored offset is gone: that is a loss, too."""
    stream = name_for("stored")
    publish(stream, [b"x"] * 10, **SMALL)
    options = {"groupName": "g", "columns": "offset"}
    archived(live(spark, broker, stream, startingOffsets="earliest", **options), tmp_path / "one")
    publish_much(publish, stream)
    first = first_offset(spark, broker, stream)
    late = live(spark, broker, stream, startingOffsets="stored", **options)
    gone = f"the messages 10 to {first - 1} of the stream '{stream}' are gone"
    assert gone in failure(lambda: finish(to_files(late, tmp_path / "two")))
    careless = live(spark, broker, stream, startingOffsets="stored", failOnDataLoss="false", **options)
    assert offsets(archived(careless, tmp_path / "three")) == list(range(first, 210))


# ---- streams that are deleted


@pytest.mark.parametrize("count", [5, 10, 30])
def test_a_stream_that_was_made_anew(spark: Any, broker: Broker, publish: Publish, tmp_path: Path, count: int) -> None:
    """With fewer messages than the checkpoint has seen, as many, or more: it is another stream."""
    stream = name_for("anew")
    publish(stream, [b"old"] * 10)
    options = {"startingOffsets": "earliest", "columns": "offset,body", "groupName": "g"}
    table = live(spark, broker, stream, **options)
    archived(table, tmp_path)
    Api(broker).ask("DELETE", f"/queues/%2F/{stream}")
    publish(stream, [b"new"] * count)
    text = failure(lambda: finish(to_files(table, tmp_path)))
    assert f"the checkpoint is at offset 10 of the stream '{stream}' with the id" in text
    assert "it was deleted and made anew" in text
    careless = live(spark, broker, stream, failOnDataLoss="false", **options)
    found = archived(careless, tmp_path)
    assert sorted((row.body, row.offset) for row in found.collect()) == [
        *((b"new", offset) for offset in range(count)),
        *((b"old", offset) for offset in range(10)),
    ]
    position = checkpoint_positions(tmp_path)[-1][stream]
    assert (position["offset"], position["planned"], position["vanished"]) == (count, 10 + count, 1)


def test_a_batch_that_was_planned_for_a_stream_that_is_another_one_now(
    spark: Any, broker: Broker, publish: Publish
) -> None:
    """The ranges are cut; before a task reads them, the stream is deleted and made anew."""
    stream = name_for("anew")
    publish(stream, [b"old"] * 10)
    tables = [source(spark, broker, stream, columns="body", failOnDataLoss=fails) for fails in ("true", "false")]
    tasks = [table.rdd for table in tables]
    assert [one.getNumPartitions() for one in tasks] == [1, 1]
    Api(broker).ask("DELETE", f"/queues/%2F/{stream}")
    gone = f"the messages 0 to 9 of the stream '{stream}' are gone: it was deleted, or made anew"
    assert gone in failure(tasks[0].collect)
    assert tasks[1].collect() == []
    publish(stream, [b"new"] * 20)
    assert gone in failure(tasks[0].collect)
    assert tasks[1].collect() == []


def test_a_checkpoint_of_a_version_without_identities(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path
) -> None:
    stream = name_for("old")
    publish(stream, [b"x"] * 10)
    table = live(spark, broker, stream, startingOffsets="earliest", columns="offset")
    assert offsets(archived(table, tmp_path)) == list(range(10))
    log = tmp_path / "checkpoint" / "offsets" / "0"
    lines = log.read_text().splitlines()
    # As that version wrote it. Hadoop's checksum is of the other text.
    log.write_text("\n".join([*lines[:2], f'{{"{stream}": 10}}']))
    (log.parent / ".0.crc").unlink()
    assert offsets(archived(table, tmp_path)) == list(range(10))
    assert len(checkpoint_positions(tmp_path)) == 1, "nothing came, and so there is no batch"
    publish(stream, [b"x"] * 5)
    assert offsets(archived(table, tmp_path)) == list(range(15))
    assert checkpoint_positions(tmp_path)[-1][stream]["id"]


def make_super_stream(broker: Broker, name: str, keys: list[str]) -> None:
    made = Api(broker).ask("PUT", f"/stream/super-streams/%2F/{name}", {"binding-keys": ",".join(keys)})
    assert made.status < 300


def test_partitions_with_any_names_are_found(spark: Any, broker: Broker, publish: Publish) -> None:
    name = name_for("sales")
    make_super_stream(broker, name, ["emea", "apac", "americas"])
    for count, key in enumerate(["emea", "apac", "americas"], 1):
        publish(f"{name}-{key}", [b"x"] * count)
    found = source(spark, broker, superStream=name).groupBy("stream", "partition").count().collect()
    assert {tuple(row) for row in found} == {(f"{name}-emea", 0, 1), (f"{name}-apac", 1, 2), (f"{name}-americas", 2, 3)}


def test_a_partition_that_is_deleted_hides_no_others(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path
) -> None:
    name = name_for("super")
    make_super_stream(broker, name, ["0", "1", "2"])
    for number in range(3):
        publish(f"{name}-{number}", [b"%d" % number] * (number + 10))
    options = {"superStream": name, "startingOffsets": "earliest", "columns": "stream,offset"}
    table = live(spark, broker, **options)
    assert archived(table, tmp_path).count() == 33
    Api(broker).ask("DELETE", f"/queues/%2F/{name}-1")
    publish(f"{name}-2", [b"more"] * 5)
    found = source(spark, broker, superStream=name).groupBy("stream", "partition").count().collect()
    assert {tuple(row) for row in found} == {(f"{name}-0", 0, 10), (f"{name}-2", 2, 17)}
    # A query that has read it does not go on as if nothing had been there, unless it is told to.
    text = failure(lambda: finish(to_files(table, tmp_path)))
    assert f"the checkpoint has offsets of {name}-1, which is not read any more" in text
    careless = live(spark, broker, failOnDataLoss="false", **options)
    assert archived(careless, tmp_path).count() == 38
    batches = len(checkpoint_positions(tmp_path))
    assert archived(careless, tmp_path).count() == 38
    assert len(checkpoint_positions(tmp_path)) == batches, "what is missing is told once"


def test_a_partition_that_is_deleted_under_a_running_query(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path
) -> None:
    name = name_for("super")
    make_super_stream(broker, name, ["a", "b"])
    for key in ("a", "b"):
        publish(f"{name}-{key}", [b"x"] * 10)
    options = {"superStream": name, "startingOffsets": "earliest", "columns": "stream,offset"}
    tables = {fails: live(spark, broker, failOnDataLoss=fails, **options) for fails in ("true", "false")}
    queries = {
        fails: to_files(table, tmp_path / fails, processingTime="200 milliseconds") for fails, table in tables.items()
    }
    try:
        for query in queries.values():
            wait_for("what there is", lambda query=query: rows_in(query) >= 20)
        Api(broker).ask("DELETE", f"/queues/%2F/{name}-b")
        publish(f"{name}-a", [b"x"] * 7)
        wait_for("the other partition", lambda: rows_in(queries["false"]) >= 27)
        wait_for("the error", lambda: not queries["true"].isActive)
        assert "DataLoss: the checkpoint has offsets of" in str(queries["true"].exception())
        # Another one of this name is read from its first message on.
        publish(f"{name}-b", [b"y"] * 15)
        bind(broker, f"{name}-b", name, "b")
        wait_for("the new partition", lambda: rows_in(queries["false"]) >= 42)
        assert queries["false"].isActive
    finally:
        for query in queries.values():
            query.stop()


def bind(broker: Broker, stream: str, exchange: str, key: str) -> None:
    made = Api(broker).ask("POST", f"/bindings/%2F/e/{exchange}/q/{stream}", {"routing_key": key, "arguments": {}})
    assert made.status < 300
