"""Federation of exchanges and queues between brokers of one process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.client import connect
from leveret.testing import Broker
from tests.http_client import name
from tests.links.shovel_scene import Scene, until


@pytest.fixture(scope="module")
def third() -> Iterator[Scene]:
    with Broker() as broker:
        yield Scene(broker)


def federate(downstream: Scene, upstream: Scene, pattern: str, apply_to: str = "exchanges", **settings: Any) -> None:
    value = {"uri": upstream.broker.url, "reconnect-delay": 1}
    value.update({key.replace("_", "-"): inner for key, inner in settings.items()})
    assert downstream.api.put("/parameters/federation-upstream/%2F/up", {"value": value}).status in (201, 204)
    body = {"pattern": pattern, "definition": {"federation-upstream": "up"}, "apply-to": apply_to}
    assert downstream.api.put(f"/policies/%2F/{name(pattern)}", body).status in (201, 204)


def unfederate(downstream: Scene, pattern: str) -> None:
    assert downstream.api.delete(f"/policies/%2F/{name(pattern)}").status == 204
    until(lambda: downstream.api.get("/federation-links").body == [])
    downstream.api.delete("/parameters/federation-upstream/%2F/up")


def until_running(scene: Scene, count: int = 1) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]] | None:
        links: list[dict[str, Any]] = scene.api.get("/federation-links/state/running").body
        return links if len(links) == count else None

    links: list[dict[str, Any]] = until(found, f"links: {scene.api.get('/federation-links').body}")
    return links


def exchange(scene: Scene, exchange: str, kind: str = "topic") -> None:
    assert scene.api.put(f"/exchanges/%2F/{exchange}", {"type": kind, "durable": True}).status in (201, 204)


def bind(scene: Scene, exchange: str, queue: str, key: str) -> None:
    scene.queue(queue)
    assert scene.api.post(f"/bindings/%2F/e/{exchange}/q/{queue}", {"routing_key": key}).status == 201


def say(scene: Scene, exchange: str, key: str, payload: str) -> bool:
    body = {"routing_key": key, "payload": payload, "payload_encoding": "string", "properties": {}}
    routed: bool = scene.api.post(f"/exchanges/%2F/{exchange}/publish", body).body["routed"]
    return routed


def keys_at(scene: Scene, exchange: str) -> set[str]:
    found = scene.api.get(f"/exchanges/%2F/{exchange}/bindings/source").body
    return {one["routing_key"] for one in found if one["destination"].startswith("federation: ")}


def declared_by_links(upstream: Scene, kind: str) -> list[str]:
    return [one["name"] for one in upstream.api.get(f"/{kind}").body if one["name"].startswith("federation: ")]


def left_behind(upstream: Scene) -> list[str]:
    return declared_by_links(upstream, "queues") + declared_by_links(upstream, "exchanges")


def test_an_exchange_receives_what_its_bindings_want(scene: Scene, other: Scene) -> None:
    exchange(scene, "news")
    bind(scene, "news", "local", "eu.#")
    federate(scene, other, "^news$")
    (link,) = until_running(scene)
    assert (link["exchange"], link["upstream"], link["upstream_exchange"]) == ("news", "up", "news")
    assert (link["type"], link["vhost"], link["status"]) == ("exchange", "/", "running")
    assert "guest" not in str(link)
    # The upstream's exchange was declared, and only what is wanted crosses.
    assert say(other, "news", "eu.at", "one")
    assert not say(other, "news", "us.ny", "nobody wants it")
    scene.until_count("local", 1)
    # Bindings follow.
    bind(scene, "news", "local2", "us.*")
    until(lambda: keys_at(other, "news") == {"eu.#", "us.*"})
    say(other, "news", "us.ny", "two")
    scene.until_count("local2", 1)
    (message,) = scene.take("local2", 1)
    (received,) = message["properties"]["headers"]["x-received-from"]
    assert (received["exchange"], received["vhost"], received["redelivered"]) == ("news", "/", False)
    assert received["uri"] == f"amqp://127.0.0.1:{other.broker.port}/"
    assert scene.api.delete("/queues/%2F/local2").status == 204
    until(lambda: keys_at(other, "news") == {"eu.#"})
    # While the link is down the upstream's queue gathers; afterwards no binding is left over. What is not yet
    # acknowledged would come again.
    (gathering,) = declared_by_links(other, "queues")
    other.until_settled(gathering)
    other.broker.close_connections()
    say(other, "news", "eu.de", "three")
    scene.until_count("local", 2)
    until_running(scene)
    until(lambda: keys_at(other, "news") == {"eu.#"})
    assert scene.api.delete(f"/federation-links/vhost/%2F/{link['id']}/x/restart").status == 204
    until_running(scene)
    unfederate(scene, "^news$")
    until(lambda: not left_behind(other))


def test_a_ring_of_three_does_not_loop(scene: Scene, other: Scene, third: Scene) -> None:
    ring = (scene, other, third)
    for here, upstream in ((scene, other), (other, third), (third, scene)):
        exchange(here, "ring", "fanout")
        bind(here, "ring", "heard", "")
        federate(here, upstream, "^ring$", max_hops=2)
    for one in ring:
        until_running(one)
        # Its own queue, and that of the downstream's link.
        until(lambda one=one: len(keys_at(one, "ring")) == 1)
    say(scene, "ring", "", "round")
    for one in ring:
        one.until_count("heard", 1)
    # Nothing more comes: what went round is dropped where it began, or before.
    until(lambda: all(one.api.get("/federation-links").body[0]["leveret"]["messages_in_flight"] == 0 for one in ring))
    assert [one.count("heard") for one in ring] == [1, 1, 1]
    hops = [len(one.take("heard", 1)[0]["properties"].get("headers", {}).get("x-received-from", [])) for one in ring]
    assert sorted(hops) == [0, 1, 2]
    for one in ring:
        unfederate(one, "^ring$")


def test_a_queue_takes_from_its_upstream_for_consumers_with_room(scene: Scene, other: Scene) -> None:
    other.queue("work")
    scene.queue("work")
    other.publish("work", [b"%d" % number for number in range(20)])
    federate(scene, other, "^work$", "queues", prefetch_count=5)
    (link,) = until_running(scene)
    assert (link["queue"], link["upstream_queue"], link["type"]) == ("work", "work", "queue")

    async def consume() -> list[bytes]:
        # Nobody consumes here: nothing has moved.
        assert other.count("work") == 20
        async with connect(scene.broker.url) as connection, connection.consumer("work", prefetch=2) as consumer:
            found = []
            async for delivery in consumer:
                found.append(delivery.body)
                received = delivery.headers["x-received-from"]
                assert received[0]["queue"] == "work"
                delivery.ack()
                if len(found) == 20:
                    break
            return found

    assert sorted(map(int, asyncio.run(consume()))) == list(range(20))
    assert other.count("work") == 0
    unfederate(scene, "^work$")


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ({"federation-upstream": "a", "federation-upstream-set": "all"}, "cannot specify"),
        ({"federation-upstream": 5}, "5 is not a valid federation upstream"),
        ({"federation-upstream-pattern": "("}, "is not a valid federation upstream pattern"),
    ],
)
def test_policies_that_are_refused(scene: Scene, definition: dict[str, Any], told: str) -> None:
    reply = scene.api.put("/policies/%2F/p", {"pattern": "x", "definition": definition})
    assert reply.status == 400
    assert told in reply.body["reason"]


def test_sets_and_patterns_name_upstreams(scene: Scene, other: Scene) -> None:
    exchange(scene, "many")
    uri = other.broker.url
    for upstream in ("u1", "u2", "v"):
        scene.api.put(f"/parameters/federation-upstream/%2F/{upstream}", {"value": {"uri": uri}})
    scene.api.put("/parameters/federation-upstream-set/%2F/two", {"value": [{"upstream": "u1", "exchange": "other"}]})
    for definition, expected in (
        ({"federation-upstream-set": "all"}, [("u1", "many"), ("u2", "many"), ("v", "many")]),
        ({"federation-upstream-set": "two"}, [("u1", "other")]),
        ({"federation-upstream-pattern": "^u"}, [("u1", "many"), ("u2", "many")]),
    ):
        scene.api.put("/policies/%2F/many", {"pattern": "^many$", "definition": definition, "apply-to": "exchanges"})

        def named() -> list[tuple[str, str]]:
            links = scene.api.get("/federation-links/%2F/state/running").body
            return sorted((one["upstream"], one["upstream_exchange"]) for one in links)

        until(lambda expected=expected, named=named: named() == expected, f"{expected}")
    unfederate(scene, "many")
