"""Rows as messages, from buffers that the columns of the reading side have made: no pyarrow is needed for it. That they
are the same as those that are made one by one is in tests/unit/spark/test_row_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from leveret.core.client.cells import NumberCells, OctetCells, PairCells
from leveret.core.client.columns import NumberColumn, OctetColumn
from leveret.core.client.outgoing import MANDATORY, Outgoing
from leveret.core.client.row_headers import RowHeaders
from leveret.core.client.row_outgoing import RowOutgoing
from leveret.core.properties import parse_properties


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


def make(columns: dict[str, Any], before: int = 0, key: bytes | None = None) -> list[Outgoing | None]:
    rows = RowOutgoing(b"", key, None, 2, -1, MANDATORY, b"w-", RowHeaders(b"name", 100))
    made: list[Outgoing | None] = rows.make(columns, columns["body"].rows, before)
    return made


def test_a_row() -> None:
    columns = {
        "body": texts(b"\0body", b"next"),
        "exchange": texts("shop", None),
        "routing_key": texts("k", "k"),
        "expiration": texts("500", None),
        "priority": numbers(255, None),
        "delivery_mode": numbers(1, None),
        "message_timestamp": numbers(1_700_000_000_999_999, None),
        "headers": pairs([("a", "b"), ("c", None)], []),
    }
    one, other = make(columns, 9)
    assert one is not None and other is not None
    assert (one.exchange(), one.routing_key(), one.body, one.bits) == ("shop", "k", b"\0body", MANDATORY)
    assert parse_properties(one.raw).fields() == {
        "headers": {"a": "b", "c": None, "x-producer-name": "name", "x-publishing-id": 109},
        "delivery_mode": 1,
        "priority": 255,
        "expiration": "500",
        "message_id": "w-9",
        "timestamp": 1_700_000_000,
    }
    assert (other.exchange(), other.message_id) == ("", b"w-10")
    assert parse_properties(other.raw).fields() == {
        "headers": {"x-producer-name": "name", "x-publishing-id": 110},
        "delivery_mode": 2,
        "message_id": "w-10",
    }


ODD: dict[str, Any] = {
    "routing_key": texts("k" * 256),
    "exchange": texts("k" * 256),
    "content_type": texts("k" * 256),
    "message_id": texts("k" * 256),
    "app_id": texts("k" * 256),
    "expiration": texts("1m"),
    "delivery_mode": numbers(3),
    "priority": numbers(256),
    "message_timestamp": numbers(-1),
    "headers_json": texts("nonsense"),
    "headers": pairs([("a", "b"), ("a", "c")]),
    "producer_name": texts(""),
    "publishing_id": numbers(-1),
}


@pytest.mark.parametrize("name", ODD)
def test_a_row_that_has_to_be_looked_at(name: str) -> None:
    assert make({"body": texts("x"), name: ODD[name]}, key=b"k") == [None]
    assert make({"body": texts("x")}, key=b"k") != [None]


def test_a_row_without_a_body_or_a_place() -> None:
    assert make({"body": texts(None)}, key=b"k") == [None]
    assert make({"body": texts("x")}) == [None]


def test_headers_as_json_are_remembered_but_not_all() -> None:
    # More than twice as many as are remembered.
    rows = 2_100
    columns = {
        "body": texts(*["x"] * rows),
        # All different, the last as large as they come; and one again, with names of ours in it.
        "headers_json": texts(
            *(f'{{"n": {number}}}' for number in range(rows - 3)),
            '{"n": "' + "x" * 20_000 + '"}',
            '{"n": 1}',
            '{"x-publishing-id": 5, "n": 2}',
        ),
    }
    made = make(columns, key=b"k")
    found = [parse_properties(one.raw).headers() for one in made if one is not None]
    assert [one["n"] for one in found] == [*range(rows - 3), "x" * 20_000, 1, 2]
    assert [one["x-publishing-id"] for one in found] == [100 + row for row in range(rows)]
    assert list(found[-1]) == ["x-publishing-id", "n", "x-producer-name"]


def test_numbers_of_rows() -> None:
    for before in (0, 9, 10, 99, 100, 10**12 - 1):
        (one,) = make({"body": texts("x")}, before, b"k")
        assert one is not None and one.message_id == b"w-%d" % before
