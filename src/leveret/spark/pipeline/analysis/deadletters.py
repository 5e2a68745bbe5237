"""The job `deadletters`: what dies, where, why, how often, and what is alike about it.

The source is one or more streams that dead letters flow into: a stream as the target of dead letters, beside the
queue that people work on. Tables:

- `silver/deadletters`: every letter, with what its headers say (letters.py), and whether it is `repeated`: it died
  more than once, or its message id was among the letters of the last `days` already.
- `gold/deadletters_by_minute`, `gold/deadletters_by_hour`: letters, repeated ones and the oldest age by reason, queue
  and exchange, where the exchange is the one it was published to before it died.
- `gold/deadletter_clusters`: what is alike, over the last `days` (clusters.py).
- `gold/deadletter_alerts`: where they grow too fast (alerts.py).

**Retries** are as in analytics.py: a batch that comes again is written to silver in place of what a former attempt
has left, and the hours of gold that it changed are made anew from silver; the clusters always are. Letters that come
late count in the minute they belong to, however late: no watermark leaves anything out. There are few of them, so
silver is read again. Its small files are put together as in analytics.py.

What waits in a dead-letter queue is looked at, without taking it, by `read_queue_letters`. `replay_selected` and
`reprocess_selected` send letters back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from leveret.spark.pipeline.analysis.alerts import ALERTS, AlertRule, find_alerts
from leveret.spark.pipeline.analysis.bronze import read_bronze
from leveret.spark.pipeline.analysis.clusters import CLUSTERS, find_clusters
from leveret.spark.pipeline.analysis.deadletter_replay import Replayed, replay_selected
from leveret.spark.pipeline.analysis.hour_tables import (
    BATCH,
    DATE,
    HOUR,
    BatchTable,
    Hour,
    HourTable,
    batch_key,
    columns,
    hours_of,
    path_exists,
    with_hour,
)
from leveret.spark.pipeline.analysis.letters import ERROR_HEADERS, LETTERS, as_letters
from leveret.spark.pipeline.analysis.reprocess import Reprocessed, reprocess, reprocess_selected
from leveret.spark.pipeline.lake import Lake

__all__ = [
    "AlertRule",
    "Replayed",
    "Reprocessed",
    "read_letters",
    "read_queue_letters",
    "replay_selected",
    "reprocess",
    "reprocess_selected",
    "start_deadletters",
]

JOB = "deadletters"
DAYS = 30
SILVER = columns(LETTERS, repeated="boolean")
COUNTS = {
    "reason": "string",
    "queue": "string",
    "exchange": "string",
    "letters": "long",
    "repeated": "long",
    "oldest_age_s": "double",
}


def start_deadletters(
    spark: SparkSession,
    lake: Lake,
    source: Mapping[str, str] | DataFrame,
    *,
    trigger: Mapping[str, Any],
    error_headers: Sequence[str] = ERROR_HEADERS,
    alerts: AlertRule | None = None,
    days: int = DAYS,
) -> list[StreamingQuery]:
    """Starts the job and returns its queries. `source` is options of the connector, or any streaming table with its
    columns. `error_headers` name the headers in which consumers say what went wrong, the first that is there counts."""
    tables = DeadLetters(spark, lake, error_headers, alerts or AlertRule(), days)
    query = (
        read_bronze(spark, source, JOB)
        .writeStream.foreachBatch(tables.add)
        .option("checkpointLocation", lake.checkpoint(JOB))
        .queryName(JOB)
        .trigger(**trigger)
        .start()
    )
    return [query]


def read_letters(spark: SparkSession, lake: Lake) -> DataFrame:
    """All letters that the job has seen: the connector's columns, those of `letters.LETTERS` and `repeated`."""
    return BatchTable(spark, lake.silver("deadletters"), SILVER).read().drop(HOUR, BATCH)


def read_queue_letters(
    spark: SparkSession, source: Mapping[str, str], error_headers: Sequence[str] = ERROR_HEADERS
) -> DataFrame:
    """What waits in the queue that the options name, as letters. Nothing is taken from it."""
    return as_letters(spark.read.format("leveret").options(**source).load(), error_headers)


class DeadLetters:
    """What happens to a batch."""

    def __init__(
        self, spark: SparkSession, lake: Lake, error_headers: Sequence[str], rule: AlertRule, days: int
    ) -> None:
        self._spark = spark
        self._error_headers = tuple(error_headers)
        self._rule = rule
        self._days = days
        self._letters = BatchTable(spark, lake.silver("deadletters"), SILVER).create()
        self._by_minute = HourTable(
            spark, lake.gold("deadletters_by_minute"), columns(minute="timestamp", **COUNTS)
        ).create()
        self._by_hour = HourTable(spark, lake.gold("deadletters_by_hour"), columns(hour="timestamp", **COUNTS)).create()
        self._alerts = HourTable(spark, lake.gold("deadletter_alerts"), ALERTS).create()
        self._clusters = lake.gold("deadletter_clusters")
        if not path_exists(spark, self._clusters):
            spark.createDataFrame([], CLUSTERS).coalesce(1).write.mode("overwrite").parquet(self._clusters)

    def add(self, rows: DataFrame, batch: int) -> None:
        key = batch_key(rows, batch)
        # The letters there are are read before any are written.
        self._letters.mend()
        rows = with_hour(self._marked(as_letters(rows, self._error_headers), key), "timestamp").persist()
        try:
            changed = self._letters.write(rows, key, hours_of(rows))
        finally:
            rows.unpersist()
        if changed:
            self._count(changed)
            self._find_clusters(changed)
            self._find_alerts(changed)
        self._letters.merge_old(key)

    def _marked(self, letters: DataFrame, key: str) -> DataFrame:
        """With `repeated`. A former attempt of this batch does not count as letters that were there before."""
        known = (
            self._letters.read()
            .where((F.col(BATCH) != key) & F.col("message_id").isNotNull())
            .groupBy("message_id")
            .agg(F.max("timestamp").alias("seen_at"))
        )
        order = Window.partitionBy("message_id").orderBy("timestamp", "stream", "offset")
        seen = F.col("seen_at") >= F.col("timestamp") - F.expr(f"interval {self._days} days")
        again = F.col("message_id").isNotNull() & ((F.row_number().over(order) > 1) | F.coalesce(seen, F.lit(False)))
        died_often = F.coalesce(F.col("death_count") > 1, F.lit(False))
        return letters.join(known, "message_id", "left").withColumn("repeated", died_often | again)

    def _count(self, hours: set[Hour]) -> None:
        letters = self._letters.read(hours)
        for unit, table in (("minute", self._by_minute), ("hour", self._by_hour)):
            counts = letters.groupBy(
                DATE,
                HOUR,
                F.date_trunc(unit, "timestamp").alias(unit),
                "reason",
                "queue",
                F.col("origin_exchange").alias("exchange"),
            ).agg(
                F.count("*").alias("letters"),
                F.count_if("repeated").alias("repeated"),
                F.max("age_s").alias("oldest_age_s"),
            )
            table.replace(counts, hours)

    def _find_clusters(self, hours: set[Hour]) -> None:
        oldest = max(hours).date - timedelta(days=self._days)
        recent = self._letters.read().where(F.col(DATE) >= F.lit(oldest))
        find_clusters(recent).coalesce(1).write.mode("overwrite").parquet(self._clusters)

    def _find_alerts(self, hours: set[Hour]) -> None:
        # The last window of an hour is what the first of the next one is compared with.
        judged = hours | {hour.after(1) for hour in hours}
        alerts = with_hour(
            find_alerts(self._letters.read(judged | {hour.after(-1) for hour in judged}), self._rule), "at"
        )
        moments = [f"{hour.date.isoformat()} {hour.hour:02}" for hour in judged]
        self._alerts.replace(alerts.where(F.date_format("at", "yyyy-MM-dd HH").isin(*moments)), judged)
