"""One range of a stream, read as a task of Spark's reads it; without Spark."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from leveret.client.bulk import range_reader
from leveret.spark.broker_client import Broker as SparkBroker
from leveret.spark.options import READ, read_options
from leveret.spark.pushed_filters import PushedFilters
from leveret.spark.range_reader import RangeReader
from leveret.spark.ranges import Range
from leveret.testing import Broker
from tests.spark.conftest import Publish
from tests.spark.tables import name_for

KIB = 1024


def read(broker: Broker, stream: str, count: int, pushed_filters: PushedFilters | None = None) -> list[int]:
    options = read_options({"url": broker.url}, READ)
    reader = RangeReader(
        SparkBroker(options, "test"),
        Range(stream, 0, 0, count),
        ["offset", "body"],
        pushed_filters or PushedFilters(),
        True,
    )
    return [offset for table in reader.read() for offset in table.column("offset").to_pylist()]


@pytest.mark.parametrize("kib", [70, 200])
def test_large_bodies_keep_coming(broker: Broker, publish: Publish, caplog: pytest.LogCaptureFixture, kib: int) -> None:
    """The prefetch is full of octets long before it is full of messages: without acks the broker would stand still,
    and the reader would connect again."""
    stream = name_for("large")
    count = 2 * range_reader.PREFETCH_BYTES // (kib * KIB)
    publish(stream, [bytes(kib * KIB)] * count)
    with caplog.at_level(logging.WARNING):
        assert read(broker, stream, count) == list(range(count))
    assert "goes on at offset" not in caplog.text


def test_large_bodies_that_are_passed_over(broker: Broker, publish: Publish, caplog: pytest.LogCaptureFixture) -> None:
    """Rows that a filter leaves out fill the prefetch as well."""
    stream = name_for("large")
    count = 2 * range_reader.PREFETCH_BYTES // (200 * KIB)
    publish(stream, [bytes(200 * KIB)] * count)
    pushed_filters = PushedFilters()
    pushed_filters.routing_keys = frozenset([b"another"])
    with caplog.at_level(logging.WARNING):
        assert read(broker, stream, count, pushed_filters) == []
    assert "goes on at offset" not in caplog.text


def test_one_body_larger_than_the_prefetch(
    broker: Broker, publish: Publish, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(range_reader, "PREFETCH_BYTES", 64 * KIB)
    stream = name_for("large")
    publish(stream, [b"small", bytes(200 * KIB), b"small", bytes(200 * KIB)])
    with caplog.at_level(logging.WARNING):
        assert read(broker, stream, 4) == [0, 1, 2, 3]
    assert "goes on at offset" not in caplog.text
