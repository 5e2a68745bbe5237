"""Which failures are alike: those that died in the same queue for the same reason, with the same error and a body of
the same shape, numbers and ids aside.

An error loses what differs from one letter to the next: uuids, moments, hexadecimal and decimal numbers. The shape of
JSON is its fields and their types, whatever their order and values; of text its first words; of anything else that it
is octets. Errors and shapes are cut to a length, and so is how deep and wide a body is looked into."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from leveret.spark.pipeline.analysis.hour_tables import columns

__all__ = ["CLUSTERS", "cluster", "error_text", "find_clusters", "shape_of", "shape_of_body"]

CLUSTERS = columns(
    cluster="string",
    reason="string",
    queue="string",
    error="string",
    shape="string",
    letters="long",
    first_seen="timestamp",
    last_seen="timestamp",
    example_message_id="string",
)
ERROR_CHARS, SHAPE_CHARS = 300, 400
DEPTH, WIDTH, ITEMS, WORDS = 6, 50, 20, 6
# Larger bodies are not read for their shape.
BODY_BYTES = 1024 * 1024
# In this order. Both Java and Python read them.
VARIABLE = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"\b0[xX][0-9a-fA-F]+\b|\b(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b", "<hex>"),
    (r"\d+([.,]\d+)*", "<n>"),
    (r"\s+", " "),
)


def error_text(headers: Sequence[str]) -> Column:
    """The first of these headers that is there, without what differs from letter to letter; null if there is none."""
    text = F.coalesce(*(F.col("headers")[name] for name in headers)) if headers else F.lit(None).cast("string")
    for pattern, word in VARIABLE:
        text = F.regexp_replace(text, pattern, word)
    return F.trim(F.substring(text, 1, ERROR_CHARS))


def cluster() -> Column:
    """The name of a row's cluster, from `reason`, `queue`, `error` and `shape`: the same in every run."""
    parts = [F.coalesce(name, F.lit("")) for name in ("reason", "queue", "error", "shape")]
    return F.substring(F.sha2(F.concat_ws("\u0000", *parts), 256), 1, 12)


def find_clusters(letters: DataFrame) -> DataFrame:
    return letters.groupBy("cluster", "reason", "queue", "error", "shape").agg(
        F.count("*").alias("letters"),
        F.min("timestamp").alias("first_seen"),
        F.max("timestamp").alias("last_seen"),
        F.max_by("message_id", F.struct("timestamp", "stream", "offset")).alias("example_message_id"),
    )


@F.arrow_udf(returnType=StringType())
def shape_of(bodies: pa.Array) -> pa.Array:
    return pa.array([None if body is None else shape_of_body(body) for body in bodies.to_pylist()], pa.string())


def shape_of_body(body: bytes) -> str:
    if not body:
        return "empty"
    if len(body) > BODY_BYTES:
        return "large"
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "octets"
    if text.lstrip()[:1] in ("{", "["):
        try:
            return "json " + _shape(json.loads(text, parse_int=float), DEPTH)[:SHAPE_CHARS]
        except (ValueError, RecursionError):
            # It looked like JSON, and may have died of being none.
            return "broken json"
    return ("text " + " ".join(_plain(text[:1000]).split()[:WORDS]))[:SHAPE_CHARS]


def _shape(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        if depth == 0:
            return "{...}"
        fields = {f"{_plain(name)}:{_shape(inner, depth - 1)}" for name, inner in list(value.items())[:WIDTH]}
        return "{" + ",".join(sorted(fields)) + "}"
    if isinstance(value, list):
        if depth == 0:
            return "[...]"
        return "[" + "|".join(sorted({_shape(item, depth - 1) for item in value[:ITEMS]})) + "]"
    if value is None:
        return "null"
    return {bool: "flag", str: "text"}.get(type(value), "number")


def _plain(text: str) -> str:
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return text
