"""Rows as messages, from buffers that the columns of the reading side have made: no pyarrow is needed for it. That they
are the same as those that are made one by one is in tests/unit/spark/test_row_messages.py."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.client.outgoing import MANDATORY, Outgoing
from leveret.core.client.row_headers import RowHeaders
from leveret.core.client.row_outgoing import RowOutgoing
from leveret.core.codec.properties import parse_properties
from tests.unit.core.cell_bench import numbers, pairs, texts


def make(columns: dict[str, Any], key: bytes | None = None) -> list[Outgoing | None]:
    rows = RowOutgoing(b"", key, None, 2, -1, MANDATORY, b"w-", RowHeaders(b"name"))
    made: list[Outgoing | None] = rows.make(columns, columns["body"].rows)
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
    one, other = make(columns)
    assert one is not None and other is not None
    assert (one.exchange(), one.routing_key(), one.body, one.bits) == ("shop", "k", b"\0body", MANDATORY)
    assert parse_properties(one.raw).fields() == {
        "headers": {"a": "b", "c": None, "x-producer-name": "name", "x-publishing-id": 0},
        "delivery_mode": 1,
        "priority": 255,
        "expiration": "500",
        "message_id": "w-0",
        "timestamp": 1_700_000_000,
    }
    assert (other.exchange(), other.message_id) == ("", b"w-1")
    assert parse_properties(other.raw).fields() == {
        "headers": {"x-producer-name": "name", "x-publishing-id": 1},
        "delivery_mode": 2,
        "message_id": "w-1",
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


def test_numbers_of_rows() -> None:
    made = make({"body": texts(*["x"] * 1001)}, b"k")
    for row in (0, 9, 10, 99, 100, 999, 1000):
        one = made[row]
        assert one is not None and one.message_id == b"w-%d" % row


def test_another_name_for_the_next_rows() -> None:
    rows = RowOutgoing(b"", b"k", None, 2, -1, MANDATORY, b"w-", RowHeaders(b"name"))
    columns = {"body": texts("x")}
    rows.make(columns, 1)
    rows.rename(b"other", b"v-")
    (one,) = rows.make(columns, 1)
    assert one.message_id == b"v-0"
    assert parse_properties(one.raw).headers()["x-producer-name"] == "other"
