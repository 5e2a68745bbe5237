"""Shovels inside one broker and between two: what arrives, what is said of them, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http_client import Api
from tests.links.shovel_scene import Scene, drain, until


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_a_queue_is_moved_in_its_order(scene: Scene, ack_mode: str) -> None:
    source, target = scene.queue(f"a {ack_mode}"), f"b {ack_mode}"
    scene.publish(source, bodies(3000))
    scene.shovel(ack_mode, src_queue=source, dest_queue=target, ack_mode=ack_mode, src_prefetch_count=100)
    until(lambda: scene.api.get(f"/queues/%2F/{target.replace(' ', '%20')}").status == 200)
    scene.until_count(target, 3000)
    # What has arrived is confirmed and acknowledged only afterwards.
    scene.until_settled(source)
    status = scene.until_state(ack_mode, "running")
    assert status["leveret"]["messages_forwarded"] == 3000
    assert status["leveret"]["messages_confirmed"] == (3000 if ack_mode == "on-confirm" else 0)
    scene.delete(ack_mode)
    assert drain(scene.broker.url, target) == bodies(3000)
    # Everything was settled: nothing comes again.
    assert scene.count(source) == 0


def test_between_two_brokers_over_tcp(scene: Scene, other: Scene) -> None:
    source = scene.queue("out")
    scene.publish(source, bodies(500), message_id="m", headers={"h": 1}, priority=3)
    scene.shovel("tcp", src_queue=source, dest_queue="in", dest_uri=other.broker.url)
    until(lambda: other.api.get("/queues/%2F/in").status == 200)
    other.until_count("in", 500)
    (first,) = other.take("in", 1)
    properties = first["properties"]
    assert (first["payload"], properties["message_id"], properties["priority"]) == ("0", "m", 3)
    assert properties["headers"] == {"h": 1}
    status = scene.until_state("tcp", "running")
    assert status["dest_uri"] == f"amqp://127.0.0.1:{other.broker.port}/"
    assert (status["src_uri"], status["src_queue"], status["dest_queue"]) == ("amqp://", "out", "in")
    assert (status["type"], status["vhost"], status["name"]) == ("dynamic", "/", "tcp")
    assert [one["name"] for one in scene.api.get("/shovels/%2F").body] == ["tcp"]
    scene.delete("tcp")


def test_from_an_exchange_to_an_exchange_with_headers(scene: Scene) -> None:
    scene.queue("seen")
    scene.api.post("/bindings/%2F/e/amq.fanout/q/seen", {})
    scene.shovel(
        "exchanges",
        src_exchange="amq.topic",
        src_exchange_key="a.#",
        dest_exchange="amq.fanout",
        dest_exchange_key="k",
        dest_add_forward_headers=True,
        dest_add_timestamp_header=True,
        dest_publish_properties={"delivery_mode": 2, "app_id": "shovelled"},
    )
    scene.until_state("exchanges", "running")
    for key in ("a.b", "other"):
        body = {"routing_key": key, "payload": key, "payload_encoding": "string", "properties": {"headers": {"x": "y"}}}
        scene.api.post("/exchanges/%2F/amq.topic/publish", body)
    scene.until_count("seen", 1)
    (message,) = scene.take("seen", 5)
    assert (message["routing_key"], message["payload"]) == ("k", "a.b")
    assert (message["properties"]["app_id"], message["properties"]["delivery_mode"]) == ("shovelled", 2)
    headers = message["properties"]["headers"]
    assert headers["x"] == "y"
    assert headers["x-shovelled-timestamp"] > 1_700_000_000
    assert headers["x-shovelled"] == [
        {
            "shovelled-by": "leveret",
            "shovel-type": "dynamic",
            "shovel-name": "exchanges",
            "shovel-vhost": "/",
            "src-uri": "amqp://",
            "dest-uri": "amqp://",
            "src-exchange": "amq.topic",
            "src-exchange-key": "a.#",
            "dest-exchange": "amq.fanout",
            "dest-exchange-key": "k",
        }
    ]
    scene.delete("exchanges")


@pytest.mark.parametrize(("after", "moved"), [(7, 7), ("queue-length", 20)])
def test_a_shovel_that_has_moved_enough_deletes_itself(scene: Scene, after: Any, moved: int) -> None:
    source, target = scene.queue(f"from {after}"), scene.queue(f"to {after}")
    scene.publish(source, bodies(20))
    scene.shovel(f"once {after}", src_queue=source, dest_queue=target, src_delete_after=after)
    until(lambda: scene.api.get(f"/parameters/shovel/%2F/once%20{after}").status == 404)
    scene.until_count(target, moved)
    scene.until_count(source, 20 - moved)
    assert drain(scene.broker.url, target) == bodies(moved)
    noted = scene.api.get("/audit?action=parameter.delete").body
    assert f"once {after}" in [entry["names"]["name"] for entry in noted]


def test_a_full_destination_blocks_and_loses_nothing(scene: Scene) -> None:
    source = scene.queue("plenty")
    target = scene.queue("narrow", x_max_length=10, x_overflow="reject-publish")
    scene.publish(source, bodies(50))
    scene.shovel("narrow", src_queue=source, dest_queue=target, src_prefetch_count=20)
    status = scene.until_state("narrow", "blocked")
    assert "full" in status["reason"]
    taken: list[str] = []
    until(lambda: taken.extend(one["payload"] for one in scene.take(target, 5)) or len(taken) >= 50)
    assert sorted(map(int, taken)) == list(range(50))
    scene.until_settled(source)
    assert scene.status("narrow")["leveret"]["messages_refused"] > 0
    scene.delete("narrow")
    assert scene.count(source) == 0


def test_a_destination_that_is_deleted_loses_nothing(scene: Scene) -> None:
    source, target = scene.queue("stays"), scene.queue("goes")
    scene.shovel("goes", src_queue=source, dest_queue=target)
    scene.until_state("goes", "running")
    scene.api.delete("/queues/%2F/goes")
    scene.publish(source, bodies(30))
    # It came back, and the next run has declared the queue anew.
    until(lambda: scene.api.get("/queues/%2F/goes").status == 200)
    scene.until_count("goes", 30)
    scene.delete("goes")


def test_an_end_that_cannot_be_reached_is_said_and_tried_again(scene: Scene) -> None:
    scene.queue("waits")
    scene.shovel("lost", src_queue="waits", dest_queue="b", dest_uri="amqp://u:canary@127.0.0.1:1")
    status = scene.until_state("lost", "terminated")
    assert "127.0.0.1:1 cannot be reached" in status["reason"]
    assert "canary" not in str(status)
    until(lambda: scene.status("lost")["leveret"]["reconnects"] >= 1)
    # The first of several that works is taken.
    scene.publish("waits", bodies(3))
    scene.shovel("lost", src_queue="waits", dest_queue="found", dest_uri=["amqp://127.0.0.1:1", "amqp://"])
    until(lambda: scene.api.get("/queues/%2F/found").status == 200)
    scene.until_count("found", 3)
    scene.delete("lost")


def test_pause_resume_restart_and_change(scene: Scene) -> None:
    source = scene.queue("p")
    scene.shovel("p", src_queue=source, dest_queue=scene.queue("p1"))
    scene.until_state("p", "running")
    assert scene.api.put("/shovels/vhost/%2F/p/pause").status == 204
    scene.until_state("p", "paused")
    scene.publish(source, bodies(5))
    assert scene.count(source) == 5
    assert scene.api.delete("/shovels/vhost/%2F/p/pause").status == 204
    scene.until_count("p1", 5)
    scene.until_settled(source)
    before = scene.status("p")["timestamp"]
    assert scene.api.delete("/shovels/vhost/%2F/p/restart").status == 204
    until(lambda: scene.status("p").get("state") == "running" and scene.status("p")["timestamp"] >= before)
    scene.shovel("p", src_queue=source, dest_queue=scene.queue("p2"))
    until(lambda: scene.status("p").get("dest_queue") == "p2" and scene.status("p")["state"] == "running")
    scene.publish(source, bodies(4))
    scene.until_count("p2", 4)
    assert scene.count("p1") == 5
    scene.delete("p")
    assert scene.api.delete("/shovels/vhost/%2F/p/restart").status == 404


def test_a_stream_is_read_from_an_offset(scene: Scene) -> None:
    scene.queue("log", x_queue_type="stream")
    scene.publish("log", bodies(40))
    scene.shovel("stream", src_queue="log", dest_queue=scene.queue("read"), src_consumer_args={"x-stream-offset": 10})
    scene.until_count("read", 30)
    # A restart of the connection goes on where it was, although the parameter names another offset. What is not yet
    # confirmed to the shovel would come again.
    until(lambda: scene.status("stream")["leveret"]["messages_confirmed"] == 30)
    scene.broker.close_connections()
    until(lambda: scene.status("stream")["leveret"]["reconnects"] == 1)
    scene.publish("log", [b"last"])
    scene.until_count("read", 31)
    assert drain(scene.broker.url, "read") == [*bodies(40)[10:], b"last"]
    scene.delete("stream")


def test_rights_of_a_user_that_the_uri_names(scene: Scene) -> None:
    scene.queue("guarded")
    scene.api.put("/users/ann", {"password": "p", "tags": ""})
    scene.api.put("/permissions/%2F/ann", {"configure": "", "write": "", "read": "nothing"})
    scene.shovel("guarded", src_queue="guarded", dest_queue="b", src_uri="amqp://ann@")
    assert "refused for user 'ann'" in scene.until_state("guarded", "terminated")["reason"]
    scene.shovel("guarded", src_queue="guarded", dest_queue="b", src_uri="amqp://ann:wrong@")
    until(lambda: "does not let us in" in scene.status("guarded").get("reason", ""))
    scene.delete("guarded")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"src-protocol": "amqp10"}, "src-protocol is amqp10, which this broker does not speak"),
        ({"dest-publish-properties": {"delivery_mode": "x"}}, "delivery_mode should be a number"),
        ({"dest-publish-properties": {"nope": 1}}, 'unknown property "nope"'),
        ({"src-prefetch-count": 70000}, "src-prefetch-count should be at most 65535"),
        ({"dest-queue": "x" * 256}, "dest-queue should have at most 255 octets"),
        ({"src-uri": "amqp://h?nope=1"}, 'unknown query key "nope"'),
        ({"ack-mode": "sometimes"}, "ack-mode should be one of no-ack, on-publish, on-confirm"),
        ({"src-address": "x"}, "Unrecognised terms"),
    ],
)
def test_what_a_shovel_is_refused_for(scene: Scene, wrong: dict[str, Any], told: str) -> None:
    good = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    reply = scene.api.put("/parameters/shovel/%2F/wrong", {"value": {**good, **wrong}})
    assert reply.status == 400
    assert told in reply.body["reason"]


def test_metrics_say_state_and_counts(scene: Scene) -> None:
    scene.publish(scene.queue("m"), bodies(9))
    scene.shovel("metered", src_queue="m", dest_queue=scene.queue("m2"))
    scene.until_count("m2", 9)
    scene.until_state("metered", "running")
    text = Api(f"http://127.0.0.1:{scene.broker.metrics_port}").ask("GET", "//metrics", decoded=False).body
    text = text.decode() if isinstance(text, bytes) else str(text)
    labels = 'kind="shovel",vhost="/",link="metered"'
    assert f"leveret_link_messages_forwarded_total{{{labels}}} 9" in text
    assert f'leveret_link_state{{{labels},state="running"}} 1' in text
    scene.delete("metered")
