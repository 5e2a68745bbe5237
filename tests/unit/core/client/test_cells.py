"""Cells are what was put into the columns."""

from __future__ import annotations

import struct

from leveret.core.client.cells import OctetCells
from tests.unit.core.cell_bench import numbers, pairs, texts

WORDS = ["a", None, "", "bcd", None, "e", "f", "g", "h", None]


def test_texts() -> None:
    cells = texts(*WORDS)
    assert cells.rows == len(WORDS)
    assert [cells.is_null(row) for row in range(cells.rows)] == [word is None for word in WORDS]
    sizes = [cells.start(row + 1) - cells.start(row) for row in range(cells.rows)]
    assert sizes == [len(word or "") for word in WORDS]
    assert not any(texts("a", "").is_null(row) for row in range(2))


def test_numbers() -> None:
    values = [5, None, -(1 << 63), (1 << 63) - 1]
    cells = numbers(*values)
    assert [None if cells.is_null(row) else cells.value(row) for row in range(cells.rows)] == values


def test_pairs() -> None:
    cells = pairs([("a", "b")], [], [("c", None), ("d", "e")])
    assert [cells.ends.start(row) for row in range(4)] == [0, 1, 1, 3]
    assert [cells.values.is_null(place) for place in range(3)] == [False, True, False]


def test_from_a_later_row_on_and_with_wide_ends() -> None:
    ends = struct.pack("=4q", 0, 1, 3, 3)
    cells = OctetCells(2, 1, bytes([0b011]), ends, b"abc", True)
    assert [(cells.is_null(row), cells.start(row)) for row in range(2)] == [(False, 1), (True, 3)]
