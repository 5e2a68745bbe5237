"""Rows that cannot be published: named, or put beside the others with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leveret.client import blocking
from leveret.client.topology import Binding, Exchange
from leveret.testing import Broker
from tests.spark.conftest import Publish
from tests.spark.tables import failure, name_for, publish_rows, source

# A row, and a part of what is said about it. The key GOOD leads to a stream.
BAD = {
    "unroutable": ("'u' as body, '' as exchange, 'nobody-listens' as routing_key, '{}' as headers_json", "no queue"),
    "unknown exchange": (
        "'e' as body, 'no-such-exchange' as exchange, 'GOOD' as routing_key, '{}' as headers_json",
        "no-such-exchange",
    ),
    "long key": (
        "'k' as body, '' as exchange, repeat('k', 256) as routing_key, '{}' as headers_json",
        "its routing_key has 256 octets",
    ),
    "no headers": (
        "'h' as body, '' as exchange, 'GOOD' as routing_key, 'nonsense' as headers_json",
        "the headers are no JSON",
    ),
    "large number": (
        "'n' as body, '' as exchange, 'GOOD' as routing_key, '{\"n\": 99999999999999999999}' as headers_json",
        "does not fit in 64 bits",
    ),
    "no body": (
        "cast(null as string) as body, '' as exchange, 'GOOD' as routing_key, '{}' as headers_json",
        "its body is null",
    ),
    "no key": (
        "'k' as body, '' as exchange, cast(null as string) as routing_key, '{}' as headers_json",
        "its routing_key is null",
    ),
}


def bad_row(spark: Any, name: str, stream: str) -> Any:
    return spark.sql("select " + BAD[name][0].replace("GOOD", stream))


def good_rows(spark: Any, stream: str) -> Any:
    return spark.range(5).selectExpr(
        "cast(id as string) as body", "'' as exchange", f"'{stream}' as routing_key", "'{}' as headers_json"
    )


@pytest.mark.parametrize("name", ["unroutable", "unknown exchange", "long key"])
def test_a_bad_row_fails_and_is_named(spark: Any, broker: Broker, publish: Publish, name: str) -> None:
    stream = name_for("bad")
    publish(stream, [])
    table = good_rows(spark, stream).union(bad_row(spark, name, stream)).coalesce(1)
    text = failure(lambda: publish_rows(table, broker))
    assert "row 5 of task 0 (exchange" in text
    assert BAD[name][1] in text
    assert "cannot be published" in text


def test_bad_rows_are_put_beside_the_others(spark: Any, broker: Broker, publish: Publish, tmp_path: Path) -> None:
    stream = name_for("bad")
    publish(stream, [])
    table = good_rows(spark, stream)
    for name in BAD:
        table = table.union(bad_row(spark, name, stream))
    table = table.union(good_rows(spark, stream)).coalesce(2)
    for _ in range(2):
        # The second time the files are written over, and the stream knows the rest.
        publish_rows(table, broker, badRows="divert", badRowsPath=str(tmp_path / "bad"), writeId="w")
        found = spark.read.parquet(str(tmp_path / "bad")).collect()
        assert len(found) == len(BAD)
        assert found[0].asDict().keys() == {"body", "exchange", "routing_key", "headers_json", "error"}
        errors = [row.error for row in found]
        for name, (_, why) in BAD.items():
            assert any(why in error for error in errors), (name, errors)
        assert sorted(int(row.body) for row in source(spark, broker, stream).collect()) == sorted(2 * list(range(5)))


def test_a_row_that_failed_is_there_when_the_cause_is_mended(spark: Any, broker: Broker, publish: Publish) -> None:
    """A stream takes no id that is not above the last one: had it got the rows behind the bad one, the bad one would be
    lost when everything is written again."""
    stream, exchange = name_for("mended"), name_for("mended")
    publish(stream, [])
    with blocking.connect(broker.url) as connection:
        connection.topology.declare(Exchange(exchange, "direct"))
        connection.topology.declare(Binding(exchange, stream, "a"))
        table = spark.range(0, 3000, 1, 1).selectExpr(
            "cast(id as string) as body", "if(id = 1500, 'b', 'a') as routing_key"
        )
        text = failure(lambda: publish_rows(table, broker, exchange=exchange, writeId="load"))
        assert "row 1500 of task 0 (routing_key 'b')" in text
        connection.topology.declare(Binding(exchange, stream, "b"))
    publish_rows(table, broker, exchange=exchange, writeId="load")
    assert sorted(int(row.body) for row in source(spark, broker, stream, columns="body").collect()) == list(range(3000))


def test_unroutable_rows_may_be_let_go(spark: Any, broker: Broker, publish: Publish) -> None:
    stream = name_for("bad")
    publish(stream, [])
    publish_rows(good_rows(spark, stream).union(bad_row(spark, "unroutable", stream)), broker, mandatory="false")
    assert source(spark, broker, stream).count() == 5
