"""An archive compacts by itself, at the end and while it runs; and a compaction that fails does not end it."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from click.testing import CliRunner
from pyspark.sql import SparkSession

from leveret.spark.pipeline.archive import read_archive, self_compaction, start_archive
from leveret.spark.pipeline.archive.compaction import compact, is_worthwhile
from leveret.spark.pipeline.archive.manifest import ManifestConflict
from leveret.spark.pipeline.archive.self_compaction import SelfCompaction
from leveret.spark.pipeline.commands import pipeline
from leveret.spark.pipeline.job_metrics import Figures, text_of
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.runner import run_queries
from leveret.testing import Broker
from tests.spark.conftest import Publish

PATIENCE_S = 60.0


def wait_until(what: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def compacted(lake: Lake) -> list[Path]:
    return list(Path(lake.archive).glob("compacted/stream=*/*/run=*/*.parquet"))


def seen(spark: SparkSession, lake: Lake) -> Counter[str]:
    return Counter(bytes(row.body).decode() for row in read_archive(spark, lake).select("body").collect())


def test_once_compacts_at_its_end_if_it_is_worth_it(
    spark: SparkSession, lake: Lake, broker: Broker, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_compaction, "SelfCompaction", functools.partial(SelfCompaction, batches_min=3))
    where = ["archive", "--lake", lake.root, "--url", broker.url, "--stream", "orders", "--once", "--max-per-batch"]
    publish("orders", [b"0", b"1"])
    done = CliRunner().invoke(pipeline, [*where, "1"])
    assert (done.exit_code, compacted(lake)) == (0, []), done.output
    publish("orders", [b"2"])
    done = CliRunner().invoke(pipeline, [*where, "1"])
    assert done.exit_code == 0, done.output
    assert "archive: compacted 3 batches with 3 messages" in done.output
    assert len(compacted(lake)) == 1
    assert seen(spark, lake) == Counter("012")
    # Nothing has landed since; but an hour later what was replaced is to be deleted.
    assert not is_worthwhile(spark, lake, 1)
    assert is_worthwhile(spark, lake, 1, grace_s=0)


def test_it_goes_on_when_a_compaction_fails(
    spark: SparkSession,
    lake: Lake,
    broker: Broker,
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    troubles: list[Exception] = [ManifestConflict("taken"), RuntimeError("no room")]

    def troubled(*arguments: Any, **options: Any) -> Any:
        if troubles:
            raise troubles.pop(0)
        return compact(*arguments, **options)

    monkeypatch.setattr(self_compaction, "compact", troubled)
    publish("orders", [b"0", b"1"])
    source = {"url": broker.url, "stream": "orders", "maxOffsetsPerTrigger": "1"}
    query = start_archive(spark, lake, source, trigger={"processingTime": "0 seconds"})
    own = SelfCompaction(spark, lake, every_s=0.1, batches_min=2)
    thread = threading.Thread(target=lambda: run_queries([query], title="job", compaction=own))
    thread.start()
    try:
        wait_until(lambda: own.figures.done == 1)
        publish("orders", [b"2"])
        wait_until(lambda: any(progress["batchId"] == 2 for progress in query.recentProgress))
    finally:
        query.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert (own.figures.failed, own.figures.batches) == (1, 2)
    told = capsys.readouterr().err
    assert "job: something else has compacted" in told
    assert "job: compaction failed and is tried again: no room" in told
    assert len(compacted(lake)) == 1
    assert seen(spark, lake) == Counter("012")


def test_the_end_cuts_it_off(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is between its steps or waits for Spark."""
    at_work = threading.Event()

    def long(session: SparkSession, _: Lake, on_step: Any) -> None:
        at_work.set()
        while True:
            session.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 15000L)").collect()
            on_step("slept")

    monkeypatch.setattr(self_compaction, "is_worthwhile", lambda *_: True)
    monkeypatch.setattr(self_compaction, "compact", long)
    own = SelfCompaction(spark, lake, every_s=0.01)
    with own:
        assert at_work.wait(PATIENCE_S)
    # Whose end waits for less than that sleep takes.
    assert not own._thread.is_alive()
    assert (own.figures.failed, own.news()) == (0, [])
    # A signal does not wait for the last one either.
    last, stop = SelfCompaction(spark, lake), threading.Event()
    stop.set()
    with last:
        last.finish(stop)
    assert not last._thread.is_alive()


def test_operators_see_it() -> None:
    figures = Figures("archive", compaction=self_compaction.CompactionFigures(3, 1, 40, 2.5))
    text = text_of([figures, Figures("other")])
    for line in (
        'leveret_pipeline_compactions_total{query="archive"} 3',
        'leveret_pipeline_compaction_failures_total{query="archive"} 1',
        'leveret_pipeline_compacted_batches_total{query="archive"} 40',
        'leveret_pipeline_compaction_duration_seconds{query="archive"} 2.5',
    ):
        assert line in text.splitlines()
    assert 'compactions_total{query="other"}' not in text
