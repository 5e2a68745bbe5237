"""Headers of rows as octets."""

from __future__ import annotations

from typing import Any

from leveret.core.client.row_headers import RowHeaders
from leveret.core.codec.properties import parse_properties
from tests.unit.core.cell_bench import numbers, pairs, texts


def tables(columns: dict[str, Any], rows: int) -> list[Any]:
    """The headers of each row, None for one that has to be looked at."""
    headers = RowHeaders(b"name")
    headers.take_columns(columns)
    found = []
    for row in range(rows):
        fields = headers.table(row)
        raw = None if fields is None else b"\x20\x00" + len(fields).to_bytes(4, "big") + fields
        found.append(None if raw is None else parse_properties(raw).headers())
    return found


def test_ours_alone() -> None:
    assert tables({}, 2) == [{"x-producer-name": "name", "x-publishing-id": row} for row in range(2)]
    columns = {"producer_name": texts("other", None, "", "x" * 256), "publishing_id": numbers(7, None, 1, 1)}
    assert tables(columns, 4) == [
        {"x-producer-name": "other", "x-publishing-id": 7},
        {"x-producer-name": "name", "x-publishing-id": 1},
        None,
        None,
    ]


def test_names_that_are_ours_or_twice_have_to_be_looked_at() -> None:
    rows = [[("x-publishing-id", "1")], [("x-stream-offset", "1")], [("a", "1"), ("a", "2")], [("n" * 256, "1")]]
    assert tables({"headers": pairs(*rows)}, 4) == [None] * 4


def test_json_is_remembered_but_not_all() -> None:
    # More than twice as many as are remembered, all different.
    texts_given = [f'{{"n": {number}}}' for number in range(2_100)]
    texts_given += ['{"n": "' + "x" * 20_000 + '"}', '{"n": 1}', '{"x-publishing-id": 5, "n": 2}', "[]"]
    *found, last = tables({"headers_json": texts(*texts_given)}, len(texts_given))
    assert last is None
    assert [one["n"] for one in found] == [*range(2_100), "x" * 20_000, 1, 2]
    assert [one["x-publishing-id"] for one in found] == list(range(len(found)))
    assert list(found[-1]) == ["x-publishing-id", "n", "x-producer-name"]
