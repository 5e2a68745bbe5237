"""Rows as messages: what the compiled core makes of them is what they come to one by one, octet for octet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import pyarrow as pa

from leveret.core.client.outgoing import Outgoing
from leveret.core.codec.properties import parse_properties
from leveret.spark.cells import cells_of
from leveret.spark.options import WRITE, read_options
from leveret.spark.row_messages import USED, Made, RowMessages

MAP = pa.map_(pa.string(), pa.string())
MOMENT = pa.timestamp("us", tz="UTC")
# Some that are too long, or just not.
TEXT = st.text(max_size=6) | st.sampled_from(["", "a" * 255, "a" * 256, "ä" * 127, "ä" * 128])
NAMES = TEXT | st.sampled_from(["a", "x-producer-name", "x-publishing-id", "x-stream-offset", "x-stream-timestamp"])
JSON = st.sampled_from(
    [
        "{}",
        '{"tenant": "a", "n": 1}',
        '{"n": 99999999999999999999}',
        '{"x-stream-offset": 5, "a": {"!timestamp": 1700000000}}',
        '{"x-publishing-id": 7, "a": [1, null, 2.5], "x-producer-name": "old"}',
        '{"t": "\\ud800"}',
        "nonsense",
        "[]",
        "",
    ]
)
NUMBER = st.integers(-1, 3) | st.sampled_from([255, 256])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "exchange": (pa.string(), TEXT),
    "routing_key": (pa.string(), TEXT),
    "content_type": (pa.string(), TEXT),
    "content_encoding": (pa.string(), TEXT),
    "delivery_mode": (pa.int32(), NUMBER),
    "priority": (pa.int64(), NUMBER),
    "correlation_id": (pa.string(), TEXT),
    "reply_to": (pa.string(), TEXT),
    "expiration": (pa.string(), st.sampled_from(["", "0", "60000", "1m", "-1", "٣", "1" * 256])),
    "message_id": (pa.large_string(), TEXT),
    "message_timestamp": (MOMENT, st.integers(-2_000_000, 2_000_000) | st.sampled_from([1 << 51, (1 << 52) + 999_999])),
    "type": (pa.string(), TEXT),
    "user_id": (pa.string(), TEXT),
    "app_id": (pa.string(), TEXT),
    "headers": (MAP, st.lists(st.tuples(NAMES, st.none() | TEXT), max_size=3)),
    "headers_json": (pa.string(), JSON),
    "producer_name": (pa.string(), TEXT),
    "publishing_id": (pa.int64(), st.integers(-1, 5) | st.just((1 << 63) - 1)),
}
BODIES = st.sampled_from([(pa.binary(), st.binary(max_size=8)), (pa.string(), TEXT), (pa.large_binary(), st.binary())])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "exchange": st.sampled_from(["shop", "e" * 255]),
        "routingKey": st.sampled_from(["k", "k" * 256]),
        "contentType": st.sampled_from(["text/plain", "ä" * 128]),
        "persistent": st.sampled_from(["true", "false"]),
        "mandatory": st.sampled_from(["true", "false"]),
        "priority": st.sampled_from(["0", "9"]),
    },
)


# As rows mostly are. Where all columns are odd at once, nearly every row is bad for several reasons and shows nothing.
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "delivery_mode": st.sampled_from([1, 2]),
    "priority": st.integers(0, 9),
    "expiration": st.just("60000"),
    "message_timestamp": st.just(1_700_000_000_999_999),
    "headers": st.just([("a", "b")]),
    "headers_json": st.sampled_from(["{}", '{"tenant": "a", "n": 1}']),
    "publishing_id": st.integers(0, 5),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.RecordBatch:
    """At most one column has odd values."""
    rows = draw(st.integers(1, 5))
    kind, values = draw(BODIES)
    columns = {draw(st.sampled_from(["body", "value"])): (kind, values)}
    odd = draw(st.sampled_from(["body", *COLUMNS]))
    for name in draw(st.sets(st.sampled_from(sorted(COLUMNS)))) | ({odd, "routing_key"} - {"body"}):
        kind, values = COLUMNS[name]
        columns[name] = (kind, st.none() | values if name == odd else GOOD.get(name, st.text("aä", min_size=1)))
    if odd == "headers":
        columns.pop("headers_json", None)
    made = {}
    for name, (kind, values) in columns.items():
        made[name] = pa.array(draw(st.lists(values, min_size=rows + 2, max_size=rows + 2)), kind)
    # Not from the buffers' first row on, as Spark may cut them.
    return pa.RecordBatch.from_pydict(made).slice(draw(st.integers(0, 2)), rows)


def octets(made: Made) -> list[Any]:
    return [
        None if one is None else (one.address, one.raw, one.body, one.message_id, one.bits) for one in made.messages
    ]


def messages(given_options: dict[str, str]) -> RowMessages:
    return RowMessages(read_options(given_options, WRITE))


@settings(max_examples=400, deadline=None)
@given(tables(), OPTIONS)
def test_the_same_octets_both_ways(table: pa.RecordBatch, options: dict[str, str]) -> None:
    both = [messages(options), messages(options)]
    both[1]._rows = None
    quick, slow = (one.of(table, "w/0", "w-5-0") for one in both)
    assert octets(quick) == octets(slow)
    assert quick.errors == slow.errors
    assert [place for place, one in enumerate(quick.messages) if one is None] == sorted(quick.errors)


def test_good_rows_are_made_by_the_core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.RecordBatch.from_pydict(
        {
            "body": pa.array([b"a", b"", b"c"], pa.binary()),
            "routing_key": ["k", "k", "l"],
            "message_id": ["m", "", None],
            "message_timestamp": pa.array([1_700_000_000_999_999, None, 0], MOMENT),
            "headers": pa.array([[("a", "b")], None, []], MAP),
            "headers_json": [None, '{"n": 5}', None],
        }
    )
    monkeypatch.setattr(RowMessages, "_one_by_one", None)
    made = messages({"exchange": "shop", "priority": "3"}).of(table, "w/0", "w-5-0")
    assert made.errors == {}
    found = [one for one in made.messages if isinstance(one, Outgoing)]
    assert [(one.exchange(), one.routing_key(), one.body, one.message_id) for one in found] == [
        ("shop", "k", b"a", b"m"),
        ("shop", "k", b"", b"w-5-0-1"),
        ("shop", "l", b"c", b"w-5-0-2"),
    ]
    fields = [parse_properties(one.raw).fields() for one in found]
    assert [one.get("timestamp") for one in fields] == [1_700_000_000, None, 0]
    assert [one["headers"] for one in fields] == [
        {"a": "b", "x-producer-name": "w/0", "x-publishing-id": 0},
        {"n": 5, "x-producer-name": "w/0", "x-publishing-id": 1},
        {"x-producer-name": "w/0", "x-publishing-id": 2},
    ]
    assert {(one["delivery_mode"], one["priority"]) for one in fields} == {(2, 3)}


def test_what_all_rows_share_may_be_wrong() -> None:
    table = pa.RecordBatch.from_pydict({"body": pa.array([b"a"], pa.binary()), "routing_key": ["k"]})
    for wrong, producer in ((messages({}), "w" * 256), (messages({"contentType": "t" * 256}), "w")):
        made = wrong.of(table, producer, "w")
        assert made.messages == [None]
        assert list(made.errors) == [0]


def test_columns_that_the_core_does_not_know() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    for column in (broken, pa.array([0], pa.timestamp("ms", tz="UTC")), pa.array([0], pa.timestamp("us"))):
        assert cells_of(pa.RecordBatch.from_pydict({"body": column}), USED) is None
