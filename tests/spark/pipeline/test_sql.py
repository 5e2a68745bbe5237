"""SQL over live streams, queues and the lake: which tables there are, what they hold, how it is printed, what is said
when a name is wrong."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from leveret.client import blocking
from leveret.client.topology import Queue
from leveret.spark.pipeline.archive import start_archive
from leveret.spark.pipeline.demonstration.demo import DEAD_LETTERS, Produced, produce_day
from leveret.spark.pipeline.lake import Lake
from leveret.spark.pipeline.querying.live import dead_letter_places
from leveret.spark.pipeline.querying.sql_command import sql
from leveret.spark.pipeline.querying.views import NotThereYet, Table, find_tables, is_read_once, make_views
from leveret.testing import Broker
from tests.spark.tables import delivered

NOBODY = {"url": "amqp://ann:secret-word@127.0.0.1:1/", "managementUrl": "http://127.0.0.1:1"}


class Shop:
    """A broker with a small day in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.options = {"url": broker.url, "managementUrl": broker.management_url}
        self.produced: Produced = produce_day(broker.url, orders=600)
        with blocking.connect(broker.url) as connection:
            connection.topology.declare(Queue("archive"), Queue("binary"))
            connection.producer(routing_key="binary").publish(b"\xff\x00")

    def ask(self, lake: Lake, *words: str) -> Result:
        where = ["--url", self.options["url"], "--management-url", self.options["managementUrl"], "--lake", lake.root]
        return CliRunner().invoke(sql, [*where, *words])


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with Broker() as broker:
        yield Shop(broker)


def value(spark: SparkSession, query: str) -> Any:
    return spark.sql(query).collect()[0][0]


def test_streams_and_queues_are_tables_under_their_own_names(spark: SparkSession, shop: Shop, lake: Lake) -> None:
    query = "select (select count(*) from orders) a, (select count(*) from `search-index`) b, 'payments' c"
    assert set(make_views(spark, lake, shop.options, query)) == {"orders", "search-index", "payments"}
    row = spark.sql(query).collect()[0]
    assert (row.a, row.b) == (shop.produced.messages["orders"], shop.produced.waiting["search-index"])


def test_a_queue_with_the_name_of_a_table_has_another_one(shop: Shop, lake: Lake) -> None:
    kinds = {table.name: table.kind for table in find_tables(lake, shop.options).found}
    assert (kinds["archive"], kinds["live_archive"], kinds["orders"], kinds["binary"]) == (
        "lake",
        "queue",
        "stream",
        "queue",
    )


def test_dead_letters_count_once_in_the_broker_and_in_the_archive(spark: SparkSession, shop: Shop, lake: Lake) -> None:
    query = "select count(*) from deadletters"
    make_views(spark, lake, shop.options, query)
    live = value(spark, query)
    start_archive(
        spark, lake, {**shop.options, "stream": DEAD_LETTERS}, trigger={"availableNow": True}
    ).awaitTermination()
    make_views(spark, lake, shop.options, query)
    assert live == value(spark, query) == shop.produced.messages[DEAD_LETTERS]
    reasons = {row.reason for row in spark.sql("select distinct reason from deadletters").collect()}
    assert reasons == {"rejected", "expired", "maxlen", "delivery_limit"}
    # Without a broker they are those of the archive.
    make_views(spark, lake, NOBODY, query)
    assert value(spark, query) == live


def test_a_table_that_no_job_has_written_says_which_job_does(spark: SparkSession, shop: Shop, lake: Lake) -> None:
    with pytest.raises(NotThereYet, match="leveret pipeline analytics"):
        make_views(spark, lake, shop.options, "select * from traffic_by_minute")
    assert "traffic_by_minute" not in make_views(spark, lake, shop.options)


@pytest.mark.usefixtures("spark")
def test_output_as_table_csv_and_json(shop: Shop, lake: Lake) -> None:
    question = "select routing_key, count(*) n, min(timestamp) at from orders group by 1"
    count = shop.produced.messages["orders"]
    table = shop.ask(lake, question)
    assert (table.exit_code, table.stdout.split()[:5]) == (0, ["routing_key", "n", "at", "order.placed", str(count)])
    rows = list(csv.DictReader(io.StringIO(shop.ask(lake, question, "-o", "csv").stdout)))
    assert [(row["routing_key"], row["n"]) for row in rows] == [("order.placed", str(count))]
    row = json.loads(shop.ask(lake, question, "-o", "json").stdout)
    assert (row["n"], row["at"][-1]) == (count, "Z")
    # Octets that are no text.
    assert json.loads(shop.ask(lake, "select body from binary", "-o", "json").stdout) == {"body": "base64:/wA="}


@pytest.mark.usefixtures("spark")
def test_a_limit_says_that_there_is_more(shop: Shop, lake: Lake) -> None:
    some = shop.ask(lake, "select offset from orders order by 1", "--limit", "3")
    assert some.stdout.split() == ["offset", "0", "1", "2"]
    assert "more than 3 rows" in some.stderr
    everything = shop.ask(lake, "select offset from orders", "--limit", "0")
    assert len(everything.stdout.split()) == 1 + shop.produced.messages["orders"]
    assert everything.stderr == ""


@pytest.mark.usefixtures("spark")
def test_a_wrong_name_gives_what_there_is_and_no_stack(shop: Shop, lake: Lake) -> None:
    wrong = shop.ask(lake, "select * from order_s")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("leveret: there is no table `order_s`; there are deadletters, live_archive, ")
    assert len(wrong.stderr.splitlines()) == 1
    for query, said in (("selec 1", "selec"), ("select colour from orders", "colour")):
        failed = shop.ask(lake, query)
        assert (failed.exit_code, len(failed.stderr.splitlines())) == (1, 1)
        assert said in failed.stderr


@pytest.mark.usefixtures("spark")
def test_a_condition_reads_less_of_a_stream_if_it_can_be_the_only_one(shop: Shop, lake: Lake) -> None:
    def ask(query: str) -> tuple[list[str], int]:
        before = delivered(shop.broker, "orders")
        answer = shop.ask(lake, query, "-o", "csv")
        assert answer.exit_code == 0, answer.output
        return sorted(answer.stdout.split()[1:]), delivered(shop.broker, "orders") - before

    count = shop.produced.messages["orders"]
    assert ask("select offset from orders where offset between 3 and 5") == (["3", "4", "5"], 3)
    both = "select offset from orders where offset = 3 union all select offset from orders where offset = 7"
    assert ask(both) == (["3", "7"], 2 * count)
    # Named once and read twice.
    named = (
        "with o as (select offset from orders) "
        "select a.offset from o a join o b on a.offset = b.offset + 1 where b.offset = 7"
    )
    assert ask(named) == (["8"], 2 * count)


@pytest.mark.parametrize(
    ("query", "is_once"),
    [
        ("SELECT * FROM Orders WHERE offset > 3", True),
        ("from orders |> where offset > 3", True),
        ("select * from orders, payments where orders.offset > 3", False),
        ("select * from orders a join orders b using (offset)", False),
        ("select * from (select * from orders) where offset > 3", False),
        ("with x as (from orders) from x", False),
        ("select * from payments", False),
    ],
)
def test_when_it_is_certain_that_a_table_is_read_once(query: str, is_once: bool) -> None:
    def make(spark: SparkSession) -> Any:
        raise AssertionError

    assert is_read_once(Table("orders", "stream", "", make), query) is is_once


def test_tables_are_listed_with_and_without_a_broker(shop: Shop, lake: Lake) -> None:
    listed = shop.ask(lake, "--tables", "-o", "csv")
    rows = {row["table"]: row for row in csv.DictReader(io.StringIO(listed.stdout))}
    assert rows["orders"]["what"] == f"{shop.produced.messages['orders']:,} messages"
    assert rows["silver"]["note"] == "not written yet"
    assert "dead-letters" in rows["deadletters"]["what"]
    alone = CliRunner().invoke(sql, ["--url", NOBODY["url"], "--lake", lake.root, "--tables"])
    assert alone.exit_code == 0
    assert "without streams and queues" in alone.stderr
    assert "secret-word" not in alone.output


def test_where_dead_letters_go() -> None:
    queues: list[dict[str, Any]] = [
        {"name": "work", "type": "classic", "arguments": {"x-dead-letter-exchange": "dead"}},
        {"name": "other", "type": "classic", "effective_policy_definition": {"dead-letter-exchange": "lost"}},
        {"name": "plain", "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "park"}},
        {"name": "tap", "type": "stream"},
        *({"name": name, "type": "classic"} for name in ("beside", "deep", "park", "elsewhere")),
    ]
    bindings = [
        {"source": "dead", "destination": "tap", "destination_type": "queue"},
        {"source": "dead", "destination": "beside", "destination_type": "queue"},
        {"source": "lost", "destination": "further", "destination_type": "exchange"},
        {"source": "further", "destination": "deep", "destination_type": "queue"},
        {"source": "further", "destination": "lost", "destination_type": "exchange"},
        {"source": "news", "destination": "elsewhere", "destination_type": "queue"},
    ]
    # "beside" has the letters that the stream has.
    assert dead_letter_places(queues, bindings) == {"tap", "deep", "park"}
