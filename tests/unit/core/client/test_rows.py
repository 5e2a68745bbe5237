"""Deliveries as rows: beside what the deliveries themselves say."""

from __future__ import annotations

import json
import struct
from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.client.rows import DEATH_COUNT, DEATHS, NUMBERS, TEXTS, Rows
from leveret.core.codec.field_types import Int64, Timestamp
from leveret.core.codec.properties import encode_properties
from tests.unit.core.client_bench import Bench

ALL = frozenset((*TEXTS, *NUMBERS, *DEATHS, DEATH_COUNT, "body", "exchange", "routing_key", "headers", "headers_json"))
NEVER = (1 << 64) - 1
SHORT = st.text(st.characters(codec="utf-8"), max_size=20)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        **{name: SHORT for name in TEXTS if name != "cluster_id"},
        "delivery_mode": st.integers(0, 255),
        "priority": st.integers(0, 255),
        "timestamp": st.integers(0, (1 << 63) - 1),
        "headers": st.dictionaries(
            SHORT,
            SHORT | st.integers(-(1 << 40), 1 << 40) | st.none() | st.lists(st.booleans(), max_size=3),
            max_size=4,
        ),
    },
)
MESSAGES = st.lists(st.tuples(st.binary(max_size=30), SHORT, PROPERTIES), max_size=12)


def short(text: str) -> bytes:
    octets = text.encode("utf-8", "surrogateescape")
    return bytes((len(octets),)) + octets


def frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind,)) + b"\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"


def deliver(tag: int, body: bytes, properties: dict[str, Any], exchange: str = "", key: str = "") -> bytes:
    method = b"\x00\x3c\x00\x3c" + short("me") + tag.to_bytes(8, "big") + b"\x00" + short(exchange) + short(key)
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties(**properties)
    return frame(1, method) + frame(2, header) + (frame(3, body) if body else b"")


def deliveries(*messages: tuple[bytes, str, dict[str, Any]], first: int = 0, stamp: int | None = None) -> deque[Any]:
    """As a stream sends them, from an offset on; headers of theirs first."""
    bench = Bench()
    delivery_buffer = bench.add_sink()
    for number, (body, key, properties) in enumerate(messages):
        headers = {**(properties.get("headers") or {}), "x-stream-offset": Int64(first + number)}
        if stamp is not None:
            headers["x-stream-timestamp"] = Int64(stamp)
        bench.feed(deliver(number + 1, body, {**properties, "headers": headers}, exchange="x", key=key))
    return deque(delivery_buffer.items)


def cells(taken: tuple[Any, ...], name: str) -> list[Any]:
    """A column as plain values."""
    rows, _, bits = taken[:3]
    there = [bits is None or bool(bits[row // 8] >> (row % 8) & 1) for row in range(rows)]
    if name == "headers":
        ends = struct.unpack(f"<{rows + 1}i", taken[3])
        names, values = cells(taken[4], "routing_key"), cells(taken[5], "routing_key")
        found: list[Any] = [dict(zip(names[a:b], values[a:b], strict=True)) for a, b in pairwise(ends)]
    elif name in (*NUMBERS, DEATH_COUNT):
        found = list(struct.unpack(f"<{rows}q", taken[3]))
    else:
        ends = struct.unpack(f"<{rows + 1}i", taken[3])
        found = [taken[4][a:b] for a, b in pairwise(ends)]
        if name != "body":
            found = [octets.decode() for octets in found]
    return [value if one else None for value, one in zip(found, there, strict=True)]


def table(rows: Rows) -> list[dict[str, Any]]:
    count, taken = rows.take()
    columns = {name: cells(column, name) for name, column in taken.items()}
    assert all(len(values) == count for values in columns.values())
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]


def as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


@given(MESSAGES, st.integers(0, 1 << 40))
def test_rows_say_what_deliveries_say(messages: list[tuple[bytes, str, dict[str, Any]]], first: int) -> None:
    items = deliveries(*messages, first=first, stamp=1_700_000_000_123)
    rows = Rows(ALL)
    rows.next_offset = first
    assert rows.gather(items, 1000, 1 << 30, NEVER) == len(messages)
    assert (rows.next_offset, rows.gap_end) == (first + len(messages), 0)
    found = table(rows)
    assert len(found) == len(messages)
    for number, (row, (body, key, properties)) in enumerate(zip(found, messages, strict=True)):
        assert (row["body"], row["exchange"], row["routing_key"]) == (body, "x", key)
        assert (row["offset"], row["timestamp"]) == (first + number, 1_700_000_000_123_000)
        for name in (*TEXTS, "delivery_mode", "priority"):
            assert row[name] == properties.get(name), name
        seconds = properties.get("timestamp")
        fits = seconds is not None and seconds <= 253_402_300_799
        assert row["message_timestamp"] == (1_000_000 * seconds if fits else None)
        headers = {
            name: value for name, value in properties.get("headers", {}).items() if not name.startswith("x-stream-")
        }
        if headers:
            assert json.loads(row["headers_json"]) == headers
            assert row["headers"] == {name: as_text(value) for name, value in headers.items()}
        else:
            assert (row["headers_json"], row["headers"]) == (None, None)
        assert row[DEATH_COUNT] is None


def test_only_what_is_wanted_is_made() -> None:
    rows = Rows(frozenset({"offset", "message_id", "stream"}))
    rows.gather(deliveries((b"a", "k", {"message_id": "m", "type": "t"})), 10, 100, NEVER)
    assert table(rows) == [{"offset": 0, "message_id": "m"}]
    nothing = Rows(frozenset())
    nothing.gather(deliveries((b"a", "k", {}), (b"b", "k", {})), 10, 1 << 20, NEVER)
    assert nothing.take() == (2, {})


def test_dead_letters() -> None:
    deaths = [{"count": Int64(3), "reason": "rejected"}, {"count": 2}, "none", {"count": "many"}, {"count": -1}]
    headers = {"x-death": deaths, "x-first-death-reason": "rejected", "x-last-death-queue": 5}
    rows = Rows(frozenset({*DEATHS, DEATH_COUNT}))
    rows.gather(
        deliveries((b"", "k", {"headers": headers}), (b"", "k", {}), (b"", "k", {"headers": {"x-death": 1}})),
        9,
        1 << 20,
        NEVER,
    )
    first, second, third = table(rows)
    assert (first["first_death_reason"], first["last_death_queue"], first[DEATH_COUNT]) == ("rejected", None, 5)
    assert set(second.values()) == {None}
    assert third[DEATH_COUNT] is None


def test_a_bunch_ends_with_rows_octets_or_the_range() -> None:
    messages = [(b"x" * 100, "k", {})] * 10
    items = deliveries(*messages)
    rows = Rows(frozenset({"offset"}))
    assert rows.gather(items, 3, 1 << 20, NEVER) == 3
    assert rows.last.delivery_tag == 3
    assert [row["offset"] for row in table(rows)] == [0, 1, 2]
    # Properties weigh as well: headers may be longer than bodies.
    assert rows.gather(items, 100, 150, NEVER) == 2
    assert rows.octets > 200
    rows.take()
    assert rows.gather(items, 100, 1 << 20, 7) == 2
    assert (len(items), rows.next_offset) == (3, 7)


def test_what_came_before_is_passed_over_and_gaps_are_noted() -> None:
    rows = Rows(frozenset({"offset"}))
    rows.gather(deliveries(*[(b"", "k", {})] * 3), 9, 1 << 20, NEVER)
    # The connection was lost, and the broker begins a bit earlier.
    rows.gather(deliveries(*[(b"", "k", {})] * 3, first=1), 9, 1 << 20, NEVER)
    assert (rows.next_offset, rows.gap_end) == (4, 0)
    rows.gather(deliveries(*[(b"", "k", {})] * 2, first=10), 9, 1 << 20, NEVER)
    assert (rows.gap_start, rows.gap_end, rows.next_offset) == (4, 10, 12)
    assert [row["offset"] for row in table(rows)] == [0, 1, 2, 3, 10, 11]


def test_routing_keys() -> None:
    keys = ["orders.de", "orders.fr", "payments", "orders"]
    for wanted, prefixes, expected in [
        (frozenset({b"payments", b"orders"}), None, [2, 3]),
        (None, (b"orders.",), [0, 1]),
        (frozenset({b"orders.fr", b"payments"}), (b"orders",), [1]),
        (frozenset(), None, []),
    ]:
        rows = Rows(frozenset({"offset"}))
        rows.keys, rows.key_prefixes = wanted, prefixes
        assert rows.gather(deliveries(*((b"", key, {}) for key in keys)), 9, 1 << 20, NEVER) == 4
        assert [row["offset"] for row in table(rows)] == expected
        assert rows.next_offset == 4


def test_a_queue_has_no_offsets() -> None:
    """Nor moments: headers of these names are the publisher's own, and are kept."""
    items = deliveries((b"", "k", {}), (b"", "k", {}), first=70, stamp=5)
    rows = Rows(frozenset({"offset", "timestamp", "headers"}))
    rows.by_tag, rows.stamped = True, False
    rows.gather(items, 9, 1 << 20, NEVER)
    first, second = table(rows)
    assert (first["offset"], second["offset"], first["timestamp"]) == (1, 2, None)
    assert second["headers"] == {"x-stream-offset": "71", "x-stream-timestamp": "5"}


def test_a_delivery_without_an_offset_is_an_error() -> None:
    bench = Bench()
    delivery_buffer = bench.add_sink()
    bench.feed(deliver(1, b"", {}), deliver(2, b"", {"headers": {"x-stream-offset": Timestamp(1)}}))
    for item in list(delivery_buffer.items):
        with pytest.raises(ValueError, match="is this queue a stream"):
            Rows(ALL).gather(deque([item]), 9, 99, NEVER)


def test_texts_that_are_none_are_replaced() -> None:
    broken = b"a\xffb".decode("utf-8", "surrogateescape")
    rows = Rows(frozenset({"routing_key", "message_id", "headers", "headers_json"}))
    rows.gather(
        deliveries((b"", broken, {"message_id": broken, "headers": {"n": broken, "l": [broken]}})), 9, 1 << 20, NEVER
    )
    (row,) = table(rows)
    assert (row["routing_key"], row["message_id"], row["headers"]["n"]) == ("a\ufffdb", "a\ufffdb", "a\ufffdb")
    assert json.loads(row["headers_json"]) == {"n": {"!text": "Yf9i"}, "l": [{"!text": "Yf9i"}]}
