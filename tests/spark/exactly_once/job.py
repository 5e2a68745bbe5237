"""The pipelines that are killed: a super stream into a lake of Parquet files and the lake into another stream; and the
jobs of the product (jobs.py).

    python -m tests.spark.exactly_once.job run <places.json>      until it is killed
    python -m tests.spark.exactly_once.job finish <places.json>   all there is, then writes down what is in the lake

Written as a user would write it, with nothing in it that knows of kills."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from leveret.spark.pipeline.session import open_session
from tests.spark.exactly_once.findings import Findings
from tests.spark.exactly_once.jobs import finish_jobs, start_jobs
from tests.spark.exactly_once.places import FILES, SOURCE, TARGET, OffsetSpec

__all__ = ["ids_in_lake", "start_back", "start_lake"]

# Tasks of a local master are tried once unless it is told otherwise: a killed Python worker would end the query.
MASTER = "local[2,4]"
SETTINGS = {"spark.driver.memory": "1g", "spark.sql.streaming.numRecentProgressUpdates": "5"}
OFTEN = {"processingTime": "100 milliseconds"}
ALL = {"availableNow": True}
ROWS = "body binary, stream string, partition int, offset bigint, message_id string"
COLUMNS = "body,stream,partition,offset,message_id"
FILES_PER_BATCH = 6
BY_FILE = ("_metadata.file_name producer_name", "_metadata.row_index + 1 publishing_id")


def start_lake(spark: SparkSession, places: OffsetSpec, trigger: dict[str, Any]) -> StreamingQuery:
    source = spark.readStream.format("leveret").option("url", places.url).option("superStream", SOURCE)
    rows = (
        source.option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", places.rows_per_batch)
        .option("columns", COLUMNS)
        .option("groupName", "lake")
        .load()
    )
    sink = rows.writeStream.format("parquet").option("path", places.lake)
    checkpoint = str(places.checkpoint("lake"))
    return sink.option("checkpointLocation", checkpoint).queryName("lake").trigger(**trigger).start()


def start_back(
    spark: SparkSession, places: OffsetSpec, trigger: dict[str, Any], *, by_file: bool = False, **options: str
) -> StreamingQuery:
    """`by_file` gives rows ids of their own, which come from the file and the row's number in it. `options` are further
    ones of the sink."""
    Path(places.lake).mkdir(parents=True, exist_ok=True)
    rows = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(places.lake)
    columns = ["body", "message_id", *(BY_FILE if by_file else ())]
    sink = rows.selectExpr(*columns).writeStream.format("leveret").options(**options)
    sink = sink.option("url", places.url).option("routingKey", TARGET)
    checkpoint = str(places.checkpoint("back"))
    return sink.option("checkpointLocation", checkpoint).queryName("back").trigger(**trigger).start()


def ids_in_lake(spark: SparkSession, places: OffsetSpec) -> list[int]:
    """As any reader of the lake sees it."""
    return [row.id for row in spark.read.parquet(places.lake).selectExpr("int(string(body)) id").collect()]


def run(spark: SparkSession, places: OffsetSpec) -> None:
    if places.pipeline == FILES:
        start_lake(spark, places, OFTEN)
        start_back(spark, places, OFTEN)
    else:
        start_jobs(spark, places, OFTEN)
    spark.streams.awaitAnyTermination()


def finish(spark: SparkSession, places: OffsetSpec) -> Findings:
    if places.pipeline != FILES:
        return finish_jobs(spark, places)
    start_lake(spark, places, ALL).awaitTermination()
    start_back(spark, places, ALL).awaitTermination()
    return Findings({"lake": ids_in_lake(spark, places)})


def main(mode: str, places: OffsetSpec) -> None:
    spark = open_session("exactly-once", MASTER, SETTINGS)
    if mode == "run":
        run(spark, places)
    else:
        finish(spark, places).write(places.findings)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], OffsetSpec.read(Path(sys.argv[2])))
