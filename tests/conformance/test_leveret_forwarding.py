"""What the broker sends on in somebody's name goes only where they may publish themselves: dead letters, alternate
exchanges, bindings between exchanges, parking lots, replays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.catalog import commands
from leveret.catalog.passwords import hash_known_password
from leveret.catalog.records import Permission, TopicPermission, User, Vhost
from tests.conformance.own_broker import connected, running
from tests.conformance.raw_client import RawClient

HASH = hash_known_password(b"secret", bytes(16))
DEADLINE_S = 20.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    with running(tmp_path) as made:
        yield made


def apply(broker: Any, *made: commands.Command) -> None:
    for command in made:
        broker.call(lambda node, command=command: node.broker.apply(command))


@pytest.fixture
def held(broker: Any) -> Iterator[RawClient]:
    """Ann, who may do everything but publish to "news" with keys other than her own."""
    apply(
        broker,
        commands.PutUser(User("ann", HASH)),
        commands.PutPermission(Permission("ann", "/", ".*", ".*", ".*")),
        commands.PutTopicPermission(TopicPermission("ann", "/", "news", "^ann\\.", ".*")),
        commands.PutTopicPermission(TopicPermission("ann", "/", "later", "^ann\\.", ".*")),
    )
    with connected(broker) as client:
        client.call(1, "exchange.declare", exchange="news", type="topic")
    with RawClient(broker.host, broker.port) as client:
        client.start()
        client.start_ok("ann", "secret")
        client.tune_ok(client.expect(0, "connection.tune"))
        client.call(0, "connection.open", virtual_host="/")
        client.open_channel(1)
        client.call(1, "exchange.declare", exchange="direct", type="direct")
        client.call(1, "exchange.declare", exchange="fanout", type="fanout")
        client.call(1, "exchange.declare", exchange="topic", type="topic")
        yield client


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("queue.declare", {"queue": "q", "arguments": {"x-dead-letter-exchange": "news"}}),
        (
            "queue.declare",
            {"queue": "q", "arguments": {"x-dead-letter-exchange": "news", "x-dead-letter-routing-key": "bob.x"}},
        ),
        ("queue.declare", {"queue": "q", "arguments": {"x-dead-letter-exchange": "later"}}),
        ("exchange.declare", {"exchange": "e", "type": "fanout", "arguments": {"alternate-exchange": "news"}}),
        ("exchange.bind", {"destination": "news", "source": "fanout", "routing_key": "ann.x"}),
        ("exchange.bind", {"destination": "news", "source": "direct", "routing_key": "bob.x"}),
        ("exchange.bind", {"destination": "news", "source": "topic", "routing_key": "ann.#"}),
        ("queue.declare", {"queue": "q", "arguments": {"x-parking-lot": "amq.lot"}}),
    ],
)
def test_what_reaches_further_than_its_user_is_refused(held: RawClient, method: str, fields: dict[str, Any]) -> None:
    held.send(1, method, **fields)
    refusal = held.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 403)


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        (
            "queue.declare",
            {"queue": "q", "arguments": {"x-dead-letter-exchange": "news", "x-dead-letter-routing-key": "ann.x"}},
        ),
        ("queue.declare", {"queue": "q", "arguments": {"x-dead-letter-exchange": "fanout"}}),
        ("queue.declare", {"queue": "q", "arguments": {"x-dead-letter-exchange": "missing"}}),
        ("exchange.declare", {"exchange": "e", "type": "fanout", "arguments": {"alternate-exchange": "fanout"}}),
        ("exchange.bind", {"destination": "news", "source": "direct", "routing_key": "ann.x"}),
        ("exchange.bind", {"destination": "news", "source": "topic", "routing_key": "ann.x"}),
        ("exchange.bind", {"destination": "fanout", "source": "topic", "routing_key": "#"}),
        ("exchange.unbind", {"destination": "news", "source": "fanout", "routing_key": "x"}),
    ],
)
def test_what_does_not_is_allowed(held: RawClient, method: str, fields: dict[str, Any]) -> None:
    held.call(1, method, **fields)


def test_a_user_without_topic_permissions_does_as_in_rabbitmq(broker: Any, held: RawClient) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="g", arguments={"x-dead-letter-exchange": "news"})
        client.call(1, "exchange.bind", destination="news", source="fanout", routing_key="")


def test_a_parking_lot_counts_as_a_queue_and_without_one_nothing_is_lost(broker: Any) -> None:
    apply(broker, commands.PutVhost(Vhost("/", limits={"max-queues": 1})))
    arguments = {"x-parking-lot": "lot", "x-retry-delays": "50ms"}
    with connected(broker) as client:
        client.call(1, "queue.declare", queue="work", durable=True, arguments=arguments)
        client.publish(1, "", "work", b"precious", {"delivery_mode": 2})
        client.call(1, "basic.consume", queue="work", consumer_tag="c")
        for _ in range(4):
            delivery = client.expect(1, "basic.deliver")
            assert delivery.body == b"precious"
            client.send(1, "basic.reject", delivery_tag=delivery["delivery_tag"], requeue=False)
        assert broker.call(lambda node: list(node.broker.vhosts["/"].queues)) == [b"work"]
        assert broker.call(lambda node: node.broker.dead_letter_worker.lots_refused_total) >= 2
        apply(broker, commands.PutVhost(Vhost("/", limits={"max-queues": 2})))
        delivery = client.expect(1, "basic.deliver")
        client.send(1, "basic.reject", delivery_tag=delivery["delivery_tag"], requeue=False)
        deadline = time.monotonic() + DEADLINE_S
        while not broker.call(lambda node: b"lot" in node.broker.vhosts["/"].queues):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert broker.call(lambda node: node.broker.vhosts["/"].queues[b"lot"].ready_count()) == 1


def test_a_replay_does_not_go_where_a_client_says(broker: Any) -> None:
    from leveret.operations.reprocess.spec import ReplaySpec

    forged = {
        "count": 1,
        "reason": "rejected",
        "queue": "work",
        "time": 1,
        "exchange": "secret",
        "routing-keys": ["k"],
    }
    with connected(broker) as client:
        for queue in ("dead", "victim"):
            client.call(1, "queue.declare", queue=queue, durable=True)
        client.call(1, "exchange.declare", exchange="secret", type="fanout")
        client.call(1, "queue.bind", queue="victim", exchange="secret")
        client.call(1, "confirm.select")
        client.publish(1, "", "dead", b"forged", {"headers": {"x-death": [forged]}})
        client.expect(1, "basic.ack")
        job = broker.call(lambda node: node.reprocessor.start("/", "dead", ReplaySpec()))
        deadline = time.monotonic() + DEADLINE_S
        while (job := broker.call(lambda node: node.reprocessor.job(job.id))).state == "running":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert (job.moved, job.failed, job.last_error) == (0, 1, "its headers do not tell where it died")
        counts = broker.call(
            lambda node: [node.broker.vhosts["/"].queues[name].ready_count() for name in (b"dead", b"victim")]
        )
        assert counts == [1, 0]
        client.send(1, "basic.get", queue="dead", no_ack=True)
        assert client.expect(1, "basic.get-ok").body == b"forged"
