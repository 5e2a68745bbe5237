"""spark.read.format("leveret") on streams: which rows there are, and what stands in their columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Binding, Exchange, Queue
from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.testing import Broker
from tests.http_client import Api
from tests.spark.conftest import Publish, publish_to
from tests.spark.tables import delivered, failure, name_for, offsets, publish_rows, source

# Every type that a field of a table may have.
HEADERS: dict[str, Any] = {
    "text": "Grüße",
    "empty": "",
    "boolean": True,
    "int8": Int8(-5),
    "uint8": UInt8(200),
    "int16": Int16(-300),
    "uint16": UInt16(60000),
    "int32": 7,
    "uint32": UInt32(4_000_000_000),
    "int64": Int64(9),
    "large": -(1 << 62),
    "float": Float32(0.5),
    "double": 3.25,
    "infinite": float("-inf"),
    "decimal": Decimal("12.340"),
    "timestamp": Timestamp(1_700_000_000),
    "octets": b"\x00\xff",
    "void": None,
    "array": [1, "two", [b"3"], {"four": Decimal("4.0")}],
    "table": {"inner": {"deep": Timestamp(5)}, "!timestamp": "no moment", "none": {}},
    "alike": {"!bytes": "AAAA"},
}
EXPECTED = {
    **HEADERS,
    "infinite": {"!float": "-inf"},
    "decimal": {"!decimal": "12.340"},
    "timestamp": {"!timestamp": 1_700_000_000},
    "octets": {"!bytes": "AP8="},
    "array": [1, "two", [{"!bytes": "Mw=="}], {"four": {"!decimal": "4.0"}}],
    "table": {"inner": {"deep": {"!timestamp": 5}}, "!timestamp": "no moment", "none": {}},
    "alike": {"!table": {"!bytes": "AAAA"}},
}
FULL = Message(
    body=b"\x00everything\xff",
    headers=HEADERS,
    message_id="m-1",
    content_type="application/octet-stream",
    content_encoding="gzip",
    delivery_mode=1,
    priority=200,
    correlation_id="c-1",
    reply_to="r-1",
    expiration="60000",
    timestamp=1_700_000_001,
    type="order",
    user_id="guest",
    app_id="shop",
)


def without_ids(text: str) -> dict[str, Any]:
    """Headers without what the sink adds: by these the broker knows what it has."""
    headers: dict[str, Any] = json.loads(text)
    return {name: value for name, value in headers.items() if name not in ("x-producer-name", "x-publishing-id")}


class TestColumns:
    def test_everything_a_message_has_and_back(self, spark: Any, broker: Broker, publish: Publish) -> None:
        first, second = name_for("full"), name_for("full")
        before = datetime.now(UTC)
        publish(first, [FULL, Message(body=b"")])
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", first, b"third", pika.BasicProperties(cluster_id="old"))
        connection.close()
        full, plain, third = source(spark, broker, first).orderBy("offset").collect()
        assert full.body == b"\x00everything\xff"
        assert (full.exchange, full.routing_key, full.stream, full.partition, full.offset) == ("", first, first, 0, 0)
        came = full.timestamp.astimezone(UTC)
        assert before - timedelta(seconds=1) <= came <= datetime.now(UTC)
        assert full.message_timestamp.astimezone(UTC) == datetime.fromtimestamp(1_700_000_001, UTC)
        names = ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type")
        for name in (*names, "user_id", "app_id", "delivery_mode", "priority"):
            assert full[name] == getattr(FULL, name), name
        assert json.loads(full.headers_json) == EXPECTED
        assert full.headers["text"] == "Grüße"
        assert full.headers["empty"] == ""
        assert full.headers["void"] is None
        assert full.headers["large"] == str(-(1 << 62))
        assert full.headers["decimal"] == "12.340"
        assert full.headers["timestamp"] == "2023-11-14T22:13:20Z"
        assert json.loads(full.headers["alike"]) == {"!table": {"!bytes": "AAAA"}}
        assert set(full.headers) == set(HEADERS)
        assert (plain.body, plain.headers, plain.headers_json, plain.priority, plain.cluster_id) == (
            b"",
            None,
            None,
            None,
            None,
        )
        assert (third.cluster_id, third.message_id, third.delivery_mode) == ("old", None, None)
        # And back: what was read can be written as it is, and is the same when it is read again.
        publish(second, [])
        publish_rows(source(spark, broker, first).drop("routing_key", "exchange"), broker, routingKey=second)
        again = {row.body: row for row in source(spark, broker, second).collect()}
        copy = again[full.body]
        assert without_ids(copy.headers_json) == EXPECTED
        for name in (*names, "user_id", "app_id", "delivery_mode", "priority", "message_timestamp"):
            assert copy[name] == full[name], name
        # Once more, and it is the same to the letter but for the ids.
        third_name = name_for("full")
        publish(third_name, [])
        publish_rows(source(spark, broker, second).drop("routing_key", "exchange"), broker, routingKey=third_name)
        last = {row.body: row.headers_json for row in source(spark, broker, third_name).collect()}
        assert {body: without_ids(text) for body, text in last.items()} == {
            body: without_ids(row.headers_json) for body, row in again.items()
        }

    def test_dead_letters(self, spark: Any, broker: Broker, publish: Publish) -> None:
        graves, work = name_for("graves"), name_for("work")
        publish(graves, [b"not dead", Message(headers={"x-first-death-reason": 5, "x-death": "nonsense"})])
        with blocking.connect(broker.url) as connection:
            reach = {"dead_letter_exchange": "", "dead_letter_routing_key": graves}
            connection.topology.declare(Queue(work, message_ttl_ms=1, **reach))
            connection.producer().publish(b"too late", routing_key=work)
        broker.queue(graves).expect(3)
        table = source(spark, broker, graves).orderBy("offset")
        alive, odd, dead = table.collect()
        assert (alive.first_death_reason, alive.death_count) == (None, None)
        assert (odd.first_death_reason, odd.death_count, odd.headers["x-first-death-reason"]) == (None, None, "5")
        assert (dead.first_death_reason, dead.first_death_queue, dead.first_death_exchange) == ("expired", work, "")
        assert (dead.last_death_reason, dead.last_death_queue, dead.last_death_exchange) == ("expired", work, "")
        assert dead.death_count == 1
        counted = table.groupBy("last_death_reason").count().collect()
        assert {row[0]: row[1] for row in counted} == {None: 2, "expired": 1}

    def test_texts_that_are_none(self, spark: Any, broker: Broker, publish: Publish) -> None:
        """AMQP's texts are octets: what is no UTF-8 is replaced where a table has a text."""
        stream = name_for("odd")
        broken = b"a\xffb".decode("utf-8", "surrogateescape")
        headers = {"plain": broken, "nested": [broken, {"in": broken}]}
        publish(stream, [Message(headers=headers, correlation_id=broken)])
        (row,) = source(spark, broker, stream).collect()
        assert row.correlation_id == "a\ufffdb"
        assert row.headers["plain"] == "a\ufffdb"
        assert json.loads(row.headers_json)["plain"] in ("a\ufffdb", {"!text": "Yf9i"})
        assert row.headers["nested"] is not None


class TestPruning:
    def test_by_option_and_by_schema(self, spark: Any, broker: Broker, publish: Publish) -> None:
        stream = name_for("narrow")
        publish(stream, [Message(body=b"x" * n, message_id=f"m{n}") for n in range(5)])
        table = source(spark, broker, stream, columns="message_id, offset")
        assert table.columns == ["message_id", "offset"]
        assert sorted(map(tuple, table.collect())) == [(f"m{n}", n) for n in range(5)]
        reader = spark.read.format("leveret").option("url", broker.url).schema("body binary, stream string")
        assert sorted(map(tuple, reader.load(stream).collect())) == [(b"x" * n, stream) for n in range(5)]
        only = source(spark, broker, stream, columns="headers,partition")
        assert [tuple(row) for row in only.collect()] == [(None, 0)] * 5
        assert source(spark, broker, stream).count() == 5

    def test_columns_that_do_not_exist(self, spark: Any, broker: Broker, publish: Publish) -> None:
        stream = name_for("narrow")
        publish(stream, [b""])
        text = failure(lambda: source(spark, broker, stream, columns="offset,key"))
        assert "the option columns names key; there are body, exchange" in text
        text = failure(lambda: source(spark, broker, stream, columns="offset,offset"))
        assert "names a column twice" in text
        reader = spark.read.format("leveret").option("url", broker.url).schema("offset string")
        text = failure(lambda: reader.load(stream).collect())
        assert "the schema has offset string; the columns are" in text
        assert "offset bigint" in text


@pytest.fixture(scope="module")
def stream(broker: Broker) -> str:
    """Ten messages, five of them at another second."""
    name = name_for("places")
    publish_to(broker, name, [b"%d" % n for n in range(5)])
    time.sleep(1.1 - time.time() % 1)
    publish_to(broker, name, [b"%d" % n for n in range(5, 10)])
    return name


def second_of(broker: Broker, stream: str, offset: int) -> int:
    """The second at which a message came, in UTC."""
    path = f"/queues/%2F/{stream}/peek?offset={offset}&count=1"
    return int(Api(broker).ask("GET", path).body[0]["arrived_at"]) // 1000


class TestPlaces:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, range(10)),
            ({"startingOffsets": "earliest", "endingOffsets": "latest"}, range(10)),
            ({"startingOffsets": "3"}, range(3, 10)),
            ({"startingOffsets": "3", "endingOffsets": "7", "minPartitions": 3}, range(3, 7)),
            ({"startingOffsets": '{"STREAM": 8}'}, range(8, 10)),
            ({"startingOffsets": '{"STREAM": -2}', "endingOffsets": '{"STREAM": -1}'}, range(10)),
            ({"endingOffsets": '{"STREAM": 2}'}, range(2)),
            ({"startingOffsets": "10"}, []),
            ({"startingTimestamp": "MOMENT"}, range(5, 10)),
            ({"endingTimestamp": "MOMENT"}, range(5)),
            ({"startingOffsets": "MOMENT"}, range(5, 10)),
            ({"startingOffsets": '{"STREAM": "MOMENT"}', "endingOffsets": "9"}, range(5, 9)),
            ({"startingTimestamp": "2001-01-01"}, range(10)),
            ({"startingTimestamp": "4102444800000"}, []),
        ],
        ids=str,
    )
    def test_where_it_begins_and_ends(
        self, spark: Any, broker: Broker, stream: str, options: dict[str, Any], expected: range
    ) -> None:
        moment = datetime.fromtimestamp(second_of(broker, stream, 5), UTC).isoformat()
        texts = {
            name: str(value).replace("STREAM", stream).replace("MOMENT", moment) for name, value in options.items()
        }
        assert offsets(source(spark, broker, stream, columns="offset", **texts)) == list(expected)

    def test_from_what_a_group_has_stored(self, spark: Any, broker: Broker, stream: str) -> None:
        assert Api(broker).ask("PUT", f"/stream/%2F/{stream}/tracking/ledger", {"offset": 3}).status in (201, 204)
        options = {"columns": "offset", "startingOffsets": "stored"}
        assert offsets(source(spark, broker, stream, groupName="nobody", **options)) == list(range(10))
        assert offsets(source(spark, broker, stream, groupName="ledger", **options)) == list(range(4, 10))

    def test_several_streams(self, spark: Any, broker: Broker, stream: str, publish: Publish) -> None:
        other = name_for("places")
        publish(other, [b"a", b"b", b"c"])
        places = json.dumps({stream: 9, other: "earliest"})
        table = source(spark, broker, None, stream=f"{stream}, {other}", startingOffsets=places)
        assert sorted((row.stream, row.offset) for row in table.collect()) == sorted(
            [(stream, 9), (other, 0), (other, 1), (other, 2)]
        )


@pytest.fixture(scope="module")
def keyed(broker: Broker) -> str:
    """300 messages with three routing keys."""
    name = name_for("keyed")
    with blocking.connect(broker.url) as connection:
        topology = connection.topology
        topology.declare(Exchange(name, "topic"))
        topology.declare(Queue(name, queue_type="stream"))
        topology.declare(Binding(name, name, "#"))
        keys = ("orders.de", "orders.fr", "payments.de")
        connection.producer(exchange=name).publish_batch(
            [Message(body=b"%d" % n, routing_key=keys[n % 3]) for n in range(300)]
        )
    return name


class TestFilters:
    @pytest.mark.parametrize(
        ("where", "least", "most"),
        [
            ("offset = 17", 1, 1),
            ("offset in (5, 7)", 3, 3),
            ("offset > 290", 9, 9),
            ("offset >= 290 and offset < 295 and routing_key = 'orders.de'", 5, 5),
            ("offset <= 3", 4, 4),
            ("offset between 10 and 19 and not offset = 12", 10, 10),
            ("offset < 0", 0, 0),
            ("timestamp > '2001-01-01' and timestamp < '2001-01-02'", 0, 0),
            ("timestamp >= '2100-01-01'", 0, 0),
            ("timestamp > '2001-01-01'", 300, 300),
            ("routing_key = 'orders.fr'", 300, 300),
            ("routing_key in ('orders.fr', 'payments.de', 'none')", 300, 300),
            ("routing_key like 'orders.%' and routing_key != 'orders.de'", 300, 300),
            ("routing_key = 'orders.fr' and routing_key like 'pay%'", 300, 300),
            ("routing_key <=> null or offset = 3", 300, 300),
        ],
    )
    def test_read_less_and_change_nothing(
        self,
        spark: Any,
        broker: Broker,
        keyed: str,
        settings: Callable[[str, str], None],
        where: str,
        least: int,
        most: int,
    ) -> None:
        def found(pushes: str) -> tuple[list[tuple[Any, ...]], int]:
            before = delivered(broker, keyed)
            table = source(spark, broker, keyed, columns="offset,routing_key,timestamp", pushFilters=pushes).where(
                where
            )
            return sorted(map(tuple, table.collect())), delivered(broker, keyed) - before

        rows, read = found("true")
        assert least <= read <= most
        settings("spark.sql.python.filterPushdown.enabled", "false")
        # Neither has filters: where Spark does not offer them, and where they are not asked for.
        assert found("true") == (rows, 300)


def test_queries_of_one_table_do_not_know_of_each_other(spark: Any, broker: Broker, keyed: str) -> None:
    """Spark keeps the filters of one query for the next one of the same table, which would have too few rows."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    table = source(spark, broker, keyed, columns="offset")
    assert table.where("offset = 3").count() == 1
    assert table.count() == 300
    assert offsets(table.where("offset < 2").union(table.where("offset > 297"))) == [0, 1, 298, 299]
    table.createOrReplaceTempView("keyed")
    joined = "select a.offset from keyed a join keyed b on a.offset = b.offset + 1 where b.offset = 7"
    assert [row.offset for row in spark.sql(joined).collect()] == [8]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_filters_in_processes_of_their_own(broker: Broker, stream: str) -> None:
    """Spark's workers are forked from a daemon, or, where there is none, started one by one. Filters are used in both,
    with any zone of the session and of the machine."""
    moment = 1_000_000 * second_of(broker, stream, 5)
    program = Path(__file__).with_name("program_workers.py")
    before = delivered(broker, stream)
    environment = {**os.environ, "TZ": "America/New_York"}
    command = [sys.executable, str(program), broker.url, stream, str(moment)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "PUSHED true\n"
        pushed = delivered(broker, stream) - before
        told, errors = running.communicate("go on\n", timeout=300)
    assert running.returncode == 0, errors[-3000:]
    assert told == "PUSHED false\n"
    # Twice each: five by their offsets, five from the moment on, five or a few more before it. Then all, three times.
    assert 30 <= pushed <= 40
    assert delivered(broker, stream) - before - pushed == 3 * 10
