"""What an arguments table counts for: never less than a sixteenth of the memory that it takes, nor than its octets."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from leveret.catalog.argument_size import COST_FACTOR, argument_bytes
from leveret.core.codec.tables import decode_table, encode_table

TABLES: dict[str, Any] = {
    "usual": {"x-message-ttl": 60000, "x-dead-letter-exchange": "dlx", "x-queue-type": "classic"},
    "one long text": {"a": "x" * 20000},
    "short names": {f"{number:x}": True for number in range(3000)},
    "nothing in them": {f"{number:x}": None for number in range(3000)},
    "tables of one": {"a": [{"": None} for _ in range(3000)]},
    "empty tables": {"a": [{} for _ in range(3000)]},
    "empty arrays": {"a": [[] for _ in range(3000)]},
    "nothing": {"a": [None] * 20000},
    "octets": {"a": b"x" * 20000},
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_no_table_costs_more_than_it_counts_for(table: dict[str, Any]) -> None:
    octets = encode_table(table)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = decode_table(octets)[0]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept == table
    # A hundred or two for what the measuring itself has made.
    assert after - before <= COST_FACTOR * argument_bytes(table) + 512


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_a_table_counts_for_its_octets_at_least(table: dict[str, Any]) -> None:
    assert argument_bytes(table) >= len(encode_table(table)) - 4 - 3 * len(table)


def test_usual_arguments_count_for_little_more_than_their_octets() -> None:
    usual = TABLES["usual"]
    assert argument_bytes(usual) <= len(encode_table(usual)) + 8


def test_no_arguments_count_for_nothing() -> None:
    assert argument_bytes({}) == 0


def test_names_that_amqp_could_not_carry_are_counted() -> None:
    assert argument_bytes({"n" * 1000: "v"}) > 1000
