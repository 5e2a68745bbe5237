"""Columns of an Arrow batch as the compiled core reads them: their buffers, without a copy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from leveret.client.bulk import NumberCells, OctetCells, PairCells

__all__ = ["cells_of"]


def cells_of(table: pa.RecordBatch, used: Collection[str]) -> dict[str, Any] | None:
    """The columns of these names. None if there is something about one of them that the core does not know."""
    try:
        # So that no place lies outside of the buffers, and every text is UTF-8.
        table.validate(full=True)
    except pa.ArrowInvalid:
        return None
    found: dict[str, Any] = {}
    for name in table.schema.names:
        if name in used:
            cells = _cells(table.column(name))
            if cells is None:
                return None
            found[name] = cells
    return found


def _cells(column: pa.Array) -> Any:
    kind = column.type
    if kinds.is_integer(kind):
        return _numbers(column.cast(pa.int64()))
    if kinds.is_timestamp(kind):
        # One without a zone is no moment.
        return _numbers(column.view(pa.int64())) if kind.unit == "us" and kind.tz is not None else None
    if kinds.is_map(kind):
        names, values = _cells(column.keys), _cells(column.items)
        bits, ends = column.buffers()[:2]
        places = OctetCells(len(column), column.offset, _bitmap(column, bits), ends, None, False)
        return PairCells(places, names, values)
    wide = kinds.is_large_string(kind) or kinds.is_large_binary(kind)
    if wide or kinds.is_string(kind) or kinds.is_binary(kind):
        bits, ends, octets = column.buffers()
        return OctetCells(len(column), column.offset, _bitmap(column, bits), ends, octets, wide)
    return None


def _numbers(column: pa.Array) -> NumberCells:
    bits, numbers = column.buffers()
    return NumberCells(len(column), column.offset, _bitmap(column, bits), numbers)


def _bitmap(column: pa.Array, bits: pa.Buffer | None) -> pa.Buffer | None:
    return bits if column.null_count else None
