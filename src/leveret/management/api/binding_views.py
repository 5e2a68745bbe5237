"""Bindings as operators see them: all of them, those of a virtual host, and those between two things."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.broker.access import Right
from leveret.catalog.records import BindingRecord
from leveret.catalog.topology import Topology
from leveret.management.api.binding_keys import (
    bindings_between,
    default_binding,
    described,
    find_binding,
    in_order,
)
from leveret.management.api.numbers import Described
from leveret.management.api.visible import meant_vhosts
from leveret.management.http.ask import DEFAULT_EXCHANGE, Answer, Ask
from leveret.management.http.bodies import BINDING
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed
from leveret.management.http.route import route

BINDINGS: Listed[BindingRecord] = Listed(
    describe=lambda _, binding: described(binding),
    name=lambda binding: binding.destination,
    cheap={
        "source": lambda binding: binding.source,
        "vhost": lambda binding: binding.vhost,
        "destination": lambda binding: binding.destination,
        "routing_key": lambda binding: binding.routing_key,
    },
)


@route("GET", "/api/bindings", Right.MANAGEMENT, "All bindings", query=LIST_PARAMETERS, answers={200: listing(BINDING)})
@route(
    "GET",
    "/api/bindings/{vhost}",
    Right.MANAGEMENT,
    "The bindings of a virtual host",
    query=LIST_PARAMETERS,
    answers={200: listing(BINDING)},
)
async def list_bindings(ask: Ask) -> Answer:
    return await listed(ask, _all(ask), BINDINGS)


def _all(ask: Ask) -> Iterator[BindingRecord]:
    """Those that nobody made first, as RabbitMQ has it: the default exchange has no name."""
    for vhost in meant_vhosts(ask):
        topology = ask.services.broker.catalog.topologies[vhost.name]
        yield from (default_binding(vhost.name, queue) for queue in sorted(topology.queues))
        for source in sorted(topology.bindings_from):
            yield from topology.bindings_from[source].values()


# ---- between two things


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/q/{destination}",
    Right.MANAGEMENT,
    "The bindings from an exchange to a queue",
)
def get_bindings_to_queue(ask: Ask) -> list[Described]:
    return _between(ask, True)


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/e/{destination}",
    Right.MANAGEMENT,
    "The bindings from an exchange to an exchange",
)
def get_bindings_to_exchange(ask: Ask) -> list[Described]:
    return _between(ask, False)


def _between(ask: Ask, to_queue: bool) -> list[Described]:
    """None, too, where an end is missing: RabbitMQ does not look whether it is there."""
    topology, source, destination = _ends(ask, to_queue)
    return [described(binding) for binding in in_order(bindings_between(topology, source, to_queue, destination))]


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/q/{destination}/{properties_key}",
    Right.MANAGEMENT,
    "One binding to a queue",
)
def get_binding_to_queue(ask: Ask) -> Described:
    return _one(ask, True)


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/e/{destination}/{properties_key}",
    Right.MANAGEMENT,
    "One binding to an exchange",
)
def get_binding_to_exchange(ask: Ask) -> Described:
    return _one(ask, False)


def _one(ask: Ask, to_queue: bool) -> Described:
    topology, source, destination = _ends(ask, to_queue)
    binding = find_binding(topology, source, to_queue, destination, ask.path["properties_key"])
    if binding is None:
        raise not_found()
    return described(binding)


def _ends(ask: Ask, to_queue: bool) -> tuple[Topology, str, str]:
    topology = ask.services.broker.catalog.topologies[ask.vhost.name]
    source, destination = ask.exchange_name, ask.path["destination"]
    if not to_queue and destination == DEFAULT_EXCHANGE:
        destination = ""
    return topology, source, destination
