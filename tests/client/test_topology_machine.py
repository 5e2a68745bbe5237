"""Random declares, deletes and reconnects against a real broker: what it has is what the model says, at all times."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from leveret.client.connection import connect
from leveret.client.errors import ChannelClosed
from leveret.client.topology import Binding, Exchange, Queue, QueueHandle, TopologyConflict
from tests.client.amqp_server import AmqpServer
from tests.client.topology_scene import cut_and_restored, scene_on
from tests.fuzz.effort import effort

# Few, so that things meet.
EXCHANGES = [f"e{number}" for number in range(3)]
QUEUES = [f"q{number}" for number in range(2)]
WAIT_S = 20.0

exchanges = st.builds(
    Exchange,
    st.sampled_from(EXCHANGES),
    st.sampled_from(["direct", "fanout"]),
    durable=st.booleans(),
    auto_delete=st.booleans(),
)
queues = st.builds(
    Queue,
    st.sampled_from(QUEUES),
    durable=st.booleans(),
    exclusive=st.booleans(),
    max_length=st.sampled_from([None, 5]),
)
keys = st.sampled_from(["", "a"])
places = st.integers(0, 11)


def chosen(items: list[Any], place: int) -> Any:
    return items[place % len(items)]


class Model:
    """What a broker has, in its own words."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        # (source, destination, key, to)
        self.bindings: set[tuple[str, str, str, str]] = set()

    def unbind(self, gone: set[tuple[str, str, str, str]]) -> None:
        """What deletes itself goes with its last binding, and takes others along."""
        for source in {binding[0] for binding in gone & self.bindings}:
            self.bindings -= gone
            exchange = self.exchanges.get(source)
            if exchange is not None and exchange.auto_delete and all(b[0] != source for b in self.bindings):
                self.delete_exchange(source)

    def delete_exchange(self, name: str) -> None:
        self.exchanges.pop(name, None)
        self.bindings = {binding for binding in self.bindings if binding[0] != name}
        self.unbind({binding for binding in self.bindings if binding[1] == name and binding[3] == "exchange"})

    def delete_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self.unbind({binding for binding in self.bindings if binding[1] == name and binding[3] == "queue"})

    def rename(self, old: str, new: str) -> None:
        self.queues[new] = self.queues.pop(old)
        self.bindings = {(b[0], new if b[1] == old else b[1], *b[2:]) for b in self.bindings}


class TopologyMachine(RuleBasedStateMachine):
    server: AmqpServer

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.scene = self.stack.enter_context(scene_on(self.server))
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.model = Model()
        self.unnamed: list[QueueHandle] = []

        async def opened() -> Any:
            return await connect(self.scene.url, backoff_min_s=0.001, backoff_max_s=0.01)

        self.connection = self.run(opened())
        self.topology = self.connection.topology

    def run(self, coroutine: Any) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(WAIT_S):
                return await coroutine

        return self.runner.run(bounded())

    def teardown(self) -> None:
        self.run(self.connection.close())
        self.stack.close()

    def label(self, name: str) -> str:
        """Another word for a name that the broker made up, because those are in another order each time."""
        known = [handle.name for handle in self.unnamed]
        return f"unnamed {known.index(name)}" if name in known else name

    # ---- what happens

    @rule(exchange=exchanges, force=st.booleans())
    def declare_exchange(self, exchange: Exchange, force: bool) -> None:
        there = self.model.exchanges.get(exchange.name, exchange)
        if there == exchange:
            self.run(self.topology.declare(exchange, force=force))
            self.model.exchanges[exchange.name] = exchange
        else:
            with pytest.raises(TopologyConflict):
                self.run(self.topology.declare(exchange, force=force))

    @rule(queue=queues, force=st.booleans())
    def declare_queue(self, queue: Queue, force: bool) -> None:
        there = self.model.queues.get(queue.name, queue)
        if there == queue:
            self.run(self.topology.declare(queue, force=force))
            self.model.queues[queue.name] = queue
        elif queue.replace(durable=there.durable) != there or not queue.exclusive:
            with pytest.raises(ChannelClosed):
                self.run(self.topology.declare(queue, force=force))

    @rule()
    def declare_a_queue_without_a_name(self) -> None:
        if len(self.unnamed) < 3:
            handle = self.run(self.topology.declare_queue(Queue(exclusive=True)))
            self.unnamed.append(handle)
            self.model.queues[handle.name] = handle.queue

    @precondition(lambda self: self.model.exchanges and self.model.queues)
    @rule(source=places, destination=places, key=keys, by_handle=st.booleans())
    def bind_a_queue(self, source: int, destination: int, key: str, by_handle: bool) -> None:
        queue: str | QueueHandle = chosen(sorted(self.model.queues, key=self.label), destination)
        if by_handle:
            queue = next((handle for handle in self.unnamed if handle.name == queue), queue)
        self.bind(Binding(chosen(sorted(self.model.exchanges), source), queue, key))

    @precondition(lambda self: self.model.exchanges)
    @rule(source=places, destination=places, key=keys)
    def bind_an_exchange(self, source: int, destination: int, key: str) -> None:
        names = sorted(self.model.exchanges)
        self.bind(Binding(chosen(names, source), chosen(names, destination), key, to="exchange"))

    @rule(source=st.sampled_from(EXCHANGES), destination=st.sampled_from(QUEUES))
    def bind_what_may_not_be_there(self, source: str, destination: str) -> None:
        self.bind(Binding(source, destination))

    def bind(self, binding: Binding) -> None:
        destination = str(binding.destination)
        ends = self.model.queues if binding.to == "queue" else self.model.exchanges
        if binding.source in self.model.exchanges and destination in ends:
            self.run(self.topology.declare(binding))
            self.model.bindings.add((binding.source, destination, binding.routing_key, binding.to))
        else:
            with pytest.raises(ChannelClosed):
                self.run(self.topology.declare(binding))

    @precondition(lambda self: self.model.bindings)
    @rule(place=places)
    def unbind(self, place: int) -> None:
        gone = chosen(sorted(self.model.bindings, key=lambda one: tuple(map(self.label, one))), place)
        self.run(self.topology.unbind(Binding(*gone)))
        self.model.unbind({gone})

    @rule(name=st.sampled_from(EXCHANGES))
    def delete_exchange(self, name: str) -> None:
        self.run(self.topology.delete(Exchange(name)))
        self.model.delete_exchange(name)

    @rule(place=places)
    def delete_queue(self, place: int) -> None:
        queue: str | QueueHandle = chosen([*QUEUES, *self.unnamed], place)
        if isinstance(queue, QueueHandle):
            self.unnamed.remove(queue)
            self.run(self.topology.delete(queue))
        else:
            self.run(self.topology.delete(Queue(queue)))
        self.model.delete_queue(str(queue))

    @rule(name=st.sampled_from(QUEUES + EXCHANGES))
    def somebody_deletes_it_and_the_connection_breaks(self, name: str) -> None:
        queue = self.model.queues.get(name)
        if queue is None or not queue.exclusive:
            kind = "queues" if name in QUEUES else "exchanges"
            self.scene.server.api.ask("DELETE", f"/{kind}/{self.scene.virtual_host}/{name}")
        self.the_connection_breaks()

    @rule()
    def the_connection_breaks(self) -> None:
        before = {handle: handle.name for handle in self.unnamed}
        self.run(cut_and_restored(self.connection))
        assert self.topology.last_recovery.failures == []
        for handle, old in before.items():
            assert handle.name != old
            self.model.rename(old, handle.name)

    # ---- what must be true

    @invariant()
    def the_broker_has_what_the_model_says(self) -> None:
        exchanges = {item["name"]: item for item in self.scene.listed("exchanges") if item["name"] in EXCHANGES}
        assert exchanges.keys() == self.model.exchanges.keys()
        for name, exchange in self.model.exchanges.items():
            there = exchanges[name]
            assert (there["type"], there["durable"], there["auto_delete"]) == (
                exchange.type,
                exchange.durable,
                exchange.auto_delete,
            )
        queues = {item["name"]: item for item in self.scene.listed("queues")}
        assert queues.keys() == self.model.queues.keys()
        for name, queue in self.model.queues.items():
            assert (queues[name]["exclusive"], queues[name]["arguments"]) == (queue.exclusive, queue.arguments)
        bindings = {
            (item["source"], item["destination"], item["routing_key"], item["destination_type"])
            for item in self.scene.listed("bindings")
            if item["source"]
        }
        assert bindings == self.model.bindings

    @invariant()
    def the_manager_knows_the_same(self) -> None:
        assert {exchange.name: exchange for exchange in self.topology.exchanges} == self.model.exchanges
        assert {handle.name for handle in self.topology.queues} == self.model.queues.keys()
        assert len(self.topology.bindings) == len(self.model.bindings)


def test_whatever_happens_the_broker_has_what_was_declared(leveret_server: AmqpServer) -> None:
    class Machine(TopologyMachine):
        server = leveret_server

    # Making a history shorter takes minutes with a real broker; the blob repeats the long one.
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    run_state_machine_as_test(Machine, settings=effort(40, stateful_step_count=40, phases=phases))
