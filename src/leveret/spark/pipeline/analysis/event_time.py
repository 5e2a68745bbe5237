"""Messages at the moments that they are about, for streams that tell of something that happened earlier: a day that is
read in again, or was made up.

The broker's timestamp gives way to a header with milliseconds since 1970. What the publisher said about its own moment
moves by as much, so that latencies stay what they were. A message without the header, or with something else in it,
keeps the broker's moment."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from leveret.spark.pipeline.analysis.parsing import PUBLISHED_HEADER

__all__ = ["at_event_time"]


def at_event_time(rows: DataFrame, header: str) -> DataFrame:
    """Rows with the connector's columns, from a table or a stream."""
    headers = F.col("headers")
    moment_ms = F.try_element_at(headers, F.lit(header)).try_cast("bigint")
    shift_ms = moment_ms - F.unix_millis("timestamp")
    published_ms = F.try_element_at(headers, F.lit(PUBLISHED_HEADER)).try_cast("bigint") + shift_ms
    others = F.map_filter(headers, lambda name, _: name != PUBLISHED_HEADER)
    moved = F.map_concat(others, F.create_map(F.lit(PUBLISHED_HEADER), published_ms.cast("string")))
    stated = F.timestamp_millis(F.unix_millis("message_timestamp") + shift_ms)
    return rows.withColumns(
        {
            "timestamp": F.coalesce(F.timestamp_millis(moment_ms), F.col("timestamp")),
            "message_timestamp": F.coalesce(stated, F.col("message_timestamp")),
            "headers": F.when(published_ms.isNotNull(), moved).otherwise(headers),
        }
    )
