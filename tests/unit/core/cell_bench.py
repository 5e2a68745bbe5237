"""Cells of tables on a workbench: their buffers are those that the columns of the reading side make."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.client.cells import NumberCells, OctetCells, PairCells
from leveret.core.client.columns import NumberColumn, OctetColumn


def texts(*values: str | bytes | None) -> OctetCells:
    column = OctetColumn()
    for value in values:
        if value is None:
            column.put_null()
        else:
            column.put_octets(value if isinstance(value, bytes) else value.encode())
    rows, _, bits, ends, octets = column.take()
    return OctetCells(rows, 0, bits, ends, octets, False)


def numbers(*values: int | None) -> NumberCells:
    column = NumberColumn()
    for value in values:
        if value is None:
            column.put_null()
        else:
            column.put(value)
    rows, _, bits, octets = column.take()
    return NumberCells(rows, 0, bits, octets)


def pairs(*rows: Sequence[tuple[str, str | None]]) -> PairCells:
    ends = b"".join(sum(map(len, rows[:place])).to_bytes(4, "little") for place in range(len(rows) + 1))
    entries = [pair for row in rows for pair in row]
    places = OctetCells(len(rows), 0, None, ends, None, False)
    return PairCells(places, texts(*(name for name, _ in entries)), texts(*(value for _, value in entries)))
