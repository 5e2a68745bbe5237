"""The runner: a job in a process of its own, which is told to stop and goes on later; what it shows; what it says of
errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from pyspark.sql import SparkSession

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.spark.pipeline.archive import read_archive, start_archive
from leveret.spark.pipeline.job_errors import short_error
from leveret.spark.pipeline.job_metrics import Figures, text_of
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.runner import run_queries
from leveret.testing import Broker

pytestmark = pytest.mark.timeout(600)

JOB = """
import sys
from leveret.spark.pipeline.archive import start_archive
from leveret.spark.pipeline.archive.self_compaction import SelfCompaction
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.runner import run_queries
from leveret.spark.pipeline.session import open_session

url, root = sys.argv[1:]
spark = open_session("job", "local[2]")
source = {"url": url, "stream": "orders", "maxOffsetsPerTrigger": "20"}
query = start_archive(spark, Lake(root), source, trigger={"processingTime": "0 seconds"})
compaction = SelfCompaction(spark, Lake(root), every_s=0.5, batches_min=1)
code = run_queries([query], once=False, metrics_port=0, title="archive", compaction=compaction)
spark.stop()
sys.exit(code)
"""


def publish(broker: Broker, count: int, first: int = 0) -> None:
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue("orders", queue_type="stream"))
        messages = [Message(body=str(n).encode()) for n in range(first, first + count)]
        connection.producer(routing_key="orders").publish_batch(messages)


class Job:
    def __init__(self, broker: Broker, lake: Lake, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._log = folder / "log"
        command = [sys.executable, "-c", JOB, broker.url, lake.root]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def text(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + 240
        while text not in self.text():
            assert self._process.poll() is None, self.text()
            assert time.monotonic() < until, self.text()
            time.sleep(0.2)

    def stop(self, number: int) -> int:
        self._process.send_signal(number)
        return self._process.wait(120)


def test_it_stops_and_goes_on(spark: SparkSession, lake: Lake, broker: Broker, tmp_path: Path) -> None:
    publish(broker, 70)
    job = Job(broker, lake, tmp_path)
    job.wait_for("archive: archive: running, batch ")
    assert job.stop(signal.SIGTERM) == 0, job.text()
    assert "stopping: the batches that run come to their end" in job.text()
    assert "Traceback" not in job.text()
    publish(broker, 30, first=70)
    again = Job(broker, lake, tmp_path)
    again.wait_for("lag 0")
    again.wait_for("archive: compacted ")
    page = again.text().partition("http://")[2].split()[0]
    figures = urllib.request.urlopen(f"http://{page}").read().decode()
    assert 'leveret_pipeline_lag_messages{query="archive"} 0' in figures
    assert 'leveret_pipeline_compaction_failures_total{query="archive"} 0' in figures
    assert again.stop(signal.SIGINT) == 0, again.text()
    bodies = Counter(bytes(row.body).decode() for row in read_archive(spark, lake).select("body").collect())
    assert bodies == Counter(str(n) for n in range(100))


def test_queries_that_end(spark: SparkSession, lake: Lake, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    publish(broker, 10)
    query = start_archive(spark, lake, {"url": broker.url, "stream": "orders"}, trigger={"availableNow": True})
    assert run_queries([query], once=True, title="once") == 0
    assert "once: archive: ended, batch 0, 10 rows" in capsys.readouterr().err


def test_a_query_that_fails_is_told_shortly(
    spark: SparkSession, lake: Lake, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(broker, 10)
    good = start_archive(
        spark, lake, {"url": broker.url, "stream": "orders"}, trigger={"processingTime": "1 second"}, name="good"
    )
    bad = start_archive(
        spark, lake, {"url": broker.url, "stream": "missing"}, trigger={"processingTime": "1 second"}, name="bad"
    )
    assert run_queries([good, bad], title="both") == 1
    assert not good.isActive
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("both: bad failed")]
    assert lines == ["both: bad failed: NoSuchStream: there is no stream 'missing' in the virtual host '/'"]


def test_from_another_thread(spark: SparkSession, lake: Lake, broker: Broker) -> None:
    """As in a notebook: signals are not heard there, and queries are stopped by hand."""
    publish(broker, 10)
    source = {"url": broker.url, "stream": "orders"}
    query = start_archive(spark, lake, source, trigger={"processingTime": "1 second"})
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run_queries([query])))
    thread.start()
    until = time.monotonic() + 90
    while not query.recentProgress and time.monotonic() < until:
        time.sleep(0.2)
    query.stop()
    thread.join(60)
    # It ended before the runner had asked it to.
    assert codes == [1]


def test_figures_as_prometheus_reads_them() -> None:
    text = text_of([Figures('a"b', batch=3, rows=7, rows_per_s=2.5, lag=None), Figures("c", lag=4)])
    assert 'leveret_pipeline_rows_total{query="a\\"b"} 7\n' in text
    assert 'leveret_pipeline_rows_per_second{query="a\\"b"} 2.5\n' in text
    assert 'lag_messages{query="c"} 4\n' in text
    assert 'lag_messages{query="a' not in text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("[STREAM_FAILED] Query [id = 1] terminated", "Query [id = 1] terminated"),
        ("x\nTraceback\nleveret.spark.errors.DataLoss: gone\n\tat java", "DataLoss: gone"),
        ("x\nTraceback (most recent call last):\n  File\nKeyError: 'a'\n\tat java", "KeyError: 'a'"),
        ("", "ValueError"),
        ("y" * 900, "y" * 500 + " ..."),
    ],
)
def test_short_errors(text: str, short: str) -> None:
    error: Any = ValueError(text)
    assert short_error(error) == short
