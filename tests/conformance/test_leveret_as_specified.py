"""The configuration with the specification's defaults: it starts as it is, and each value counts."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.node.config.loading import load_settings, values_of
from leveret.runtime.memory import memory_limit_bytes
from leveret.testing import Broker
from tests.conformance.http_scene import Scene
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import wait_for
from tests.unit.node.process import finished, serving

CONFIG = Path(__file__).parents[2] / "deploy/config/as-specified.toml"
SPECIFIED = {
    "limits.frame_max": 131072,
    "limits.channel_max": 2047,
    "limits.heartbeat_s": 60,
    "limits.ack_timeout_ms": 30_000,
    "limits.ack_timeout_action": "requeue",
    "alarms.memory_watermark": 0.4,
    "dead_letters.every_s": 3600.0,
    "dead_letters.archive_after_s": 86400.0,
}
GRAVE = "dead-letter-orders"
HOUR_S = 3600


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cold") / "storage"


@pytest.fixture(scope="module")
def broker(archive: Path) -> Iterator[Broker]:
    """With everything that the file says, but for the place of the archive."""
    file, plain = (values_of(load_settings(path, {})) for path in (CONFIG, None))
    said: dict[str, object] = {key: value for key, value in file.items() if key in SPECIFIED or value != plain[key]}
    with Broker({**said, "dead_letters.archive_dir": str(archive)}) as running:
        yield running


def test_the_file_is_valid_and_says_what_is_specified() -> None:
    done = finished("config", "check", "--config", str(CONFIG))
    assert done.returncode == 0, done.stderr
    values = values_of(load_settings(CONFIG, {}))
    assert {key: values[key] for key in SPECIFIED} == SPECIFIED
    # Spelled out, so that it stays so whatever our own defaults become.
    text = CONFIG.read_text()
    assert all(f"\n{key.rpartition('.')[2]} = " in text for key in SPECIFIED)


def test_the_file_starts_and_connections_are_tuned_so(tmp_path: Path) -> None:
    elsewhere = {"LEVERET__DEAD_LETTERS__ARCHIVE_DIR": str(tmp_path / "archive")}
    with serving("--config", str(CONFIG), "--data-dir", str(tmp_path / "data"), **elsewhere) as server:
        client = RawClient(server.host, server.port)
        client.start()
        client.start_ok()
        tune = client.expect(0, "connection.tune")
        client.socket.close()
        assert (tune["frame_max"], tune["channel_max"], tune["heartbeat"]) == (131072, 2047, 60)
        server.process.terminate()
        assert server.process.wait(20) == 0
        assert "ERROR" not in server.errors()


def test_the_watermark_is_four_tenths_of_the_memory(broker: Broker) -> None:
    (node,) = Scene(broker).api.get("/nodes").body
    assert node["mem_limit"] == pytest.approx(0.4 * memory_limit_bytes(), rel=0.01)


def test_a_delivery_has_thirty_seconds(broker: Broker) -> None:
    scene = Scene(broker)
    queue = scene.queue()
    with scene.channel() as channel:
        channel.basic_consume(queue, lambda *_: None)
        found: list[Any] = []

        def consumers() -> bool:
            found[:] = [one for one in scene.api.get("/consumers").body if one["queue"]["name"] == queue]
            return bool(found)

        wait_for("the consumer", consumers)
        assert found[0]["consumer_timeout"] == 30_000
    assert broker.call(lambda node: node._session_settings.ack_timeout_action) == "requeue"


def test_dead_letters_are_retried_hourly_and_archived_after_a_day(broker: Broker, archive: Path) -> None:
    scene = Scene(broker)
    assert scene.api.put(f"/queues/%2F/{GRAVE}", {"durable": True}).status == 201
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": GRAVE}
    work = scene.queue(dead)
    listed = {one["queue"]: one for one in scene.api.get("/dead-letter-schedules").body}
    assert set(listed) == {GRAVE}, "queues of work are left alone"
    assert (listed[GRAVE]["every_s"], listed[GRAVE]["archive_after_s"]) == (3600.0, 86400.0)
    assert listed[GRAVE]["next_at"].endswith(":00:00.000+00:00")
    now_s = int(time.time())
    for body, age_s in (("a day and an hour", 25 * HOUR_S), ("almost a day", 23 * HOUR_S)):
        properties = {"delivery_mode": 2, "headers": {"x-first-death-time": now_s - age_s}}
        assert scene.publish(work, body, properties=properties).body["routed"]
    scene.get(work, count=2, ackmode="reject_requeue_false")
    wait_for("the dead", lambda: len(scene.payloads(GRAVE)) == 2)
    # What the timer does at the next whole hour.
    broker.run(lambda node: node.dead_letters.schedule.run({3600.0}))
    wait_for("the retry", lambda: scene.payloads(work) == ["almost a day"])
    wait_for("the archive", lambda: any(archive.glob("date=*/dead-letters-*.jsonl")))
    (file,) = archive.glob("date=*/dead-letters-*.jsonl")
    (line,) = [json.loads(text) for text in file.read_text().splitlines()]
    assert (base64.b64decode(line["body"]), line["source_queue"]) == (b"a day and an hour", work)
    assert scene.payloads(GRAVE) == []
