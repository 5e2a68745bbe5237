"""What well-known monitoring tools read: each test asks as one of them does and takes what it takes from the answers.

The fields are those without which the tool fails or reports nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from leveret.testing import Broker
from tests.http_client import Api

NODE = "hare@field"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"node_name": NODE}) as running:
        yield running


@pytest.fixture(scope="module")
def api(broker: Broker) -> Iterator[Api]:
    """A broker with some life in it."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for number in range(3):
            channel.queue_declare(f"work-{number}", durable=True)
            for _ in range(number):
                channel.basic_publish("", f"work-{number}", b"x")
        channel.basic_get("work-2")
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("work-1", lambda *_: None)
        connection.process_data_events(0.1)
        yield Api(broker)


def of_type(thing: dict[str, Any], kind: type, *names: str) -> None:
    for name in names:
        value: Any = thing
        for part in name.split("."):
            value = value[part]
        assert type(value) is kind, (name, value)


def numbers(thing: dict[str, Any], *names: str) -> None:
    for name in names:
        value: Any = thing
        for part in name.split("."):
            value = value[part]
        assert isinstance(value, int | float) and not isinstance(value, bool), (name, value)


def test_keda(api: Api) -> None:
    """One queue, or several by a regular expression; it sends pagination=false beside page."""
    queue = api.get("/queues/%2F/work-2").body
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (2, 1, 1)
    numbers(queue, "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate")
    query = f"page=1&use_regex=true&pagination=false&name={quote('^work-')}&page_size=100"
    found = api.get(f"/queues/%2F?{query}").body
    assert found["page_count"] == 1
    assert sum(each["messages"] for each in found["items"]) == 3
    assert {each["name"] for each in found["items"]} == {"work-0", "work-1", "work-2"}


def test_flower(api: Api) -> None:
    for queue in api.get("/queues/%2F").body:
        of_type(queue, str, "name")
        of_type(queue, int, "messages", "messages_ready", "messages_unacknowledged", "consumers")


def test_telegraf(api: Api) -> None:
    """Decodes into fixed types: whole numbers must be whole, and three parts of the overview must be there."""
    overview = api.get("/overview").body
    of_type(overview, dict, "message_stats", "object_totals", "queue_totals")
    of_type(overview, list, "listeners")
    stats = ("ack", "deliver", "publish", "confirm", "return_unroutable", "redeliver", "deliver_get")
    of_type(overview, int, *(f"message_stats.{name}" for name in stats))
    numbers(overview, *(f"message_stats.{name}_details.rate" for name in stats))
    of_type(overview, int, *(f"queue_totals.{name}" for name in ("messages", "messages_ready")))
    (node,) = api.get("/nodes").body
    of_type(node, int, "disk_free", "disk_free_limit", "fd_total", "fd_used", "mem_limit", "mem_used", "proc_total")
    of_type(node, int, "proc_used", "run_queue", "sockets_total", "sockets_used", "uptime", "gc_num")
    of_type(node, bool, "mem_alarm", "disk_free_alarm", "running")
    memory = api.get(f"/nodes/{quote(NODE)}/memory").body["memory"]
    of_type(memory, int, "queue_procs", "code", "other_proc", "total.rss", "total.allocated")
    for queue in api.get("/queues").body:
        of_type(queue, int, "message_bytes", "message_bytes_ready", "message_bytes_ram", "memory", "consumers")
        of_type(queue, str, "name", "vhost", "node")
        of_type(queue, bool, "durable", "auto_delete")
    for exchange in api.get("/exchanges").body:
        of_type(exchange, str, "name", "type", "vhost")
        of_type(exchange, bool, "internal", "durable", "auto_delete")
    assert api.get("/federation-links").body == []


def test_datadog(api: Api) -> None:
    overview = api.get("/overview").body
    assert overview["cluster_name"]
    numbers(overview, "object_totals.queues", "object_totals.channels", "object_totals.consumers")
    numbers(overview, "queue_totals.messages_details.rate", "message_stats.publish_details.rate")
    (node,) = api.get("/nodes").body
    numbers(node, "fd_used", "disk_free", "mem_used", "run_queue", "sockets_used", "mem_limit", "disk_free_limit")
    assert node["partitions"] == []
    page = api.get("/queues?page=1&page_size=500").body
    for queue in page["items"]:
        numbers(queue, "consumers", "memory", "messages", "messages_details.rate", "message_bytes")
    for connection in api.get("/connections").body:
        of_type(connection, str, "vhost", "state")
        numbers(connection, "channels")
    assert {each["name"] for each in api.get("/vhosts").body} == {"/"}
    assert api.get("/aliveness-test/%2F").body == {"status": "ok"}
    assert len(api.get("/queues/%2F/work-0/bindings").body) == 1


def test_zabbix(api: Api) -> None:
    """Builds the name of the node itself, and asks for its memory."""
    overview = api.get("/overview").body
    assert overview["node"] == NODE
    of_type(overview, str, "product_version", "rabbitmq_version", "management_version", "erlang_version")
    node = api.get(f"/nodes/{quote(NODE)}?memory=true").body
    numbers(node, "mem_used", "mem_limit", "fd_used", "fd_total", "sockets_used", "proc_used", "uptime", "run_queue")
    of_type(node, bool, "running", "mem_alarm", "disk_free_alarm")
    for check in (
        "alarms",
        "local-alarms",
        "certificate-expiration/1/months",
        "virtual-hosts",
        "node-is-mirror-sync-critical",
        "node-is-quorum-critical",
        "protocol-listener/amqp",
    ):
        assert api.get(f"/health/checks/{check}").body["status"] == "ok", check
    for queue in api.get("/queues").body:
        numbers(queue, "messages", "messages_ready", "messages_unacknowledged", "consumers", "memory")


def test_sensu(api: Api) -> None:
    for node in api.get("/nodes").body:
        for used, most in (("mem_used", "mem_limit"), ("fd_used", "fd_total"), ("proc_used", "proc_total")):
            assert 0 < node[used] <= node[most]
        numbers(node, "sockets_used", "sockets_total", "disk_free", "disk_free_limit")
        assert (node["partitions"], node["running"]) == ([], True)
    for queue in api.get("/queues/%2F").body:
        numbers(queue, "messages", "consumers", "consumer_utilisation")


def test_kbudde_exporter(api: Api) -> None:
    overview = api.get("/overview").body
    numbers(overview, "object_totals.channels", "object_totals.connections", "object_totals.exchanges")
    numbers(overview, "queue_totals.messages", "queue_totals.messages_unacknowledged")
    of_type(overview, str, "node", "cluster_name", "rabbitmq_version", "erlang_version")
    for queue in api.get("/queues").body:
        numbers(queue, "messages_ready", "messages_unacknowledged", "messages_persistent", "message_bytes", "memory")
    for path in ("/exchanges", "/connections", "/nodes", "/vhosts"):
        assert isinstance(api.get(path).body, list)
    assert api.get("/shovels").body == api.get("/federation-links").body == []
    for connection in api.get("/connections").body:
        numbers(connection, "channels", "recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend")
        of_type(connection, str, "vhost", "node", "peer_host", "user", "state")


def test_rabbitmqadmin_v2(api: Api) -> None:
    """Refuses to read an answer without these."""
    (node,) = api.get("/nodes").body
    of_type(node, str, "name", "os_pid", "rates_mode")
    of_type(node, int, "uptime", "run_queue", "processors", "fd_total", "proc_total", "mem_limit", "disk_free_limit")
    of_type(node, bool, "mem_alarm", "disk_free_alarm", "being_drained")
    of_type(node, list, "enabled_plugins")
    for queue in api.get("/queues/detailed").body:
        of_type(queue, str, "name", "vhost", "type")
        of_type(queue, bool, "durable", "auto_delete", "exclusive")
        of_type(queue, dict, "arguments")
    (connection,) = api.get("/connections").body
    of_type(connection, str, "name", "node", "protocol", "user")
    of_type(connection, int, "connected_at")
    of_type(connection, dict, "client_properties")
    (channel,) = api.get("/channels").body
    of_type(channel, int, "number", "consumer_count", "prefetch_count", "messages_unacknowledged")
    of_type(channel, int, "messages_unconfirmed", "connection_details.peer_port")
    of_type(channel, str, "name", "vhost", "state", "connection_details.name", "connection_details.peer_host")
    of_type(channel, bool, "confirm")
    (consumer,) = api.get("/consumers").body
    of_type(consumer, str, "consumer_tag", "queue.name", "channel_details.name")
    of_type(consumer, bool, "active", "ack_required", "exclusive")
    of_type(consumer, int, "prefetch_count", "consumer_timeout")
    of_type(consumer, dict, "arguments")


def test_spring(api: Api) -> None:
    """Looks for the node of a queue, and cleans up after its lists; with a slash at the end."""
    assert api.get("/queues/%2F/work-0").body["node"] == NODE
    for path in ("/queues/%2F/", "/exchanges/%2F/", "/bindings/%2F/"):
        assert all(each["vhost"] == "/" for each in api.get(path).body)
