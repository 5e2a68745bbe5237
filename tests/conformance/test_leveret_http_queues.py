"""Queues, exchanges and bindings over HTTP: what is shown of them, and to whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pika
import pytest

from leveret.catalog import commands
from leveret.catalog.records import QueueRecord, Vhost
from leveret.core.codec.field_types import Timestamp
from leveret.management.api.queue_views import QUEUES
from leveret.management.http.authentication import Operator
from leveret.management.http.lists import listed
from leveret.management.http.request import Request
from leveret.testing import Broker
from tests.http_client import Api, name


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def channel(broker: Broker) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection.channel()


def test_a_queue_shows_what_is_in_it(api: Api, channel: Any) -> None:
    channel.queue_declare("depth", durable=True)
    channel.confirm_delivery()
    for size in (1, 2, 3):
        persistent = pika.BasicProperties(delivery_mode=2, timestamp=1700000000)
        channel.basic_publish("", "depth", b"x" * size, persistent)
    channel.basic_get("depth")
    queue = api.get("/queues/%2F/depth").body
    lengths = [queue[key] for key in ("messages", "messages_ready", "messages_unacknowledged")]
    assert lengths == [3, 2, 1]
    sizes = [queue[key] for key in ("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged")]
    assert sizes == [6, 5, 1]
    assert (queue["messages_persistent"], queue["message_bytes_persistent"]) == (3, 6)
    assert (queue["messages_ram"], queue["messages_paged_out"]) == (3, 0)
    assert queue["head_message_timestamp"] == 1700000000
    assert 0 <= queue["oldest_message_age_ms"] < 60_000
    stats = queue["message_stats"]
    assert [stats[key] for key in ("publish", "get", "deliver_get", "ack")] == [3, 1, 1, 0]
    assert stats["publish_details"].keys() >= {"rate"}
    channel.queue_delete("depth")


def test_where_messages_are_in_the_words_of_old_tools(api: Api, channel: Any) -> None:
    channel.queue_declare("backing", durable=True, arguments={"x-queue-mode": "lazy"})
    for _ in range(3):
        channel.basic_publish("", "backing", b"x")
    channel.basic_get("backing", auto_ack=True)
    queue = api.get("/queues/%2F/backing").body
    status = queue["backing_queue_status"]
    assert (status["mode"], status["version"], status["len"]) == ("lazy", queue["storage_version"], 2)
    assert status["q1"] + status["q2"] + status["q3"] + status["q4"] == queue["messages_ready"] == 2
    assert (status["q4"], status["q3"]) == (queue["messages_ready_ram"], queue["messages_paged_out"])
    assert status["next_seq_id"] == api.get("/queues/%2F/backing/peek?after=0&count=2").body[-1]["position"] + 1
    assert (status["delta"], status["target_ram_count"]) == (["delta", "undefined", 0, 0, "undefined"], "infinity")
    assert all(status[f"avg_{name}_rate"] >= 0 for name in ("ingress", "egress", "ack_ingress", "ack_egress"))
    channel.queue_delete("backing")
    channel.queue_declare("plain-backing")
    assert api.get("/queues/%2F/plain-backing").body["backing_queue_status"]["mode"] == "default"
    channel.queue_delete("plain-backing")


def test_an_untouched_queue_has_no_message_stats(api: Api, channel: Any) -> None:
    channel.queue_declare("untouched")
    queue = api.get("/queues/%2F/untouched").body
    assert "message_stats" not in queue
    assert queue["head_message_timestamp"] is None
    assert queue["consumer_details"] == []
    channel.queue_delete("untouched")


def test_columns_and_totals_alone(api: Api, channel: Any) -> None:
    channel.queue_declare("few-columns")
    channel.basic_publish("", "few-columns", b"")
    chosen = api.get("/queues/%2F/few-columns?columns=name,messages,message_stats.publish").body
    assert chosen == {"name": "few-columns", "messages": 1, "message_stats": {"publish": 1}}
    bare = api.get("/queues?name=few-columns&disable_stats=true").body[0]
    assert "messages" not in bare
    assert bare["type"] == "classic"
    totals = api.get("/queues?name=few-columns&disable_stats=true&enable_queue_totals=true").body[0]
    assert totals["messages"] == totals["messages_ready"] == 1
    assert "message_stats" not in totals
    channel.queue_delete("few-columns")


def test_names_that_need_encoding(api: Api, channel: Any) -> None:
    odd = "a/b c%2F~é"
    channel.queue_declare(odd)
    assert api.get(f"/queues/%2F/{name(odd)}").body["name"] == odd
    assert api.get(f"/queues/%2F/{name(odd)}/").body["name"] == odd
    assert [each["name"] for each in api.get(f"/queues?name={name('B C')}").body] == [odd]
    channel.queue_delete(odd)


def test_tables_that_json_cannot_say(broker: Broker, api: Api) -> None:
    """AMQP takes any octets for a value: they are shown as well as it goes."""
    arguments = {
        "octets": b"\xff",
        "moment": Timestamp(5),
        "text": "\udcff",
        "exact": Decimal("1.5"),
        "list": [b"", None],
    }
    record = QueueRecord("/", "odd-\u00fc", "classic", False, False, 0, arguments)
    broker.call(lambda node: node.broker.apply(commands.DeclareQueue(record)))
    (listed,) = api.get("/queues?name=odd-").body
    found = api.get("/queues/%2F/odd-%C3%BC").body
    assert listed["name"] == found["name"] == "odd-\u00fc"
    assert found["arguments"] == {"octets": "\ufffd", "moment": 5, "text": "\ufffd", "exact": 1.5, "list": ["", None]}
    assert api.get("/queues/%2F/odd-%C3%BC/bindings").body[0]["properties_key"] == "odd-%C3%BC"
    broker.call(lambda node: node.broker.apply(commands.DeleteQueue("/", "odd-\u00fc")))


def test_a_name_that_is_no_text_is_refused(api: Api) -> None:
    assert api.put("/queues/%2F/odd-%FF").status == 400
    assert api.get("/queues/%2F/odd-%FF").status == 404


def test_policies_are_shown_where_they_apply(api: Api, channel: Any) -> None:
    channel.queue_declare("ruled")
    channel.exchange_declare("ruled-exchange", "fanout")
    api.put("/policies/%2F/rule", {"pattern": "^ruled$", "definition": {"max-length": 10}, "apply-to": "queues"})
    limit = {"pattern": "^ruled$", "definition": {"max-length": 5}, "apply-to": "queues"}
    api.put("/operator-policies/%2F/limit", limit)
    queue = api.get("/queues/%2F/ruled").body
    assert (queue["policy"], queue["operator_policy"]) == ("rule", "limit")
    assert queue["effective_policy_definition"] == {"max-length": 5}
    # As RabbitMQ, and what rabbitmqadmin needs.
    assert "policy" not in api.get("/exchanges/%2F/ruled-exchange").body
    assert api.delete("/policies/%2F/rule").status == 204
    assert api.delete("/operator-policies/%2F/limit").status == 204
    channel.queue_delete("ruled")
    channel.exchange_delete("ruled-exchange")


def test_lists_are_sorted_filtered_and_cut(api: Api, channel: Any) -> None:
    for number in range(5):
        channel.queue_declare(f"sorted-{number}")
        for _ in range((number * 3) % 5):
            channel.basic_publish("", f"sorted-{number}", b"")
    path = "/queues?name=sorted-&columns=name,messages"
    assert [each["name"] for each in api.get(path).body] == [f"sorted-{number}" for number in range(5)]
    by_length = api.get(f"{path}&sort=messages&sort_reverse=true").body
    assert [each["messages"] for each in by_length] == [4, 3, 2, 1, 0]
    by_stats = api.get(f"{path}&sort=message_stats.publish").body
    assert [each["messages"] for each in by_stats] == [0, 1, 2, 3, 4]
    page = api.get(f"{path}&page=2&page_size=2&sort=name&pagination=false").body
    assert [each["name"] for each in page["items"]] == ["sorted-2", "sorted-3"]
    assert (page["filtered_count"], page["page_count"], page["item_count"]) == (5, 3, 2)
    matched = api.get("/queues?name=%5Esorted-%5B01%5D%24&use_regex=true&columns=name").body
    assert [each["name"] for each in matched] == ["sorted-0", "sorted-1"]
    for number in range(5):
        channel.queue_delete(f"sorted-{number}")


def test_a_stream_is_a_queue_with_members(api: Api, channel: Any) -> None:
    channel.queue_declare("river", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    channel.basic_publish("", "river", b"drop")
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume("river", lambda *_: None, arguments={"x-stream-offset": "first"})
    channel.connection.process_data_events(0.2)
    stream = api.get("/queues/%2F/river").body
    assert stream["type"] == "stream"
    assert stream["members"] == stream["online"] == [stream["leader"]] == [stream["node"]]
    assert stream["messages_ready"] == 1
    assert stream["messages_unacknowledged"] == 1
    assert len(stream["consumer_details"]) == stream["consumers"] == 1
    assert stream["consumer_details"][0]["arguments"] == {"x-stream-offset": "first"}
    assert api.get("/overview").body["queue_totals"]["messages_ready"] >= 1
    assert "messages" in api.get("/vhosts").body[0]
    channel.queue_delete("river")


def test_delayed_messages_are_counted(api: Api, channel: Any) -> None:
    channel.queue_declare("later")
    channel.basic_publish("", "later", b"x", pika.BasicProperties(headers={"x-delay": 600_000}))
    channel.exchange_declare("later-exchange", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.basic_publish("later-exchange", "k", b"x", pika.BasicProperties(headers={"x-delay": 600_000}))
    channel.queue_declare("later", passive=True)
    queue = api.get("/queues/%2F/later").body
    assert queue["messages_delayed"] == queue["delayed"]["count"] == 1
    assert queue["delayed"]["next_due_ms"] > 0
    assert api.get("/exchanges/%2F/later-exchange").body["messages_delayed"] == 1
    channel.queue_delete("later")
    channel.exchange_delete("later-exchange")


def test_exchanges_count_what_goes_in_and_out(api: Api, channel: Any) -> None:
    channel.exchange_declare("counting", "fanout")
    for queue in ("counted-1", "counted-2"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "counting")
    for _ in range(3):
        channel.basic_publish("counting", "", b"")
    channel.queue_declare("counted-1", passive=True)
    stats = api.get("/exchanges/%2F/counting").body["message_stats"]
    assert (stats["publish_in"], stats["publish_out"]) == (3, 6)
    assert api.get("/exchanges/%2F/amq.default").body["name"] == ""
    for queue in ("counted-1", "counted-2"):
        channel.queue_delete(queue)
    channel.exchange_delete("counting")


def test_bindings_from_both_sides(api: Api, channel: Any) -> None:
    channel.exchange_declare("bound", "topic")
    channel.exchange_declare("bound-2", "fanout")
    channel.queue_declare("bound-queue")
    channel.queue_bind("bound-queue", "bound", "a.#")
    channel.queue_bind("bound-queue", "bound", "", {"x": 1})
    channel.exchange_bind("bound-2", "bound", "~")
    from_exchange = api.get("/exchanges/%2F/bound/bindings/source").body
    assert len(from_exchange) == 3
    to_queue = api.get("/bindings/%2F/e/bound/q/bound-queue").body
    assert [each["routing_key"] for each in to_queue] == ["", "a.#"]
    for binding in to_queue:
        path = f"/bindings/%2F/e/bound/q/bound-queue/{name(binding['properties_key'])}"
        assert api.get(path).body == binding
    (to_exchange,) = api.get("/bindings/%2F/e/bound/e/bound-2").body
    assert to_exchange["properties_key"] == "%7E"
    assert to_exchange["destination_type"] == "exchange"
    assert api.get("/exchanges/%2F/bound-2/bindings/destination").body == [to_exchange]
    of_queue = api.get("/queues/%2F/bound-queue/bindings").body
    assert of_queue[0]["source"] == ""
    assert of_queue[1:] == to_queue
    assert api.get("/bindings/%2F/e/amq.default/q/bound-queue/bound-queue").body == of_queue[0]
    # RabbitMQ makes one up.
    assert api.get("/queues/%2F/nosuch/bindings").body == []
    everything = api.get("/bindings").body
    assert all(each in everything for each in [*of_queue, to_exchange])
    channel.queue_delete("bound-queue")
    channel.exchange_delete("bound")
    channel.exchange_delete("bound-2")


@pytest.fixture
def limited(broker: Broker, api: Api) -> Iterator[Api]:
    """Somebody with the tag management who may enter one virtual host of two."""
    api.put("/vhosts/other", {})
    api.put("/users/limited", {"password": "limited", "tags": "management"})
    api.put("/permissions/%2F/limited", {"configure": ".*", "write": ".*", "read": ".*"})
    api.put("/queues/other/hidden", {})
    yield Api(broker, "limited", "limited")
    api.delete("/users/limited")
    api.delete("/vhosts/other")


def test_virtual_hosts_that_one_may_not_enter_are_not_seen(api: Api, limited: Api, channel: Any) -> None:
    channel.queue_declare("seen")
    for path in ("/queues", "/exchanges", "/bindings", "/vhosts"):
        vhosts = {each.get("vhost", each.get("name")) for each in limited.get(path).body}
        assert vhosts == {"/"}, path
        assert "other" in {each.get("vhost", each.get("name")) for each in api.get(path).body}, path
    refused = {"error": "not_authorised", "reason": "User not authorised to access virtual host"}
    for path in ("/queues/other", "/queues/other/hidden", "/exchanges/other", "/bindings/other", "/consumers/other"):
        reply = limited.get(path)
        assert (reply.status, reply.body) == (401, refused), path
    assert limited.get("/queues/%2F/seen").body["name"] == "seen"
    totals = limited.get("/overview").body
    assert totals["object_totals"]["exchanges"] == len(api.get("/exchanges/%2F").body)
    assert "listeners" not in totals
    assert "churn_rates" not in totals
    assert totals["message_stats"].keys() >= {"publish", "publish_details"}
    channel.queue_delete("seen")


def test_nodes_are_for_monitoring(limited: Api) -> None:
    for path in ("/nodes", "/nodes/x", "/auth/attempts/x"):
        reply = limited.get(path)
        assert (reply.status, reply.body["reason"]) == (401, "Not monitor user")
    assert limited.get("/feature-flags").body["reason"] == "Not administrator user"
    assert limited.put("/cluster-name", {"name": "x"}).status == 401


def test_a_virtual_host_may_go_while_a_list_of_it_is_sent(broker: Broker, api: Api) -> None:
    """The list ends properly, whatever is left of what it names."""

    def build(node: Any) -> None:
        node.broker.apply(commands.PutVhost(Vhost("short-lived")))
        for number in range(2000):
            record = QueueRecord("short-lived", f"queue-{number}", "classic", False, False, 0, {})
            node.broker.apply(commands.DeclareQueue(record))

    broker.call(build)

    async def read(node: Any) -> bytes:
        ask = Request(node.management.services, Operator(), "", "GET", {}, {})
        queues = list(node.broker.vhosts["short-lived"].queues.values())
        answer = await listed(ask, queues, QUEUES)
        node.broker.apply(commands.DeleteVhost("short-lived"))
        return b"".join([piece async for piece in answer.body])

    assert broker._loop is not None
    text = asyncio.run_coroutine_threadsafe(read(broker.node), broker._loop).result(20)
    assert len(json.loads(text)) == 2000
