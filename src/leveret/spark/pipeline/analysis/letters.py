"""Dead letters as rows: what a message's headers say about how it died, in columns.

`reason` and `queue` are those of the last death, the one that brought it here; `origin_exchange` and
`origin_routing_key` are how it was published before its first. A letter that tells nothing of a death has "unknown"
for both. `age_s` is how long it had been on its way when it came here: since it was published, or since its first
death if that is all that is known. Never reads or writes a table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.pipeline.analysis.clusters import cluster, error_text, shape_of
from leveret.spark.pipeline.analysis.hour_tables import columns
from leveret.spark.pipeline.analysis.parsing import published_at, tenant
from leveret.spark.schema import COLUMNS

__all__ = ["ERROR_HEADERS", "LETTERS", "as_letters"]

ERROR_HEADERS = ("x-exception", "x-error", "error")
UNKNOWN = "unknown"
LETTERS = columns(
    COLUMNS,
    tenant="string",
    reason="string",
    queue="string",
    origin_exchange="string",
    origin_routing_key="string",
    first_death_at="timestamp",
    age_s="double",
    error="string",
    shape="string",
    cluster="string",
)
# The time is a number with a word that says what it is in JSON of ours, and a plain number in that of the HTTP API.
_DEATH = "struct<queue:string,reason:string,time:string,exchange:string,`routing-keys`:array<string>>"
_DEATHS = f"struct<`x-death`:array<{_DEATH}>>"


def as_letters(rows: DataFrame, error_headers: Sequence[str] = ERROR_HEADERS) -> DataFrame:
    """Rows of the connector with the columns of LETTERS. The first of `error_headers` that a letter has is its
    error."""
    died = rows.withColumn("origin", _origin())
    told = died.withColumns(
        {
            "tenant": tenant(),
            "reason": F.coalesce("last_death_reason", "first_death_reason", F.lit(UNKNOWN)),
            "queue": F.coalesce("last_death_queue", "first_death_queue", F.lit(UNKNOWN)),
            "origin_exchange": F.coalesce(F.col("origin.exchange"), "first_death_exchange"),
            "origin_routing_key": F.col("origin.key"),
            "first_death_at": F.timestamp_seconds(
                F.coalesce(_seconds(F.col("headers")["x-first-death-time"]), F.col("origin.at"))
            ),
        }
    )
    since = F.coalesce(published_at(), F.col("first_death_at"))
    aged = told.withColumns(
        {
            "age_s": F.when(
                since.isNotNull(), F.greatest((F.unix_micros("timestamp") - F.unix_micros(since)) / 1e6, F.lit(0.0))
            ),
            "error": error_text(error_headers),
            "shape": shape_of("body"),
        }
    )
    return aged.withColumn("cluster", cluster()).select(*LETTERS.names)


def _origin() -> Column:
    """The first death. A death that came again stands in front in x-death, so the order does not tell which was
    first; the header x-first-death-queue does, and else the time."""
    deaths = F.filter(F.from_json("headers_json", _DEATHS)["x-death"], lambda death: death["routing-keys"].isNotNull())
    ranked = F.transform(
        deaths,
        lambda death: F.struct(
            F.coalesce(
                (death["queue"] != F.col("first_death_queue")) | (death["reason"] != F.col("first_death_reason")),
                F.lit(True),
            ),
            F.regexp_extract(death["time"], r"(\d+)", 1).try_cast("bigint").alias("at"),
            death["exchange"].alias("exchange"),
            death["routing-keys"][0].alias("key"),
        ),
    )
    return F.array_min(ranked)


def _seconds(text: Column) -> Column:
    """A moment in a header: whole seconds, or as `value_text` writes a timestamp."""
    return F.coalesce(text.try_cast("bigint"), F.unix_seconds(F.try_to_timestamp(text)))
