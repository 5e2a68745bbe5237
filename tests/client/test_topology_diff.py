"""The difference between what was declared and what a broker has."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leveret.client.connection import Connection
from leveret.client.topology import Binding, Diff, Difference, Exchange, ManagementFailed, Queue, Topology
from leveret.client.topology.diff import compare
from leveret.core.codec.field_types import Int64
from tests.client.topology_scene import Scene

SHOP = Exchange("shop", "topic")
ORDERS = Queue("orders", max_length=100)
ROUTE = Binding("shop", "orders", "order.*")


def test_no_difference() -> None:
    diff = compare([SHOP, ORDERS, ROUTE], [ROUTE, ORDERS, SHOP])
    assert diff == Diff() and diff.is_clean
    assert str(diff) == "no difference"


def test_all_kinds_of_difference() -> None:
    found = [Exchange("shop", "fanout"), Queue("orders", max_length=5, message_ttl_ms=1), Queue("old")]
    diff = compare([SHOP, ORDERS, Queue("new", durable=False), ROUTE], [*found, Binding("shop", "orders")])
    assert diff.missing == [Queue("new", durable=False), ROUTE]
    assert diff.different == [
        Difference(SHOP, "type", "topic", "fanout"),
        Difference(ORDERS, "x-max-length", 100, 5),
        Difference(ORDERS, "x-message-ttl", None, 1),
    ]
    assert diff.unexpected == [Queue("old"), Binding("shop", "orders")]
    assert not diff.is_clean
    assert str(diff).splitlines() == [
        "missing: queue 'new'",
        "missing: binding of queue 'orders' to exchange 'shop' by 'order.*'",
        "different: exchange 'shop': type is 'fanout' on the broker, 'topic' here",
        "different: queue 'orders': x-max-length is 5 on the broker, 100 here",
        "different: queue 'orders': x-message-ttl is 1 on the broker, not set here",
        "unexpected: queue 'old'",
        "unexpected: binding of queue 'orders' to exchange 'shop'",
    ]


def test_bindings_of_what_is_missing_go_without_saying() -> None:
    other = Binding("other", "orders")
    assert compare([SHOP, ORDERS, ROUTE], [SHOP]).missing == [ORDERS]
    assert compare([SHOP], [SHOP, Exchange("other"), ORDERS, other]).unexpected == [Exchange("other"), ORDERS]


def test_values_are_compared_as_the_management_api_writes_them() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    here = Queue("q", arguments={"a": b"text", "b": moment, "c": Int64(5), "d": {"x": 1, "y": 2}})
    there = Queue("q", arguments={"a": "text", "b": int(moment.timestamp()), "c": 5, "d": {"y": 2, "x": 1}})
    assert compare([here], [there]).is_clean
    assert not compare([Queue("q", arguments={"a": True})], [Queue("q", arguments={"a": 1})]).is_clean
    # Newer brokers add the type that was not asked for.
    assert compare([Queue("q")], [Queue("q", queue_type="classic")]).is_clean
    assert not compare([Queue("q")], [Queue("q", queue_type="quorum")]).is_clean


# ---- on a broker


def changed(scene: Scene) -> None:
    """Somebody else changes what is there."""
    other = scene.pika()
    channel = other.channel()
    channel.queue_delete("orders")
    channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
    channel.exchange_delete("gone")
    channel.exchange_declare("surprise", "fanout")
    channel.queue_bind("orders", "surprise")
    channel.queue_bind("orders", "shop", "#")
    other.close()


def test_over_amqp(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        inbox = await topology.declare_queue(Queue(exclusive=True))
        await topology.declare(SHOP, Exchange("gone"), ORDERS, ROUTE)
        clean = await topology.diff()
        assert clean.is_clean and clean.unchecked == [ROUTE]
        changed(scene)
        diff = await topology.diff()
        assert diff.missing == [Exchange("gone")]
        assert diff.different == [Difference(ORDERS, "x-max-length", "100", "5")]
        assert diff.unexpected == []
        # Asking made nothing.
        assert "gone" not in scene.exchange_names()
        assert inbox.name in scene.queue_names()

    scene.run(script)


def test_over_http(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        inbox = await topology.declare_queue(Queue(exclusive=True, max_length=1))
        arguments = {"x-match": "all", "n": 1, "text": "ü"}
        headers = Binding("by-headers", inbox, arguments=arguments)
        await topology.declare(SHOP, Exchange("gone"), ORDERS, ROUTE, Exchange("by-headers", "headers"), headers)
        async with scene.connected() as other:
            theirs = await other.topology.declare_queue(Queue(exclusive=True))
            await other.topology.declare(Binding("shop", theirs))
            clean = await topology.diff(management=scene.management)
            assert str(clean) == "no difference"
        changed(scene)
        diff = await topology.diff(management=scene.management)
        assert diff.missing == [Exchange("gone"), ROUTE]
        assert diff.different == [Difference(ORDERS, "x-max-length", 100, 5)]
        assert diff.unexpected == [Exchange("surprise", "fanout", durable=False), Binding("shop", "orders", "#")]

    scene.run(script)


def test_of_things_that_were_never_declared(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        for management in (None, scene.management):
            diff = await topology.diff(SHOP, ORDERS, management=management)
            assert diff.missing == [SHOP, ORDERS]
        with pytest.raises(ValueError, match="name must not be empty"):
            await topology.diff(Exchange(""))

    scene.run(script)
    assert scene.queue_names() == set()


def test_another_connections_queue(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        async with scene.connected() as other:
            await other.topology.declare(Queue("mine", exclusive=True))
            diff = await topology.diff(Queue("mine"))
        assert [difference.field for difference in diff.different] == ["exclusive"]

    scene.run(script)


def test_a_management_api_that_does_not_answer(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        with pytest.raises(ManagementFailed, match="401") as refused:
            await topology.diff(management=scene.management.replace("guest:guest", "guest:wrong"))
        assert "wrong" not in str(refused.value)
        with pytest.raises(ManagementFailed, match="cannot be asked"):
            await topology.diff(management="http://guest:guest@127.0.0.1:1")
        with pytest.raises(ValueError, match="management must be an address"):
            await topology.diff(management="localhost:15672")

    scene.run(script)
