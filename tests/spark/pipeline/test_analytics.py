"""The job `analytics`: its tables say what a plain count of what was published says, however often a batch is tried."""

from __future__ import annotations

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Binding, Exchange, Queue
from leveret.spark.pipeline.analysis import analytics, batch_merging
from leveret.spark.pipeline.analysis.analytics import late_messages, read_silver, start_analytics
from leveret.spark.pipeline.lake import Lake
from leveret.spark.schema import COLUMNS
from leveret.testing import Broker

# A Spark that shares two cores with others takes its time.
pytestmark = pytest.mark.timeout(600)

ONCE = {"availableNow": True}
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def run(spark: SparkSession, lake: Lake, source: Any, **options: Any) -> Any:
    (query,) = start_analytics(spark, lake, source, trigger=ONCE, **options)
    query.awaitTermination()
    return query


def publish(broker: Broker, messages: Sequence[Message]) -> None:
    with blocking.connect(broker.url) as connection:
        connection.producer().publish_batch(list(messages))


def make_tap(broker: Broker) -> dict[str, str]:
    """An exchange with a stream that gets all of it; returns the source."""
    with blocking.connect(broker.url) as connection:
        tap = Queue("tap", queue_type="stream")
        connection.topology.declare(Exchange("shop", "topic"), tap, Binding("shop", "tap", "#"))
    return {"url": broker.url, "stream": "tap"}


def message(number: int, key: str, **more: Any) -> Message:
    body = json.dumps({"order": number, "name": "Zoé"}).encode()
    given: dict[str, Any] = {"body": body, "content_type": "application/json", "message_id": f"m{number}"}
    return Message(exchange="shop", routing_key=key, **(given | more))


def table(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(path).collect()]


def percentile(values: Iterable[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


# ---- what was published, seen by way of rows that a file brings


def row(number: int, moment: datetime, **more: Any) -> dict[str, Any]:
    given = {
        "body": b'{"n": 1}',
        "exchange": "shop",
        "routing_key": "order.new",
        "stream": "tap",
        "partition": 0,
        "offset": number,
        "timestamp": moment,
        "content_type": "application/json",
        "message_id": f"m{number}",
        "headers": {},
    }
    return given | more


def feed(spark: SparkSession, folder: str, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """Rows of any moment, which a broker does not let one choose, as one more file of a streaming table."""
    complete = [{name: one.get(name) for name in COLUMNS.names} for one in rows]
    spark.createDataFrame(complete, COLUMNS).coalesce(1).write.mode("append").parquet(folder)
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(folder)


class TestFigures:
    def test_they_are_those_of_a_plain_count(self, spark: SparkSession, broker: Broker, lake: Lake) -> None:
        source = make_tap(broker)
        now_ms = int(time.time() * 1000)
        sent = [
            message(n, f"order.{n % 3}", headers={"x-tenant": f"t{n % 2}", "x-published-at-ms": now_ms - 10 * n})
            for n in range(120)
        ]
        publish(broker, sent)
        query = run(spark, lake, source, top=2)
        assert late_messages(query) == 0

        silver = read_silver(spark, lake).collect()
        assert len(silver) == 120
        assert all(json.loads(one.payload) == json.loads(bytes(one.body)) for one in silver)
        counts: Counter[tuple[Any, ...]] = Counter()
        octets: Counter[tuple[Any, ...]] = Counter()
        latencies = defaultdict(list)
        for one in silver:
            group = (one.timestamp.replace(second=0, microsecond=0), "shop", one.routing_key, one.headers["x-tenant"])
            counts[group] += 1
            octets[group] += len(one.body)
            latencies[group].append(one.timestamp.timestamp() * 1000 - int(one.headers["x-published-at-ms"]))
        by_minute = table(spark, lake.gold("traffic_by_minute"))
        assert sum(one["messages"] for one in by_minute) == 120
        found = {(one["minute"], one["exchange"], one["routing_key"], one["tenant"]): one for one in by_minute}
        assert found.keys() == counts.keys()
        for group, one in found.items():
            assert (one["messages"], one["bytes"]) == (counts[group], octets[group])
            for name, fraction in (("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)):
                assert one[name] == pytest.approx(percentile(latencies[group], fraction), abs=0.01)

        top = table(spark, lake.gold("top_routing_keys"))
        per_hour = Counter(
            (one.timestamp.replace(minute=0, second=0, microsecond=0), one.routing_key) for one in silver
        )
        assert all(one["messages"] == per_hour[one["hour"], one["routing_key"]] for one in top)
        assert sorted(one["rank"] for one in top if one["hour"] == top[0]["hour"]) == [1, 2]

    def test_batch_after_batch_adds_up_and_the_broker_is_told(
        self, spark: SparkSession, broker: Broker, lake: Lake
    ) -> None:
        source = make_tap(broker) | {"maxOffsetsPerTrigger": "30"}
        publish(broker, [message(n, "order.new") for n in range(50)])
        run(spark, lake, source)
        publish(broker, [message(n, "order.new") for n in range(50, 75)])
        run(spark, lake, source)
        assert sum(one["messages"] for one in table(spark, lake.gold("traffic_by_minute"))) == 75
        assert sum(one["messages"] for one in table(spark, lake.gold("top_routing_keys"))) == 75
        assert read_silver(spark, lake).count() == 75
        unread = {"groupName": "leveret-analytics", "startingOffsets": "stored", "url": broker.url}
        assert spark.read.format("leveret").options(**unread).load("tap").count() == 0

    def test_a_message_without_a_moment_of_its_own_has_no_latency(
        self, spark: SparkSession, broker: Broker, lake: Lake
    ) -> None:
        source = make_tap(broker)
        publish(broker, [message(1, "a"), message(2, "b", timestamp=datetime.now(UTC) + timedelta(hours=1))])
        run(spark, lake, source)
        found = {one["routing_key"]: one["latency_p99_ms"] for one in table(spark, lake.gold("traffic_by_minute"))}
        assert found == {"a": None, "b": 0.0}


class TestSilver:
    def test_a_double_is_dropped_and_what_has_no_id_is_kept(
        self, spark: SparkSession, broker: Broker, lake: Lake
    ) -> None:
        source = make_tap(broker)
        publish(broker, [message(1, "a"), message(1, "a"), message(2, "a")])
        publish_without_ids(broker, 3)
        run(spark, lake, source)
        publish(broker, [message(2, "a"), message(3, "a")])
        publish_without_ids(broker, 2)
        run(spark, lake, source)
        ids = Counter(one.message_id for one in read_silver(spark, lake).collect())
        assert ids == {"m1": 1, "m2": 1, "m3": 1, None: 5}
        assert sum(one["messages"] for one in table(spark, lake.gold("traffic_by_minute"))) == 8

    def test_what_is_not_what_it_says_goes_to_quarantine(self, spark: SparkSession, broker: Broker, lake: Lake) -> None:
        source = make_tap(broker)
        cases = [
            (b'{"a": 1}', "application/json", '{"a": 1}'),
            (b'{"a": 1', "application/json", None),
            (b'{"a": 1} {"b": 2}', "application/json; charset=utf-8", None),
            (b"\xff", "application/vnd.shop+json", None),
            ("grüß".encode(), "text/plain", "grüß"),
            ("grüß".encode("latin-1"), "text/plain", None),
            ("grüß".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grüß"),
            (b"\xff\xd8", "image/jpeg", ...),
            (b"{", None, ...),
            (b"\x1f\x8b", "application/json+gzip", ...),
        ]
        publish(broker, [message(n, "a", body=body, content_type=kind) for n, (body, kind, _) in enumerate(cases)])
        run(spark, lake, source)
        good = {one.message_id: one for one in read_silver(spark, lake).collect()}
        bad = {one["message_id"]: one for one in table(spark, lake.silver("quarantine"))}
        assert len(good) + len(bad) == len(cases)
        for number, (body, kind, payload) in enumerate(cases):
            one = bad[f"m{number}"] if payload is None else good[f"m{number}"].asDict()
            assert bytes(one["body"]) == body
            assert one["payload"] == (None if payload is ... else payload)
            if payload is None:
                assert kind is not None
                assert kind.partition(";")[0] in one["error"]

    def test_tables_without_rows_are_tables(self, spark: SparkSession, broker: Broker, lake: Lake) -> None:
        run(spark, lake, make_tap(broker))
        for path in (lake.silver("messages"), lake.silver("quarantine"), lake.gold("traffic_by_minute")):
            assert table(spark, path) == []


def publish_without_ids(broker: Broker, count: int) -> None:
    """By another client: ours gives every message an id."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(count):
            channel.basic_publish("shop", "a", b"no id")


class TestLate:
    def test_what_is_an_hour_late_counts_in_its_minute(self, spark: SparkSession, lake: Lake, tmp_path: Any) -> None:
        folder = str(tmp_path / "bronze")
        first = [row(n, NOON + timedelta(seconds=n)) for n in range(10)]
        run(spark, lake, feed(spark, folder, first))
        late = [
            row(10, NOON - timedelta(hours=1)),
            row(11, NOON + timedelta(seconds=30)),
            row(3, NOON - timedelta(minutes=59)),
        ]
        query = run(spark, lake, feed(spark, folder, late))
        found = {one["minute"]: one["messages"] for one in table(spark, lake.gold("traffic_by_minute"))}
        hour_before = (NOON - timedelta(hours=1)).replace(tzinfo=None)
        assert found == {NOON.replace(tzinfo=None): 11, hour_before: 1}
        assert late_messages(query) == 0

    def test_what_is_later_than_that_is_told(self, spark: SparkSession, lake: Lake, tmp_path: Any) -> None:
        folder = str(tmp_path / "bronze")
        run(spark, lake, feed(spark, folder, [row(1, NOON)]), late_by="30 minutes")
        too_late = [row(2, NOON - timedelta(minutes=31)), row(3, NOON - timedelta(minutes=29))]
        query = run(spark, lake, feed(spark, folder, too_late), late_by="30 minutes")
        assert late_messages(query) == 1
        assert {one.message_id for one in read_silver(spark, lake).collect()} == {"m1", "m3"}


def test_a_batch_that_is_tried_again_counts_once(
    spark: SparkSession, broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_tap(broker)
    publish(broker, [message(n % 30, f"order.{n % 3}") for n in range(40)])
    run(spark, lake, source)
    publish(broker, [message(n, f"order.{n % 3}", body=b"{" if n % 10 == 0 else b"{}") for n in range(30, 70)])
    for place in ("silver", "parts", "gold"):
        with monkeypatch.context() as patch:
            break_at(patch, place)
            (query,) = start_analytics(spark, lake, source, trigger=ONCE)
            with pytest.raises(StreamingQueryException, match="pulled the plug"):
                query.awaitTermination()
    run(spark, lake, source)
    ids = Counter(one.message_id for one in read_silver(spark, lake).collect())
    ids += Counter(one["message_id"] for one in table(spark, lake.silver("quarantine")))
    assert ids == Counter(f"m{n}" for n in range(70))
    assert sum(one["messages"] for one in table(spark, lake.gold("traffic_by_minute"))) == 66
    assert sum(one["messages"] for one in table(spark, lake.gold("top_routing_keys"))) == 66


def test_hours_that_have_come_to_rest_get_few_files(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LOOK_EVERY": 1, "QUIET_BATCHES": 1, "FEW": 1}.items():
        monkeypatch.setattr(batch_merging, name, value)
    folder = str(tmp_path / "bronze")
    for number, moment in enumerate((NOON, NOON, NOON + timedelta(hours=1))):
        rows = feed(spark, folder, [row(number, moment), row(10 + number, moment, body=b"{")])
    run(spark, lake, rows)
    # Two batches of the first hour are one, and the newest batch stays what it is.
    for name in ("messages", "quarantine", "traffic_parts"):
        hours = sorted(Path(lake.silver(name)).glob("event_date=2026-03-01/event_hour=*/batch=*"))
        assert [one.name.startswith("batch=merged-") for one in hours] == [True, False], name
        assert len(list(hours[0].glob("*.parquet"))) == 1
    assert {one.message_id for one in read_silver(spark, lake).collect()} == {"m0", "m1", "m2"}
    assert len(table(spark, lake.silver("quarantine"))) == 3
    assert sum(one["messages"] for one in table(spark, lake.silver("traffic_parts"))) == 3


def break_at(patch: pytest.MonkeyPatch, place: str) -> None:
    """The batch fails when this much of it is written, as if the process were killed there."""
    owner, name = {
        "silver": (analytics.BatchTable, "write"),
        "parts": (analytics.Traffic, "_sum_up"),
        "gold": (analytics.Analytics, "add"),
    }[place]
    before = getattr(owner, name)

    def broken(*arguments: Any) -> None:
        if place != "parts":
            before(*arguments)
        raise RuntimeError("pulled the plug")

    patch.setattr(owner, name, broken)
