"""The audit log of a running broker: changes over HTTP and AMQP, refused ones too, and no secret in it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from rstream import Producer

from leveret.testing import Broker
from tests.conformance.stream_scenes import opened, within_deadline
from tests.http_client import Api

CANARY = "c4n4ry-s3cr3t"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker({"data_dir": str(tmp_path / "data")}) as broker:
        yield broker


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


def noted(api: Api, query: str = "") -> list[dict[str, Any]]:
    reply = api.get(f"/audit{query}")
    assert reply.status == 200
    return list(reply.body)


def eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_changes_over_http(api: Api) -> None:
    api.put("/vhosts/v", {})
    api.put("/users/eve", {"password": CANARY, "tags": ""})
    api.get("/users/eve")
    api.put("/users/nobody", {"password": CANARY})
    api.post("/users/bulk-delete", {"users": ["eve"]})
    lines = noted(api)
    assert [(line["action"], line["names"], line["outcome"], line["status"]) for line in lines] == [
        ("POST /api/users/bulk-delete", {"users": ["eve"]}, "done", 204),
        ("PUT /api/users/{user}", {"user": "nobody"}, "refused", 400),
        ("PUT /api/users/{user}", {"user": "eve"}, "done", 201),
        ("PUT /api/vhosts/{vhost}", {"vhost": "v"}, "done", 201),
    ]
    assert {(line["user"], line["peer"], line["via"]) for line in lines} == {("guest", "127.0.0.1", "http")}
    assert abs(lines[0]["timestamp"] / 1000 - time.time()) < 60


def test_refusals(api: Api, broker: Broker) -> None:
    api.put("/users/eve", {"password": "x", "tags": "management"})
    assert Api(broker, "eve", "x").delete("/users/guest").status == 401
    assert Api(broker, "eve", CANARY).delete("/users/guest").status == 401
    assert Api(broker, None).put("/vhosts/w").status == 401
    lines = noted(api, "?outcome=refused")
    assert [(line["user"], line["action"], line["status"]) for line in lines] == [
        ("", "PUT /api/vhosts/{vhost}", 401),
        ("", "DELETE /api/users/{user}", 401),
        ("eve", "DELETE /api/users/{user}", 401),
    ]


def test_failed_logins_are_in_the_log(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        assert Api(broker, "guest", CANARY).get("/whoami").status == 401
        assert Api(broker, "no-one", CANARY).get("/whoami").status == 401
    said = [record.getMessage() for record in caplog.records if "login refused" in record.getMessage()]
    assert len(said) == 2
    assert "user='guest'" in said[0] and "user='no-one'" in said[1]
    assert all("127.0.0.1" in text and "http basic" in text and CANARY not in text for text in said)


def test_changes_over_amqp(api: Api, broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.queue_declare("q", durable=True)
        channel.queue_declare("passing")
        channel.queue_declare("own", exclusive=True)
        channel.exchange_declare("e", "direct", durable=True)
        channel.queue_bind("q", "e", "k")
        channel.queue_purge("q")
        channel.queue_unbind("q", "e", "k")
        channel.exchange_delete("e")
        channel.queue_delete("q")
        channel.queue_delete("q")
        channel.basic_publish("", "passing", CANARY.encode())
    binding = {"vhost": "/", "exchange": "e", "queue": "q", "routing_key": "k"}
    lines = noted(api)
    assert [(line["action"], line["names"]) for line in lines] == [
        ("queue.delete", {"vhost": "/", "queue": "q"}),
        ("exchange.delete", {"vhost": "/", "exchange": "e"}),
        ("binding.delete", binding),
        ("queue.purge", {"vhost": "/", "queue": "q"}),
        ("binding.create", binding),
        ("exchange.declare", {"vhost": "/", "exchange": "e"}),
        ("queue.declare", {"vhost": "/", "queue": "q"}),
    ]
    assert {(line["user"], line["via"]) for line in lines} == {("guest", "AMQP 0-9-1")}
    assert lines[0]["peer"].startswith("127.0.0.1:")


def test_changes_over_the_stream_protocol(api: Api, broker: Broker) -> None:
    async def change() -> None:
        async with opened(Producer, broker) as producer:
            await producer.create_stream("s")
            await producer.delete_stream("s")

    within_deadline(change())
    assert [(line["action"], line["names"]["queue"], line["via"]) for line in noted(api)] == [
        ("queue.delete", "s", "stream"),
        ("queue.declare", "s", "stream"),
    ]


def test_filters_and_pages(api: Api) -> None:
    for number in range(5):
        api.put(f"/queues/%2F/q{number}", {"durable": True})
    api.delete("/queues/%2F/q0")
    assert len(noted(api, "?action=PUT")) == 5
    assert len(noted(api, "?action=DELETE&user=guest")) == 1
    assert noted(api, "?user=nobody") == []
    assert noted(api, f"?since={time.time() + 60}") == []
    assert len(noted(api, "?since=2020-01-01T00:00:00Z")) == 6
    assert api.get("/audit?since=nonsense").status == 400
    page = api.get("/audit?page=2&page_size=4").body
    assert (page["item_count"], page["page_count"], page["total_count"]) == (2, 2, 6)


def test_who_may_read_it(api: Api, broker: Broker) -> None:
    for tag, status in (("management", 401), ("policymaker", 401), ("monitoring", 200), ("administrator", 200)):
        api.put(f"/users/{tag}", {"password": "x", "tags": tag})
        assert Api(broker, tag, "x").get("/audit").status == status


def test_it_outlives_the_broker_and_holds_no_secret(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker({"data_dir": str(data)}) as broker:
        api = Api(broker)
        uri = f"amqp://u:{CANARY}@h"
        api.put("/users/eve", {"password": CANARY, "tags": "management"})
        api.put("/parameters/federation-upstream/%2F/u", {"value": {"uri": uri}})
        api.put("/parameters/federation-upstream/%2F/u", {"value": {"uri": uri, "nonsense": uri}})
        api.put("/global-parameters/g", {"value": CANARY})
        api.post("/definitions", {"users": [{"name": "x", "password": CANARY, "tags": ""}]})
        api.post("/auth/hash_password", {"password": CANARY})
        changes, refusals = data / "audit" / "audit.log", data / "audit" / "refused.log"
        eventually(lambda: changes.exists() and len(changes.read_text().splitlines()) == 4)
        eventually(lambda: refusals.exists() and len(refusals.read_text().splitlines()) == 1)
        assert CANARY not in json.dumps(noted(api))
    for file in (changes, refusals):
        assert CANARY not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
    with Broker({"data_dir": str(data)}) as broker:
        assert [line["action"].split()[0] for line in noted(Api(broker))] == ["POST", "PUT", "PUT", "PUT", "PUT"]


def test_a_flood_is_bounded(broker: Broker, api: Api) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for number in range(1500):
            channel.queue_declare(f"q{number}", durable=True)
    assert len(noted(api)) == 1000
    assert broker.call(lambda node: node.audit.noted_total + node.audit.dropped_total) == 1500
