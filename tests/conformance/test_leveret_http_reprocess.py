"""Replaying dead letters over HTTP, the jobs that do it, and the overview of dead letters."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.conformance.http_scene import Scene


@pytest.fixture
def scene(broker: Any) -> Scene:
    return Scene(broker)


def dead(scene: Scene, *payloads: str) -> tuple[str, str]:
    """A queue, and the one to which these of its messages were rejected."""
    lot = scene.queue()
    work = scene.queue({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lot})
    scene.fill(work, *payloads)
    scene.get(work, count=len(payloads), ackmode="reject_requeue_false")
    deadline = time.monotonic() + 5
    while len(scene.payloads(lot)) < len(payloads) and time.monotonic() < deadline:
        time.sleep(0.01)
    return work, lot


def start(scene: Scene, lot: str, **body: Any) -> Any:
    return scene.api.post(f"/queues/%2F/{lot}/reprocess", body)


def test_dead_letters_go_back_to_where_they_died(scene: Scene) -> None:
    work, lot = dead(scene, "1", "2", "3")
    reply = start(scene, lot, limit=2)
    assert reply.status == 200, reply
    task = reply.body
    assert (task["state"], task["mode"], task["moved"], task["failed"]) == ("done", "original_exchange", 2, 0)
    assert (scene.payloads(work), scene.payloads(lot)) == (["1", "2"], ["3"])
    (back,) = scene.get(work).body
    assert back["properties"]["headers"]["x-replay-count"] == 1
    assert "x-death" not in back["properties"]["headers"]
    assert scene.api.get(f"/tasks/{task['id']}").body == task
    assert task["id"] in [one["id"] for one in scene.api.get("/tasks").body]
    assert scene.api.delete(f"/tasks/{task['id']}").status == 204
    assert scene.api.get(f"/tasks/{task['id']}").status == 404


def test_dry_runs_and_filters(scene: Scene) -> None:
    _, lot = dead(scene, "apple", "pear")
    wanted = {"body_contains": "app", "reason": "rejected"}
    task = start(scene, lot, dry_run=True, filter=wanted).body
    assert (task["matched"], task["skipped"], task["moved"]) == (1, 1, 0)
    assert scene.payloads(lot) == ["apple", "pear"]
    assert start(scene, lot, filter=wanted, mode="original_queue").body["moved"] == 1
    assert scene.payloads(lot) == ["pear"]


def test_elsewhere(scene: Scene) -> None:
    _, lot = dead(scene, "1")
    target = scene.queue()
    task = start(scene, lot, mode="target", exchange="", routing_key=target).body
    assert (task["moved"], scene.payloads(target), scene.payloads(lot)) == (1, ["1"], [])


def test_what_cannot_be_routed_is_passed_over_or_ends_the_job(scene: Scene) -> None:
    work, lot = dead(scene, "1", "2")
    scene.api.delete(f"/queues/%2F/{work}")
    skipped = start(scene, lot).body
    assert (skipped["state"], skipped["failed"], skipped["on_unroutable"]) == ("done", 2, "skip")
    stopped = start(scene, lot, on_unroutable="stop").body
    assert (stopped["state"], stopped["failed"]) == ("failed", 1)
    assert "no queue is reached" in stopped["last_error"]
    assert scene.payloads(lot) == ["1", "2"]


def test_a_long_job_is_watched_and_cancelled(scene: Scene) -> None:
    work, lot = dead(scene, *map(str, range(50)))
    reply = start(scene, lot, rate=5, wait=0)
    task = reply.body
    assert (reply.status, reply.headers["location"]) == (202, f"/api/tasks/{task['id']}")
    assert task["state"] == "running"
    assert start(scene, lot).status == 409
    time.sleep(0.5)
    seen = scene.api.get(f"/tasks/{task['id']}").body
    assert (seen["state"], seen["remaining"] > 40) == ("running", True)
    assert scene.api.delete(f"/tasks/{task['id']}").status == 204
    deadline = time.monotonic() + 5
    while (ended := scene.api.get(f"/tasks/{task['id']}").body)["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended["state"] == "cancelled"
    moved = len(scene.payloads(work))
    assert (moved, 0 < moved < 20) == (ended["moved"], True)
    assert len(scene.payloads(lot)) == 50 - moved


@pytest.mark.parametrize(
    "body",
    [{"mode": "x"}, {"on_unroutable": "x"}, {"limit": -1}, {"rate": "fast"}, {"wait": 61}, {"filter": {"bogus": 1}},
     {"filter": {"reason": "bored"}}, {"filter": {"body_contains": 5}}, {"exchange": "x"}, {"filter": []}, []],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(scene: Scene, body: Any) -> None:
    lot = scene.queue()
    reply = scene.api.post(f"/queues/%2F/{lot}/reprocess", body)
    assert reply.status == (400 if body != {"filter": []} else 200), reply


def test_who_may_replay(scene: Scene) -> None:
    _, lot = dead(scene, "1")
    target = scene.queue()
    elsewhere = {"mode": "target", "routing_key": target}
    path = f"/queues/%2F/{lot}/reprocess"
    reader = scene.user("management", read=".*")
    assert reader.post(path, {}).status == 401, "where to is in headers that anybody may have written"
    assert reader.post(path, elsewhere).status == 401
    assert scene.user("policymaker", write=".*").post(path, {}).status == 401
    assert scene.payloads(lot) == ["1"]
    assert scene.user("management", read=".*", write=".*").post(path, elsewhere).body["moved"] == 1
    assert start(scene, "nosuch").status == 404
    task = start(scene, lot).body
    stranger = scene.user("management")
    assert stranger.get("/tasks").body == []
    assert stranger.get(f"/tasks/{task['id']}").status == 404
    assert stranger.delete(f"/tasks/{task['id']}").status == 404
    assert scene.api.get("/tasks/nosuch").status == 404


def test_dead_letters_are_grouped_by_where_and_why_they_died(scene: Scene) -> None:
    work, lot = dead(scene, "1", "2")
    short = scene.queue({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lot, "x-message-ttl": 1})
    scene.fill(short, "3")
    time.sleep(0.3)
    empty = scene.queue()
    scene.queue({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": empty})
    found = {one["name"]: one for one in scene.api.get("/dead-letters").body}
    groups = {(one["queue"], one["reason"]): one["count"] for one in found[lot]["groups"]}
    assert groups == {(work, "rejected"): 2, (short, "expired"): 1}
    assert (found[lot]["messages"], found[lot]["sampled"]) == (3, 3)
    assert abs(found[lot]["groups"][0]["last_death_s"] - time.time()) < 60
    assert found[empty]["groups"] == []
    assert work not in found
    assert [one["name"] for one in scene.api.get("/dead-letters/%2F").body] == list(found)
    assert scene.api.get("/dead-letters/nosuch").status == 404
    assert scene.user("management").get("/dead-letters").body == []
    # What is told of a queue stands in its messages: whoever may not read them is told nothing.
    for right, seen in (("write", []), ("configure", []), ("read", [lot])):
        person = scene.user("management", **{right: f"^{lot}$"})
        assert [one["name"] for one in person.get("/dead-letters/%2F").body] == seen, right
    assert len(scene.payloads(lot)) == 3
