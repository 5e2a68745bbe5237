"""Server-sent events, taps, and the simulated route."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.http_scene import EventStream, Scene
from tests.conformance.own_broker import running


@pytest.fixture
def scene(broker: Any) -> Scene:
    return Scene(broker)


def until(stream: EventStream, kind: str, name: str) -> tuple[dict[str, Any], str]:
    """The next event of this kind about this name, and its id."""
    while True:
        found, data, id = stream.next()
        assert found, "the stream has ended"
        if found == kind and json.loads(data).get("name") == name:
            return json.loads(data), id


# ---- events


def test_what_comes_and_goes_is_told(scene: Scene) -> None:
    with scene.stream("/events") as stream:
        assert (stream.status, stream.content_type) == (200, "text/event-stream")
        name = scene.queue()
        what, id = until(stream, "queue.created", name)
        assert (what["vhost"], what["type"], what["durable"]) == ("/", "classic", True)
        assert abs(what["at"] / 1000 - time.time()) < 60
        scene.api.put(f"/queues/%2F/{name}/pause")
        until(stream, "queue.paused", name)
        scene.api.put("/policies/%2F/http-events", {"pattern": "^none$", "definition": {"max-length": 1}})
        until(stream, "policy.put", "http-events")
        scene.api.delete(f"/queues/%2F/{name}")
        until(stream, "queue.deleted", name)
        with scene.channel():
            while (event := stream.next())[0] != "connection.opened":
                pass
            opened = json.loads(event[1])
            assert (opened["user"], opened["protocol"]) == ("guest", "AMQP 0-9-1")
        until(stream, "connection.closed", opened["name"])
        scene.broker.raise_alarm("memory")
        scene.broker.clear_alarm("memory")
        while (event := stream.next())[0] != "alarm.set":
            pass
        assert json.loads(event[1])["source"] == "memory"
        assert stream.next()[0] == "alarm.cleared"
    with scene.stream("/events", **{"Last-Event-ID": id}) as stream:
        assert until(stream, "queue.paused", name)[0]["vhost"] == "/", "what happened while nobody listened"


def test_somebody_who_was_away_too_long_is_told_what_is_missing(scene: Scene) -> None:
    with scene.stream("/events?after=5") as stream:
        kind, data, _ = stream.next()
        assert (kind, json.loads(data)["count"] > 1_000_000) == ("missed", True)
    assert scene.api.get("/events?after=x").status == 400
    assert scene.api.ask("HEAD", "/events").status == 405


def test_people_see_the_events_of_what_they_see(scene: Scene) -> None:
    owner = scene.user("management", read=".*")
    with scene.stream("/events?vhost=%2F", owner) as stream:
        scene.api.put("/vhosts/http-other")
        scene.api.put("/permissions/http-other/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        scene.api.put("/queues/http-other/hidden", {})
        with scene.channel():
            pass
        name = scene.queue()
        kinds = []
        while (event := stream.next())[0] != "queue.created":
            kinds.append(event[0])
        assert json.loads(event[1])["name"] == name
        assert kinds == []


def test_listeners_end_with_their_user_and_with_the_node(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        scene = Scene(broker)
        owner = scene.user("management", read=".*")
        with scene.stream("/events", owner) as stream:
            scene.api.delete(f"/users/{owner.get('/whoami').body['name']}")
            while stream.next()[0]:
                pass
        left = EventStream(broker.management_url, "/events", scene.api.headers)
        begun = time.monotonic()
        threading.Timer(0.2, broker.stop).start()
        while left.next()[0]:
            pass
        assert time.monotonic() - begun < 5
        left.close()
        time.sleep(0.5)


def test_a_listener_that_vanishes_is_forgotten(scene: Scene) -> None:
    streams = [EventStream(scene.broker.management_url, "/events", scene.api.headers) for _ in range(5)]
    for stream in streams:
        stream.close()
    deadline = time.monotonic() + 10
    while scene.broker.call(lambda node: node.broker.events.listener_count) and time.monotonic() < deadline:
        # A word to nobody finds out that he is gone.
        scene.queue()
        time.sleep(0.05)
    assert scene.broker.call(lambda node: node.broker.events.listener_count) == 0


# ---- taps


def taps(scene: Scene) -> int:
    return int(scene.broker.call(lambda node: len(node.management.services.taps)))


def test_what_arrives_in_a_queue_is_shown(scene: Scene) -> None:
    name = scene.queue()
    with scene.stream(f"/tap?queue={name}&count=2&rate=100") as stream:
        assert stream.content_type == "text/event-stream"
        scene.fill(name, "1", "2", "3")
        shown = [stream.next() for _ in range(2)]
        assert [kind for kind, _, _ in shown] == ["message", "message"]
        first = json.loads(shown[0][1])
        assert (first["payload"], first["routing_key"], first["properties"]) == ("1", name, {"delivery_mode": 2})
        assert json.loads(stream.next()[1])["matched"] == 3
        assert [stream.next()[0], stream.next()[0]] == ["end", ""]
    assert scene.payloads(name) == ["1", "2", "3"], "it took nothing"
    assert scene.of_queue(name, lambda queue: queue.tap) is None
    assert taps(scene) == 0


def test_what_is_published_to_an_exchange_is_shown_by_its_keys(scene: Scene) -> None:
    with scene.stream("/tap?exchange=amq.topic&key=orders.*&count=2&rate=100&truncate=3") as stream:
        for key in ("orders.eu", "other", "orders.us.east", "orders.us"):
            scene.publish(key, "payload", "amq.topic")
        shown = [json.loads(stream.next()[1]) for _ in range(2)]
    assert [one["routing_key"] for one in shown] == ["orders.eu", "orders.us"], "routed or not"
    assert (shown[0]["payload"], shown[0]["payload_bytes"]) == ("pay", 7)


def test_the_default_exchange_and_several_taps_at_once(scene: Scene) -> None:
    name = scene.queue()
    with (
        scene.stream(f"/tap?exchange=amq.default&key={name}&count=1") as one,
        scene.stream(f"/tap?exchange=&key={name}&count=1") as two,
        scene.stream(f"/tap?queue={name}&count=1") as three,
    ):
        scene.fill(name, "x")
        assert [json.loads(stream.next()[1])["payload"] for stream in (one, two, three)] == ["x", "x", "x"]


def test_a_tap_shows_no_more_than_its_rate_and_counts_the_rest(scene: Scene) -> None:
    name = scene.queue(durable=False)
    with scene.stream(f"/tap?queue={name}&rate=10&life_s=2") as stream:
        with scene.channel() as channel:
            for number in range(2000):
                channel.basic_publish("", name, b"%d" % number)
            channel.queue_declare(name, passive=True)
        kinds: dict[str, int] = {}
        tally: dict[str, int] = {}
        while (event := stream.next())[0]:
            kinds[event[0]] = kinds.get(event[0], 0) + 1
            if event[0] == "tally":
                tally = json.loads(event[1])
    assert kinds["message"] <= 25
    assert kinds["end"] == 1
    assert (tally["matched"], tally["missed"]) == (2000, 2000 - kinds["message"])
    assert taps(scene) == 0


def test_a_slow_reader_and_one_who_vanishes_hold_nobody_up(scene: Scene) -> None:
    name = scene.queue(durable=False)
    slow = EventStream(scene.broker.management_url, f"/tap?queue={name}&rate=1000&truncate=65536", scene.api.headers)
    gone = EventStream(scene.broker.management_url, f"/tap?queue={name}&rate=1000", scene.api.headers)
    gone.close()
    with scene.channel() as channel:
        begun = time.monotonic()
        for _ in range(400):
            channel.basic_publish("", name, b"x" * 65536)
        channel.queue_declare(name, passive=True)
        assert time.monotonic() - begun < 10
    deadline = time.monotonic() + 10
    while taps(scene) > 1 and time.monotonic() < deadline:
        scene.publish(name, "x")
        time.sleep(0.05)
    assert taps(scene) == 1, "who vanished is forgotten, who is slow is not"
    slow.close()
    scene.api.delete(f"/queues/%2F/{name}")
    while taps(scene) > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert taps(scene) == 0, "a tap ends with its queue"


def test_bad_taps_are_refused(scene: Scene) -> None:
    name = scene.queue()
    stream = scene.queue({"x-queue-type": "stream"})
    for query, status in (
        ("", 400), (f"queue={name}&exchange=amq.topic", 400), ("queue=nosuch", 404), ("exchange=nosuch", 404),
        (f"queue={stream}", 400), (f"queue={name}&rate=0", 400), (f"queue={name}&rate=nan", 400),
        (f"queue={name}&count=0", 400), (f"queue={name}&vhost=nosuch", 404), (f"queue={name}&truncate=65537", 400),
    ):  # fmt: skip
        assert scene.api.get(f"/tap?{query}").status == status, query
    assert scene.api.ask("HEAD", f"/tap?queue={name}").status == 405
    assert scene.user("monitoring", write=".*").get("/tap?exchange=amq.topic").status == 401
    assert taps(scene) == 0


def test_a_tap_ends_with_the_right_to_read(scene: Scene) -> None:
    name = scene.queue()
    owner = scene.user("management", read=".*")
    user = owner.get("/whoami").body["name"]
    with scene.stream(f"/tap?queue={name}", owner) as stream:
        scene.api.put(f"/permissions/%2F/{user}", {"configure": "", "write": "", "read": "^other"})
        scene.fill(name, "secret")
        kinds = []
        while (event := stream.next())[0]:
            kinds.append(event[0])
            assert "secret" not in event[1]
    assert kinds[-1] == "end"


# ---- simulated routes


def test_a_route_is_explained(scene: Scene) -> None:
    name = scene.queue()
    scene.api.put("/exchanges/%2F/http-in", {"type": "topic", "arguments": {"alternate-exchange": "http-fallback"}})
    scene.api.put("/exchanges/%2F/http-next", {"type": "headers"})
    scene.api.post("/bindings/%2F/e/http-in/e/http-next", {"routing_key": "a.#"})
    matching = {"x-match": "all", "colour": "red"}
    scene.api.post(f"/bindings/%2F/e/http-next/q/{name}", {"routing_key": "", "arguments": matching})
    wish = {"vhost": "/", "exchange": "http-in", "routing_key": "a.b", "headers": {"colour": "red"}}
    trace = scene.api.post("/simulate-route", wish).body
    assert (trace["routed"], trace["queues"], trace["reason"]) == (True, [name], "")
    assert [(step["exchange"], step["via"]) for step in trace["steps"]] == [
        ("http-in", "published"),
        ("http-next", "binding"),
    ]
    assert trace["steps"][0]["matched"] == [
        {"routing_key": "a.#", "arguments": {}, "destination": "http-next", "destination_type": "exchange"}
    ]
    assert trace["steps"][1]["matched"][0]["arguments"] == matching
    blue = scene.api.post("/simulate-route", {**wish, "headers": {"colour": "blue"}}).body
    assert (blue["routed"], blue["queues"]) == (False, [])
    assert "none of the 1 bindings of exchange 'http-next' in vhost '/' takes this message" in blue["reason"]
    lost = scene.api.post("/simulate-route", {**wish, "routing_key": "z"}).body
    assert "its alternate exchange 'http-fallback' does not exist" in lost["reason"]
    scene.api.put("/exchanges/%2F/http-fallback", {"type": "fanout"})
    scene.api.post(f"/bindings/%2F/e/http-fallback/q/{name}", {})
    found = scene.api.post("/simulate-route", {**wish, "routing_key": "z"}).body
    assert (found["queues"], [step["via"] for step in found["steps"]]) == ([name], ["published", "alternate"])
    assert scene.payloads(name) == [], "nothing was published"


def test_a_route_is_explained_by_what_the_exchange_ignores(scene: Scene) -> None:
    name = scene.queue()
    arguments = {"x-match": "all", "x-tier": "gold"}
    for exchange, ignores in (("http-counting", False), ("http-ignoring", True)):
        scene.api.put(f"/exchanges/%2F/{exchange}", {"type": "headers", "arguments": {"x-headers-ignore-x": ignores}})
        scene.api.post(f"/bindings/%2F/e/{exchange}/q/{name}", {"routing_key": "", "arguments": arguments})
        trace = scene.api.post(
            "/simulate-route", {"vhost": "/", "exchange": exchange, "routing_key": "", "headers": {}}
        ).body
        assert (trace["routed"], len(trace["steps"][0]["matched"])) == (ignores, ignores)


def test_the_simulation_agrees_with_publishing(scene: Scene) -> None:
    first, second = scene.queue(), scene.queue()
    for kind, bindings in (
        ("direct", {first: "a", second: "b"}),
        ("fanout", {first: "", second: ""}),
        ("topic", {first: "a.*", second: "#"}),
        ("x-consistent-hash", {first: "1", second: "1"}),
    ):
        exchange = f"http-sim-{kind}"
        assert scene.api.put(f"/exchanges/%2F/{exchange}", {"type": kind}).status == 201
        for queue, key in bindings.items():
            scene.api.post(f"/bindings/%2F/e/{exchange}/q/{queue}", {"routing_key": key})
        for key in ("a", "b", "a.b", "zz"):
            assert scene.publish(key, "x", exchange).status == 200
            reached = [queue for queue in (first, second) if scene.get(queue).body]
            trace = scene.api.post("/simulate-route", {"exchange": exchange, "routing_key": key}).body
            assert sorted(trace["queues"]) == sorted(reached), (kind, key)
    copied = {"exchange": "amq.default", "routing_key": first, "headers": {"CC": [second]}}
    assert sorted(scene.api.post("/simulate-route", copied).body["queues"]) == sorted([first, second])


def test_bad_simulations_are_refused(scene: Scene) -> None:
    good = {"exchange": "amq.topic", "routing_key": "x"}
    assert scene.api.post("/simulate-route", {}).status == 400
    assert scene.api.post("/simulate-route", {**good, "vhost": "nosuch"}).status == 404
    assert scene.api.post("/simulate-route", {**good, "exchange": "nosuch"}).status == 404
    assert scene.api.post("/simulate-route", {**good, "headers": {"CC": 5}}).status == 400
    assert scene.api.post("/simulate-route", {**good, "headers": 5}).status == 400
    assert scene.user("management").post("/simulate-route", good).status == 401
