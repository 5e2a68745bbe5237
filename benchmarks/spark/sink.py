"""Spark publishing rows into a stream, beside a function for each partition that publishes with our client, row by row.

    python -m benchmarks.spark.sink [--rows 500000] [--rounds 3] [--json FILE]
    python -m benchmarks.spark.sink --bare          # the writer alone, in this process, without Spark

One broker, bodies of 1 KiB, two tasks, every row confirmed. `few columns` has a body and a routing key; `all columns`
is a table as the source reads it, headers included. In each round every case has its turn; the median counts, the first
round does not. CPU us is that of Spark's Python workers, for each row: it is steadier than rows/s, since the broker and
Spark itself share the cores with them."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from benchmarks.broker.peers import Leveret, cpu_seconds, process_tree, running
from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.spark import publisher
from leveret.spark.options import WRITE, read_options
from leveret.spark.pipeline.session import open_session
from leveret.spark.sink import Publishing
from leveret.spark.writer_name import BATCH, WriterName

SIZE, TASKS = 1024, 2
# As many rows as Spark puts into one batch unless it is told otherwise.
BATCH_ROWS = 10_000
STREAM = "sink"
FEW = (f"cast(repeat('x', {SIZE}) as binary) as body", f"'{STREAM}' as routing_key")
ALL = (
    *FEW,
    "'' as exchange",
    f"'{STREAM}' as stream",
    "0 as partition",
    "id as offset",
    "timestamp '2026-01-02 03:04:05' as timestamp",
    "'application/json' as content_type",
    "cast(null as string) as content_encoding",
    "2 as delivery_mode",
    "cast(null as int) as priority",
    "concat('c-', id) as correlation_id",
    "cast(null as string) as reply_to",
    "cast(null as string) as expiration",
    "concat('message-', id) as message_id",
    "timestamp '2026-01-02 03:04:05' as message_timestamp",
    "'order.created' as type",
    "cast(null as string) as user_id",
    "'shop' as app_id",
    "map('tenant', concat('t', id % 50), 'attempt', '1') as headers",
    """concat('{"tenant": "t', id % 50, '", "attempt": 1}') as headers_json""",
)


class Figures(NamedTuple):
    rows_per_s: float
    cpu_us: float


def by_hand(url: str) -> Callable[[Iterable[Any]], None]:
    """What somebody writes who has no connector: the client's own window bounds what is under way."""

    def publish(rows: Iterable[Any]) -> None:
        with blocking.connect(url) as connection, connection.producer(window=5_000) as producer:
            messages = (Message(bytes(row.body), routing_key=row.routing_key) for row in rows)
            producer.publish_batch(messages, deadline_s=600)

    return publish


def write(frame: DataFrame, url: str) -> None:
    frame.write.format("leveret").mode("append").options(url=url).save()


def worker_seconds(spark: SparkSession) -> float:
    """CPU time of Spark's Python workers, which live from one task to the next."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    pids = process_tree(gateway.proc.pid)
    return sum(cpu_seconds(pid) for pid in pids if b"pyspark" in _command(pid) and b"java" not in _command(pid))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def measure(spark: SparkSession, url: str, rows: int, rounds: int) -> dict[str, Figures]:
    numbers = spark.range(0, rows, 1, TASKS)
    few, everything = numbers.selectExpr(*FEW), numbers.selectExpr(*ALL)
    cases: dict[str, Callable[[], None]] = {
        "leveret, few columns": lambda: write(few, url),
        "leveret, all columns": lambda: write(everything, url),
        "by hand, few columns": lambda: few.foreachPartition(by_hand(url)),
    }
    taken: dict[str, list[Figures]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, case in cases.items():
            begun, cpu = time.perf_counter(), worker_seconds(spark)
            case()
            seconds = time.perf_counter() - begun
            if turn > 0:
                taken[name].append(Figures(rows / seconds, 1e6 * (worker_seconds(spark) - cpu) / rows))
    return {name: _median(figures) for name, figures in taken.items()}


def measure_bare(url: str, rows: int, rounds: int) -> dict[str, Figures]:
    """The same tables, made once, straight into what a task calls."""
    found = {}
    for name, table in (("bare, few columns", few_columns()), ("bare, all columns", all_columns())):
        figures = []
        publishing = Publishing(read_options({"url": url}, WRITE), from_arrow_schema(table.schema))
        for turn in range(rounds + 1):
            batches = iter([table] * (rows // BATCH_ROWS))
            begun, cpu = time.perf_counter(), time.process_time()
            publishing.publish(batches, WriterName(f"bare-{time.time_ns()}", BATCH, False), 0, 0)
            seconds, used = time.perf_counter() - begun, time.process_time() - cpu
            if turn > 0:
                figures.append(Figures(rows / seconds, 1e6 * used / rows))
        found[name] = _median(figures)
    # Workers of Spark's keep it for their next task.
    for broker in publisher._BROKERS.values():
        broker.close()
    return found


def few_columns() -> pa.RecordBatch:
    body, key = pa.scalar(b"x" * SIZE, pa.binary()), pa.scalar(STREAM, pa.string())
    return pa.RecordBatch.from_pydict({"body": pa.repeat(body, BATCH_ROWS), "routing_key": pa.repeat(key, BATCH_ROWS)})


def all_columns() -> pa.RecordBatch:
    numbers = range(BATCH_ROWS)
    moments = pa.array([1_700_000_000_000_000] * BATCH_ROWS, pa.timestamp("us", tz="UTC"))
    tenants = [f"t{number % 50}" for number in numbers]
    columns: dict[str, Any] = {
        "exchange": [""] * BATCH_ROWS,
        "offset": pa.array(numbers, pa.int64()),
        "timestamp": moments,
        "content_type": ["application/json"] * BATCH_ROWS,
        "delivery_mode": pa.array([2] * BATCH_ROWS, pa.int32()),
        "priority": pa.nulls(BATCH_ROWS, pa.int32()),
        "correlation_id": [f"c-{number}" for number in numbers],
        "message_id": [f"message-{number}" for number in numbers],
        "message_timestamp": moments,
        "type": ["order.created"] * BATCH_ROWS,
        "app_id": ["shop"] * BATCH_ROWS,
        "headers": pa.array(
            [[("tenant", tenant), ("attempt", "1")] for tenant in tenants], pa.map_(pa.string(), pa.string())
        ),
        "headers_json": [json.dumps({"tenant": tenant, "attempt": 1}) for tenant in tenants],
    }
    for name in ("content_encoding", "reply_to", "expiration", "user_id"):
        columns[name] = pa.nulls(BATCH_ROWS, pa.string())
    few = few_columns()
    return pa.RecordBatch.from_pydict({**{name: few.column(name) for name in few.schema.names}, **columns})


def _median(figures: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*figures, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root, running(Leveret(), Path(root)) as broker:
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
        with blocking.connect(url) as connection:
            # Old rows go, so that the disk does not fill; nobody reads them.
            connection.topology.declare(Queue(STREAM, queue_type="stream", max_length_bytes=2 << 30))
        if given.bare:
            found = measure_bare(url, given.rows, given.rounds)
        else:
            spark = open_session("benchmark", f"local[{TASKS}]")
            found = measure(spark, url, given.rows, given.rounds)
            spark.stop()
    for name, (rate, cpu_us) in found.items():
        print(f"{name:24} {rate:10,.0f} rows/s {rate * SIZE / 1e6:6,.0f} MB/s {cpu_us:7.2f} CPU us a row")
    if given.json is not None:
        given.json.write_text(json.dumps({name: figures._asdict() for name, figures in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
