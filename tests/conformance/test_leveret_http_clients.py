"""Connections, channels and consumers over HTTP: what is shown of them, to whom, and closing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from tests.conformance.amqp_codec import FRAME_HEARTBEAT
from tests.conformance.raw_client import RawClient
from tests.conformance.raw_stream_client import RawStreamClient
from tests.http_client import Api, name

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        api = Api(running)
        api.put("/users/maria", {"password": "maria", "tags": "management"})
        api.put("/permissions/%2F/maria", {"configure": ".*", "write": ".*", "read": ".*"})
        api.put("/users/watcher", {"password": "watcher", "tags": "monitoring"})
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def maria(broker: Broker) -> Api:
    """May do everything in /, but sees only what is her own."""
    return Api(broker, "maria", "maria")


Connect = Callable[..., Any]


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Connections by pika, gone after the test."""
    made: list[Any] = []

    def connected(user: str = "guest", **parameters: Any) -> Any:
        credentials = pika.PlainCredentials(user, user)
        address = pika.ConnectionParameters(broker.host, broker.port, credentials=credentials, **parameters)
        made.append(pika.BlockingConnection(address))
        return made[-1]

    yield connected
    for connection in made:
        if connection.is_open:
            connection.close()


def name_of(connection: Any, broker: Broker) -> str:
    host, port = connection._impl._transport._sock.getsockname()[:2]
    return f"{host}:{port} -> {broker.host}:{broker.port}"


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found


def test_a_connection_is_described(broker: Broker, api: Api, connect: Connect) -> None:
    client = connect(client_properties={"connection_name": "billing"}, heartbeat=37, channel_max=100)
    before = time.time()
    client.channel()
    found = api.get(f"/connections/{name(name_of(client, broker))}").body
    assert found["user_provided_name"] == found["client_properties"]["connection_name"] == "billing"
    assert (found["timeout"], found["channel_max"], found["frame_max"]) == (37, 100, 131072)
    assert (found["user"], found["vhost"], found["auth_mechanism"]) == ("guest", "/", "PLAIN")
    assert (found["protocol"], found["type"], found["state"]) == ("AMQP 0-9-1", "network", "running")
    assert (found["ssl"], found["ssl_protocol"], found["channels"]) == (False, None, 1)
    assert abs(found["connected_at"] / 1000 - before) < 60
    assert found["recv_oct"] > 0
    assert found["send_oct"] > 0
    assert found["peer_port"] == int(found["name"].split(" -> ")[0].rsplit(":", 1)[1])


def test_a_channel_is_described(broker: Broker, api: Api, connect: Connect) -> None:
    client = connect()
    channel = client.channel()
    channel.confirm_delivery()
    channel.queue_declare("described", exclusive=True)
    for _ in range(4):
        channel.basic_publish("", "described", b"x")
    channel.basic_publish("", "nowhere", b"x")
    channel.basic_qos(prefetch_count=7)
    channel.basic_qos(prefetch_count=9, global_qos=True)
    channel.basic_get("described")
    path = f"/channels/{name(name_of(client, broker) + ' (1)')}"
    found = api.get(path).body
    assert (found["confirm"], found["transactional"]) == (True, False)
    assert (found["prefetch_count"], found["global_prefetch_count"]) == (7, 9)
    assert (found["messages_unacknowledged"], found["messages_unconfirmed"], found["consumer_count"]) == (1, 0, 0)
    stats = found["message_stats"]
    assert [stats[key] for key in ("publish", "confirm", "drop_unroutable", "get")] == [5, 5, 1, 1]
    (listed,) = api.get(f"/connections/{name(name_of(client, broker))}/channels").body
    assert listed["name"] == found["name"]
    channel.close()
    assert api.get(path).status == 404


def test_a_transaction_is_shown(broker: Broker, api: Api, connect: Connect) -> None:
    client = connect()
    channel = client.channel()
    channel.queue_declare("undecided", exclusive=True)
    channel.basic_publish("", "undecided", b"1")
    channel.tx_select()
    tag = channel.basic_get("undecided")[0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_publish("", "undecided", b"2")
    channel.queue_declare("undecided", passive=True)
    found = api.get(f"/channels/{name(name_of(client, broker) + ' (1)')}").body
    assert found["transactional"] is True
    assert (found["messages_uncommitted"], found["acks_uncommitted"]) == (1, 1)


def test_consumers_are_described(broker: Broker, api: Api, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("watched", exclusive=True, arguments={"x-single-active-consumer": True})
    channel.basic_qos(prefetch_count=5)
    arguments = {"x-priority": 3, "x-consumer-timeout": 120_000}
    channel.basic_consume("watched", lambda *_: None, consumer_tag="first", arguments=arguments)
    channel.basic_consume("watched", lambda *_: None, consumer_tag="second", auto_ack=True)
    found = {each["consumer_tag"]: each for each in api.get("/consumers").body if each["queue"]["name"] == "watched"}
    first, second = found["first"], found["second"]
    assert first["arguments"] == arguments
    assert (first["ack_required"], first["prefetch_count"], first["exclusive"]) == (True, 5, False)
    assert (first["consumer_timeout"], second["consumer_timeout"]) == (120_000, 0)
    assert (first["active"], first["activity_status"]) == (True, "single_active")
    assert (second["active"], second["activity_status"], second["ack_required"]) == (False, "waiting", False)
    queue = api.get("/queues/%2F/watched").body
    assert queue["consumer_details"] == [first, second]
    assert queue["single_active_consumer_tag"] == "first"
    assert queue["owner_pid_details"]["name"] == first["channel_details"]["connection_name"]
    by_channel = api.get(f"/channels/{name(first['channel_details']['name'])}").body
    assert by_channel["consumer_details"] == [first, second]
    channel.basic_cancel("first")
    assert api.get("/queues/%2F/watched").body["single_active_consumer_tag"] == "second"


def test_an_exclusive_consumer_and_one_that_is_full(api: Api, connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("alone", exclusive=True)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("alone", lambda *_: None, consumer_tag="only", exclusive=True)
    queue = api.get("/queues/%2F/alone").body
    assert (queue["exclusive_consumer_tag"], queue["consumer_utilisation"]) == ("only", 1)
    for _ in range(2):
        channel.basic_publish("", "alone", b"")
    queue = eventually(lambda: (now := api.get("/queues/%2F/alone").body)["messages"] == 2 and now)
    assert queue["consumer_utilisation"] == 0


def test_a_direct_reply_consumer_is_a_consumer(api: Api, connect: Connect) -> None:
    channel = connect().channel()
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    (found,) = [each for each in api.get("/consumers").body if "reply-to" in each["queue"]["name"]]
    assert found["ack_required"] is False


def test_a_publisher_under_an_alarm_is_blocked(broker: Broker, api: Api, connect: Connect) -> None:
    quiet, loud = connect(), connect()
    channel = loud.channel()
    broker.raise_alarm("memory")
    try:
        states = {each["name"]: each["state"] for each in api.get("/connections").body}
        assert states[name_of(quiet, broker)] == "blocking"
        channel.basic_publish("", "nowhere", b"")
        path = f"/connections/{name(name_of(loud, broker))}?columns=state"
        assert eventually(lambda: api.get(path).body["state"] == "blocked")
    finally:
        broker.clear_alarm("memory")
    assert eventually(lambda: api.get(path).body["state"] == "running")


# ---- whose they are


def test_without_monitoring_one_sees_ones_own(broker: Broker, api: Api, maria: Api, connect: Connect) -> None:
    mine, others = connect("maria"), connect()
    for client in (mine, others):
        channel = client.channel()
        channel.queue_declare("", exclusive=True)
        channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
    for path in ("/connections", "/vhosts/%2F/connections", "/connections/username/maria"):
        assert [each["user"] for each in maria.get(path).body] == ["maria"], path
    for path in ("/channels", "/vhosts/%2F/channels"):
        assert [each["user"] for each in maria.get(path).body] == ["maria"], path
    for path in ("/consumers", "/consumers/%2F"):
        assert [each["channel_details"]["user"] for each in maria.get(path).body] == ["maria"], path
    assert maria.get("/overview").body["object_totals"]["connections"] == 1
    refused = {"error": "not_authorised", "reason": "User not authorised to access object"}
    theirs = name(name_of(others, broker))
    for path in (
        f"/connections/{theirs}",
        f"/connections/{theirs}/channels",
        f"/channels/{theirs}%20%281%29",
        "/connections/username/guest",
    ):
        reply = maria.get(path)
        assert (reply.status, reply.body) == (401, refused), path
    assert maria.delete(f"/connections/{theirs}").status == 401
    assert maria.delete("/connections/username/guest").status == 401
    assert others.is_open
    watcher = Api(broker, "watcher", "watcher")
    assert {each["user"] for each in watcher.get("/connections").body} >= {"maria", "guest"}
    assert watcher.get(f"/connections/{theirs}").status == 200
    # Who watches everything closes nothing of others.
    for path in (f"/connections/{theirs}", "/connections/username/guest", "/connections/username/nobody"):
        assert (watcher.delete(path).status, watcher.delete(path).body) == (401, refused), path
    assert others.is_open and watcher.get(f"/connections/{theirs}").status == 200
    assert api.get(f"/connections/{name(name_of(mine, broker))}").status == 200


# ---- closing them


def test_a_connection_is_closed_with_a_reason(broker: Broker, maria: Api, connect: Connect) -> None:
    client = connect("maria")
    path = f"/connections/{name(name_of(client, broker))}"
    reply = maria.delete(path, headers={"X-Reason": "moving house"})
    assert (reply.status, reply.body) == (204, None)
    assert maria.get("/connections").body == []
    assert maria.delete(path).status == 404
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as told:
        client.process_data_events(5)
    assert (told.value.reply_code, told.value.reply_text) == (320, "CONNECTION_FORCED - moving house")


def test_all_connections_of_a_user_are_closed(broker: Broker, api: Api, connect: Connect) -> None:
    clients = [connect("maria") for _ in range(3)]
    other = connect()
    assert api.delete("/connections/username/maria").status == 204
    for client in clients:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as told:
            client.process_data_events(5)
        assert told.value.reply_text == "CONNECTION_FORCED - Closed via management plugin"
    other.channel()
    assert api.get("/connections/username/maria").body == []
    assert api.delete("/connections/username/nobody").status == 204


def test_a_reason_cannot_break_a_log(broker: Broker, api: Api, connect: Connect) -> None:
    client = connect()
    path = f"/connections/{name(name_of(client, broker))}"
    assert api.delete(path, headers={"X-Reason": "a\tb" + "c" * 500}).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as told:
        client.process_data_events(5)
    assert told.value.reply_text.startswith("CONNECTION_FORCED - abccc")
    assert len(told.value.reply_text) <= 255


# ---- names that are none


@pytest.mark.parametrize("odd", ["x", "a -> b", "a -> b (1)", "a -> b (x)", "a -> b (99999999999999999999)", " (1)"])
def test_names_that_are_none(api: Api, odd: str) -> None:
    assert api.get(f"/connections/{name(odd)}").status == 404
    assert api.get(f"/channels/{name(odd)}").status == 404
    assert api.delete(f"/connections/{name(odd)}").status == 404


# ---- what the specification's structures have, beside RabbitMQ's fields


@pytest.fixture
def alone(api: Api) -> None:
    """Connections of the test before may still be on their way out."""
    eventually(lambda: api.get("/connections?half_open=true").body == [])


@pytest.mark.usefixtures("alone")
def test_the_last_heartbeat_of_a_client(broker: Broker, api: Api) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in()
        (found,) = api.get("/connections").body
        assert found["last_heartbeat"] is None
        client.send_frame(FRAME_HEARTBEAT, 0, b"")
        path = f"/connections/{name(found['name'])}"
        last = eventually(lambda: api.get(path).body["last_heartbeat"])
        # By the broker's own clock, which goes on evenly whatever becomes of the wall's.
        assert abs(last - time.time() * 1000) < 60_000


@pytest.mark.usefixtures("alone")
def test_the_last_heartbeat_of_a_stream_client(broker: Broker, api: Api) -> None:
    with RawStreamClient(broker.host, broker.stream_port) as client:
        client.log_in()
        assert api.get("/stream/connections").body[0]["last_heartbeat"] is None
        client.send(commands.Heartbeat())
        assert eventually(lambda: api.get("/stream/connections").body[0]["last_heartbeat"]) > 1_000_000_000_000


@pytest.mark.usefixtures("alone")
def test_the_next_number_of_a_confirm(api: Api, connect: Connect) -> None:
    client = connect()
    plain, confirming = client.channel(), client.channel()
    confirming.confirm_delivery()
    for _ in range(2):
        confirming.basic_publish("amq.fanout", "", b"")
    shown = {each["number"]: each["next_publish_seq"] for each in api.get("/channels").body}
    assert shown == {plain.channel_number: 0, confirming.channel_number: 3}


@pytest.mark.usefixtures("alone")
def test_prefetch_in_octets(broker: Broker, api: Api) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "basic.qos", {"prefetch_size": 5000, "prefetch_count": 3, "global": False})
        client.call(1, "queue.declare", queue="sized", exclusive=True)
        client.call(1, "basic.consume", queue="sized", consumer_tag="t")
        client.call(1, "basic.qos", {"prefetch_size": 9000, "prefetch_count": 0, "global": True})
        (channel,) = api.get("/channels").body
        assert (channel["prefetch_size"], channel["global_prefetch_size"]) == (5000, 9000)
        (consumer,) = api.get("/consumers").body
        assert (consumer["prefetch_count"], consumer["prefetch_size"]) == (3, 5000)


@pytest.mark.usefixtures("alone")
def test_connections_that_are_being_opened_and_closed(broker: Broker, api: Api) -> None:
    def states(asking: Api = api) -> list[tuple[str, str]]:
        return [(each["state"], each["user"]) for each in asking.get("/connections?half_open=true").body]

    with RawClient(broker.host, broker.port) as client:
        assert eventually(lambda: states() == [("starting", "")])
        assert api.get("/connections").body == [], "tools expect a user and a virtual host"
        assert Api(broker, "maria", "maria").get("/connections?half_open=true").body == []
        client.start()
        assert states() == [("starting", "")]
        client.start_ok()
        tune = client.expect(0, "connection.tune")
        assert states() == [("tuning", "guest")]
        client.tune_ok(tune)
        assert eventually(lambda: states() == [("opening", "guest")])
        client.call(0, "connection.open", virtual_host="/")
        assert eventually(lambda: states() == [("running", "guest")])
        api.delete(f"/connections/{name(api.get('/connections').body[0]['name'])}")
        assert eventually(lambda: states() == [("closing", "guest")])
        assert api.get("/connections").body == []
    assert eventually(lambda: states() == [])
    assert broker.call(lambda node: node.broker.half_open) == {}
