"""rabbitmqadmin shows every kind of thing it knows, in every format, of a broker that is in use."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.conformance.http_target import running_api
from tests.conformance.rabbitmqadmin import Admin
from tests.conformance.topology import wait_for
from tests.http_client import Api

KINDS = [
    "connections", "channels", "consumers", "exchanges", "queues", "bindings", "users", "vhosts", "permissions",
    "nodes", "parameters", "policies", "operator_policies", "vhost_limits",
]  # fmt: skip
FORMATS = ["table", "tsv", "long", "kvp", "bash", "raw_json", "pretty_json"]


def amqp(url: str) -> pika.BlockingConnection:
    (port,) = [one["port"] for one in Api(url).get("/overview").body["listeners"] if one["protocol"] == "amqp"]
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With at least one of everything, and a client that stays."""
    with running_api() as url:
        api = Api(url)
        for path, body in (
            ("/policies/%2F/p", {"pattern": "^short", "definition": {"max-length": 2}}),
            ("/operator-policies/%2F/o", {"pattern": "^none", "definition": {"max-length": 9}, "apply-to": "queues"}),
            ("/parameters/federation-upstream/%2F/u", {"value": {"uri": "amqp://localhost"}}),
            ("/vhost-limits/%2F/max-queues", {"value": 50}),
            ("/queues/%2F/long", {"durable": True}),
            ("/queues/%2F/short", {"durable": False}),
            ("/queues/%2F/streamed", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        ):
            assert api.put(path, body).status in (201, 204)
        api.post("/bindings/%2F/e/amq.topic/q/long", {"routing_key": "a.#", "arguments": {"k": 1}})
        with amqp(url) as connection:
            channel = connection.channel()
            for number in range(5):
                channel.basic_publish("", "long", b"%d" % number)
            channel.basic_qos(prefetch_count=2)
            channel.basic_consume("long", lambda *_: None, consumer_tag="reader")
            connection.process_data_events(0.2)
            seen = ("/connections", "/channels", "/consumers")
            wait_for("the client to be seen", lambda: all(api.get(path).body for path in seen))
            wait_for("counts to be seen", lambda: _messages(api) == (5, 3, 2))
            yield url


def _messages(api: Api) -> tuple[Any, ...]:
    found = api.get("/queues/%2F/long").body
    return tuple(found.get(key) for key in ("messages", "messages_ready", "messages_unacknowledged"))


@pytest.fixture
def admin(url: str, tmp_path: Path) -> Admin:
    return Admin(url, str(tmp_path))


EVERY = [*((kind, "table") for kind in KINDS), *((kind, form) for kind in ("queues", "nodes") for form in FORMATS[1:])]


@pytest.mark.parametrize(("kind", "form"), EVERY)
def test_every_kind_and_every_format(admin: Admin, kind: str, form: str) -> None:
    """Tables end in an error if there is a null among plain values, so this is no matter of course."""
    printed = admin("-f", form, "list", kind)
    assert printed != "No items"
    if form.endswith("json"):
        assert all(isinstance(each, dict) for each in json.loads(printed))
    elif form == "table":
        assert printed.startswith("+-") and printed.count("\n") >= 4


def test_tables_have_the_columns_that_people_know(admin: Admin) -> None:
    def head(kind: str) -> list[str]:
        return [cell.strip() for cell in admin("list", kind).splitlines()[1].strip("|").split("|")]

    assert head("queues") == ["name", "messages"]
    assert head("connections") == ["name", "user", "channels"]
    assert head("bindings") == ["source", "destination", "routing_key"]
    assert head("users")[:2] == ["name", "hashing_algorithm"]
    assert head("permissions") == ["vhost", "configure", "read", "user", "write"]
    assert head("policies") == ["vhost", "name", "apply-to", "definition", "pattern", "priority"]
    assert head("parameters") == ["vhost", "name", "component", "value"]
    assert head("vhost_limits") == ["vhost", "value"]
    assert set(head("consumers")) >= {"ack_required", "active", "consumer_tag", "exclusive", "prefetch_count"}


@pytest.mark.parametrize("kind", ["exchanges", "bindings", "users", "permissions", "policies", "vhost_limits"])
def test_everything_there_is_fits_into_a_table(admin: Admin, kind: str) -> None:
    assert admin("-d", "5", "list", kind).startswith("+-")


def test_columns_and_order(admin: Admin) -> None:
    words = ("-f", "tsv", "-S", "messages", "-R", "list", "queues", "name", "messages", "messages_ready", "durable")
    assert admin(*words).splitlines() == [
        "name\tmessages\tmessages_ready\tdurable", "long\t5\t3\tTrue", *_others(admin)
    ]  # fmt: skip
    assert admin("-q", "-f", "bash", "-S", "name", "list", "queues") == "long short streamed"
    assert admin("-q", "-f", "bash", "-S", "name", "-R", "list", "queues") == "streamed short long"
    nested = admin("-q", "-f", "tsv", "list", "consumers", "queue.name", "consumer_tag", "channel_details.user")
    assert nested == "long\treader\tguest"
    assert admin("-f", "kvp", "list", "vhosts", "name") == 'name="/"'


def _others(admin: Admin) -> list[str]:
    rows = {"short": "short\t0\t0\tFalse", "streamed": "streamed\t0\t0\tTrue"}
    order = admin("-q", "-f", "bash", "-S", "messages", "-R", "list", "queues").split()
    return [rows[name] for name in order[1:]]


def test_only_of_a_virtual_host(admin: Admin) -> None:
    admin("declare", "vhost", "name=a/b")
    for kind in ("queues", "bindings", "consumers"):
        assert admin("-V", "a/b", "list", kind) == "No items"
        assert admin("-V", "/", "list", kind) != "No items"
    assert len(admin.listed("exchanges", "-V", "a/b")) == 7
    admin("delete", "vhost", "name=a/b")


def test_overview(admin: Admin) -> None:
    rows = [line.strip("|").split("|") for line in admin("show", "overview").splitlines() if line.startswith("|")]
    found = dict(zip(*[[cell.strip() for cell in row] for row in rows], strict=True))
    assert list(found) == ["rabbitmq_version", "cluster_name", "queue_totals.messages", "object_totals.queues"]
    assert (found["queue_totals.messages"], found["object_totals.queues"]) == ("5", "3")
    assert admin("-q", "-f", "tsv", "show", "overview", "object_totals.connections") == "1"
    assert json.loads(admin("-f", "raw_json", "show", "overview"))[0]["object_totals"]["consumers"] == 1


def test_closing_a_connection(admin: Admin, url: str) -> None:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker), amqp(url) as connection:
        mine = f"{connection._impl._transport._sock.getsockname()[1]} ->"
        wait_for("the connection", lambda: any(mine in each for each in admin.named("connections")))
        (name,) = [each for each in admin.named("connections") if mine in each]
        assert admin("close", "connection", f"name={name}") == "connection closed"
        connection.process_data_events(10)


def test_misuse(admin: Admin) -> None:
    """What the script says by itself, so that a failure of these is no failure of the broker."""
    assert "declare queue name=..." in admin("help", "subcommands")
    assert "[host_normal]" in admin("help", "config")
    assert "complete -F _rabbitmqadmin" in admin("--bash-completion")
    for words in (("list", "nonsense"), ("nonsense",), ("declare", "queue"), ("declare", "queue", "name=a", "b=c")):
        printed = admin.run(*words)
        assert printed.status == 1
        assert "ERROR: " in printed.errors
