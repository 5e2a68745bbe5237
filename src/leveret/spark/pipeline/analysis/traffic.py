"""Gold of `analytics`: how much went where, minute by minute, and which routing keys were busiest, hour by hour.

Every batch leaves its own sums in a table of parts; an hour of gold is the sum of that hour's parts. So gold is whole
after every batch, costs no second look at the messages, and follows from the parts alone. Latencies are kept as KLL
sketches, which can be added up: percentiles are exact for a few hundred messages in a group and off by about one part
in a hundred of the rank beyond.

Latency is the broker's moment minus the publisher's: the header `x-published-at-ms` if there is one, else the
property timestamp, which knows whole seconds alone. Two clocks that disagree make no latency below 0. Messages
without either count, but have no latency."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.pipeline.analysis.hour_tables import DATE, HOUR, BatchTable, Hour, HourTable, columns, with_hour
from leveret.spark.pipeline.analysis.parsing import published_at
from leveret.spark.pipeline.lake import Lake

__all__ = ["TOP", "Traffic"]

# Routing keys of an hour that are in the table.
TOP = 100
# The larger, the exacter: an error of 0.7 % of the rank, and some 8 KB where there are many latencies.
SKETCH_K = 400
GROUP = ("minute", "exchange", "routing_key", "tenant")
PERCENTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
SUMS = columns(
    minute="timestamp", exchange="string", routing_key="string", tenant="string", messages="long", bytes="long"
)
PARTS = columns(SUMS, timed="long", latencies="binary")
BY_MINUTE = columns(SUMS, **dict.fromkeys(PERCENTILES, "double"))
TOP_KEYS = columns(hour="timestamp", exchange="string", routing_key="string", messages="long", rank="integer")


class Traffic:
    def __init__(self, spark: SparkSession, lake: Lake, top: int) -> None:
        self._top = top
        self.parts = BatchTable(spark, lake.silver("traffic_parts"), PARTS).create()
        self._by_minute = HourTable(spark, lake.gold("traffic_by_minute"), BY_MINUTE).create()
        self._top_keys = HourTable(spark, lake.gold("top_routing_keys"), TOP_KEYS).create()

    def add(self, messages: DataFrame, key: str, hours: set[Hour]) -> None:
        """Counts a batch of silver rows of these hours, once, however often it comes."""
        changed = self.parts.write(self._sums(messages), key, hours)
        if changed:
            self._sum_up(changed)

    def _sums(self, messages: DataFrame) -> DataFrame:
        latency_ms = (F.unix_micros("timestamp") - F.unix_micros(published_at())) / 1000
        sums = (
            messages.withColumn("minute", F.date_trunc("minute", "timestamp"))
            .withColumn("latency_ms", F.greatest(latency_ms, F.lit(0.0)))
            # greatest() passes over nulls, and no latency is not one of 0.
            .withColumn("latency_ms", F.when(latency_ms.isNotNull(), F.col("latency_ms")))
            .groupBy(*GROUP)
            .agg(
                F.count("*").alias("messages"),
                F.sum(F.octet_length("body")).cast("bigint").alias("bytes"),
                F.count("latency_ms").alias("timed"),
                F.kll_sketch_agg_double("latency_ms", SKETCH_K).alias("latencies"),
            )
        )
        return with_hour(sums, "minute").coalesce(1)

    def _sum_up(self, hours: Iterable[Hour]) -> None:
        parts = self.parts.read(hours)
        minutes = (
            parts.groupBy(DATE, HOUR, *GROUP)
            .agg(
                F.sum("messages").alias("messages"),
                F.sum("bytes").alias("bytes"),
                F.sum("timed").alias("timed"),
                F.kll_merge_agg_double("latencies", SKETCH_K).alias("latencies"),
            )
            .withColumns(
                {
                    # A sketch of nothing has no percentiles, and says so with an error.
                    name: F.when(F.col("timed") > 0, F.kll_sketch_get_quantile_double("latencies", F.lit(fraction)))
                    for name, fraction in PERCENTILES.items()
                }
            )
        )
        self._by_minute.replace(minutes, hours)
        busiest = Window.partitionBy("hour").orderBy(F.desc("messages"), "exchange", "routing_key")
        keys = (
            parts.groupBy(DATE, HOUR, F.date_trunc("hour", "minute").alias("hour"), "exchange", "routing_key")
            .agg(F.sum("messages").alias("messages"))
            .withColumn("rank", F.row_number().over(busiest))
            .where(F.col("rank") <= self._top)
        )
        self._top_keys.replace(keys, hours)
