"""What Terraform's RabbitMQ provider does, request by request: make each kind of thing, read it back, change it, delete
it, and find it gone. Paths and bodies are those of the client library it is built on (rabbit-hole)."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from leveret.testing import Broker
from tests.http_client import Api


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with Broker() as broker:
        api = Api(broker)
        assert api.put("/vhosts/team%2Fone", {"description": "", "tracing": False}).status == 201
        assert api.put("/users/mctest", {"password": "foobar", "tags": ""}).status == 201
        yield api


V = "team%2Fone"
NAME = "team/one"

# Path, what it is made with, what it is changed to; and what of it is read back.
THINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "/vhosts/other",
        {"description": "a", "tags": "", "default_queue_type": "", "tracing": False},
        {"description": "b", "tags": "x", "default_queue_type": "", "tracing": True},
    ),
    (
        "/users/someone",
        {"name": "someone", "password": "foobar", "tags": "administrator,management"},
        {"name": "someone", "password": "foobarry", "tags": "management"},
    ),
    (
        f"/permissions/{V}/mctest",
        {"configure": ".*", "write": ".*", "read": ".*"},
        {"configure": ".*", "write": ".*", "read": ""},
    ),
    (
        f"/policies/{V}/policy",
        {"pattern": ".*", "apply-to": "all", "priority": 0, "definition": {"max-length": 10_000}},
        {
            "pattern": ".*",
            "apply-to": "queues",
            "priority": 5,
            "definition": {"max-length": 10_000, "expires": 1800000},
        },
    ),
    (
        f"/operator-policies/{V}/policy",
        {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": {"message-ttl": 3600000}},
        {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": {"expires": 1800000}},
    ),
    (
        f"/parameters/federation-upstream/{V}/foo",
        {
            "value": {
                "uri": "amqp://server-name",
                "prefetch-count": 1000,
                "reconnect-delay": 5,
                "ack-mode": "on-confirm",
            }
        },
        {"value": {"uri": ["amqp://server-name"], "max-hops": 1, "trust-user-id": False, "exchange": "e"}},
    ),
    (
        f"/parameters/shovel/{V}/shovel",
        {
            "value": {
                "src-uri": ["amqp:///test"],
                "src-queue": "src",
                "dest-uri": ["amqp:///test"],
                "dest-queue": "dest",
                "add-forward-headers": False,
                "ack-mode": "on-confirm",
                "delete-after": "never",
            }
        },
        {
            "value": {
                "src-uri": "amqp:///test",
                "src-exchange": "e",
                "src-exchange-key": "k",
                "dest-uri": "amqp:///test",
                "dest-queue": "dest",
                "src-protocol": "amqp091",
                "dest-protocol": "amqp091",
                "reconnect-delay": 5,
            }
        },
    ),
]


@pytest.mark.parametrize(("path", "made", "changed"), THINGS, ids=[path.split("/")[1] for path, _, _ in THINGS])
def test_make_read_change_delete(api: Api, path: str, made: dict[str, Any], changed: dict[str, Any]) -> None:
    assert api.get(path).status == 404
    for body, status in ((made, 201), (made, 204), (changed, 204)):
        assert api.put(path, body).status == status
        seen = api.get(path)
        assert seen.status == 200
        for name, value in body.items():
            if name == "password":
                assert name not in seen.body
            elif name == "tags":
                assert seen.body["tags"] == [tag for tag in value.split(",") if tag]
            elif name == "default_queue_type":
                assert seen.body[name] == "undefined"
            else:
                assert seen.body[name] == value, name
    assert api.delete(path).status == 204
    assert api.get(path).status == 404


def test_topic_permissions(api: Api) -> None:
    path = f"/topic-permissions/{V}/mctest"
    assert api.put(path, {"exchange": "amq.topic", "write": ".*", "read": ".*"}).status == 201
    assert api.put(path, {"exchange": "amq.topic", "write": "", "read": ".*"}).status == 204
    assert api.get(path).body == [{"user": "mctest", "vhost": NAME, "exchange": "amq.topic", "write": "", "read": ".*"}]
    assert api.delete(f"{path}/amq.topic").status == 204
    assert api.get(path).status == 404


def test_limits(api: Api) -> None:
    assert api.put(f"/vhost-limits/{V}/max-connections", {"value": 100}).status == 204
    assert api.get(f"/vhost-limits/{V}").body == [{"vhost": NAME, "value": {"max-connections": 100}}]
    assert api.delete(f"/vhost-limits/{V}/max-connections").status == 204
    assert api.get(f"/vhost-limits/{V}").body == []


def test_exchange_queue_binding(api: Api) -> None:
    exchange, queue = f"/exchanges/{V}/test", f"/queues/{V}/test"
    assert api.put(exchange, {"type": "topic", "durable": False, "auto_delete": False, "arguments": None}).status == 201
    seen = api.get(exchange).body
    assert (seen["type"], seen["durable"], seen["auto_delete"], seen["arguments"]) == ("topic", False, False, {})
    arguments = {"x-message-ttl": 5000, "x-dead-letter-exchange": "foobar"}
    made = {"type": "", "durable": True, "auto_delete": False, "arguments": arguments}
    assert api.put(queue, made).status == 201
    seen = api.get(queue).body
    assert (seen["durable"], seen["auto_delete"], seen["arguments"]) == (True, False, arguments)
    for key in ("", "#", "a/b c~", "ä%2F"):
        list_path = f"/bindings/{V}/e/test/q/test"
        posted = api.post(
            list_path,
            {"source": "test", "destination": "test", "destination_type": "queue", "routing_key": key, "arguments": {}},
        )
        assert posted.status == 201
        # The provider takes what stands behind the last slash, decodes it once, and finds the binding by that.
        properties_key = unquote(posted.headers["location"].split("/")[-1])
        (found,) = [one for one in api.get(list_path).body if one["properties_key"] == properties_key]
        assert (found["routing_key"], found["source"], found["destination_type"]) == (key, "test", "queue")
        assert found in api.get(f"/bindings/{V}").body
        address = posted.headers["location"].split("/")[-1]
        assert api.get(f"{list_path}/{address}").status == 200
        assert api.delete(f"{list_path}/{address}").status == 204
        assert api.delete(f"{list_path}/{address}").status == 404
    assert api.delete(exchange).status == 204
    assert api.get(exchange).status == 404
    assert api.delete(queue).status == 204
    assert api.get(queue).status == 404
