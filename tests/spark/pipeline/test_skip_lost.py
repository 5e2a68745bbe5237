"""`--skip-lost`: a job goes on, and says what it has lost, as it happens and at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from leveret.spark.pipeline.archive import read_archive
from leveret.spark.pipeline.commands import pipeline
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.runner import run_queries
from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import publish_to
from tests.spark.tables import checkpoint_offsets, live

SMALL: dict[str, Any] = {"arguments": {"x-max-length-bytes": 60_000, "x-stream-max-segment-size-bytes": 20_000}}


def publish_much(broker: Broker, stream: str) -> None:
    """More than the stream keeps, in several steps: a segment ends between them."""
    for _ in range(10):
        publish_to(broker, stream, [b"x" * 1000] * 20, **SMALL)


def first_offset(broker: Broker, stream: str) -> int:
    return broker.call(lambda node: int(node.broker.vhosts["/"].queues[stream.encode()].first_offset))


def run(broker: Broker, lake: Lake, job: str, *words: str) -> tuple[int, list[str]]:
    where = ("--lake", lake.root, "--url", broker.url, "--management-url", broker.management_url, "--once")
    done = CliRunner().invoke(pipeline, [job, *where, *words])
    return done.exit_code, done.output.splitlines()


@pytest.mark.parametrize("job", ["archive", "analytics"])
def test_losses_are_in_the_terminal_and_in_the_summary(
    spark: SparkSession, lake: Lake, broker: Broker, job: str
) -> None:
    for stream in ("orders", "payments"):
        publish_to(broker, stream, [b"x"] * 10, **SMALL)
    code, lines = run(broker, lake, job, "--pattern", "orders|payments")
    assert code == 0, lines
    assert not [line for line in lines if "LOST" in line], "nothing was lost, and nothing is said"
    publish_much(broker, "orders")
    Api(broker).ask("DELETE", "/queues/%2F/payments")
    first = first_offset(broker, "orders")
    code, lines = run(broker, lake, job, "--pattern", "orders|payments")
    assert code == 1
    assert any("DataLoss" in line for line in lines), lines
    code, lines = run(broker, lake, job, "--pattern", "orders|payments", "--skip-lost")
    assert code == 0, lines
    lost = first - 10
    told = [line for line in lines if "LOST" in line]
    begin = f"{job}: {job}: LOST"
    assert set(told[:-1]) == {
        f"{begin}: the stream 'payments' was deleted: what was not read of it is gone, and not counted",
        f"{begin}: {lost:,} messages of the stream 'orders' were deleted before they were read",
    }
    counted = f"{lost:,} messages ({lost:,} of 'orders')"
    assert told[-1] == f"{begin} in this run: {counted}, and what was not read of 'payments', deleted or made anew"
    assert any(f"{210 - first:,} rows" in line and f", {lost:,}+ lost" in line for line in lines), lines
    if job == "archive":
        assert read_archive(spark, lake).count() == 20 + 210 - first
    # Once: what is known to be lost is not lost again.
    code, lines = run(broker, lake, job, "--pattern", "orders|payments", "--skip-lost")
    assert code == 0, lines
    assert not [line for line in lines if "LOST" in line], lines


def test_what_goes_while_a_batch_runs_is_noticed_by_its_rows(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The batch is in the checkpoint with all its offsets; when it is read, some messages are not there any more."""
    publish_to(broker, "orders", [b"x"] * 10, **SMALL)

    def late(batch: DataFrame, number: int) -> None:
        publish_much(broker, "orders")
        batch.write.mode("append").parquet(str(tmp_path / "out"))

    table = live(spark, broker, "orders", startingOffsets="earliest", failOnDataLoss="false", columns="offset")
    writer = table.writeStream.foreachBatch(late).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert run_queries([writer.queryName("late").trigger(availableNow=True).start()], once=True, title="job") == 0
    assert checkpoint_offsets(tmp_path) == [{"orders": 10}]
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if "LOST" in line]
    assert told == [
        "job: late: LOST: 10 of 10 messages of batch 0 were deleted while it ran, and were not read",
        "job: late: LOST in this run: 10 messages (10 while batches ran)",
    ]
    assert any(", 10 lost," in line for line in lines)
