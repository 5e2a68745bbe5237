"""Retention that is faster than a reader: an error that names both offsets, or a warning, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import Publish
from tests.spark.tables import archived, failure, finish, live, name_for, offsets, source, to_files

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


def test_a_stream_that_was_made_anew(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    stream = name_for("anew")
    publish(stream, [b"x"] * 10)
    table = live(spark, broker, stream, startingOffsets="earliest", columns="offset")
    archived(table, tmp_path)
    Api(broker).ask("DELETE", f"/queues/%2F/{stream}")
    publish(stream, [b"x"] * 5)
    text = failure(lambda: finish(to_files(table, tmp_path)))
    assert f"the checkpoint is at offset 10 of the stream '{stream}', which ends at 5" in text
