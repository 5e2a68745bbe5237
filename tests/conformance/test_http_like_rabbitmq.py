"""The management API as RabbitMQ has it: the same requests after the same events, answers with the same keys and types.

What is listed here holds on both; Leveret may say more. Numbers of RabbitMQ come late, so they are waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.conformance.managed import Managed, running_managed
from tests.http_client import Reply, name

NUMBER = (int, float)
TEXT_OR_NOTHING = (str, type(None))
RATE = {"rate": NUMBER}
# RabbitMQ says an empty list where an object would be empty.
OBJECT = (dict, list)
DEADLINE_S = 30.0


def counted(*names: str) -> dict[str, Any]:
    return {key: kind for each in names for key, kind in ((each, int), (f"{each}_details", RATE))}


CONNECTION_DETAILS = {"name": str, "peer_host": str, "peer_port": int}
BINDING = {
    "source": str,
    "vhost": str,
    "destination": str,
    "destination_type": str,
    "routing_key": str,
    "arguments": OBJECT,
    "properties_key": str,
}
CONSUMER = {
    "arguments": OBJECT,
    "ack_required": bool,
    "active": bool,
    "activity_status": str,
    "channel_details": {
        "connection_name": str,
        "name": str,
        "node": str,
        "number": int,
        "peer_host": str,
        "peer_port": int,
        "user": str,
    },
    "consumer_tag": str,
    "exclusive": bool,
    "prefetch_count": int,
    "queue": {"name": str, "vhost": str},
}
QUEUE = {
    "arguments": OBJECT,
    "auto_delete": bool,
    "consumer_capacity": NUMBER,
    "consumer_utilisation": NUMBER,
    "consumers": int,
    "durable": bool,
    "effective_policy_definition": OBJECT,
    "exclusive": bool,
    "exclusive_consumer_tag": TEXT_OR_NOTHING,
    "head_message_timestamp": (int, type(None)),
    "memory": int,
    "message_bytes": int,
    "message_bytes_paged_out": int,
    "message_bytes_persistent": int,
    "message_bytes_ram": int,
    "message_bytes_ready": int,
    "message_bytes_unacknowledged": int,
    **counted("messages", "messages_ready", "messages_unacknowledged"),
    "messages_paged_out": int,
    "messages_persistent": int,
    "messages_ram": int,
    "messages_ready_ram": int,
    "messages_unacknowledged_ram": int,
    "name": str,
    "node": str,
    "operator_policy": TEXT_OR_NOTHING,
    "policy": TEXT_OR_NOTHING,
    "single_active_consumer_tag": TEXT_OR_NOTHING,
    "state": str,
    "type": str,
    "vhost": str,
    "message_stats": counted(
        "ack",
        "deliver",
        "deliver_get",
        "deliver_no_ack",
        "get",
        "get_empty",
        "get_no_ack",
        "publish",
        "redeliver",
    ),
}
CHANNEL = {
    "acks_uncommitted": int,
    "confirm": bool,
    "connection_details": CONNECTION_DETAILS,
    "consumer_count": int,
    "global_prefetch_count": int,
    "messages_unacknowledged": int,
    "messages_uncommitted": int,
    "messages_unconfirmed": int,
    "name": str,
    "node": str,
    "number": int,
    "prefetch_count": int,
    "state": str,
    "transactional": bool,
    "user": str,
    "user_who_performed_action": str,
    "vhost": str,
    "message_stats": counted("publish", "confirm"),
}
CONNECTION = {
    "auth_mechanism": str,
    "channel_max": int,
    "channels": int,
    "client_properties": dict,
    "connected_at": int,
    "frame_max": int,
    "host": str,
    "name": str,
    "node": str,
    "peer_cert_issuer": TEXT_OR_NOTHING,
    "peer_cert_subject": TEXT_OR_NOTHING,
    "peer_cert_validity": TEXT_OR_NOTHING,
    "peer_host": str,
    "peer_port": int,
    "port": int,
    "protocol": str,
    "recv_cnt": int,
    **counted("recv_oct", "send_oct"),
    "send_cnt": int,
    "send_pend": int,
    "ssl": bool,
    "ssl_cipher": TEXT_OR_NOTHING,
    "ssl_hash": TEXT_OR_NOTHING,
    "ssl_key_exchange": TEXT_OR_NOTHING,
    "ssl_protocol": TEXT_OR_NOTHING,
    "state": str,
    "timeout": int,
    "type": str,
    "user": str,
    "user_provided_name": str,
    "user_who_performed_action": str,
    "vhost": str,
}
EXCHANGE = {
    "arguments": OBJECT,
    "auto_delete": bool,
    "durable": bool,
    "internal": bool,
    "name": str,
    "type": str,
    "user_who_performed_action": str,
    "vhost": str,
}
NODE = {
    "auth_mechanisms": list,
    "cluster_links": list,
    "config_files": list,
    "contexts": list,
    "context_switches": int,
    "db_dir": str,
    **counted("disk_free", "fd_used", "gc_num", "mem_used", "proc_used", "sockets_used"),
    "disk_free_alarm": bool,
    "disk_free_limit": int,
    "enabled_plugins": list,
    "exchange_types": list,
    "fd_total": int,
    "log_files": list,
    "mem_alarm": bool,
    "mem_limit": int,
    "name": str,
    "os_pid": str,
    "partitions": list,
    "proc_total": int,
    "processors": int,
    "rates_mode": str,
    "run_queue": int,
    "running": bool,
    "sockets_total": int,
    "type": str,
    "uptime": int,
}
OVERVIEW = {
    "churn_rates": counted("connection_created", "connection_closed"),
    "cluster_name": str,
    "contexts": list,
    "erlang_version": str,
    "exchange_types": list,
    "listeners": list,
    "management_version": str,
    "message_stats": counted("publish", "confirm", "deliver_get"),
    "node": str,
    "object_totals": {"channels": int, "connections": int, "consumers": int, "exchanges": int, "queues": int},
    "product_name": str,
    "product_version": str,
    "queue_totals": counted("messages", "messages_ready", "messages_unacknowledged"),
    "rabbitmq_version": str,
    "rates_mode": str,
    "sample_retention_policies": dict,
    "statistics_db_event_queue": int,
}
PAGE = {
    "filtered_count": int,
    "item_count": int,
    "items": list,
    "page": int,
    "page_count": int,
    "page_size": int,
    "total_count": int,
}
OK = {"status": str}

# Path, the keys of the answer, and whether it is a list of such things. {c} is the connection, {n} the node.
REQUESTS: list[tuple[str, dict[str, Any], bool]] = [
    ("/overview", OVERVIEW, False),
    ("/cluster-name", {"name": str}, False),
    ("/nodes", NODE, True),
    ("/nodes/{n}", NODE, False),
    ("/nodes/{n}?memory=true", {"memory": {"total": dict}, "name": str}, False),
    ("/nodes/{n}/memory", {"memory": {"total": dict}}, False),
    ("/queues?name=like", QUEUE, True),
    ("/queues/%2F?name=like", QUEUE, True),
    ("/queues/%2F/like", QUEUE | {"consumer_details": list, "deliveries": list, "incoming": list}, False),
    ("/queues/%2F/like-own", {"exclusive": bool, "owner_pid_details": CONNECTION_DETAILS}, False),
    ("/queues?page=1&page_size=1", PAGE, False),
    ("/queues/%2F/like?columns=name,messages", {"name": str, "messages": int}, False),
    ("/queues/%2F/like/bindings", BINDING, True),
    ("/exchanges", EXCHANGE, True),
    ("/exchanges/%2F", EXCHANGE, True),
    (
        "/exchanges/%2F/like.x",
        EXCHANGE | {"incoming": list, "outgoing": list, "message_stats": counted("publish_in", "publish_out")},
        False,
    ),
    ("/exchanges/%2F/amq.default", EXCHANGE, False),
    ("/exchanges/%2F/like.x/bindings/source", BINDING, True),
    ("/exchanges/%2F/like.y/bindings/destination", BINDING, True),
    ("/bindings", BINDING, True),
    ("/bindings/%2F", BINDING, True),
    ("/bindings/%2F/e/like.x/q/like", BINDING, True),
    ("/bindings/%2F/e/like.x/e/like.y", BINDING, True),
    ("/bindings/%2F/e/like.x/q/like/a.%2523", BINDING, False),
    ("/connections", CONNECTION, True),
    ("/connections/{c}", CONNECTION, False),
    ("/connections?page=1", PAGE, False),
    ("/connections/{c}/channels", CHANNEL, True),
    ("/vhosts/%2F/connections", CONNECTION, True),
    ("/vhosts/%2F/channels", CHANNEL, True),
    ("/channels", CHANNEL, True),
    ("/channels/{c}%20(1)", CHANNEL | {"consumer_details": list, "deliveries": list, "publishes": list}, False),
    ("/consumers", CONSUMER, True),
    ("/consumers/%2F", CONSUMER, True),
    ("/feature-flags", {"name": str, "desc": str, "state": str, "stability": str, "provided_by": str}, True),
    ("/health/checks/alarms", OK, False),
    ("/health/checks/local-alarms", OK, False),
    ("/health/checks/port-listener/{p}", {"status": str, "port": int}, False),
    ("/health/checks/protocol-listener/amqp", {"status": str, "protocol": str}, False),
    ("/health/checks/virtual-hosts", OK, False),
    ("/health/checks/node-is-quorum-critical", {"status": str, "reason": str}, False),
    ("/health/checks/node-is-mirror-sync-critical", {"status": str, "reason": str}, False),
    ("/health/checks/certificate-expiration/1/months", OK, False),
    ("/aliveness-test/%2F", OK, False),
    ("/healthchecks/node", OK, False),
    ("/extensions", {}, True),
    ("/whoami", {"name": str, "tags": list}, False),
]


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with running_managed(tmp_path_factory.mktemp("managed")) as made:
        yield made


@pytest.fixture(scope="module")
def scene(managed: Managed) -> Iterator[dict[str, str]]:
    """A client that publishes, gets and consumes; what it and its broker are called."""
    parameters = pika.URLParameters(managed.url)
    parameters.client_properties = {"connection_name": "like-connection"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("like.x", "topic")
        channel.exchange_declare("like.y", "fanout")
        channel.exchange_bind("like.y", "like.x", "e")
        channel.queue_declare("like", durable=True)
        channel.queue_declare("like-own", exclusive=True)
        channel.queue_bind("like", "like.x", "a.#")
        channel.queue_bind("like", "like.x", "b", {"x": 1})
        persistent = pika.BasicProperties(delivery_mode=2)
        for _ in range(6):
            channel.basic_publish("like.x", "a.b", b"body", persistent)
        channel.basic_get("like", auto_ack=True)
        tag = channel.basic_get("like")[0].delivery_tag
        channel.basic_nack(tag)
        channel.basic_get("like-own")
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume("like", lambda *_: None)
        channel.basic_consume("like-own", lambda *_: None)
        connection.process_data_events(0.2)
        names = {"p": str(managed.port), "n": name(managed.api.get("/overview").body["node"])}
        names["c"] = name(_waited(managed, "/connections", lambda reply: reply.body)[0]["name"])
        yield names


def _waited(managed: Managed, path: str, wanted: Any) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = wanted(managed.api.get(path))
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def problems(value: Any, wanted: Any, place: str) -> list[str]:
    """What of the wanted keys is missing or of another type."""
    if not isinstance(wanted, dict):
        is_number = isinstance(value, bool) and wanted in (int, NUMBER)
        return [] if isinstance(value, wanted) and not is_number else [f"{place} is {value!r}"]
    if not isinstance(value, dict):
        return [f"{place} is {value!r}"]
    found = []
    for key, kind in wanted.items():
        if key in value:
            found += problems(value[key], kind, f"{place}.{key}")
        else:
            found.append(f"{place}.{key} is missing")
    return found


def problems_of(reply: Reply, wanted: dict[str, Any], many: bool) -> list[str]:
    if reply.status != 200:
        return [f"{reply.status} {reply.body}"]
    if not many:
        return problems(reply.body, wanted, "")
    if not isinstance(reply.body, list) or (wanted and not reply.body):
        return [f"no list, or an empty one: {reply.body!r}"]
    # Of a mixed list the one that has most: not everything has counted something yet.
    return min((problems(each, wanted, "[]") for each in reply.body if wanted), key=len, default=[])


@pytest.mark.parametrize(("path", "wanted", "many"), REQUESTS, ids=[path for path, _, _ in REQUESTS])
def test_an_answer_has_the_keys_and_types_of_rabbitmq(
    managed: Managed, scene: dict[str, str], path: str, wanted: dict[str, Any], many: bool
) -> None:
    for letter, what in scene.items():
        path = path.replace(f"{{{letter}}}", what)
    deadline = time.monotonic() + DEADLINE_S
    while found := problems_of(managed.api.get(path), wanted, many):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


NOT_FOUND = (404, {"error": "Object Not Found", "reason": "Not Found"})
NOTHING: tuple[int, Any] = (200, [])
REFUSALS: list[tuple[str, tuple[int, Any]]] = [
    ("/nosuch", NOT_FOUND),
    ("/queues/%2F/nosuch", NOT_FOUND),
    ("/queues/nosuch", NOT_FOUND),
    ("/queues/nosuch/q", NOT_FOUND),
    ("/exchanges/%2F/nosuch", NOT_FOUND),
    ("/exchanges/%2F/nosuch/bindings/source", NOTHING),
    ("/bindings/nosuch", NOT_FOUND),
    ("/bindings/%2F/e/like.x/q/nosuch", NOTHING),
    ("/bindings/%2F/e/like.x/q/like/nosuch", NOT_FOUND),
    ("/connections/nosuch", NOT_FOUND),
    ("/channels/nosuch", NOT_FOUND),
    ("/channels/{c}%20(9)", NOT_FOUND),
    ("/vhosts/nosuch/connections", NOT_FOUND),
    ("/aliveness-test/nosuch", NOT_FOUND),
    (
        "/queues?page=9",
        (400, {"error": "page_out_of_range", "reason": "Page out of range, page: 9 page size: 100, len: {queues}"}),
    ),
    (
        "/queues?page=1&page_size=501",
        (
            400,
            {
                "error": "invalid_pagination_parameters",
                "reason": "Invalid pagination parameters: page number 1, page size 501",
            },
        ),
    ),
    ("/queues?page=x", (400, {"error": "bad_request", "reason": "Pagination parameters are invalid"})),
]


@pytest.mark.parametrize(("path", "wanted"), REFUSALS, ids=[path for path, _ in REFUSALS])
def test_what_is_not_there_is_told_as_in_rabbitmq(
    managed: Managed, scene: dict[str, str], path: str, wanted: tuple[int, Any]
) -> None:
    for letter, what in scene.items():
        path = path.replace(f"{{{letter}}}", what)
    reply = managed.api.get(path)
    status, body = wanted
    if isinstance(body, dict):
        count = str(len(managed.api.get("/queues").body))
        body = {key: text.replace("{queues}", count) for key, text in body.items()}
    assert (reply.status, reply.body) == (status, body)


def test_a_port_that_nobody_listens_on_fails_its_check(managed: Managed) -> None:
    reply = managed.api.get("/health/checks/port-listener/1")
    assert reply.status == 503
    assert reply.body["status"] == "failed"
    assert reply.body["reason"] == "No active listener"
    assert reply.body["missing"] == 1
    assert managed.port in reply.body["ports"]


def test_a_protocol_that_nobody_speaks_fails_its_check(managed: Managed) -> None:
    reply = managed.api.get("/health/checks/protocol-listener/mqtt")
    assert reply.status == 503
    assert (reply.body["reason"], reply.body["missing"]) == ("No active listener", "mqtt")
    assert "amqp" in reply.body["protocols"]


def test_closing_a_connection_tells_the_client_why(managed: Managed) -> None:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as told:
        connection = pika.BlockingConnection(pika.URLParameters(managed.url))
        port = connection._impl._transport._sock.getsockname()[1]
        found = _waited(
            managed, "/connections", lambda reply: [each for each in reply.body if each.get("peer_port") == port]
        )
        path = f"/connections/{name(found[0]['name'])}"
        assert managed.api.delete(path, headers={"X-Reason": "spring cleaning"}).status == 204
        while True:
            connection.process_data_events(1)
    assert told.value.reply_code == 320
    assert "spring cleaning" in told.value.reply_text
    # RabbitMQ forgets a connection some time after its client has heard of the end.
    assert _waited(managed, path, lambda reply: reply.status == 404)
    assert managed.api.delete(path).status == 404
