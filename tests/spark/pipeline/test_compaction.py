"""Compaction and retention of the archive: each message once at any moment, wherever compaction dies."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.spark.pipeline.archive import compaction, read_archive, start_archive
from leveret.spark.pipeline.archive.compaction import compact, expire
from leveret.spark.pipeline.archive.manifest import ManifestConflict, Manifests
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles
from leveret.testing import Broker

pytestmark = pytest.mark.timeout(600)


class Source:
    """A broker whose streams are archived, and what was published."""

    def __init__(self, spark: SparkSession, lake: Lake, broker: Broker) -> None:
        self._spark, self._lake, self._broker = spark, lake, broker
        self._count = 0
        self.published: Counter[str] = Counter()

    def archive(self, *streams: str, count: int = 10, batches: int = 2) -> None:
        with blocking.connect(self._broker.url) as connection:
            for stream in streams:
                connection.topology.declare(Queue(stream, queue_type="stream"))
                texts = [f"{stream} {self._count + n}" for n in range(count)]
                connection.producer(routing_key=stream).publish_batch([Message(body=text.encode()) for text in texts])
                self.published.update(texts)
        self._count += count
        source = {
            "url": self._broker.url,
            "streamPattern": ".*",
            "managementUrl": self._broker.management_url,
            "maxOffsetsPerTrigger": str(count * len(streams) // batches),
        }
        start_archive(self._spark, self._lake, source, trigger={"availableNow": True}).awaitTermination(90)

    def seen(self) -> Counter[str]:
        rows = read_archive(self._spark, self._lake).select("body").collect()
        return Counter(bytes(row.body).decode() for row in rows)


@pytest.fixture
def source(spark: SparkSession, lake: Lake, broker: Broker) -> Source:
    return Source(spark, lake, broker)


def data_files(lake: Lake, where: str) -> list[Path]:
    return list((Path(lake.archive) / where).glob("**/*.parquet"))


def test_small_files_become_few(spark: SparkSession, lake: Lake, source: Source) -> None:
    source.archive("a/b", "c", count=30, batches=3)
    before = data_files(lake, "landing")
    result = compact(spark, lake)
    assert (result.messages, result.folders) == (60, 2)
    assert len(data_files(lake, "compacted")) == 2 < len(before)
    # Whoever has begun to read the others may go on with it.
    assert data_files(lake, "landing") == before
    assert source.seen() == source.published
    again = compact(spark, lake)
    assert (again.batches, again.messages) == (0, 0)
    # When nobody reads them any more they go, but for the newest batch, and new batches come beside it.
    compact(spark, lake, grace_s=0)
    assert 0 < len(data_files(lake, "landing")) < len(before)
    source.archive("c")
    assert source.seen() == source.published
    compact(spark, lake, grace_s=0)
    assert source.seen() == source.published


def test_a_compaction_that_dies_at_any_step(spark: SparkSession, lake: Lake, source: Source) -> None:
    source.archive("a", "b")
    steps: list[str] = []
    number = 0
    while True:
        count = 0

        def die(step: str, last: int = number) -> None:
            nonlocal count
            steps.append(step)
            if count == last:
                raise KeyboardInterrupt(step)
            count += 1

        try:
            compact(spark, lake, grace_s=0, on_step=die)
        except KeyboardInterrupt:
            assert source.seen() == source.published, f"died after {steps[-1]}"
            number += 1
            if steps[-1] == "committed":
                # There has to be something to compact for those that come after it.
                source.archive("a", "b")
        else:
            break
    assert set(steps) == {"written", "counted", "moved", "committed", "swept"}
    assert source.seen() == source.published


def test_what_dead_compactions_left_behind_goes(
    spark: SparkSession, lake: Lake, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.archive("a", "b")

    def die(step: str) -> None:
        if step == "moved":
            raise RuntimeError(step)

    with pytest.raises(RuntimeError):
        compact(spark, lake, on_step=die)
    left = set(data_files(lake, "compacted"))
    assert len(left) == 2
    compact(spark, lake)
    assert left < set(data_files(lake, "compacted"))
    monkeypatch.setattr(compaction, "LEFT_BEHIND_S", 0.0)
    compact(spark, lake)
    assert not left & set(data_files(lake, "compacted"))
    assert len(data_files(lake, "compacted")) == 2
    assert source.seen() == source.published


def test_runs_are_put_together(
    spark: SparkSession, lake: Lake, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "RUNS_MAX", 2)
    for _ in range(3):
        source.archive("a")
        compact(spark, lake, grace_s=0)
        assert source.seen() == source.published
    compact(spark, lake, grace_s=0)
    assert len(data_files(lake, "compacted")) == 1
    assert source.seen() == source.published


def test_two_at_once(spark: SparkSession, lake: Lake, source: Source) -> None:
    """The second one sees that it was too slow, and nothing is there twice."""
    source.archive("a")

    def another(step: str) -> None:
        if step == "counted":
            compact(spark, lake)

    with pytest.raises(ManifestConflict):
        compact(spark, lake, on_step=another)
    assert source.seen() == source.published


def test_a_reader_that_began_before(spark: SparkSession, lake: Lake, source: Source) -> None:
    source.archive("a")
    reading = read_archive(spark, lake)
    compact(spark, lake)
    assert reading.count() == 10


def test_columns_of_a_newer_version_stay(spark: SparkSession, lake: Lake, source: Source) -> None:
    source.archive("a", batches=1)
    folder = next(Path(lake.archive).glob("landing/job=*/attempt=*"))
    spark.read.parquet(str(folder)).withColumn("colour", f.lit("red")).write.partitionBy("stream", "date").parquet(
        f"{folder}-new"
    )
    LakeFiles(spark).delete(str(folder))
    Path(f"{folder}-new").rename(folder)
    compact(spark, lake)
    found = spark.read.parquet(f"{lake.archive}/compacted/stream=a")
    assert found.where("colour = 'red'").count() == 10
    assert "colour" not in read_archive(spark, lake).columns


def test_expire_forgets_whole_days(spark: SparkSession, lake: Lake, source: Source) -> None:
    source.archive("a")
    compact(spark, lake)
    source.archive("b")
    today = datetime.now(UTC).date()
    assert expire(spark, lake, 0).folders == 0
    assert expire(spark, lake, 3, today=today + timedelta(days=3)).folders == 0
    assert source.seen() == source.published
    assert expire(spark, lake, 3, today=today + timedelta(days=4)).folders == 1
    assert source.seen() == Counter()
    assert data_files(lake, "compacted") == []
    # What had landed of that day is not brought back, and retention does not go backwards.
    compact(spark, lake)
    assert expire(spark, lake, 30).kept_from == today + timedelta(days=1)
    assert source.seen() == Counter()
    with pytest.raises(ValueError, match="0 or more"):
        expire(spark, lake, -1)


def test_manifests_are_kept_in_bounds(spark: SparkSession, lake: Lake) -> None:
    manifests = Manifests(LakeFiles(spark), lake)
    manifest = manifests.read()
    for _ in range(30):
        manifest = manifests.change(manifest, kept_from=time.strftime("%Y-%m-%d"))
    manifests.forget_old()
    assert manifests.read() == manifest
    assert len(list(Path(lake.archive, "manifest").glob("0*.json"))) == 20
