"""What the broker archives by itself is read by Spark: each letter once, whole, and as messages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pika
import pytest
from pyspark.sql import SparkSession

from leveret.spark.pipeline.analysis.letters import as_letters
from leveret.spark.pipeline.archive.given_up import as_messages, read_given_up
from leveret.spark.schema import COLUMNS
from leveret.testing import Broker

# A Spark that shares two cores with others takes its time.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Path]:
    """Written by a real broker: two letters that were rejected, given up at once."""
    root = tmp_path / "archive"
    settings = {
        "dead_letters.queues": ["dead"],
        "dead_letters.every_s": 0.2,
        "dead_letters.archive_after_s": 3600.0,
        "dead_letters.archive_dir": str(root),
    }
    with Broker(settings) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("dead", durable=True)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("work", durable=True, arguments=to_dead)
        long_ago = datetime.now(UTC) - timedelta(hours=2)
        for number in range(2):
            headers = {"x-exception": "Boom", "nested": {"n": number}, "x-first-death-time": long_ago}
            properties = pika.BasicProperties(message_id=f"m{number}", headers=headers, delivery_mode=2)
            channel.basic_publish("", "work", b"\x00%d" % number, properties)
            method = None
            while method is None:
                method, _, _ = channel.basic_get("work")
            channel.basic_reject(method.delivery_tag, requeue=False)
        connection.close()
        deadline = time.monotonic() + 30
        while _lines(root) < 2:
            assert time.monotonic() < deadline, "nothing was archived"
            time.sleep(0.05)
    yield root


def _lines(root: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in root.glob("date=*/dead-letters-*.jsonl"))


def test_letters_are_read_once_and_as_messages(spark: SparkSession, archive: Path) -> None:
    for file in list(archive.glob("date=*/dead-letters-*.jsonl")):
        # As after a crash between the file and the end of the originals.
        shutil.copy(file, file.with_name(f"dead-letters-again-{file.name}"))
        file.with_name(".unfinished-dead-letters-x.jsonl").write_text('{"torn')
    letters = read_given_up(spark, str(archive))
    rows = {bytes(row.body): row for row in letters.collect()}
    assert sorted(rows) == [b"\x000", b"\x001"]
    row = rows[b"\x000"]
    assert (row.queue, row.source_queue, row.reason, row.death_count) == ("dead", "work", "rejected", 1)
    assert (row.properties.message_id, row.deaths[0].queue, row.date is not None) == ("m0", "work", True)
    messages = as_messages(letters)
    assert messages.schema.names == COLUMNS.names
    assert [field.dataType for field in messages.schema] == [field.dataType for field in COLUMNS]
    (told,) = as_letters(messages).where("message_id = 'm1'").collect()
    assert (told.reason, told.queue, told.error, bytes(told.body)) == ("rejected", "work", "Boom", b"\x001")
    assert (told.origin_routing_key, told.first_death_at is not None) == ("work", True)
