"""A broker with a management API, and what tests of messages over HTTP do with it again and again."""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pika

from tests.http_client import Api, Reply

_numbers = itertools.count(1)


class Scene:
    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.api = Api(broker)

    def queue(self, arguments: dict[str, Any] | None = None, durable: bool = True) -> str:
        """A new queue."""
        name = f"http-{next(_numbers)}"
        reply = self.api.put(f"/queues/%2F/{name}", {"durable": durable, "arguments": arguments or {}})
        assert reply.status == 201, reply
        return name

    def publish(self, key: str, payload: str, exchange: str = "amq.default", **more: Any) -> Reply:
        body = {
            "properties": {"delivery_mode": 2},
            "routing_key": key,
            "payload": payload,
            "payload_encoding": "string",
        }
        return self.api.post(f"/exchanges/%2F/{exchange}/publish", {**body, **more})

    def fill(self, name: str, *payloads: str) -> None:
        for payload in payloads:
            assert self.publish(name, payload).body["routed"]

    def get(self, name: str, count: int = 1, ackmode: str = "ack_requeue_false", **more: Any) -> Reply:
        body = {"count": count, "ackmode": ackmode, "encoding": "auto", **more}
        return self.api.post(f"/queues/%2F/{name}/get", body)

    def payloads(self, name: str) -> list[str]:
        """What is ready, without touching it."""
        return [one["payload"] for one in self.api.get(f"/queues/%2F/{name}/peek?count=1000").body]

    def lease(self, name: str, count: int = 1, lease_s: float = 30, api: Api | None = None) -> list[dict[str, Any]]:
        reply = (api or self.api).get(f"/queues/%2F/{name}/get?count={count}&lease_s={lease_s}")
        assert reply.status == 200, reply
        return list(reply.body)

    def user(self, tags: str, **permission: str) -> Api:
        """A new user with these rights in /; none at all without."""
        name = f"user-{next(_numbers)}"
        assert self.api.put(f"/users/{name}", {"password": name, "tags": tags}).status == 201
        if permission:
            rights = {"configure": "", "write": "", "read": "", **permission}
            assert self.api.put(f"/permissions/%2F/{name}", rights).status == 201
        return Api(self.broker, name, name)

    def of_queue(self, name: str, read: Any) -> Any:
        return self.broker.call(lambda node: read(node.broker.vhosts["/"].queues[name.encode()]))

    @contextmanager
    def channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    @contextmanager
    def stream(self, path: str, api: Api | None = None, **headers: str) -> Iterator[EventStream]:
        """Server-sent events as they come."""
        opened = EventStream(self.broker.management_url, path, {**(api or self.api).headers, **headers})
        try:
            yield opened
        finally:
            opened.close()


class EventStream:
    def __init__(self, url: str, path: str, headers: dict[str, str]) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=20)
        self._connection.request("GET", f"/api{path}", headers=headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.content_type = self._answer.getheader("Content-Type")

    def next(self) -> tuple[str, str, str]:
        """(kind, data, id) of the next event; ("", "", "") at the end. Comments and hints are passed over."""
        found = {"event": "", "data": "", "id": ""}
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if text == "" and found["event"]:
                return found["event"], found["data"], found["id"]
            name, _, value = text.partition(": ")
            if name in found:
                found[name] = value
        return "", "", ""

    def close(self) -> None:
        self._answer.close()
        self._connection.close()
