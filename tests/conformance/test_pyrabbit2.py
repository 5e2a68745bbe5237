"""pyrabbit2, a client of RabbitMQ's HTTP API that many scripts use, against ours."""

from collections.abc import Iterator
from typing import Any

import pytest

from leveret.testing import Broker

pyrabbit2 = pytest.importorskip("pyrabbit2")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with Broker() as broker:
        yield pyrabbit2.Client(f"127.0.0.1:{broker.management_port}", "guest", "guest", timeout=10)


def test_users_and_virtual_hosts(client: Any) -> None:
    client.create_vhost("p/v")
    assert "p/v" in client.get_vhost_names()
    assert client.get_vhost("p/v")["name"] == "p/v"
    assert {vhost["name"] for vhost in client.get_all_vhosts()} == {"/", "p/v"}
    client.create_user("pu", "secret", tags="management")
    assert {user["name"]: user["tags"] for user in client.get_users()}["pu"] == ["management"]
    client.set_vhost_permissions("p/v", "pu", ".*", "^r", "^w")
    (permission,) = client.get_user_permissions("pu")
    assert (permission["vhost"], permission["read"], permission["write"]) == ("p/v", "^r", "^w")
    assert client.get_permission("p/v", "pu") == permission
    assert permission in client.get_permissions()
    assert {one["user"] for one in client.get_vhost_permissions("p/v")} == {"guest", "pu"}
    client.delete_permission("p/v", "pu")
    assert client.get_user_permissions("pu") == []
    client.delete_user("pu")
    assert [user["name"] for user in client.get_users()] == ["guest"]
    with pytest.raises(pyrabbit2.http.HTTPError):
        client.delete_user("pu")
    client.delete_vhost("p/v")
    assert client.get_vhost_names() == ["/"]


def test_queues_exchanges_bindings(client: Any) -> None:
    client.create_queue("/", "pq", durable=True)
    client.create_exchange("/", "px", "topic", durable=True)
    client.create_binding("/", "px", "pq", "a.#")
    assert client.publish("/", "px", "a.b", "hello", properties={"delivery_mode": 2})
    assert client.get_queue("/", "pq")["name"] == "pq"
    (message,) = client.get_messages("/", "pq", count=1)
    assert (message["payload"], message["routing_key"]) == ("hello", "a.b")
    client.publish("/", "px", "a.b", "again")
    client.purge_queue("/", "pq")
    assert client.get_messages("/", "pq", count=1) == []
    assert [one["routing_key"] for one in client.get_queue_bindings("/", "pq") if one["source"]] == ["a.#"]
    client.delete_binding("/", "px", "pq", "a.%23")
    assert client.get_bindings_between_exch_and_queue("/", "px", "pq") in (None, [])
    client.delete_exchange("/", "px")
    client.delete_queue("/", "pq")
    assert "pq" not in [queue["name"] for queue in client.get_queues("/") or []]


def test_policies_shovels_definitions(client: Any) -> None:
    client.create_policy("/", "pp", pattern="^x", definition={"max-length": 5}, priority=1, **{"apply-to": "queues"})
    assert client.get_policy("/", "pp")["definition"] == {"max-length": 5}
    assert [one["name"] for one in client.get_all_policies()] == ["pp"]
    client.delete_policy("/", "pp")
    settings = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    client.create_shovel("/", "ps", **settings)
    assert client.get_shovel("/", "ps")["value"] == settings
    assert [one["name"] for one in client.get_all_shovels()] == ["ps"]
    client.delete_shovel("/", "ps")
    assert client.get_definitions()["vhosts"] == [{"name": "/"}]


def test_the_broker_itself(client: Any) -> None:
    assert client.get_whoami()["name"] == "guest"
    assert client.is_alive()
    assert client.get_overview()["object_totals"]
    assert len(client.get_nodes()) == 1
    assert client.get_connections() in (None, [])
