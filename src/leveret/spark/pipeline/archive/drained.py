"""Rows that were taken from a queue: numbers for them, and those that came a second time found out.

A queue has no offsets, and a batch that was not acknowledged comes again, perhaps in other company. A message with a
message_id that is the same in every respect as one of the last batches is known by that. One without is never taken for
the same: better twice than not at all."""

from __future__ import annotations

import time

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

__all__ = ["numbered", "without_known"]

# Rows of a batch, at most: the moment stands above the row's number.
ROW_BITS = 20
# What a queue counts up when it hands out a message again.
COUNTS = ("x-delivery-count", "x-acquired-count")
PLACE = ("offset", "partition", "date", "headers", "headers_json")


def numbered(batch: DataFrame) -> DataFrame:
    """`offset` grows from row to row and from batch to batch, also after a new beginning: it has the moment in it."""
    base = int(time.time() * 1000) << ROW_BITS
    return batch.coalesce(1).withColumn("offset", f.lit(base) + f.monotonically_increasing_id())


def without_known(batch: DataFrame, known: DataFrame) -> DataFrame:
    """The rows of a batch that are not in `known`."""
    there = known.select(_identity(known).alias("identity"))
    return batch.withColumn("identity", _identity(batch)).join(there, "identity", "left_anti").drop("identity")


def _identity(rows: DataFrame) -> Column:
    headers = f.to_json(f.map_filter("headers", lambda name, _: ~name.isin(*COUNTS)))
    texts = [
        f.base64("body"),
        headers,
        *(f.col(name).cast("string") for name in sorted(rows.columns) if name not in (*PLACE, "body")),
    ]
    # As JSON, so that a null is no empty text and no separator can be in a value. Null is like nothing.
    return f.when(f.col("message_id").isNotNull(), f.sha2(f.to_json(f.array(*texts)), 256))
