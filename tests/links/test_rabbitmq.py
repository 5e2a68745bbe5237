"""Links to and from a real RabbitMQ, and its own shovel as the oracle for what one does to a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leveret.testing import Broker
from tests.conformance.rabbitmq_node import RabbitNode, running_rabbitmq
from tests.conformance.server_process import free_port
from tests.http_client import Api
from tests.links.shovel_scene import Scene, drain, publish, until

COUNT = 500


class Rabbit:
    def __init__(self, node: RabbitNode, management_port: int) -> None:
        self.node = node
        self.url = f"amqp://guest:guest@127.0.0.1:{node.port}"
        self.api = Api(f"http://127.0.0.1:{management_port}")


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Rabbit]:
    port = free_port()
    configuration = f"management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\n"
    with running_rabbitmq(("rabbitmq_management", "rabbitmq_shovel"), configuration) as node:
        found = Rabbit(node, port)
        until(lambda: _answers(found.api), "RabbitMQ's management API")
        yield found


def _answers(api: Api) -> bool:
    try:
        return api.get("/overview").status == 200
    except OSError:
        return False


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_from_rabbitmq_and_back(scene: Scene, rabbit: Rabbit) -> None:
    rabbit.api.put("/queues/%2F/out", {"durable": True})
    publish(rabbit.url, "out", numbered(COUNT), headers={"h": "x"}, correlation_id="c")
    scene.queue("between")
    scene.shovel("in", src_uri=rabbit.url, src_queue="out", dest_queue="between", src_prefetch_count=50)
    scene.until_count("between", COUNT)
    scene.shovel("back", src_queue="between", dest_uri=rabbit.url, dest_queue="returned", src_prefetch_count=50)
    scene.until_count("between", 0)
    # Only what was confirmed has left; RabbitMQ's API counts late.
    until(lambda: scene.status("back")["leveret"]["messages_confirmed"] == COUNT)
    assert drain(rabbit.url, "returned") == numbered(COUNT)
    for shovel in ("in", "back"):
        scene.delete(shovel)


def test_rabbitmq_is_restarted_under_a_shovel(scene: Scene, rabbit: Rabbit) -> None:
    rabbit.api.put("/queues/%2F/lasting", {"durable": True})
    publish(rabbit.url, "lasting", numbered(COUNT))
    scene.shovel("lasting", src_uri=rabbit.url, src_queue="lasting", dest_queue=scene.queue("lasting"))
    scene.until_count("lasting", COUNT)
    # What RabbitMQ has no acknowledgement for would come again.
    until(lambda: "lasting\t0" in rabbit.node.control("list_queues", "name", "messages"))
    rabbit.node.stop()
    scene.until_state("lasting", "terminated")
    rabbit.node.start()
    publish(rabbit.url, "lasting", [b"after"])
    scene.until_count("lasting", COUNT + 1)
    scene.delete("lasting")
    assert drain(scene.broker.url, "lasting") == [*numbered(COUNT), b"after"]


def shovelled(api: Api, uri: str) -> dict[str, Any]:
    """What a shovel of this broker makes of a message."""
    value = {
        "src-uri": uri,
        "src-queue": "fr",
        "dest-uri": uri,
        "dest-queue": "to",
        "dest-add-forward-headers": True,
        "dest-add-timestamp-header": True,
        "dest-publish-properties": {"delivery_mode": 2, "app_id": "a"},
    }
    api.put("/queues/%2F/fr", {"durable": True})
    assert api.put("/parameters/shovel/%2F/oracle", {"value": value}).status == 201
    body = {"routing_key": "fr", "payload": "p", "payload_encoding": "string", "properties": {"headers": {"a": 1}}}
    api.post("/exchanges/%2F/amq.default/publish", body)
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}

    def found() -> Any:
        reply = api.post("/queues/%2F/to/get", asked)
        return reply.body if reply.status == 200 else None

    (message,) = until(found)
    api.delete("/parameters/shovel/%2F/oracle")
    return dict(message["properties"])


def test_a_message_looks_as_behind_rabbitmqs_own_shovel(scene: Scene, rabbit: Rabbit) -> None:
    ours, theirs = shovelled(scene.api, "amqp://"), shovelled(rabbit.api, "amqp://")
    for properties in (ours, theirs):
        headers = properties["headers"]
        headers["x-shovelled-timestamp"] = type(headers["x-shovelled-timestamp"])
        (entry,) = headers["x-shovelled"]
        entry["shovelled-by"] = type(entry["shovelled-by"])
    assert ours == theirs


def test_an_exchange_of_rabbitmq_is_an_upstream(scene: Scene, rabbit: Rabbit) -> None:
    scene.api.put("/exchanges/%2F/fed", {"type": "topic", "durable": True})
    scene.queue("news")
    scene.api.post("/bindings/%2F/e/fed/q/news", {"routing_key": "a.*"})
    scene.api.put("/parameters/federation-upstream/%2F/rabbit", {"value": {"uri": rabbit.url}})
    policy = {"pattern": "^fed$", "definition": {"federation-upstream": "rabbit"}, "apply-to": "exchanges"}
    scene.api.put("/policies/%2F/fed", policy)
    until(lambda: len(scene.api.get("/federation-links/state/running").body) == 1)
    for key in ("a.b", "b.c"):
        body = {"routing_key": key, "payload": key, "payload_encoding": "string", "properties": {}}
        rabbit.api.post("/exchanges/%2F/fed/publish", body)
    scene.until_count("news", 1)
    (message,) = scene.take("news", 5)
    assert message["payload"] == "a.b"
    (received,) = message["properties"]["headers"]["x-received-from"]
    assert (received["exchange"], received["vhost"]) == ("fed", "/")
    scene.api.delete("/policies/%2F/fed")
    until(lambda: scene.api.get("/federation-links").body == [])


def test_shovel_of_rabbitmq_reads_from_leveret(rabbit: Rabbit) -> None:
    """The other way round: RabbitMQ's client finds here what its shovel needs."""
    with Broker() as broker:
        scene = Scene(broker)
        scene.publish(scene.queue("here"), numbered(50))
        value = {"src-queue": "here", "dest-uri": "amqp://", "dest-queue": "there"}
        # RabbitMQ takes an empty virtual host for one without a name.
        value["src-uri"] = broker.url.rstrip("/")
        assert rabbit.api.put("/parameters/shovel/%2F/theirs", {"value": value}).status == 201
        scene.until_count("here", 0)
        until(lambda: scene.api.get("/queues/%2F/here").body["messages_unacknowledged"] == 0)
        rabbit.api.delete("/parameters/shovel/%2F/theirs")
        assert drain(rabbit.url, "there") == numbered(50)
