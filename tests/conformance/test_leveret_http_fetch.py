"""Getting messages over HTTP: RabbitMQ's way, and on leases that a later request acknowledges."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.http_scene import Scene
from tests.conformance.own_broker import running
from tests.http_client import Api


@pytest.fixture
def scene(broker: Any) -> Scene:
    return Scene(broker)


def unacked(scene: Scene, name: str) -> int:
    return int(scene.of_queue(name, lambda queue: queue.unacked_count))


def ids(leased: list[dict[str, Any]]) -> list[str]:
    return [one["delivery_id"] for one in leased]


# ---- RabbitMQ's


@pytest.mark.parametrize(
    ("mode", "left", "again"),
    [
        ("ack_requeue_true", ["1", "2"], True),
        ("reject_requeue_true", ["1", "2"], True),
        ("ack_requeue_false", ["2"], False),
        ("reject_requeue_false", ["2"], False),
    ],
)
def test_ack_modes(scene: Scene, mode: str, left: list[str], again: bool) -> None:
    name = scene.queue()
    scene.fill(name, "1", "2")
    (got,) = scene.get(name, ackmode=mode).body
    assert (got["payload"], got["redelivered"], got["message_count"]) == ("1", False, 1)
    assert scene.payloads(name) == left
    assert scene.get(name).body[0]["redelivered"] is again
    assert unacked(scene, name) == 0


def test_rejected_messages_are_dead_lettered(scene: Scene) -> None:
    lot = scene.queue()
    name = scene.queue({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lot})
    scene.fill(name, "1")
    scene.get(name, ackmode="reject_requeue_false")
    (dead,) = scene.get(lot).body
    death = dead["properties"]["headers"]["x-death"][0]
    assert (death["queue"], death["reason"], death["routing-keys"]) == (name, "rejected", [name])
    assert isinstance(death["time"], int)


def test_the_requests_of_old_tools(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1", "2", "3")
    got = scene.get(name, count="2", truncate="0").body  # type: ignore[arg-type]
    assert [(one["payload"], one["payload_bytes"]) for one in got] == [("", 1), ("", 1)]
    assert scene.get(name, count=0).body == []
    assert scene.get(name, count=50000).body[0]["payload"] == "3"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": "x"}, ["not_integer", "x"]),
        ({"encoding": "hex"}, "Unsupported encoding. Please use auto or base64."),
        (
            {"ackmode": "bogus"},
            "ackmode must be one of ack_requeue_false, ack_requeue_true, reject_requeue_true, reject_requeue_false",
        ),
        ({"count": -1}, "count is -1; it must be from 0 to 100000"),
        ({"truncate": "x"}, "truncate is x; it must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(scene: Scene, change: dict[str, Any], reason: Any) -> None:
    name = scene.queue()
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", **change}
    reply = scene.api.post(f"/queues/%2F/{name}/get", body)
    assert (reply.status, reply.body) == (400, {"error": "bad_request", "reason": reason})


def test_queues_that_cannot_be_read_so(scene: Scene) -> None:
    reply = scene.api.post("/queues/%2F/nosuch/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})
    assert (reply.status, reply.body) == (
        404,
        {"error": "not_found", "reason": "NOT_FOUND - no queue 'nosuch' in vhost '/'"},
    )
    stream = scene.queue({"x-queue-type": "stream"})
    text = f"540 basic.get not supported by stream queues queue '{stream}' in vhost '/'"
    assert (scene.get(stream).status, scene.get(stream).body["reason"]) == (400, text)
    assert scene.api.get(f"/queues/%2F/{stream}/get").status == 400
    reply = scene.api.post(f"/queues/%2F/{stream}/get", {})
    assert reply.body["reason"] == "[{key_missing,ackmode},{key_missing,count},{key_missing,encoding}]"
    with scene.channel() as channel:
        own = channel.queue_declare("", exclusive=True).method.queue
        assert "405 RESOURCE_LOCKED" in scene.get(own).body["reason"]


def test_payloads_and_names_that_are_no_text(scene: Scene) -> None:
    name = scene.queue()
    with scene.channel() as channel:
        import pika

        properties = pika.BasicProperties(headers={"octets": b"\xff", "text": b"ok"}, timestamp=5)
        channel.basic_publish("", name, b"\xff\xfe", properties)
        channel.basic_publish("", name, "héllo".encode())
        first, second = scene.get(name, count=2, ackmode="ack_requeue_true").body
        assert (first["payload"], first["payload_encoding"]) == ("//4=", "base64")
        assert first["properties"]["headers"] == {"octets": "Not UTF-8, base64 is: /w==", "text": "ok"}
        assert (second["payload"], second["payload_encoding"]) == ("héllo", "string")
    cut = scene.get(name, count=2, truncate=2).body[1]
    assert (cut["payload"], cut["payload_encoding"], cut["payload_bytes"]) == ("h", "string", 6)


def test_payloads_take_read(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "secret")
    browser = scene.user("monitoring", write=".*", configure=".*")
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for reply in (
        browser.post(f"/queues/%2F/{name}/get", body),
        browser.get(f"/queues/%2F/{name}/get"),
        browser.get(f"/queues/%2F/{name}/peek"),
        browser.get(f"/tap?queue={name}"),
    ):
        assert (reply.status, reply.body["error"]) == (401, "not_authorised")
        assert "secret" not in str(reply.body)
    assert scene.user("management").get(f"/queues/%2F/{name}/get").status == 401
    assert unacked(scene, name) == 0


# ---- leases


def test_a_lease_holds_a_message_until_it_is_acknowledged(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1", "2", "3")
    before = time.time() * 1000
    leased = scene.lease(name, count=2, lease_s=60)
    assert [one["payload"] for one in leased] == ["1", "2"]
    assert all(55_000 < one["lease_expires_at"] - before < 65_000 for one in leased)
    assert (unacked(scene, name), scene.payloads(name)) == (2, ["3"])
    reply = scene.api.post(f"/queues/%2F/{name}/ack", {"delivery_ids": [leased[0]["delivery_id"], "unknown"]})
    assert (reply.status, reply.body) == (200, {"acked": 1, "unknown": ["unknown"]})
    again = scene.api.post(f"/queues/%2F/{name}/ack", {"delivery_ids": [leased[0]["delivery_id"]]})
    assert again.body == {"acked": 0, "unknown": [leased[0]["delivery_id"]]}
    back = scene.api.post(f"/queues/%2F/{name}/nack", {"delivery_ids": [leased[1]["delivery_id"]]})
    assert back.body == {"nacked": 1, "unknown": []}
    assert (unacked(scene, name), scene.payloads(name)) == (0, ["2", "3"])
    assert scene.lease(name)[0]["redelivered"]


def test_answers_with_leases_are_kept_by_nobody(scene: Scene) -> None:
    name = scene.queue()
    assert scene.api.get(f"/queues/%2F/{name}/get").headers["cache-control"] == "no-store"
    scene.fill(name, "1")
    assert scene.api.ask("HEAD", f"/queues/%2F/{name}/get").status == 405
    assert scene.payloads(name) == ["1"]


def test_delivery_tags_work_as_in_amqp(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1", "2", "3", "4")
    tags = [one["delivery_tag"] for one in scene.lease(name, count=4)]
    assert tags == sorted(set(tags))
    path = f"/queues/%2F/{name}"
    assert scene.api.post(f"{path}/ack", {"delivery_tag": tags[3]}).body == {"acked": 1, "unknown": []}
    assert scene.api.post(f"{path}/ack", {"delivery_tag": tags[1], "multiple": True}).body["acked"] == 2
    assert scene.api.post(f"{path}/ack", {"delivery_tag": tags[1]}).body == {"acked": 0, "unknown": [tags[1]]}
    assert scene.api.post(f"{path}/nack", {"delivery_tag": 0, "multiple": "true"}).body["nacked"] == 1
    assert scene.payloads(name) == ["3"]
    for bad in ({}, {"delivery_ids": "x"}, {"delivery_ids": [1]}, {"delivery_tag": -1}, {"delivery_tag": "x"}):
        assert scene.api.post(f"{path}/ack", bad).status == 400


def test_nack_without_requeue_dead_letters(scene: Scene) -> None:
    lot = scene.queue()
    name = scene.queue({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lot})
    scene.fill(name, "1")
    body = {"delivery_ids": ids(scene.lease(name)), "requeue": False}
    assert scene.api.post(f"/queues/%2F/{name}/nack", body).body["nacked"] == 1
    assert (scene.payloads(name), scene.payloads(lot)) == ([], ["1"])


def test_an_expired_lease_gives_the_message_back(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1")
    (held,) = scene.lease(name, lease_s=1)
    assert scene.lease(name) == []
    time.sleep(1.3)
    late = scene.api.post(f"/queues/%2F/{name}/ack", {"delivery_ids": ids([held])})
    assert late.body == {"acked": 0, "unknown": ids([held])}
    (again,) = scene.lease(name)
    assert (again["payload"], again["redelivered"]) == ("1", True)
    assert again["delivery_id"] != held["delivery_id"]


def test_acks_that_race_with_expiry_never_lose_or_double_a_message(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, *map(str, range(40)))
    leased = scene.lease(name, count=40, lease_s=1)
    acked: set[str] = set()
    due = leased[0]["lease_expires_at"] / 1000
    time.sleep(max(0, due - time.time() - 0.05))
    for one in leased:
        reply = scene.api.post(f"/queues/%2F/{name}/ack", {"delivery_ids": ids([one])})
        if reply.body["acked"]:
            acked.add(one["payload"])
        time.sleep(0.004)
    time.sleep(0.5)
    left = scene.payloads(name)
    assert sorted([*acked, *left], key=int) == [str(number) for number in range(40)]
    assert unacked(scene, name) == 0


def test_leases_belong_to_one_user_and_one_queue(scene: Scene) -> None:
    name, other = scene.queue(), scene.queue()
    scene.fill(name, "1")
    owner, stranger = scene.user("management", read=".*"), scene.user("management", read=".*")
    (held,) = scene.lease(name, api=owner)
    body = {"delivery_ids": ids([held])}
    assert stranger.post(f"/queues/%2F/{name}/ack", body).body == {"acked": 0, "unknown": ids([held])}
    assert owner.post(f"/queues/%2F/{other}/ack", body).body["acked"] == 0
    assert stranger.post(f"/queues/%2F/{name}/ack", {"delivery_tag": held["delivery_tag"]}).body["acked"] == 0
    assert unacked(scene, name) == 1
    assert owner.post(f"/queues/%2F/{name}/ack", body).body["acked"] == 1


@pytest.mark.parametrize("how", ["user deleted", "read lost", "permission deleted"])
def test_leases_end_with_the_right_to_read(scene: Scene, how: str) -> None:
    name = scene.queue()
    scene.fill(name, "1")
    owner = scene.user("management", read=".*")
    user = owner.get("/whoami").body["name"]
    scene.lease(name, api=owner)
    if how == "user deleted":
        scene.api.delete(f"/users/{user}")
    elif how == "read lost":
        scene.api.put(f"/permissions/%2F/{user}", {"configure": "", "write": "", "read": "^other"})
    else:
        scene.api.delete(f"/permissions/%2F/{user}")
    assert (unacked(scene, name), scene.payloads(name)) == (0, ["1"])


def test_leases_end_with_their_queue(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1")
    before = scene.broker.call(lambda node: (len(node.http_leases), len(node.broker.movers)))
    (held,) = scene.lease(name)
    scene.api.delete(f"/queues/%2F/{name}")
    assert scene.broker.call(lambda node: (len(node.http_leases), len(node.broker.movers))) == before
    assert scene.api.post(f"/queues/%2F/{name}/ack", {"delivery_ids": ids([held])}).status == 404


def test_leases_are_limited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.operations.http_leases.LEASES_OF_USER_MAX", 3)
    name = scene.queue()
    scene.fill(name, *"12345")
    owner = scene.user("management", read=".*")
    held = scene.lease(name, count=5, api=owner)
    assert len(held) == 3
    reply = owner.get(f"/queues/%2F/{name}/get")
    assert (reply.status, reply.body["error"]) == (429, "too_many_leases")
    assert scene.payloads(name) == ["4", "5"]
    owner.post(f"/queues/%2F/{name}/ack", {"delivery_ids": ids(held)})
    assert len(scene.lease(name, count=5, api=owner)) == 2


@pytest.mark.parametrize("query", ["count=0", "count=1001", "count=x", "ack_mode=none", "lease_s=0", "lease_s=nan",
                                   "lease_s=99999", "encoding=hex", "truncate=-1"])  # fmt: skip
def test_bad_queries_are_refused(scene: Scene, query: str) -> None:
    assert scene.api.get(f"/queues/%2F/{scene.queue()}/get?{query}").status == 400


def test_automatic_acks_take_messages_for_good(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1", "2")
    (got,) = scene.api.get(f"/queues/%2F/{name}/get?ack_mode=auto").body
    assert (got["payload"], "delivery_id" in got) == ("1", False)
    assert (unacked(scene, name), scene.payloads(name)) == (0, ["2"])


def test_parallel_getters_get_disjoint_messages(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, *map(str, range(200)))

    def work(_: int) -> list[str]:
        api, done = Api(scene.broker), []
        for _ in range(20):
            leased = api.get(f"/queues/%2F/{name}/get?count={random.randint(1, 4)}").body
            if not leased:
                break
            done += [one["payload"] for one in leased]
            api.post(f"/queues/%2F/{name}/ack", {"delivery_ids": ids(leased)})
        return done

    with ThreadPoolExecutor(50) as pool:
        got = [payload for some in pool.map(work, range(50)) for payload in some]
    assert sorted(got, key=int) == [str(number) for number in range(200)]
    assert (unacked(scene, name), scene.payloads(name)) == (0, [])


def test_consumers_and_getters_share_a_queue(scene: Scene) -> None:
    name = scene.queue()
    scene.fill(name, "1")
    (held,) = scene.lease(name)
    with scene.channel() as channel:
        got: list[bytes] = []
        channel.basic_consume(name, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
        scene.api.post(f"/queues/%2F/{name}/nack", {"delivery_ids": ids([held])})
        channel.connection.process_data_events(1)
        assert got == [b"1"]


# ---- the node's life


def test_a_node_that_stops_gives_leases_back(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        scene = Scene(broker)
        name = scene.queue()
        scene.fill(name, "1", "2")
        tag = scene.lease(name)[0]["delivery_tag"]
    with running(tmp_path) as broker:
        scene = Scene(broker)
        assert scene.payloads(name) == ["1", "2"]
        (first, second) = scene.lease(name, count=2)
        assert (first["redelivered"], second["redelivered"]) == (True, False)
        assert first["delivery_tag"] > tag, "tags never come twice"


def test_messages_on_disk_are_fetched(scene: Scene) -> None:
    name = scene.queue({"x-queue-mode": "lazy"})
    scene.fill(name, *map(str, range(30)))
    assert [one["payload"] for one in scene.lease(name, count=10)] == [str(number) for number in range(10)]
    got = scene.get(name, count=100).body
    assert [one["payload"] for one in got] == [str(number) for number in range(10, 30)]
