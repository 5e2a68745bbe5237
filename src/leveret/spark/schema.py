"""The columns that a message becomes, and how they are made from what the compiled rows gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret.client.bulk import DEATH_COUNT, DEATHS, Rows
from leveret.spark.errors import InvalidOption

__all__ = ["COLUMNS", "pick", "table_of"]

_TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)

COLUMNS = StructType(
    [
        StructField("body", BinaryType()),
        StructField("exchange", StringType()),
        StructField("routing_key", StringType()),
        StructField("stream", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        # When the broker took it. The publisher's own word is message_timestamp.
        StructField("timestamp", TimestampType()),
        StructField("content_type", StringType()),
        StructField("content_encoding", StringType()),
        StructField("delivery_mode", IntegerType()),
        StructField("priority", IntegerType()),
        StructField("correlation_id", StringType()),
        StructField("reply_to", StringType()),
        StructField("expiration", StringType()),
        StructField("message_id", StringType()),
        StructField("message_timestamp", TimestampType()),
        StructField("type", StringType()),
        StructField("user_id", StringType()),
        StructField("app_id", StringType()),
        StructField("cluster_id", StringType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("headers_json", StringType()),
        *(StructField(name, StringType()) for name in DEATHS),
        StructField(DEATH_COUNT, LongType()),
    ]
)

_MOMENT = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.string(), pa.string())
_TYPES: dict[str, pa.DataType] = {
    "body": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _MOMENT,
    "delivery_mode": pa.int32(),
    "priority": pa.int32(),
    "message_timestamp": _MOMENT,
    "headers": _MAP,
    DEATH_COUNT: pa.int64(),
}


def pick(columns: Sequence[str] | None) -> StructType:
    """The columns of these names, in this order; all if none are named."""
    if columns is None:
        return COLUMNS
    unknown = [name for name in columns if name not in COLUMNS.names]
    if unknown:
        raise InvalidOption(f"the option columns names {', '.join(unknown)}; there are {', '.join(COLUMNS.names)}")
    if len(set(columns)) != len(columns):
        raise InvalidOption("the option columns names a column twice")
    return StructType([COLUMNS[name] for name in columns])


def table_of(rows: Rows, names: Sequence[str], stream: str, partition: int) -> pa.RecordBatch:
    """What the rows have gathered, as one batch with these columns. The rows begin anew."""
    count, taken = rows.take()
    arrays = []
    for name in names:
        if name == "stream":
            arrays.append(pa.repeat(pa.scalar(stream, pa.string()), count))
        elif name == "partition":
            arrays.append(pa.repeat(pa.scalar(partition, pa.int32()), count))
        else:
            arrays.append(_array(name, taken[name]))
    schema = pa.schema([pa.field(name, _TYPES.get(name, pa.string())) for name in names])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(name: str, taken: tuple[Any, ...]) -> pa.Array:
    rows, nulls, bits = taken[:3]
    wanted = _TYPES.get(name, pa.string())
    bitmap = None if bits is None else pa.py_buffer(bits)
    if wanted is _MAP:
        names, values = (_array("", inner) for inner in taken[4:])
        entries = pa.StructArray.from_arrays(
            [names, values], fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]
        )
        return pa.Array.from_buffers(_MAP, rows, [bitmap, pa.py_buffer(taken[3])], nulls, children=[entries])
    if wanted in (pa.string(), pa.binary()):
        return pa.Array.from_buffers(wanted, rows, [bitmap, pa.py_buffer(taken[3]), pa.py_buffer(taken[4])], nulls)
    numbers = pa.Array.from_buffers(pa.int64(), rows, [bitmap, pa.py_buffer(taken[3])], nulls)
    if wanted == pa.int64():
        return numbers
    return numbers.view(wanted) if wanted is _MOMENT else numbers.cast(wanted)
