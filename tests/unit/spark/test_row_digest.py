"""The digest of rows: equal for equal rows, and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from leveret.spark.row_digest import digest_of  # noqa: E402

MAP = pa.map_(pa.string(), pa.string())
MOMENT = pa.timestamp("us", tz="UTC")


def table(**changes: Any) -> pa.RecordBatch:
    columns = {
        "body": pa.array([b"a", b"", b"ccc", None], pa.binary()),
        "routing_key": pa.array(["k", None, "", "l"], pa.string()),
        "headers": pa.array([[("a", "b"), ("c", None)], None, [], [("a", "")]], MAP),
        "priority": pa.array([1, None, 0, 3], pa.int32()),
        "message_timestamp": pa.array([1, None, 2, 3], MOMENT),
        **changes,
    }
    return pa.RecordBatch.from_pydict(columns)


def test_where_rows_lie_does_not_matter() -> None:
    whole = table()
    twice = pa.Table.from_batches([whole, whole, whole]).combine_chunks().to_batches()[0]
    for start in (0, 4, 8):
        assert digest_of(twice.slice(start, 4), b"") == digest_of(whole, b"")
    assert digest_of(whole.slice(1, 2), b"") == digest_of(
        pa.RecordBatch.from_pylist(whole.slice(1, 2).to_pylist(), whole.schema), b""
    )
    # Columns that no message is made of.
    assert digest_of(table(partition=pa.array([1, 2, 3, 4])), b"") == digest_of(whole, b"")
    assert digest_of(whole.slice(0, 0), b"") == digest_of(whole.slice(2, 0), b"")


def test_every_difference_matters() -> None:
    tables = [
        table(),
        table().slice(0, 3),
        table().slice(1, 3),
        table(body=pa.array([b"a", b"", b"cc", b"c"], pa.binary())),
        table(body=pa.array([b"a", b"c", b"cc", None], pa.binary())),
        table(body=pa.array([b"a", None, b"ccc", b""], pa.binary())),
        table(routing_key=pa.array(["k", "", None, "l"], pa.string())),
        table(headers=pa.array([[("a", "b")], [("c", None)], [], [("a", "")]], MAP)),
        table(headers=pa.array([[("a", "b"), ("c", "")], None, [], [("a", "")]], MAP)),
        table(headers=pa.array([[("a", "b"), ("c", None)], None, [("a", "")], []], MAP)),
        table(priority=pa.array([1, 0, None, 3], pa.int32())),
        table(message_timestamp=pa.array([1, None, 2, 4], MOMENT)),
        table(type=pa.array([None] * 4, pa.string())),
    ]
    digests = {digest_of(one, head) for one in tables for head in (b"", b"1")}
    assert len(digests) == 2 * len(tables)
    assert all(len(one) == 22 for one in digests)
