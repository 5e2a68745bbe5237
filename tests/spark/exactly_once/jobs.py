"""The jobs of the product, as one driver runs them: archive, analytics and dead letters side by side.

When they are through, their tables are read (jobs_tables.py), and the same streams once more into a lake beside it,
without a kill: gold must be the same, row by row."""

from __future__ import annotations

import shutil
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from leveret.spark.pipeline.analysis.analytics import start_analytics
from leveret.spark.pipeline.analysis.bronze import read_bronze
from leveret.spark.pipeline.analysis.deadletters import start_deadletters
from leveret.spark.pipeline.analysis.event_time import at_event_time
from leveret.spark.pipeline.archive import start_archive
from leveret.spark.pipeline.archive.compaction import compact
from leveret.spark.pipeline.demonstration.demo_day import EVENT_TIME
from leveret.spark.pipeline.lake import Lake
from tests.spark.exactly_once.findings import Findings
from tests.spark.exactly_once.jobs_tables import ids_in_tables, unlike_reference, unlike_silver
from tests.spark.exactly_once.places import LETTERS, SOURCE, OffsetSpec

__all__ = ["finish_jobs", "judge_tables", "run_jobs", "start_jobs"]

ALL = {"availableNow": True}
FINISH_ROWS = 100_000


def start_jobs(
    spark: SparkSession, places: OffsetSpec, trigger: dict[str, Any], rows_per_batch: int | None = None
) -> list[StreamingQuery]:
    lake, limit = Lake(places.root), {"maxOffsetsPerTrigger": str(rows_per_batch or places.rows_per_batch)}
    orders = {"url": places.url, "superStream": SOURCE, **limit}
    return [start_archive(spark, lake, orders, trigger=trigger), *_start_analysis(spark, places, lake, trigger, limit)]


def _start_analysis(
    spark: SparkSession, places: OffsetSpec, lake: Lake, trigger: dict[str, Any], limit: dict[str, str]
) -> list[StreamingQuery]:
    def rows(job: str, **source: str) -> DataFrame:
        return at_event_time(read_bronze(spark, {"url": places.url, **limit, **source}, job), EVENT_TIME)

    return [
        *start_analytics(spark, lake, rows("analytics", superStream=SOURCE), trigger=trigger),
        *start_deadletters(spark, lake, rows("deadletters", stream=LETTERS), trigger=trigger),
    ]


def finish_jobs(spark: SparkSession, places: OffsetSpec) -> Findings:
    """All there is, with the archive compacted."""
    run_jobs(spark, places)
    compact(spark, Lake(places.root))
    # A driver that was to finish may have died in it.
    shutil.rmtree(_reference(places), ignore_errors=True)
    for query in _start_analysis(spark, places, Lake(_reference(places)), ALL, {}):
        query.awaitTermination()
    return judge_tables(spark, places)


def run_jobs(spark: SparkSession, places: OffsetSpec) -> None:
    """To the end of the streams. A batch of analytics takes seconds, however few rows it has: these are large."""
    for query in start_jobs(spark, places, ALL, FINISH_ROWS):
        query.awaitTermination()


def judge_tables(spark: SparkSession, places: OffsetSpec) -> Findings:
    """What is in the lake, beside a reference that is there."""
    lake, reference = Lake(places.root), Lake(_reference(places))
    wrong = [*unlike_silver(spark, lake), *unlike_reference(spark, lake, reference)]
    return Findings(ids_in_tables(spark, lake), wrong)


def _reference(places: OffsetSpec) -> str:
    return f"{places.root}/reference"
