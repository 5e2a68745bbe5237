"""A digest of the rows of a table: equal for equal rows in the same order, whatever buffers they lie in."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from leveret.spark.row_messages import USED

__all__ = ["digest_of"]

DIGEST_BYTES = 16


def digest_of(table: pa.RecordBatch, head: bytes) -> str:
    """22 letters. `head` goes before the rows."""
    hashing = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _add_octets(hashing, head)
    for name in sorted(set(table.schema.names) & USED):
        column = table.column(name)
        _add_octets(hashing, f"{name} {column.type} {len(column)}".encode())
        _add(hashing, column)
    return base64.urlsafe_b64encode(hashing.digest()).decode().rstrip("=")


def _add(hashing: Any, column: pa.Array) -> None:
    if column.null_count:
        valid = column.is_valid()
        _add_octets(hashing, valid.cast(pa.uint8()).buffers()[1])
        # What lies in the places of nulls is nobody's.
        column = column.drop_null()
    kind = column.type
    if kinds.is_map(kind):
        ends = column.offsets
        first, last = ends[0].as_py(), ends[-1].as_py()
        _add(hashing, pc.subtract(ends, first).cast(pa.int64()))
        _add(hashing, column.keys.slice(first, last - first))
        _add(hashing, column.items.slice(first, last - first))
    elif kinds.is_integer(kind) or kinds.is_timestamp(kind):
        numbers = column.cast(pa.int64())
        _add_octets(hashing, numbers.buffers()[1].slice(8 * numbers.offset, 8 * len(numbers)))
    elif len(column):
        _add(hashing, pc.binary_length(column).cast(pa.int64()))
        octets = column.cast(pa.large_binary())
        ends = pa.Array.from_buffers(pa.int64(), octets.offset + len(octets) + 1, [None, octets.buffers()[1]])
        first, last = ends[octets.offset].as_py(), ends[octets.offset + len(octets)].as_py()
        if last > first:
            _add_octets(hashing, octets.buffers()[2].slice(first, last - first))


def _add_octets(hashing: Any, octets: Any) -> None:
    hashing.update(len(octets).to_bytes(8, "big"))
    hashing.update(octets)
