"""Spark reading streams, beside Spark reading the same rows from Parquet and from a plain Python source.

    python -m benchmarks.spark [--rows 2000000] [--rounds 3] [--windows 10] [--json FILE]

One broker, a super stream with four partitions, messages of 1 KiB, two cores for everything. In each round every case
has its turn; the median counts, and the first round, in which Spark compiles and starts its workers, does not. `noop`
takes the rows, all of them, and does nothing with them. Then: how long a micro-batch takes at least, and what
publishers notice while Spark reads all there is (publishers.py)."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.broker.load import Load
from benchmarks.broker.peers import Leveret, running
from benchmarks.spark.publishers import APART, RATE, SIZE, measure_publishers
from benchmarks.spark.row_source import RowSource, StreamedRowSource
from leveret.client import blocking
from leveret.client.topology import Binding, Exchange, Queue
from leveret.spark.pipeline.session import open_session

PARTITIONS = 4
GOAL_ROWS, GOAL_TIMES, GOAL_P99 = 250_000, 5.0, 2.0
MICRO_BATCHES = 30


def fill(url: str, rows: int) -> None:
    body = bytes(SIZE)
    with blocking.connect(url) as connection:
        connection.topology.declare(Exchange("bench", "direct", arguments={"x-super-stream": True}))
        for number in range(PARTITIONS):
            order = {"x-stream-partition-order": number}
            stream = Queue(f"bench-{number}", queue_type="stream")
            connection.topology.declare(stream, Binding("bench", stream.name, str(number), arguments=order))
            producer = connection.producer(routing_key=f"bench-{number}")
            producer.publish_batch((body for _ in range(rows // PARTITIONS)), deadline_s=600)


def stream(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("leveret").options(url=url, superStream="bench", **options).load()


def seconds_of(frame: DataFrame) -> float:
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def read_cases(spark: SparkSession, url: str, rows: int, lake: Path) -> dict[str, DataFrame]:
    spark.dataSource.register(RowSource)
    spark.dataSource.register(StreamedRowSource)
    by_rows = spark.read.format("rows").options(rows=str(rows), size=str(SIZE))
    stream(spark, url).write.parquet(str(lake / "all"))
    return {
        "leveret, all 29 columns": stream(spark, url),
        "leveret, body and offset": stream(spark, url, columns="body,offset"),
        "Parquet, all 29 columns": spark.read.parquet(str(lake / "all")),
        "rows by Python, all 29 columns": by_rows.load(),
        "rows by Python, body and offset": by_rows.option("columns", "body,offset").load(),
        "rows by Python from the stream": spark.read.format("streamed-rows").options(rows=str(rows), url=url).load(),
    }


def measure_reads(cases: dict[str, DataFrame], rows: int, rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, frame in cases.items():
            seconds = seconds_of(frame)
            if turn > 0:
                taken[name].append(seconds)
    return {name: rows / statistics.median(times) for name, times in taken.items()}


def measure_micro_batches(spark: SparkSession, url: str, folder: Path) -> dict[str, float]:
    """From a confirm to the end of the batch that has the message, one message at a time."""
    with blocking.connect(url) as connection:
        connection.topology.declare(Queue("floor", queue_type="stream"))
        producer = connection.producer(routing_key="floor")
        source = spark.readStream.format("leveret").options(url=url, stream="floor", startingOffsets="earliest").load()
        writer = source.writeStream.format("noop").option("checkpointLocation", str(folder / "floor"))
        query = writer.trigger(processingTime="0 seconds").start()
        taken: list[float] = []
        try:
            for number in range(MICRO_BATCHES):
                begun = time.perf_counter()
                producer.publish(b"x")
                while not _has_read(query, number + 1):
                    time.sleep(0.005)
                taken.append(1000 * (time.perf_counter() - begun))
        finally:
            query.stop()
    counted = sorted(taken[MICRO_BATCHES // 3 :])
    return {"p50_ms": statistics.median(counted), "min_ms": counted[0], "max_ms": counted[-1]}


def _has_read(query: Any, count: int) -> bool:
    progress = query.lastProgress
    end = "{}" if progress is None else progress.sources[0].endOffset or "{}"
    return bool(json.loads(end).get("floor", 0) >= count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", type=int, default=10, help="of 4 s, with a backfill and without, in each setting")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    load = Load.build()
    with tempfile.TemporaryDirectory() as root, running(Leveret(), Path(root)) as broker:
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
        fill(url, given.rows)
        spark = open_session("benchmark", "local[2]")
        cases = read_cases(spark, url, given.rows, Path(root))
        rates = measure_reads(cases, given.rows, given.rounds)
        floor = measure_micro_batches(spark, url, Path(root))
        spark.stop()
        noticed = measure_publishers(load, broker, url, given.windows)
        rows_by_python = rates["rows by Python from the stream"]
        for name, rate in rates.items():
            times = rate / rows_by_python
            print(f"{name:34} {rate:12,.0f} rows/s {rate * SIZE / 1e6:8,.0f} MB/s {times:6.1f}x")
        print(
            f"micro-batch of one message: p50 {floor['p50_ms']:.0f} ms, {floor['min_ms']:.0f} to {floor['max_ms']:.0f}"
        )
        for setting, told in noticed.items():
            print(
                f"confirms at {RATE}/s, Spark {setting}: "
                f"p50 {told.p50_alone:.0f} us alone, {told.p50_beside:.0f} beside; "
                f"p99 {told.p99_alone:.0f} alone, {told.p99_beside:.0f} beside, {told.times:.1f}x"
            )
        reached = {
            f"{GOAL_ROWS:,} rows/s with all columns": rates["leveret, all 29 columns"] >= GOAL_ROWS,
            f"{GOAL_TIMES:g}x rows by Python from the stream": rates["leveret, body and offset"]
            >= GOAL_TIMES * rows_by_python,
        }
        if APART in noticed:
            reached[f"p99 of confirms at most {GOAL_P99:g}x, Spark {APART}"] = noticed[APART].times <= GOAL_P99
        for goal, done in reached.items():
            print(f"{'reached' if done else 'NOT reached'}: {goal}")
        if given.json is not None:
            told_all = {setting: asdict(told) for setting, told in noticed.items()}
            given.json.write_text(json.dumps({"reads": rates, "floor": floor, "publishers": told_all}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
