"""`kill -9` while messages are on lease over HTTP: what was answered survives, and what was not acknowledged is in its
queue again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.server_process import free_port
from tests.crash.broker_process import BrokerProcess
from tests.http_client import Api


class Killable:
    def __init__(self, directory: Path) -> None:
        self._port = free_port()
        listen = {"management_port": self._port, "metrics_port": "off", "socket": "off"}
        self.process = BrokerProcess(directory, {"listen": listen, "alarms": {"disk_free_bytes_min": 0}})

    def start(self) -> Api:
        self.process.start()
        api = Api(f"http://127.0.0.1:{self._port}")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                if api.get("/whoami").status == 200:
                    return api
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the management API does not answer")


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Killable]:
    made = Killable(tmp_path)
    yield made
    made.process.close()


def publish(api: Api, payload: str) -> Any:
    body = {"properties": {"delivery_mode": 2}, "routing_key": "q", "payload": payload, "payload_encoding": "string"}
    return api.post("/exchanges/%2F/amq.default/publish", body).body


def test_what_was_answered_survives_and_leases_end(killable: Killable) -> None:
    api = killable.start()
    assert api.put("/queues/%2F/q", {"durable": True}).status == 201
    for number in range(20):
        assert publish(api, str(number))["routed"]
    leased = api.get("/queues/%2F/q/get?count=10&lease_s=600").body
    acked = [one["delivery_id"] for one in leased[:4]]
    assert api.post("/queues/%2F/q/ack", {"delivery_ids": acked}).body["acked"] == 4
    # Acks go to disk with what comes next, and this answer comes when that is there.
    assert publish(api, "20")["routed"]
    assert api.put("/queues/%2F/q/pause").status == 204
    killable.process.kill()
    api = killable.start()
    assert api.get("/queues/%2F/q").body["state"] == "paused"
    left = api.get("/queues/%2F/q/peek?count=100").body
    assert [one["payload"] for one in left] == [str(number) for number in range(4, 21)]
    assert all(one["redelivered"] for one in left), "nobody knows what was handed out in the last moment"
    stale = api.post("/queues/%2F/q/ack", {"delivery_ids": [leased[5]["delivery_id"]]})
    assert stale.body == {"acked": 0, "unknown": [leased[5]["delivery_id"]]}
    again = api.get("/queues/%2F/q/get?count=100").body
    assert again[0]["delivery_tag"] > leased[-1]["delivery_tag"]
    assert len(again) == 17
