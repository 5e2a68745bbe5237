"""Declaring, deleting and looking, on Leveret and on RabbitMQ."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client.connection import Connection
from leveret.client.errors import ChannelClosed, ConnectionLost, DeadlineExceeded
from leveret.client.topology import Binding, Exchange, Queue, QueueCounts, Topology, TopologyConflict
from leveret.wire.exchange_methods import ExchangeDeclare
from leveret.wire.queue_methods import QueueBind, QueueDeclare
from tests.client.topology_scene import Overheard, Scene

SHOP = Exchange("shop", "topic")
ORDERS = Queue("orders", max_length=100)
ROUTE = Binding("shop", "orders", "order.*")


def test_everything_in_whatever_order(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        audit = Exchange("audit", "fanout")
        handles = await topology.declare(ROUTE, Binding("shop", "audit", "#", to="exchange"), ORDERS, audit, SHOP)
        assert [handle.name for handle in handles] == ["orders"]
        assert handles[0].counts == QueueCounts(0, 0)

    scene.run(script)
    assert scene.exchange_names() == {"shop", "audit"}
    assert scene.queue_names() == {"orders"}
    assert scene.routes() == {("shop", "orders", "order.*"), ("shop", "audit", "#")}
    assert scene.listed("queues")[0]["arguments"] == {"x-max-length": 100}


def test_what_was_declared_is_not_sent_again(scene: Scene) -> None:
    async def script(connection: Connection, _: Topology) -> None:
        wire = Overheard(connection)
        topology = Topology(wire.channel)
        first = await topology.declare(SHOP, ORDERS, ROUTE)
        assert [type(method) for method in wire.sent] == [ExchangeDeclare, QueueDeclare, QueueBind]
        again = await topology.declare(SHOP, Queue("orders", arguments={"x-max-length": 100}), ROUTE)
        assert len(wire.sent) == 3
        assert again[0] is first[0]
        await topology.declare(SHOP, ORDERS, ROUTE, force=True)
        assert len(wire.sent) == 6
        assert wire.opened_count == 1
        assert (topology.exchanges, topology.queues, topology.bindings) == ([SHOP], first, [ROUTE])

    scene.run(script)


def test_a_conflict_names_both_values(scene: Scene) -> None:
    async def script(connection: Connection, _: Topology) -> None:
        wire = Overheard(connection)
        topology = Topology(wire.channel)
        await topology.declare(SHOP, ORDERS)
        with pytest.raises(TopologyConflict) as length:
            await topology.declare(Queue("orders", max_length=50))
        assert (length.value.thing, length.value.argument) == ("queue 'orders'", "x-max-length")
        assert (length.value.declared, length.value.existing) == ("50", "100")
        with pytest.raises(TopologyConflict) as none:
            await topology.declare(Queue("orders"))
        assert (none.value.argument, none.value.declared, none.value.existing) == ("x-max-length", None, "100")
        with pytest.raises(TopologyConflict) as more:
            await topology.declare(ORDERS.replace(message_ttl_ms=5))
        assert (more.value.argument, more.value.declared, more.value.existing) == ("x-message-ttl", "5", None)
        with pytest.raises(TopologyConflict) as durable:
            await topology.declare(ORDERS.replace(durable=False))
        assert (durable.value.argument, durable.value.existing) == ("durable", "true")
        with pytest.raises(TopologyConflict) as kind:
            await topology.declare(Exchange("shop", "fanout"))
        assert (kind.value.argument, kind.value.declared, kind.value.existing) == ("type", "fanout", "topic")
        assert str(kind.value) == "exchange 'shop' exists with type topic, but is declared with type fanout"
        assert kind.value.code == 406
        # Each refusal took a channel; nobody noticed, and what was declared is still known.
        assert wire.opened_count == 5
        await topology.declare(Binding("shop", "orders", "#"))
        assert [handle.queue for handle in topology.queues] == [ORDERS]

    scene.run(script)


def test_other_refusals_come_as_they_are(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        with pytest.raises(ChannelClosed) as missing:
            await topology.declare(Binding("nowhere", "nothing"))
        assert missing.value.code == 404
        assert "binding of queue 'nothing' to exchange 'nowhere'" in missing.value.__notes__[0]
        assert topology.bindings == []
        await topology.declare(SHOP)

    scene.run(script)


def test_an_unknown_type_of_exchange_is_told_and_not_tried_again(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        with pytest.raises(ConnectionLost, match="x-unheard-of") as lost:
            await topology.declare(Exchange("x", "x-unheard-of"))
        assert lost.value.code == 503
        await topology.declare(SHOP)
        assert connection.reconnects_total == 1
        assert topology.exchanges == [SHOP]

    scene.run(script)


def test_nothing_is_sent_if_something_makes_no_sense(scene: Scene) -> None:
    async def script(connection: Connection, _: Topology) -> None:
        wire = Overheard(connection)
        topology = Topology(wire.channel)
        with pytest.raises(ValueError, match="message_ttl_ms"):
            await topology.declare(SHOP, Queue("q", message_ttl_ms=-1))
        assert wire.sent == []

    scene.run(script)


def test_many_at_once_take_turns(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        async def one(number: int) -> None:
            if number % 3 == 0:
                with pytest.raises(ChannelClosed):
                    await topology.declare(Binding("nowhere", "nothing", str(number)))
            else:
                await topology.declare(Queue(f"q{number}"), Queue("shared"))

        await asyncio.gather(*(one(number) for number in range(20)))
        # One queue has one handle, however many declared it at the same time.
        assert sum(handle.name == "shared" for handle in topology.queues) == 1

    scene.run(script)
    assert len(scene.queue_names()) == 14


def test_deleted_things_are_forgotten_with_their_bindings(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        (handle,) = await topology.declare(SHOP, ORDERS, ROUTE)
        await topology.delete(handle)
        assert (topology.queues, topology.bindings, topology.exchanges) == ([], [], [SHOP])
        await topology.declare(ORDERS, ROUTE)
        await topology.unbind(ROUTE)
        assert topology.bindings == []
        await topology.declare(ROUTE)
        await topology.delete(SHOP)
        assert (topology.exchanges, topology.bindings) == ([], [])
        await topology.delete(ORDERS, SHOP, Queue("never"))
        with pytest.raises(ValueError, match="by its handle"):
            await topology.delete(Queue())

    scene.run(script)
    assert (scene.exchange_names(), scene.queue_names()) == (set(), set())


def test_delete_with_conditions(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        await topology.declare(SHOP, ORDERS, ROUTE)
        with pytest.raises(ChannelClosed) as used:
            await topology.delete(SHOP, if_unused=True)
        assert used.value.code == 406
        assert topology.exchanges == [SHOP]
        other = scene.pika()
        channel = other.channel()
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.new", b"tea")
        other.close()
        with pytest.raises(ChannelClosed):
            await topology.delete(ORDERS, if_empty=True)
        assert await topology.counts("orders") == QueueCounts(1, 0)
        await topology.delete(ORDERS)

    scene.run(script)


def test_looking_makes_nothing(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        assert not await topology.exists(ORDERS)
        assert not await topology.exists(SHOP)
        with pytest.raises(ValueError, match="use the queue's handle"):
            await topology.exists(Queue())
        with pytest.raises(ChannelClosed) as missing:
            await topology.counts("orders")
        assert missing.value.code == 404
        (handle,) = await topology.declare(SHOP, ORDERS)
        assert await topology.exists(SHOP)
        # By name, however it was declared.
        assert await topology.exists(Queue("orders"))
        assert await topology.counts(handle) == await topology.counts(ORDERS) == QueueCounts(0, 0)
        async with scene.connected() as other:
            await other.topology.declare(Queue("theirs", exclusive=True))
            assert await topology.exists(Queue("theirs"))

    scene.run(script)
    assert scene.queue_names() == {"orders"}


def test_a_queue_that_the_broker_names(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        one, two = await topology.declare(Queue(exclusive=True), Queue(exclusive=True))
        assert one.name != two.name and one.name.startswith("amq.gen-")
        await topology.declare(SHOP, Binding("shop", one, "a"), Binding("shop", two.name, "b"))
        assert scene.routes() == {("shop", one.name, "a"), ("shop", two.name, "b")}
        third = await topology.declare_queue()
        await topology.delete(one, third)
        assert topology.queues == [two]
        assert scene.routes() == {("shop", two.name, "b")}
        await topology.unbind(Binding("shop", two, "b"))
        assert topology.bindings == []

    scene.run(script)


def test_an_auto_delete_queue_is_forgotten_with_its_last_consumer(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        handle = await topology.declare_queue(Queue("inbox", auto_delete=True))
        await topology.declare(Exchange("x", auto_delete=True), Binding("x", handle))
        topology.consumer_added(handle)
        topology.consumer_removed("inbox")
        assert (topology.queues, topology.bindings, topology.exchanges) == ([], [], [])

    scene.run(script)


def test_a_queue_that_somebody_deleted_can_be_declared_again(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        await topology.declare(SHOP, ORDERS, ROUTE)
        other = scene.pika()
        other.channel().queue_delete("orders")
        other.close()
        topology.doubt("orders")
        await topology.declare(SHOP, ORDERS, ROUTE)
        assert scene.routes() == {("shop", "orders", "order.*")}

    scene.run(script)


def test_a_declare_has_a_deadline(scene: Scene) -> None:
    async def script(_: Connection, topology: Topology) -> None:
        with pytest.raises(DeadlineExceeded):
            await topology.declare(ORDERS, deadline_s=0.0)
        await topology.declare(ORDERS)

    scene.run(script)
