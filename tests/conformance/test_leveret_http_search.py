"""Searching a queue over HTTP: by headers, properties and body, within bounds, and without taking anything."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from leveret.management.api import search
from tests.conformance.http_scene import Scene


@pytest.fixture
def scene(broker: Any) -> Scene:
    return Scene(broker)


def find(scene: Scene, queue: str, **filters: Any) -> Any:
    query = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in filters.items()}
    return scene.api.get(f"/queues/%2F/{queue}/peek?{urlencode(query)}")


def payloads(scene: Scene, queue: str, **filters: Any) -> list[str]:
    reply = find(scene, queue, **filters)
    assert reply.status == 200, reply
    return [one["payload"] for one in reply.body]


def put(scene: Scene, queue: str, payload: str, **properties: Any) -> None:
    wish = {"routing_key": queue, "payload": payload, "payload_encoding": "string", "properties": properties}
    assert scene.api.post("/exchanges/%2F/amq.default/publish", wish).body["routed"]


@pytest.fixture
def filled(scene: Scene) -> str:
    queue = scene.queue()
    put(scene, queue, "tea for one", message_id="1", headers={"tenant": "acme", "n": 1, "rush": True})
    put(scene, queue, "tea for two", message_id="2", headers={"tenant": "acme", "n": 2})
    put(scene, queue, "coffee", type="order", priority=3, headers={"tenant": "other", "n": 1})
    put(scene, queue, "größe")
    return queue


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"headers": {"tenant": "acme"}}, ["tea for one", "tea for two"]),
        ({"headers": {"tenant": "acme", "n": 2}}, ["tea for two"]),
        ({"headers": {"n": "1"}}, []),
        ({"headers": {"n": True}}, []),
        ({"headers": {"rush": True}}, ["tea for one"]),
        ({"headers": {"missing": None}}, []),
        ({"properties": {"message_id": "2"}}, ["tea for two"]),
        ({"properties": {"type": "order", "priority": 3}}, ["coffee"]),
        ({"body_contains": "tea"}, ["tea for one", "tea for two"]),
        ({"body_contains": "ß"}, ["größe"]),
        ({"body_contains": "tea", "headers": {"n": 1}}, ["tea for one"]),
        ({"exchange": "", "body_contains": "coffee"}, ["coffee"]),
        ({"exchange": "another"}, []),
        ({"routing_key": "another"}, []),
        ({"body_contains": "tea", "count": 1}, ["tea for one"]),
        ({"body_contains": "tea", "offset": 1}, ["tea for two"]),
        ({"body_contains": "tea", "after": 1}, ["tea for two"]),
    ],
)
def test_filters(scene: Scene, filled: str, filters: dict[str, Any], found: list[str]) -> None:
    assert payloads(scene, filled, **filters) == found
    assert len(payloads(scene, filled)) == 4, "nothing was taken"


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"header": "x"}, "there is no parameter 'header'"),
        ({"body": "x"}, "there is no parameter 'body'"),
        ({"headers": "tenant"}, "headers must be a JSON object"),
        ({"headers": '["tenant"]'}, "headers must be a JSON object"),
        ({"headers": {"a": [1]}}, "headers: the value of 'a' is neither text nor a number"),
        ({"headers": {str(number): 1 for number in range(33)}}, "headers has more than 32 conditions"),
        ({"headers": '{"a": "' + "x" * search.CONDITIONS_BYTES_MAX + '"}'}, "headers is longer than"),
        ({"properties": {"tenant": 1}}, "properties: there is no property 'tenant'"),
        ({"properties": {"headers": 1}}, "properties: there is no property 'headers'"),
        ({"body_contains": "x" * 4097}, "body_contains is longer than 4096 bytes"),
        ({"scan": 5}, "scan goes with a filter"),
        ({"scan": search.SCAN_MAX + 1, "body_contains": "x"}, "scan is"),
    ],
    ids=range(12),
)
def test_what_cannot_be_used_is_refused(scene: Scene, filters: dict[str, Any], text: str) -> None:
    reply = find(scene, scene.queue(), **filters)
    assert reply.status == 400, reply
    assert text in reply.body["reason"]


def told(reply: Any) -> tuple[str | None, ...]:
    heads = {name.lower(): value for name, value in reply.headers.items()}
    return tuple(heads.get(f"leveret-{name}") for name in ("scanned", "complete", "last-position"))


def test_a_search_ends_at_its_bounds_and_goes_on_behind_them(
    scene: Scene, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(find(scene, filled)) == (None, None, None)
    assert told(find(scene, filled, body_contains="coffee"))[:2] == ("4", "true")
    first = find(scene, filled, after=0, scan=2, body_contains="coffee")
    assert (first.body, told(first)[:2]) == ([], ("2", "false"))
    again = find(scene, filled, after=told(first)[2], scan=2, body_contains="coffee")
    assert [one["payload"] for one in again.body] == ["coffee"]
    monkeypatch.setattr(search, "SCAN_BYTES_MAX", 12)
    assert told(find(scene, filled, body_contains="coffee"))[:2] == ("2", "false")
    assert told(find(scene, scene.queue(), body_contains="x")) == ("0", "true", None)


def test_pages_of_a_long_search_leave_nothing_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COUNT_MAX", 3)
    queue = scene.queue()
    scene.fill(queue, *(f"{number} {'even' if number % 2 == 0 else 'odd'}" for number in range(10)))
    even = [f"{number} even" for number in range(0, 10, 2)]
    assert payloads(scene, queue, body_contains="even") == even
    assert payloads(scene, queue, body_contains="even", after=0) == even
    stream = scene.queue({"x-queue-type": "stream"})
    scene.fill(stream, *(f"{number} {'even' if number % 2 == 0 else 'odd'}" for number in range(10)))
    assert payloads(scene, stream, body_contains="even") == even


def test_a_long_body_is_searched_across_its_pieces(scene: Scene) -> None:
    queue = scene.queue()
    put(scene, queue, "x" * (64 * 1024 - 2) + "needle" + "x" * 100)
    put(scene, queue, "x" * (128 * 1024))
    assert len(payloads(scene, queue, body_contains="needle", truncate=5)) == 1
