"""What the tables of the jobs say, read as anybody reads them, and whether they agree with each other.

Gold is counted again from silver in the plainest way, which shares no code with the jobs; and it is compared with that
of another lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.pipeline.archive import read_archive
from leveret.spark.pipeline.lake import Lake
from tests.spark.exactly_once.shop import NUMBER_IN_BODY

__all__ = ["ids_in_tables", "unlike_reference", "unlike_silver"]

GOLD = (
    "traffic_by_minute",
    "top_routing_keys",
    "deadletters_by_minute",
    "deadletters_by_hour",
    "deadletter_clusters",
    "deadletter_alerts",
)
# Enough of them to find a pattern in.
SHOWN = 3


def ids_in_tables(spark: SparkSession, lake: Lake) -> dict[str, list[int]]:
    in_body = F.regexp_extract(F.col("body").cast("string"), NUMBER_IN_BODY, 1).cast("int")
    in_id = F.regexp_extract("message_id", r"(\d+)", 1).cast("int")
    tables = {
        "archive": read_archive(spark, lake).select(in_body),
        "silver/messages": spark.read.parquet(lake.silver("messages")).select(in_id),
        "silver/quarantine": spark.read.parquet(lake.silver("quarantine")).select(in_id),
        "silver/deadletters": spark.read.parquet(lake.silver("deadletters")).select("offset"),
    }
    return {name: [row[0] for row in table.collect()] for name, table in tables.items()}


def unlike_silver(spark: SparkSession, lake: Lake) -> Iterator[str]:
    """Where gold does not say what a count of silver says."""
    spark.read.parquet(lake.silver("messages")).createOrReplaceTempView("silver_messages")
    spark.read.parquet(lake.silver("deadletters")).createOrReplaceTempView("silver_letters")
    traffic = """
        select date_trunc('minute', timestamp) minute, exchange, routing_key, tenant,
            count(*) messages, sum(length(body)) bytes
        from silver_messages group by 1, 2, 3, 4"""
    clusters = "select cluster, count(*) letters from silver_letters group by 1"
    counts = {"traffic_by_minute": traffic, "deadletter_clusters": clusters}
    for unit in ("minute", "hour"):
        counts[f"deadletters_by_{unit}"] = f"""
            select date_trunc('{unit}', timestamp) {unit}, reason, queue, origin_exchange exchange,
                count(*) letters, count_if(repeated) repeated
            from silver_letters group by 1, 2, 3, 4"""
    for name, question in counts.items():
        wanted = spark.sql(question)
        yield from _unlike(f"{name} and silver", _gold(spark, lake, name).select(*wanted.columns), wanted)


def unlike_reference(spark: SparkSession, lake: Lake, reference: Lake) -> Iterator[str]:
    """Where gold is not that of a lake in which nothing was killed."""
    for name in GOLD:
        yield from _unlike(f"{name} and its reference", _gold(spark, lake, name), _gold(spark, reference, name))


def _gold(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    return spark.read.parquet(lake.gold(name))


def _unlike(name: str, found: DataFrame, wanted: DataFrame) -> Iterator[str]:
    there, ought = Counter(map(tuple, found.collect())), Counter(map(tuple, wanted.collect()))
    for words, rows in (("too many", there - ought), ("missing", ought - there)):
        if rows:
            yield f"{name}: {rows.total()} rows {words}, such as {list(rows)[:SHOWN]}"
