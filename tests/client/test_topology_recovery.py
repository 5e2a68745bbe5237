"""After the connection was lost everything is there again, as far as it can be."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client import events
from leveret.client.connection import Connection
from leveret.client.topology import Binding, Exchange, Queue, Topology, TopologyConflict
from leveret.wire.channel_methods import ChannelClose
from leveret.wire.exchange_methods import ExchangeBind, ExchangeDeclare
from leveret.wire.method import Method
from leveret.wire.queue_methods import QueueBind, QueueDeclare
from tests.client.topology_scene import Overheard, Scene, cut, cut_and_restored

SHOP = Exchange("shop", "topic", durable=False)
ORDERS = Queue("orders", durable=False)


def wiped(scene: Scene) -> None:
    """Somebody deletes everything."""
    other = scene.pika()
    channel = other.channel()
    for name in scene.queue_names():
        channel.queue_delete(name)
    for name in scene.exchange_names():
        channel.exchange_delete(name)
    other.close()


def test_everything_is_declared_again_in_order(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        await topology.declare(SHOP, ORDERS, Binding("shop", "orders", "a"))
        await topology.declare(Exchange("late", "fanout"), Binding("late", "shop", to="exchange"), Queue("more"))
        wiped(scene)
        wire = Overheard(connection)
        report = await topology.recover(wire.channel)
        kinds = [type(method) for method in wire.sent if not isinstance(method, ChannelClose)]
        assert kinds == [ExchangeDeclare] * 2 + [QueueDeclare] * 2 + [QueueBind, ExchangeBind]
        assert [method.exchange for method in wire.sent[:2] if isinstance(method, ExchangeDeclare)] == ["shop", "late"]
        assert (report.declared_count, report.failures, report.renamed) == (6, [], {})
        assert wire.opened_count == 1

    scene.run(script)
    assert scene.exchange_names() == {"shop", "late"}
    assert scene.queue_names() == {"orders", "more"}
    assert scene.routes() == {("shop", "orders", "a"), ("late", "shop", "")}


def test_after_a_cut_exclusive_queues_are_back(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        await topology.declare(SHOP, Queue("mine", exclusive=True), Binding("shop", "mine", "k"))
        for _ in range(3):
            await cut_and_restored(connection)
            assert topology.last_recovery is not None and topology.last_recovery.failures == []
            assert scene.routes() == {("shop", "mine", "k")}

    scene.run(script)


def test_queues_without_a_name_get_another_and_take_their_bindings_along(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        handle = await topology.declare_queue(Queue(exclusive=True))
        first = handle.name
        await topology.declare(SHOP, Binding("shop", handle, "a"), Binding("shop", first, "b"))
        await cut_and_restored(connection)
        assert handle.name != first
        assert topology.last_recovery is not None
        assert topology.last_recovery.renamed == {first: handle.name}
        assert scene.routes() == {("shop", handle.name, "a"), ("shop", handle.name, "b")}
        # Whoever wrote the old name down is led to the new one.
        assert topology.resolve(first) == topology.resolve(handle) == handle.name
        await topology.unbind(Binding("shop", first, "a"))
        assert scene.routes() == {("shop", handle.name, "b")}

    scene.run(script)


def test_a_queue_without_a_name_that_lives_on_keeps_its_name(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        handle = await topology.declare_queue(Queue())
        first = handle.name
        await cut_and_restored(connection)
        assert handle.name == first
        wiped(scene)
        await cut_and_restored(connection)
        assert handle.name != first
        assert scene.queue_names() == {handle.name}

    scene.run(script)


def test_what_was_deleted_stays_away(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        await topology.declare(SHOP, ORDERS, Queue("kept"), Binding("shop", "orders"), Binding("shop", "kept"))
        await topology.delete(ORDERS)
        await cut_and_restored(connection)

    scene.run(script)
    assert scene.queue_names() == {"kept"}


def test_what_cannot_be_had_is_reported_and_the_rest_goes_on(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        await topology.declare(SHOP, ORDERS, Queue("other", durable=False), Binding("shop", "orders", "a"))
        heard = connection.events()
        wiped(scene)
        other = scene.pika()
        other.channel().queue_declare("orders", durable=True)
        other.close()
        await cut_and_restored(connection)
        report = topology.last_recovery
        assert report is not None
        (failure,) = report.failures
        assert failure.thing == ORDERS
        assert isinstance(failure.error, TopologyConflict) and failure.error.argument == "durable"
        assert "queue 'orders'" in str(report)
        assert scene.exchange_names() == {"shop"}
        assert scene.queue_names() == {"orders", "other"}
        assert scene.routes() == {("shop", "orders", "a")}
        async for event in heard:
            if isinstance(event, events.Problem):
                assert event.what == "topology" and "queue 'orders' exists with durable true" in event.reason
                break
        # It is not taken for declared: asking again asks the broker.
        with pytest.raises(TopologyConflict):
            await topology.declare(ORDERS)
        await topology.delete(Queue("orders"))
        await topology.declare(ORDERS)

    scene.run(script)


def test_a_thing_that_breaks_connections_is_left_out_the_next_time(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        strange = Exchange("strange", "x-gone-with-its-plugin")
        await topology.declare(SHOP, ORDERS)
        # As if the broker had had the type once.
        topology._cache.add_exchange(strange)
        cut(connection)
        await asyncio.sleep(0.05)
        await connection.ready()
        report = topology.last_recovery
        assert report is not None
        assert [failure.thing for failure in report.failures] == [strange]
        assert report.declared_count == 2
        # All at once, one by one to see which it is, and without it.
        assert connection.reconnects_total == 3
        await cut_and_restored(connection)
        assert connection.reconnects_total == 4

    scene.run(script)


def test_a_declare_under_way_goes_on_over_the_next_connection(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        handle = await topology.declare_queue(Queue(exclusive=True))
        await topology.declare(SHOP)
        first = handle.name
        task = asyncio.create_task(topology.declare(Binding("shop", handle, "late")))
        await asyncio.sleep(0)
        cut(connection)
        await task
        await connection.ready()
        assert handle.name != first
        assert scene.routes() == {("shop", handle.name, "late")}

    scene.run(script)


def test_hundreds_are_restored_in_a_few_steps(scene: Scene) -> None:
    async def script(connection: Connection, topology: Topology) -> None:
        queues = [Queue(f"q{number}", durable=False) for number in range(300)]
        await topology.declare(SHOP, *queues, *(Binding("shop", queue.name, "k") for queue in queues))
        wire = Overheard(connection)
        report = await topology.recover(wire.channel)
        assert (report.declared_count, report.failures) == (601, [])
        # One that is refused among them takes a second look at its part.
        await topology.delete(queues[5])
        topology._cache.add_binding(Binding("shop", "q5", "k"))
        report = await topology.recover(wire.channel)
        assert report.declared_count == 599
        assert [failure.thing for failure in report.failures] == [Binding("shop", "q5", "k")]

    scene.run(script)


def test_an_exchange_that_goes_while_we_recover_is_made_once_more(scene: Scene) -> None:
    class Meddling(Overheard):
        """Somebody deletes the exchange just before it is bound."""

        def sending(self, method: Method) -> None:
            if isinstance(method, QueueBind) and sum(isinstance(sent, QueueBind) for sent in self.sent) < 2:
                other = scene.pika()
                other.channel().exchange_delete("brief")
                other.close()

    async def script(connection: Connection, topology: Topology) -> None:
        brief = Exchange("brief", "fanout", auto_delete=True)
        await topology.declare(brief, ORDERS, Binding("brief", "orders"))
        wire = Meddling(connection)
        report = await topology.recover(wire.channel)
        assert report.failures == []
        assert wire.opened_count == 3
        assert scene.routes() == {("brief", "orders", "")}

    scene.run(script)
