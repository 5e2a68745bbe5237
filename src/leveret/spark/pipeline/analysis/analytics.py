"""The job `analytics`: from what flows through streams (bronze) to messages that can be queried (silver) to figures
(gold).

Silver is `silver/messages`: every message once, with its text in `payload` where it is one, and `silver/quarantine`:
bodies that are not what their content type says, with an `error`. Both together are all that came. Gold is
`gold/traffic_by_minute` and `gold/top_routing_keys`, made of silver/messages; see traffic.py.

**Once.** A message id that comes again within `late_by` of the broker's time is dropped
(`dropDuplicatesWithinWatermark`), whichever stream it comes from. Messages without an id are all kept.

**Late.** Streams are not read in step: one may be hours behind the others, or be found later. What is older than the
newest message of all earlier batches by more than `late_by` can no longer be compared with what was there, and Spark
leaves it out; `late_messages` tells how many. Within `late_by` it counts in the minute it belongs to, whenever it
comes. A single batch has nothing that is late. So: make `late_by` longer than your streams are apart; it costs memory
for the ids of that time.

**Retries.** A batch is a range of offsets that the checkpoint fixes before it runs, and the ids known before it are
part of the checkpoint. If anything kills the job, the same batch comes again under the same name. It is written in
three places in turn, each below a folder of that name, from which a former attempt is deleted first: silver/messages,
silver/quarantine, the parts of traffic. Then the hours of gold that the parts have changed are made anew from all
parts. So wherever an attempt ended, the next one ends with the same tables; between the two a reader may see an hour
missing or a batch half written. Of two messages with one id in one batch, another one may be the first the second
time; nothing of the first time is left then.

**Files.** A batch writes small files. The job puts those of older batches together by itself, hour by hour, when an
hour has come to rest (batch_merging.py). So silver is to be read, not to be followed with spark.readStream, which would
take merged files for new ones.

A checkpoint and its tables belong together: with the checkpoint deleted, everything is read and counted once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from leveret.spark.pipeline.analysis.bronze import read_bronze
from leveret.spark.pipeline.analysis.hour_tables import DATE, HOUR, BatchTable, Hour, batch_key, columns, with_hour
from leveret.spark.pipeline.analysis.parsing import parse
from leveret.spark.pipeline.analysis.traffic import TOP, Traffic
from leveret.spark.pipeline.lake import Lake
from leveret.spark.schema import COLUMNS

__all__ = ["late_messages", "read_silver", "start_analytics"]

JOB = "analytics"
LATE_BY = "2 hours"
SILVER = columns(COLUMNS, payload="string", tenant="string")
QUARANTINE = columns(SILVER, error="string")


def start_analytics(
    spark: SparkSession,
    lake: Lake,
    source: Mapping[str, str] | DataFrame,
    *,
    trigger: Mapping[str, Any],
    late_by: str = LATE_BY,
    top: int = TOP,
) -> list[StreamingQuery]:
    """Starts the job and returns its queries. `source` is options of the connector, or any streaming table with its
    columns, such as the archive's. `late_by` is how late a message, or its double, may be; `top` how many routing keys
    of an hour are kept."""
    tables = Analytics(spark, lake, top)
    rows = without_doubles(read_bronze(spark, source, JOB), late_by)
    query = (
        rows.writeStream.foreachBatch(tables.add)
        .option("checkpointLocation", lake.checkpoint(JOB))
        .queryName(JOB)
        .trigger(**trigger)
        .start()
    )
    return [query]


def without_doubles(rows: DataFrame, late_by: str) -> DataFrame:
    place = F.concat_ws("/", F.lit("at"), "stream", F.col("offset").cast("string"))
    has_id = F.coalesce(F.col("message_id") != "", F.lit(False))
    # Those without an id pass by under a name of their own. Two branches, one with and one without, would read it all
    # twice.
    name = F.when(has_id, F.concat(F.lit("id/"), F.col("message_id"))).otherwise(place)
    named = rows.withColumn("same", name).withWatermark("timestamp", late_by)
    return named.dropDuplicatesWithinWatermark(["same"]).drop("same")


def late_messages(query: StreamingQuery) -> int:
    """How many messages this query has left out as too late, in as many batches as Spark remembers (100)."""
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def read_silver(spark: SparkSession, lake: Lake) -> DataFrame:
    """All messages of silver: the connector's columns, `payload`, `tenant` and `event_date`."""
    return BatchTable(spark, lake.silver("messages"), SILVER).read().drop("event_hour", "batch")


class Analytics:
    """What happens to a batch."""

    def __init__(self, spark: SparkSession, lake: Lake, top: int) -> None:
        self._messages = BatchTable(spark, lake.silver("messages"), SILVER).create()
        self._quarantine = BatchTable(spark, lake.silver("quarantine"), QUARANTINE).create()
        self._traffic = Traffic(spark, lake, top)

    def add(self, rows: DataFrame, batch: int) -> None:
        key = batch_key(rows, batch)
        # Kept, because every use of it would read the streams again.
        rows = with_hour(parse(rows), "timestamp").persist()
        try:
            found = rows.groupBy(DATE, HOUR).agg(F.count("error").alias("bad"), F.count("*").alias("all")).collect()
            good, bad = rows.where("error is null"), rows.where("error is not null")
            hours = {Hour(one[DATE], one[HOUR]) for one in found if one["all"] > one["bad"]}
            self._messages.write(good, key, hours)
            self._quarantine.write(bad, key, {Hour(one[DATE], one[HOUR]) for one in found if one["bad"] > 0})
            self._traffic.add(good, key, hours)
        finally:
            rows.unpersist()
        for table in (self._messages, self._quarantine, self._traffic.parts):
            table.merge_old(key)
