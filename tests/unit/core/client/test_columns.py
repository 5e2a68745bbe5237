"""Columns with Arrow's layout, beside a plain list of the same values."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.columns import NumberColumn, OctetColumn

OCTETS = st.lists(st.none() | st.binary(max_size=40), max_size=200)
NUMBERS = st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=200)


def present(rows: int, nulls: int, bits: bytes | None) -> list[bool]:
    """Which rows have a value, as the bitmap says it."""
    if bits is None:
        assert nulls == 0
        return [True] * rows
    assert len(bits) == (rows + 7) // 8
    found = [bool(bits[row // 8] >> (row % 8) & 1) for row in range(rows)]
    assert found.count(False) == nulls
    # What is behind the last row is not set: whoever counts bits counts rows.
    assert all(not bits[row // 8] >> (row % 8) & 1 for row in range(rows, 8 * len(bits)))
    return found


def fill(column: Any, values: list[Any], put: Any) -> None:
    for value in values:
        if value is None:
            column.put_null()
        else:
            put(value)


def octets_in(column: OctetColumn) -> list[bytes | None]:
    rows, nulls, bits, ends, octets = column.take()
    places = struct.unpack(f"<{rows + 1}i", ends)
    assert (places[0], places[-1]) == (0, len(octets))
    values = [octets[start:end] for start, end in pairwise(places)]
    return [value if there else None for value, there in zip(values, present(rows, nulls, bits), strict=True)]


def numbers_in(column: NumberColumn) -> list[int | None]:
    rows, nulls, bits, octets = column.take()
    values = struct.unpack(f"<{rows}q", octets)
    return [value if there else None for value, there in zip(values, present(rows, nulls, bits), strict=True)]


@given(OCTETS, OCTETS)
def test_octets(first: list[bytes | None], second: list[bytes | None]) -> None:
    """A column begins anew when it was taken."""
    column = OctetColumn()
    for values in (first, second, []):
        fill(column, values, column.put_octets)
        assert octets_in(column) == values


@given(NUMBERS, NUMBERS)
def test_numbers(first: list[int | None], second: list[int | None]) -> None:
    column = NumberColumn()
    for values in (first, second, []):
        fill(column, values, column.put)
        assert numbers_in(column) == values


def test_columns_grow() -> None:
    """Far beyond what they begin with; the first null comes late, and one comes with every kind of remainder."""
    for late in range(40_000, 40_009):
        octets, numbers = OctetColumn(), NumberColumn()
        values = [b"%d" % row * (row % 4) for row in range(late)]
        fill(octets, [*values, None, b"x"], octets.put_octets)
        fill(numbers, [*range(late), None, 1], numbers.put)
        assert octets_in(octets) == [*values, None, b"x"]
        assert numbers_in(numbers) == [*range(late), None, 1]


def test_one_long_value() -> None:
    column = OctetColumn()
    long = bytes(range(256)) * 4096
    fill(column, [b"a", long, None, b"b"], column.put_octets)
    assert octets_in(column) == [b"a", long, None, b"b"]
