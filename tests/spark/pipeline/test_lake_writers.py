"""Several writers of one lake: one of them makes the next manifest, and where that cannot be told, none does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from leveret.spark.pipeline.archive import read_archive
from leveret.spark.pipeline.archive.compaction import compact, expire
from leveret.spark.pipeline.archive.replay import replay
from leveret.spark.pipeline.archive.self_compaction import SelfCompaction
from leveret.spark.pipeline.commands import pipeline
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.lake_files import LakeFiles, LakeNotAtomic
from leveret.testing import Broker
from tests.spark.conftest import publish_to

WRITERS, ROUNDS = 4, 8


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake on another file system than a folder and HDFS. Hadoop brings one that needs no server: viewfs, by which
    folders are mounted. What it can do is not asked for: its scheme is what counts, as that of s3a does."""
    (tmp_path / "bucket").mkdir()
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    # File systems are remembered by their address.
    name = tmp_path.name.replace("_", "-")
    settings.set(f"fs.viewfs.mounttable.{name}.link./lake", (tmp_path / "bucket").as_uri())
    return Lake(f"viewfs://{name}/lake")


def run(lake: Lake, broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(pipeline, [words[0], "--lake", lake.root, "--url", broker.url, *words[1:]])


def test_one_of_many_writers_makes_a_file(spark: SparkSession, lake: Lake) -> None:
    files = LakeFiles(spark)
    barrier = threading.Barrier(WRITERS)
    wins: list[tuple[int, int]] = []

    def write(writer: int) -> None:
        for number in range(ROUNDS):
            barrier.wait(120)
            if files.write_new(lake, f"{lake.root}/manifest/{number:03d}.json", f"by {writer}"):
                wins.append((number, writer))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(number for number, _ in wins) == list(range(ROUNDS))
    for number, writer in wins:
        assert files.read(f"{lake.root}/manifest/{number:03d}.json") == f"by {writer}"
    assert len(files.list(f"{lake.root}/manifest")) == ROUNDS, "nothing is left of those that were too late"


def test_changes_of_a_lake_that_is_not_atomic_are_refused(spark: SparkSession, store: Lake) -> None:
    changes: list[Callable[[], Any]] = [
        lambda: compact(spark, store),
        lambda: expire(spark, store, 3),
        lambda: SelfCompaction(spark, store),
        lambda: replay(spark, store, where="true", sink={}),
        lambda: LakeFiles(spark).write_new(store, f"{store.archive}/manifest/1.json", "{}"),
    ]
    for change in changes:
        with pytest.raises(LakeNotAtomic, match=r"is on viewfs://, where two jobs .* say so with --single-writer"):
            change()
    assert LakeFiles(spark).list(store.root) == []


def test_commands_say_it_and_do_it_with_a_single_writer(spark: SparkSession, store: Lake, broker: Broker) -> None:
    publish_to(broker, "orders", [b"%d" % number for number in range(30)])
    archive = ("archive", "--stream", "orders", "--once", "--max-per-batch", "10")
    refused = [run(store, broker, *words) for words in (archive, ("compact",), ("expire", "--older-than-days", "1"))]
    for one in refused:
        assert one.exit_code == 1
        assert one.output.startswith("leveret: LakeNotAtomic: the lake viewfs://"), one.output
    # Batches land under names of their own: any number of archives may do that.
    landed = run(store, broker, *archive, "--compact-every", "never")
    assert landed.exit_code == 0, landed.output
    compacted = run(store, broker, "compact", "--single-writer")
    assert compacted.output.startswith("3 batches with 30 messages are compacted"), compacted.output
    publish_to(broker, "orders", [b"more"])
    assert run(store, broker, *archive, "--single-writer").exit_code == 0
    assert run(store, broker, "expire", "--older-than-days", "1", "--single-writer").exit_code == 0
    back = run(store, broker, "replay", "--where", "offset < 5", "--exchange", "", "--single-writer")
    assert back.output.splitlines()[-1].startswith("5 of 5 messages"), back.output
    assert read_archive(spark, store).count() == 31
