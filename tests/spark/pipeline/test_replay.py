"""Replay: what is wanted of the archive comes back to the broker, once, not too fast, and goes on after it was
stopped."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install leveret[spark]")

from pyspark.sql import SparkSession

from leveret.client import blocking
from leveret.client.message import Message
from leveret.client.topology import Queue
from leveret.spark.pipeline.archive import replay as replaying
from leveret.spark.pipeline.archive import start_archive
from leveret.spark.pipeline.archive.replay import ReplayProgress, ReplayRefused, ReplayResult, replay
from leveret.spark.pipeline.lake import Lake
from leveret.testing import Broker

pytestmark = pytest.mark.timeout(600)
COUNT = 60


@pytest.fixture(scope="module")
def archived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Lake]]:
    """Two streams in an archive that the tests only read."""
    broker = Broker().start()
    lake = Lake(str(tmp_path_factory.mktemp("replay") / "lake"))
    with blocking.connect(broker.url) as connection:
        for stream in ("a", "b/c"):
            connection.topology.declare(Queue(stream, queue_type="stream"))
            messages = [
                Message(
                    body=f"{stream} {n}".encode(),
                    message_id=f"{stream}-{n}" if n % 2 else None,
                    headers={"n": n, "deep": [1, {"x": b"\x00"}]},
                    user_id="guest",
                    content_type="text/plain",
                )
                for n in range(COUNT)
            ]
            connection.producer(routing_key=stream).publish_batch(messages)
    source = {"url": broker.url, "stream": "a,b/c"}
    start_archive(spark, lake, source, trigger={"availableNow": True}).awaitTermination(90)
    yield broker, lake
    broker.stop()


class Target:
    """A stream to replay to, and what has come there."""

    def __init__(self, spark: SparkSession, broker: Broker, lake: Lake, name: str) -> None:
        self._spark, self._broker, self.lake, self.name = spark, broker, lake, name
        with blocking.connect(broker.url) as connection:
            connection.topology.declare(Queue(name, queue_type="stream"))

    def replay(self, replay_id: str, **wanted: object) -> ReplayResult:
        options: dict[str, object] = {
            "exchange": "",
            "routing_key": self.name,
            "sink": {"url": self._broker.url},
            **wanted,
        }
        return replay(self._spark, self.lake, replay_id=replay_id, **options)  # type: ignore[arg-type]

    def rows(self) -> list[str]:
        reader = self._spark.read.format("leveret").option("url", self._broker.url)
        return [bytes(row.body).decode() for row in reader.load(self.name).orderBy("offset").select("body").collect()]

    def headers(self) -> list[str]:
        reader = self._spark.read.format("leveret").option("url", self._broker.url)
        return [row.headers_json for row in reader.load(self.name).select("headers_json").collect()]


@pytest.fixture
def target(spark: SparkSession, archived: tuple[Broker, Lake], request: pytest.FixtureRequest) -> Target:
    return Target(spark, *archived, name=f"to-{request.node.name}")


ALL = Counter(f"{stream} {n}" for stream in ("a", "b/c") for n in range(COUNT))


def test_twice_is_once(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "SLICE_MAX", 25)
    told: list[ReplayProgress] = []
    first = target.replay("twice", where="true", on_progress=told.append)
    assert (first.selected, first.published, first.finished) == (2 * COUNT, 2 * COUNT, True)
    assert [one.published for one in told] == sorted({one.published for one in told})
    assert (told[0].published, told[-1].published) == (0, 2 * COUNT)
    rows = target.rows()
    assert Counter(rows) == ALL
    # Each stream in its order.
    for stream in ("a", "b/c"):
        assert [row for row in rows if row.startswith(f"{stream} ")] == [f"{stream} {n}" for n in range(COUNT)]
    again = target.replay("twice", where="true")
    assert (again.published, again.published_before, again.finished) == (0, 2 * COUNT, True)
    # Nothing known of it any more: everything is published again, and the stream has it already.
    shutil.rmtree(target.lake.checkpoint("replay/twice"))
    lost = target.replay("twice", where="true")
    assert lost.published == 2 * COUNT
    assert Counter(target.rows()) == ALL
    # Another replay is another one: the check above would see messages that come twice.
    target.replay("thrice", where="true")
    assert set(Counter(target.rows()).values()) == {2}


def test_it_goes_on_where_it_was_stopped(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "SLICE_MAX", 40)
    publish = replaying._publish
    slices = 0

    def die(*arguments: object) -> None:
        nonlocal slices
        slices += 1
        publish(*arguments)  # type: ignore[arg-type]
        if slices == 2:
            raise RuntimeError("killed after it was published and before that was written down")

    monkeypatch.setattr(replaying, "_publish", die)
    with pytest.raises(RuntimeError, match="killed"):
        target.replay("stopped", where="true")
    assert 40 < len(target.rows()) < 2 * COUNT
    stop = threading.Event()
    partly = target.replay(
        "stopped", where="true", stop=stop, on_progress=lambda one: one.published > 40 and stop.set()
    )
    assert not partly.finished
    done = target.replay("stopped", where="true")
    assert done.finished
    assert done.published_before >= 40
    assert Counter(target.rows()) == ALL


def test_a_filter(target: Target) -> None:
    result = target.replay("filter", where="stream = 'b/c' and cast(headers['n'] as int) % 10 = 3")
    assert result.selected == 6
    assert target.rows() == [f"b/c {n}" for n in range(3, COUNT, 10)]
    assert all('"deep"' in headers and '"x-producer-name"' in headers for headers in target.headers())


def test_a_time_range(target: Target) -> None:
    now = datetime.now(UTC)
    assert target.replay("early", end=now - timedelta(hours=1)).selected == 0
    assert target.replay("late", start=(now + timedelta(hours=1)).isoformat()).selected == 0
    assert target.rows() == []
    found = target.replay("now", start=now - timedelta(hours=1), end=now + timedelta(hours=1), where="offset < 2")
    assert found.selected == 4
    assert Counter(target.rows()) == Counter(["a 0", "a 1", "b/c 0", "b/c 1"])


def test_not_faster_than_it_may(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "SLICE_MIN", 10)
    began = time.monotonic()
    result = target.replay("slow", where="stream = 'a'", rate=10.0)
    # Three slices of twenty; after the last one there is nothing to wait for.
    assert time.monotonic() - began > 4.0
    assert (result.published, len(target.rows())) == (COUNT, COUNT)


def test_what_is_refused(target: Target) -> None:
    target.replay("same", where="offset = 1")
    with pytest.raises(ReplayRefused, match=r"began with where 'offset = 1' and is now asked for 'offset = 2'"):
        target.replay("same", where="offset = 2")
    with pytest.raises(ReplayRefused, match="1 to 64 letters"):
        target.replay("a/b", where="true")
    with pytest.raises(ReplayRefused, match="a replay of everything"):
        target.replay("all")
    with pytest.raises(ReplayRefused, match="above 0"):
        target.replay("rate", where="true", rate=0)
    with pytest.raises(ReplayRefused, match="is no moment"):
        target.replay("moment", start="yesterday")
    assert Counter(target.rows()) == Counter(["a 1", "b/c 1"])


def test_a_stream_that_was_made_anew(spark: SparkSession, archived: tuple[Broker, Lake], tmp_path: Path) -> None:
    """Its offsets begin again: by them messages could not be told apart, and some would be dropped."""
    broker, lake = archived
    shutil.copytree(lake.root, tmp_path / "lake")
    copy = Lake(str(tmp_path / "lake"))
    start_archive(
        spark, copy, {"url": broker.url, "stream": "a"}, trigger={"availableNow": True}, name="second"
    ).awaitTermination(90)
    with pytest.raises(ReplayRefused, match="offsets of the stream 'a' twice"):
        replay(spark, copy, where="true", sink={"url": broker.url})


def test_to_where_they_were(spark: SparkSession, archived: tuple[Broker, Lake]) -> None:
    """Without an exchange and a key each goes where it went at first."""
    broker, lake = archived
    replay(spark, lake, where="stream = 'a' and offset = 5", sink={"url": broker.url}, replay_id="back")
    reader = spark.read.format("leveret").option("url", broker.url)
    found = reader.load("a").where(f"offset = {COUNT}").first()
    assert found is not None
    assert (bytes(found.body), found.message_id, found.user_id) == (b"a 5", "a-5", None)
