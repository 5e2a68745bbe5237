"""pyrabbit2, a client of RabbitMQ's HTTP API that many scripts use, against ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.conformance.http_target import running_api
from tests.conformance.topology import wait_for
from tests.http_client import Api

pyrabbit2 = pytest.importorskip("pyrabbit2")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_api() as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Any:
    return pyrabbit2.Client(url.removeprefix("http://"), "guest", "guest", timeout=10)


def test_every_method_is_used_here() -> None:
    """Three of them do nothing."""
    methods = {name for name in vars(pyrabbit2.Client) if name.startswith(("get_", "create_", "delete_", "purge_"))}
    methods |= {"is_alive", "publish", "set_vhost_permissions"}
    source = Path(__file__).read_text("utf-8")
    assert {name for name in methods if f"client.{name}(" not in source} == set()


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
    assert [vhost["name"] for vhost in client.get_definitions()["vhosts"]] == ["/"]


def test_the_broker_itself(client: Any) -> None:
    assert client.get_whoami()["name"] == "guest"
    assert client.is_alive()
    assert client.get_overview()["object_totals"]
    assert len(client.get_nodes()) == 1
    assert client.get_cluster_name()["name"] == client.get_overview()["cluster_name"]
    assert isinstance(client.get_extensions(), list)


def test_queues_by_name_and_their_depths(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("d/1", "d2"):
        client.create_queue("/", name, durable=True)
        client.publish("/", "amq.default", name, "x")
    wait_for("depths", lambda: [queue.get("messages") for queue in client.get_queues("/", pattern="d")] == [1, 1])
    assert client.get_queue_depth("/", "d/1") == 1
    # Its own mistake: it writes the virtual host as an address has it, twice.
    client.get_queue_depths("/")
    assert "'name': 'd2'" in capsys.readouterr().out
    assert [queue["name"] for queue in client.get_queues("/", pattern="^d.$", regex=True)] == ["d2"]
    assert [queue["name"] for queue in client.get_queues(pattern="d/")] == ["d/1"]
    assert client.purge_queues([("d/1", "/"), ("d2", "/")])
    wait_for("no messages", lambda: client.get_queue_depth("/", "d2") == 0)
    for name in ("d/1", "d2"):
        client.delete_queue("/", name)


def test_exchanges_and_bindings(client: Any) -> None:
    client.create_exchange("/", "e1", "fanout")
    assert client.get_exchange("/", "e1")["type"] == "fanout"
    assert "e1" in [exchange["name"] for exchange in client.get_exchanges("/")]
    assert len(client.get_exchanges()) == 8
    client.create_queue("/", "eq")
    client.create_binding("/", "e1", "eq", "k", args={"a": 1})
    assert [one["arguments"] for one in client.get_bindings() if one["source"] == "e1"] == [{"a": 1}]
    assert client.get_bindings_from_exchange("/", "e1") is client.get_bindings_to_exchange("/", "e1") is None
    client.delete_exchange("/", "e1")
    client.delete_queue("/", "eq")


def test_connections_and_channels(client: Any, url: str) -> None:
    (port,) = [one["port"] for one in Api(url).get("/overview").body["listeners"] if one["protocol"] == "amqp"]
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    connection.channel()
    wait_for("the channel", lambda: len(client.get_channels()) == 1)
    (seen,) = client.get_connections()
    assert client.get_connection(seen["name"])["user"] == "guest"
    (channel,) = client.get_channels()
    assert client.get_channel(channel["name"])["number"] == 1
    assert client.delete_connection(seen["name"])
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(10)
    with pytest.raises(pyrabbit2.http.HTTPError):
        client.delete_connection("none")
