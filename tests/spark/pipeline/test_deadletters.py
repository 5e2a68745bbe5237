"""The job `deadletters`: its tables say what a plain count says, what is alike is together, letters go back once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Binding, Exchange, Queue
from leveret.spark.errors import InvalidOption
from leveret.spark.pipeline.analysis import deadletters
from leveret.spark.pipeline.analysis.clusters import shape_of_body
from leveret.spark.pipeline.analysis.deadletters import (
    AlertRule,
    read_letters,
    read_queue_letters,
    replay_selected,
    reprocess_selected,
    start_deadletters,
)
from leveret.spark.pipeline.lake import Lake
from leveret.spark.schema import COLUMNS
from leveret.testing import Broker

# A Spark that shares two cores with others takes its time.
pytestmark = pytest.mark.timeout(600)

ONCE = {"availableNow": True}
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def run(spark: SparkSession, lake: Lake, source: Any, **options: Any) -> None:
    (query,) = start_deadletters(spark, lake, source, trigger=ONCE, **options)
    query.awaitTermination()


def table(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(path).collect()]


def make_shop(broker: Broker) -> dict[str, str]:
    """Two queues of one exchange whose letters flow into a stream, and beside it into a queue; returns the source."""
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(
            Exchange("shop"),
            Exchange("dead", "fanout"),
            Queue("letters", queue_type="stream"),
            Queue("dlq"),
            Queue("orders", dead_letter_exchange="dead"),
            Queue("mails", dead_letter_exchange="dead", max_length=1),
            Binding("dead", "letters"),
            Binding("dead", "dlq"),
            Binding("shop", "orders", "order"),
            Binding("shop", "mails", "mail"),
        )
    return {"url": broker.url, "stream": "letters"}


def order(number: int, error: str | None = None, **more: Any) -> Message:
    body = json.dumps({"order": number, "items": [{"sku": f"s{number}"}]}).encode()
    headers = {"x-exception": error} if error else {}
    given: dict[str, Any] = {
        "body": body,
        "content_type": "application/json",
        "message_id": f"m{number}",
        "headers": headers,
    }
    return Message(exchange="shop", routing_key="order", **(given | more))


def publish(broker: Broker, messages: Sequence[Message]) -> None:
    with blocking.connect(broker.url) as connection:
        connection.producer().publish_batch(list(messages))


def reject_all(broker: Broker, queue: str, count: int) -> None:
    with blocking.connect(broker.url) as connection, connection.consumer(queue) as consumer:
        for _ in range(count):
            next(iter(consumer)).reject()
    broker.queue(queue).expect(count=0)


def count_letters(broker: Broker, wanted: int) -> None:
    """Waits until the stream has so many letters."""
    give_up = time.monotonic() + 20
    while True:
        with blocking.connect(broker.url) as connection:
            found = connection.topology.counts("letters").message_count
        if found >= wanted:
            assert found == wanted
            return
        assert time.monotonic() < give_up, f"{found} letters, not {wanted}"
        time.sleep(0.05)


def letter(number: int, moment: datetime, queue: str = "orders", **more: Any) -> dict[str, Any]:
    """A letter of any moment, which a broker does not let one choose."""
    given = {
        "body": b"{}",
        "exchange": "dead",
        "routing_key": "order",
        "stream": "letters",
        "partition": 0,
        "offset": number,
        "timestamp": moment,
        "message_id": f"m{number}",
        "headers": {},
        "death_count": 1,
    }
    for turn in ("first", "last"):
        given |= {f"{turn}_death_reason": "rejected", f"{turn}_death_queue": queue, f"{turn}_death_exchange": "shop"}
    return given | more


def feed(spark: SparkSession, folder: str, rows: Sequence[dict[str, Any]]) -> DataFrame:
    complete = [{name: one.get(name) for name in COLUMNS.names} for one in rows]
    spark.createDataFrame(complete, COLUMNS).coalesce(1).write.mode("append").parquet(folder)
    return spark.readStream.schema(COLUMNS).parquet(folder)


def test_reasons_sources_ages_and_repeats(spark: SparkSession, broker: Broker, lake: Lake) -> None:
    source = make_shop(broker)
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    publish(broker, [order(n, f"ValueError: order {n} has no price", timestamp=long_ago) for n in range(4)])
    reject_all(broker, "orders", 4)
    publish(broker, [Message(exchange="shop", routing_key="mail", body=b"hello %d" % n) for n in range(3)])
    # The second time for this one.
    publish(broker, [order(1)])
    reject_all(broker, "orders", 1)
    count_letters(broker, 7)
    run(spark, lake, source)

    letters = read_letters(spark, lake).collect()
    assert Counter((one.queue, one.reason) for one in letters) == {("orders", "rejected"): 5, ("mails", "maxlen"): 2}
    assert {(one.origin_exchange, one.origin_routing_key) for one in letters} == {("shop", "order"), ("shop", "mail")}
    assert all(one.first_death_at is not None for one in letters)
    assert [one.message_id for one in letters if one.repeated] == ["m1"]
    for unit in ("minute", "hour"):
        found = table(spark, lake.gold(f"deadletters_by_{unit}"))
        sums: Counter[tuple[str, str]] = Counter()
        for one in found:
            assert one["exchange"] == "shop"
            assert (one[unit].second, one[unit].microsecond) == (0, 0)
            sums[one["queue"], "letters"] += one["letters"]
            sums[one["queue"], "repeated"] += one["repeated"]
        assert sums == Counter({("orders", "letters"): 5, ("orders", "repeated"): 1, ("mails", "letters"): 2})
        oldest = max(one["oldest_age_s"] for one in found if one["queue"] == "orders")
        assert 7200 <= oldest < 7200 + 600

    # Another batch, in which one comes that was there in the first.
    publish(broker, [order(2), order(9)])
    reject_all(broker, "orders", 2)
    count_letters(broker, 9)
    run(spark, lake, source)
    assert sorted(one.message_id for one in read_letters(spark, lake).collect() if one.repeated) == ["m1", "m2"]
    assert sum(one["letters"] for one in table(spark, lake.gold("deadletters_by_hour"))) == 9


def test_what_is_alike_is_one_cluster(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    texts = [
        ("ValueError: order 17 of 0xdeadbeef has no price", b'{"order": 17, "items": [{"sku": "a"}]}'),
        ("ValueError: order 4711 of 0x00ff00aa has no price", b'{"items": [{"sku": "b"}, {"sku": "c"}], "order": 4}'),
        ("ValueError: order 17 of 0xdeadbeef has no price", b'{"order": "17"}'),
        ("Timeout after 3.5 s for 2c1f0c68-4a0b-4d0e-9d6f-0a1b2c3d4e5f", b"hello 17 there"),
        ("Timeout after 30 s for 00000000-4a0b-4d0e-9d6f-0a1b2c3d4e5f", b"hello 4 there"),
        (None, b"\xff\xfe"),
    ]
    rows = [
        letter(n, NOON + timedelta(minutes=n), body=body, headers={"error": text} if text else {})
        for n, (text, body) in enumerate(texts)
    ]
    folder = str(tmp_path / "bronze")
    run(spark, lake, feed(spark, folder, rows[:4]))
    run(spark, lake, feed(spark, folder, rows[4:]))
    found = {one["example_message_id"]: one for one in table(spark, lake.gold("deadletter_clusters"))}
    assert {name: one["letters"] for name, one in found.items()} == {"m1": 2, "m2": 1, "m4": 2, "m5": 1}
    assert found["m1"]["error"] == "ValueError: order <n> of <hex> has no price"
    assert found["m1"]["shape"] == "json {items:[{sku:text}],order:number}"
    assert found["m4"]["error"] == "Timeout after <n> s for <uuid>"
    assert found["m5"]["error"] is None
    noon = NOON.replace(tzinfo=None)
    assert (found["m4"]["first_seen"], found["m4"]["last_seen"]) == (
        noon + timedelta(minutes=3),
        noon + timedelta(minutes=4),
    )
    assert len({one["cluster"] for one in found.values()}) == 4


def test_shapes() -> None:
    assert shape_of_body(b"") == "empty"
    assert shape_of_body(b"\xff") == "octets"
    assert shape_of_body(b'{"a": ') == "broken json"
    assert shape_of_body(b'{"b": null, "a": [1, true, "x"]}') == "json {a:[flag|number|text],b:null}"
    assert shape_of_body(b'{"17": 1, "18": 2}') == "json {<n>:number}"
    assert shape_of_body(b"[" * 100_000) == "broken json"
    assert shape_of_body(b"one two 3 four five six seven") == "text one two <n> four five six"
    assert len(shape_of_body(json.dumps({f"field{'x' * n}": n for n in range(100)}).encode())) < 500


def test_alerts_fire_where_letters_grow_and_nowhere_else(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    folder = str(tmp_path / "bronze")
    numbers = iter(range(1000))

    def letters(queue: str, minute: int, count: int) -> list[dict[str, Any]]:
        return [letter(next(numbers), NOON + timedelta(minutes=minute, seconds=n), queue) for n in range(count)]

    rule = AlertRule(window_minutes=5, factor=3.0, minimum=6)
    steady = letters("steady", 0, 5) + letters("steady", 5, 8) + letters("steady", 56, 10)
    few = letters("few", 0, 1) + letters("few", 5, 5)
    growing = letters("growing", 0, 2) + letters("growing", 5, 6)
    # From nothing; and over the end of an hour: 4, then 11, of which the last come in another batch.
    new = letters("new", 5, 7)
    hours = letters("hours", 56, 4) + letters("hours", 61, 5)
    run(spark, lake, feed(spark, folder, steady[5:] + few + growing + new + hours), alerts=rule)
    first = {
        (one["queue"], one["at"].minute + 60 * (one["at"].hour - 12))
        for one in table(spark, lake.gold("deadletter_alerts"))
    }
    assert first == {("growing", 5), ("new", 5), ("steady", 5), ("steady", 55)}

    # Those that came late: it was no growth after all in the first hour; and it is one now in the second.
    run(spark, lake, feed(spark, folder, steady[:5] + letters("hours", 62, 7)), alerts=rule)
    second = {
        (one["queue"], one["at"].minute + 60 * (one["at"].hour - 12)): one
        for one in table(spark, lake.gold("deadletter_alerts"))
    }
    assert second.keys() == {("growing", 5), ("new", 5), ("steady", 55), ("hours", 60)}
    grown = second["hours", 60]
    assert (grown["letters"], grown["before"], grown["growth"], grown["threshold"]) == (12, 4, 3.0, 3.0)
    assert grown["reason"] == "rejected"
    with pytest.raises(InvalidOption, match="divide an hour"):
        AlertRule(window_minutes=7)


def test_a_batch_that_is_tried_again_counts_once(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "bronze")
    run(spark, lake, feed(spark, folder, [letter(n, NOON + timedelta(minutes=n)) for n in range(10)]))
    more = feed(
        spark, folder, [letter(n, NOON + timedelta(minutes=10 * n), message_id=f"m{n % 12}") for n in range(10, 15)]
    )
    for name in ("_count", "_find_alerts"):
        with monkeypatch.context() as patch:

            def broken(*_: Any) -> None:
                raise RuntimeError("pulled the plug")

            patch.setattr(deadletters.DeadLetters, name, broken)
            (query,) = start_deadletters(spark, lake, more, trigger=ONCE)
            with pytest.raises(StreamingQueryException, match="pulled the plug"):
                query.awaitTermination()
    tidied: list[tuple[str, str]] = []
    for name in ("mend", "merge_old"):
        monkeypatch.setattr(
            deadletters.BatchTable,
            name,
            lambda self, *_, name=name: tidied.append((self.path.rpartition("/")[2], name)),
        )
    run(spark, lake, more)
    # Small files are put together, when the batch is through; and if that was cut off, it is mended before it is read.
    assert (tidied[0], tidied[-1]) == (("deadletters", "mend"), ("deadletters", "merge_old"))
    letters = read_letters(spark, lake).collect()
    assert Counter(one.offset for one in letters) == Counter(range(15))
    # m12, m13 and m14 are m0, m1 and m2, which came before; an attempt before did not make the others come twice.
    assert sorted(one.offset for one in letters if one.repeated) == [12, 13, 14]
    for name in ("deadletters_by_minute", "deadletters_by_hour", "deadletter_clusters"):
        assert sum(one["letters"] for one in table(spark, lake.gold(name))) == 15


def test_exactly_the_selected_ones_go_back_and_once(spark: SparkSession, broker: Broker, lake: Lake) -> None:
    source = make_shop(broker)
    publish(broker, [order(n, "Timeout" if n % 2 else "ValueError") for n in range(8)])
    reject_all(broker, "orders", 8)
    count_letters(broker, 8)
    run(spark, lake, source)
    sink = {"url": broker.url}
    done = replay_selected(spark, lake, "error = 'Timeout'", sink=sink)
    assert (done.selected, done.sent, done.failed) == (4, 4, 0)
    broker.queue("orders").expect(count=4)
    again = replay_selected(spark, lake, "error = 'Timeout'", sink=sink)
    other = replay_selected(spark, lake, "error is not null and offset <= 1", sink=sink)
    assert (again.selected, again.sent) == (0, 0)
    assert (other.selected, other.sent) == (1, 1)
    with blocking.connect(broker.url) as connection, connection.consumer("orders") as consumer:
        found = {}
        for _ in range(5):
            delivery = next(iter(consumer))
            found[delivery.message_id] = delivery
            delivery.ack()
    assert found.keys() == {"m0", "m1", "m3", "m5", "m7"}
    one = found["m3"]
    assert (one.exchange, one.routing_key, one.content_type) == ("shop", "order", "application/json")
    assert json.loads(one.body)["order"] == 3
    assert one.headers["x-replay-count"] == 1
    assert one.headers["x-exception"] == "Timeout"
    assert "x-death" not in one.headers
    assert isinstance(one.headers["x-first-death-time"], int)
    broker.queue("orders").expect(count=0)


def test_what_cannot_be_sent_is_told_and_can_be_sent_later(spark: SparkSession, broker: Broker, lake: Lake) -> None:
    source = make_shop(broker)
    publish(broker, [order(n) for n in range(3)])
    reject_all(broker, "orders", 3)
    count_letters(broker, 3)
    run(spark, lake, source)
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue("target", queue_type="stream"))
    elsewhere = {"exchange": "", "sink": {"url": broker.url}}
    rows = read_letters(spark, lake).drop("origin_routing_key", "repeated", "event_date")
    rows = rows.selectExpr("*", "if(offset = 1, 'not.there', 'target') as origin_routing_key")
    first = replay_selected(spark, lake, "true", letters=rows, **elsewhere)
    assert (first.selected, first.sent, first.failed) == (3, 2, 1)
    assert first.failures is not None
    (failed,) = table(spark, first.failures)
    assert (failed["message_id"], failed["routing_key"]) == ("m1", "not.there")
    assert failed["error"]
    # It has a lower offset than one that was sent; a stream takes it nevertheless.
    rows = rows.drop("origin_routing_key").selectExpr("*", "'target' as origin_routing_key")
    second = replay_selected(spark, lake, "true", letters=rows, **elsewhere)
    assert (second.selected, second.sent, second.failed) == (1, 1, 0)
    there = spark.read.format("leveret").option("url", broker.url).load("target").collect()
    assert sorted(one.message_id for one in there) == ["m0", "m1", "m2"]


def test_a_replay_that_was_killed_goes_on_with_the_same_ids(
    spark: SparkSession, broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_shop(broker)
    publish(broker, [order(n) for n in range(3)])
    reject_all(broker, "orders", 3)
    count_letters(broker, 3)
    run(spark, lake, source)
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Queue("target", queue_type="stream"))
    asked = {"exchange": "", "routing_key": "target", "sink": {"url": broker.url}}
    with monkeypatch.context() as patch:

        def broken(*_: Any) -> None:
            raise RuntimeError("pulled the plug")

        patch.setattr("leveret.spark.pipeline.analysis.deadletter_replay.Ledger.add", broken)
        with pytest.raises(RuntimeError, match="pulled the plug"):
            replay_selected(spark, lake, "true", **asked)
    assert replay_selected(spark, lake, "true", **asked).sent == 3
    there = spark.read.format("leveret").option("url", broker.url).load("target").collect()
    assert sorted(one.message_id for one in there) == ["m0", "m1", "m2"]


def test_the_broker_moves_whole_groups_out_of_a_queue(spark: SparkSession, broker: Broker) -> None:
    make_shop(broker)
    publish(broker, [order(n) for n in range(3)])
    reject_all(broker, "orders", 3)
    publish(broker, [Message(exchange="shop", routing_key="mail", body=b"hello %d" % n) for n in range(3)])
    broker.queue("dlq").expect(count=5)
    source = {"url": broker.url, "managementUrl": broker.management_url, "queue": "dlq"}
    letters = read_queue_letters(spark, source).collect()
    assert Counter((one.queue, one.reason, one.origin_routing_key) for one in letters) == {
        ("orders", "rejected", "order"): 3,
        ("mails", "maxlen", "mail"): 2,
    }
    with pytest.raises(InvalidOption, match="1 of 3 letters"):
        reprocess_selected(spark, source, "message_id = 'm1'")
    assert reprocess_selected(spark, source, "queue = 'nobody'") == []
    seen: list[Any] = []
    (done,) = reprocess_selected(spark, source, "queue = 'orders'", on_progress=seen.append)
    assert (done.state, done.moved, done.failed) == ("done", 3, 0)
    assert seen[-1]["moved"] == 3
    broker.queue("dlq").expect(count=2)
    broker.queue("orders").expect(count=3)
