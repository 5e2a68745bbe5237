"""A job that is run on a cluster and, the same file, on one machine: what it finds must be equal.

    python -m tests.spark.cluster_job <master> <order.json>

Archives a super stream, counts what is in the archive, reads the super stream once more as a batch in several tasks,
and publishes what it read. Its findings are a file of JSON, with the folders and packages of those who read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from leveret.spark.pipeline.archive import read_archive, start_archive
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.session import open_session

TASKS = 4


def look_around(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a task runs, and which package it has: the folder that an executor works in is its own."""
    import os

    import leveret

    rows = sum(batch.num_rows for batch in batches)
    package = os.path.dirname(os.path.realpath(leveret.__file__))
    yield pa.RecordBatch.from_pydict({"folder": [os.getcwd()], "package": [package], "rows": [rows]})


def counts(spark: SparkSession, view: str) -> list[dict[str, Any]]:
    found = spark.sql(
        f"""select stream, count(*) messages, count(distinct message_id) ids, min(offset) first, max(offset) last,
                   sum(length(body)) bytes, bit_xor(xxhash64(message_id, body, headers_json)) content
            from {view} group by stream order by stream"""
    )
    return [row.asDict() for row in found.collect()]


def main(master: str, order: dict[str, Any]) -> None:
    spark = open_session("cluster-job", master, order["settings"])
    lake, source = Lake(order["lake"]), {"url": order["url"], "superStream": order["source"]}
    start_archive(spark, lake, source, trigger={"availableNow": True}).awaitTermination()
    read_archive(spark, lake).createOrReplaceTempView("archived")
    live = spark.read.format("leveret").options(**source, minPartitions=str(TASKS)).load()
    live.createOrReplaceTempView("live")
    places = live.select("offset").mapInArrow(look_around, "folder string, package string, rows bigint").collect()
    sink = {"url": order["url"], "routingKey": order["target"], "exchange": "", "writeId": order["target"]}
    copy = live.select("body", "message_id", "headers_json")
    copy.write.format("leveret").options(**sink).mode("append").save()
    findings = {
        "archived": counts(spark, "archived"),
        "live": counts(spark, "live"),
        "tasks": len(places),
        "rows": sum(place.rows for place in places),
        "folders": sorted({place.folder for place in places}),
        "packages": sorted({place.package for place in places}),
    }
    Path(order["findings"]).write_text(json.dumps(findings))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))
