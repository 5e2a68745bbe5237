"""What a whole broker does with dead letters that are too old: files in the archive's directory, an alert by webhook,
in the API, in metrics and in the audit log; and who may set the schedule."""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leveret.operations.reprocess import archive_files, schedule
from tests.conformance.http_scene import Scene
from tests.conformance.metrics_scene import Metrics
from tests.conformance.own_broker import running
from tests.conformance.topology import wait_for

SECRET = "a secret of both"


class Hook:
    """A webhook on this machine. The first answer to each alert is a 503."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.posts: list[tuple[dict[str, str], bytes]] = []

    def about(self, queue: str, kind: str) -> list[tuple[dict[str, str], bytes]]:
        wanted = (queue, f"dead-letters.{kind}")
        return [post for post in self.posts if (json.loads(post[1])["queue"], json.loads(post[1])["event"]) == wanted]


@contextmanager
def running_hook() -> Iterator[Hook]:
    posts: list[tuple[dict[str, str], bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            tried = {headers["X-Leveret-Id"] for headers, _ in posts}
            posts.append((dict(self.headers), body))
            self.send_response(204 if self.headers["X-Leveret-Id"] in tried else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        hook = Hook(server.server_address[1])
        hook.posts = posts
        yield hook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Place:
    def __init__(self, scene: Scene, hook: Hook, archive: Path, samples: Callable[[], Any]) -> None:
        self.scene, self.hook, self.archive, self.samples = scene, hook, archive, samples

    def lines(self, queue: str) -> list[dict[str, Any]]:
        files = sorted(self.archive.glob("date=*/dead-letters-*.jsonl"))
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [line for line in found if line["queue"] == queue]

    def metric(self, name: str, **labels: str) -> float:
        found: float = self.samples()[name, frozenset(labels.items())]
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    archive = tmp_path_factory.mktemp("cold") / "storage"
    with running_hook() as hook, pytest.MonkeyPatch.context() as patch:
        # Changes are noticed at once.
        patch.setattr(schedule, "LOOK_S", 0.05)
        settings = {
            "dead_letters.archive_dir": str(archive),
            "dead_letters.webhook.urls": hook.url,
            "dead_letters.webhook.secret": SECRET,
            "dead_letters.webhook.pause_s": 0.01,
        }
        with running(tmp_path_factory.mktemp("data"), **settings) as broker:
            yield Place(Scene(broker), hook, archive, Metrics(broker, broker.metrics_port).samples)


def old_letter(scene: Scene, queue: str, body: str) -> None:
    headers = {"x-first-death-time": int(time.time()) - 7200, "tier": "premium"}
    assert scene.publish(queue, body, properties={"headers": headers, "delivery_mode": 2}).body["routed"]


def test_what_is_too_old_is_archived_and_everybody_is_told(place: Place) -> None:
    scene = place.scene
    lot = scene.queue()
    path = f"/parameters/reprocess-schedule/%2F/{lot}"
    old_letter(scene, lot, "too old")
    scene.fill(lot, "young")
    before = {kind: place.metric("leveret_webhook_posts_total", outcome=kind) for kind in ("delivered", "retried")}
    archived = place.metric("leveret_replay_archived_total")
    alerts = place.metric("leveret_dead_letter_alerts_total", kind="archived")
    reply = scene.api.put(path, {"value": {"every": "1s", "archive-after": "1h"}})
    assert reply.status == 201, reply
    wait_for("the file", lambda: bool(place.lines(lot)))
    (line,) = place.lines(lot)
    assert base64.b64decode(line["body"]) == b"too old"
    assert (line["headers"]["tier"], line["properties"]["delivery_mode"]) == ("premium", 2)
    wait_for("the alert", lambda: len(place.hook.about(lot, "archived")) == 2)
    (refused, body), (taken, again) = place.hook.about(lot, "archived")
    assert body == again and refused["X-Leveret-Id"] == taken["X-Leveret-Id"]
    digest = hmac.new(SECRET.encode(), taken["X-Leveret-Timestamp"].encode() + b"." + body, hashlib.sha256)
    assert taken["X-Leveret-Signature"] == f"sha256={digest.hexdigest()}"
    told = json.loads(body)
    assert told["count"] == 1
    assert told["archive"].startswith(str(place.archive))
    for kind, count in before.items():
        wait_for(kind, lambda kind=kind, count=count: (  # type: ignore[misc]
            place.metric("leveret_webhook_posts_total", outcome=kind) > count
        ))  # fmt: skip
    assert place.metric("leveret_replay_archived_total") == archived + 1
    assert place.metric("leveret_dead_letter_alerts_total", kind="archived") == alerts + 1
    shown = scene.api.get("/dead-letter-alerts").body
    mine = [(alert["kind"], alert["count"]) for alert in shown["alerts"] if alert["queue"] == lot]
    assert mine == [("archived", 1)]
    assert shown["webhooks"]["delivered_total"] > before["delivered"]
    noted = scene.api.get("/audit?action=dead-letters").body
    assert [(one["user"], one["via"]) for one in noted if one["names"]["queue"] == lot] == [("leveret", "broker")]
    assert scene.api.delete(path).status == 204
    # Nobody knows where it came from, so it stays.
    wait_for("the young one", lambda: scene.payloads(lot) == ["young"])


def test_schedules_are_set_by_policy_and_parameter_and_listed(place: Place) -> None:
    api = place.scene.api
    lot = place.scene.queue()
    policy = {"pattern": f"^{lot}$", "apply-to": "queues", "definition": {"reprocess-every": "2h"}}
    assert api.put("/policies/%2F/retries", policy).status == 201

    def listed() -> Any:
        (found,) = [one for one in api.get("/dead-letter-schedules/%2F").body if one["queue"] == lot]
        return found["every_s"], found["archive_after_s"], found["set_by"]

    assert listed() == (7200.0, 86400.0, "policy")
    path = f"/parameters/reprocess-schedule/%2F/{lot}"
    assert api.put(path, {"value": {"every": "30min"}}).status == 201
    assert listed() == (1800.0, 86400.0, "parameter")
    assert api.delete(path).status == 204
    assert listed() == (7200.0, 86400.0, "policy")
    assert api.delete("/policies/%2F/retries").status == 204
    assert lot not in [one["queue"] for one in api.get("/dead-letter-schedules").body]


@pytest.mark.parametrize("value", [{"every": "soon"}, {"every": 1}, {"often": "1h"}, "1h", {"every": -1}])
def test_what_is_no_schedule_is_refused(place: Place, value: Any) -> None:
    assert place.scene.api.put("/parameters/reprocess-schedule/%2F/dead", {"value": value}).status == 400


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_archive_that_cannot_be_written_keeps_the_message_and_alerts(place: Place) -> None:
    scene = place.scene
    lot = scene.queue()
    path = f"/parameters/reprocess-schedule/%2F/{lot}"
    old_letter(scene, lot, "stays")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_files, "write_all", full)
        assert scene.api.put(path, {"value": {"every": "1s", "archive-after": "1h"}}).status == 201
        wait_for("the post", lambda: bool(place.hook.about(lot, "archive-failed")))
        assert place.metric("leveret_dead_letter_alerts_total", kind="archive-failed") > 0
        assert place.lines(lot) == []
    wait_for("the file", lambda: bool(place.lines(lot)))
    assert [base64.b64decode(line["body"]) for line in place.lines(lot)] == [b"stays"]
    assert scene.api.delete(path).status == 204
    wait_for("the end", lambda: scene.payloads(lot) == [])
