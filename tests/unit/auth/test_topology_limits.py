"""Limits of a virtual host's topology. The catalog counts, so what is deleted makes room again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leveret.auth.node_limits import NodeLimits
from leveret.auth.topology_limits import TopologyLimits
from leveret.catalog import commands
from leveret.catalog.argument_size import argument_bytes
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import BindingRecord, ExchangeRecord, Policy, QueueRecord, Vhost
from leveret.errors import SoftError

ARGUMENTS = {"x-note": "n" * 90}
SIZE = argument_bytes(ARGUMENTS)


class Fixture:
    def __init__(self) -> None:
        self.catalog = Catalog()
        self.node = NodeLimits()
        self.limits = TopologyLimits(self.catalog, lambda: self.node)
        self.catalog.apply(commands.PutVhost(Vhost("/")))
        self.topology = self.catalog.topologies["/"]

    def exchange(self, name: str, **arguments: Any) -> None:
        record = ExchangeRecord("/", name, "direct", True, False, False, arguments)
        self.catalog.apply(commands.DeclareExchange(record))

    def queue(self, name: str, **arguments: Any) -> None:
        self.catalog.apply(commands.DeclareQueue(QueueRecord("/", name, "classic", True, False, 0, arguments)))

    def bind(self, key: str, **arguments: Any) -> BindingRecord:
        binding = BindingRecord("/", "e", True, "q", key, arguments)
        self.catalog.apply(commands.Bind(binding))
        return binding


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def refuses(check: Callable[[], None], text: str) -> None:
    with pytest.raises(SoftError) as refusal:
        check()
    assert refusal.value.code == 406
    assert text in refusal.value.text


def test_exchanges(fixture: Fixture) -> None:
    fixture.node = NodeLimits(exchanges_per_vhost_max=len(fixture.topology.exchanges) + 1)
    fixture.limits.check_exchange("/", "e", {})
    fixture.exchange("e")
    refuses(lambda: fixture.limits.check_exchange("/", "f", {}), "cannot declare exchange 'f': exchange limit in vhost")
    fixture.catalog.apply(commands.DeleteExchange("/", "e"))
    fixture.limits.check_exchange("/", "f", {})


def test_queues_of_the_node_beside_those_of_the_operator(fixture: Fixture) -> None:
    fixture.node = NodeLimits(queues_per_vhost_max=2)
    fixture.queue("a")
    fixture.limits.check_queues("/", "b", {})
    refuses(lambda: fixture.limits.check_queues("/", "b", {}, 2), "queue limit in vhost '/' (2) is reached")
    fixture.catalog.apply(commands.PutVhost(Vhost("/", limits={"max-queues": 1})))
    refuses(lambda: fixture.limits.check_queues("/", "b", {}), "queue limit in vhost '/' (1) is reached")


def test_bindings(fixture: Fixture) -> None:
    fixture.exchange("e")
    fixture.queue("q")
    fixture.node = NodeLimits(bindings_per_vhost_max=2)
    first = fixture.bind("1")
    fixture.bind("1")
    fixture.bind("2")
    assert fixture.topology.binding_count == 2, "the same binding once more is none"
    refuses(lambda: fixture.limits.check_bindings("/", {}), "binding limit in vhost '/' (2) is reached")
    fixture.catalog.apply(commands.Unbind(first))
    fixture.limits.check_bindings("/", {})
    fixture.catalog.apply(commands.DeleteQueue("/", "q"))
    assert fixture.topology.binding_count == 0


def test_arguments_of_one_thing(fixture: Fixture) -> None:
    fixture.node = NodeLimits(arguments_bytes_max=SIZE - 1)
    for check in (
        lambda: fixture.limits.check_exchange("/", "e", ARGUMENTS),
        lambda: fixture.limits.check_queues("/", "q", ARGUMENTS),
        lambda: fixture.limits.check_bindings("/", ARGUMENTS),
    ):
        refuses(check, f"larger than configured max size {SIZE - 1}")


def test_arguments_of_everything_in_a_virtual_host(fixture: Fixture) -> None:
    fixture.node = NodeLimits(arguments_per_vhost_bytes_max=3 * SIZE)
    fixture.exchange("e", **ARGUMENTS)
    fixture.queue("q", **ARGUMENTS)
    fixture.bind("k", **ARGUMENTS)
    assert fixture.topology.argument_bytes == 3 * SIZE
    refuses(lambda: fixture.limits.check_queues("/", "r", ARGUMENTS), "limit of arguments in vhost '/'")
    fixture.limits.check_queues("/", "r", {})
    fixture.catalog.apply(commands.DeleteQueue("/", "q"))
    assert fixture.topology.argument_bytes == SIZE, "the binding has gone with the queue"
    fixture.limits.check_queues("/", "r", ARGUMENTS, 2)
    refuses(lambda: fixture.limits.check_queues("/", "r", ARGUMENTS, 3), "limit of arguments")
    fixture.catalog.apply(commands.DeleteExchange("/", "e"))
    assert fixture.topology.argument_bytes == 0


def test_what_is_declared_anew_is_counted_once(fixture: Fixture) -> None:
    fixture.queue("q", **ARGUMENTS)
    fixture.queue("q", **ARGUMENTS)
    assert fixture.topology.argument_bytes == SIZE


def test_policies(fixture: Fixture) -> None:
    fixture.node = NodeLimits(policies_per_vhost_max=1)
    fixture.limits.check_policies("/")
    fixture.catalog.apply(commands.PutPolicy(Policy("/", "p", ".*", "all", 0, {"max-length": 1})))
    refuses(lambda: fixture.limits.check_policies("/"), "policy limit in vhost '/' (1) is reached")
