"""Bindings as operators see them: all of them, those of a virtual host, and those between two things."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from leveret.auth.access import Right
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
from leveret.management.http.bodies import BINDING
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, shown
from leveret.management.http.request import DEFAULT_EXCHANGE, Answer, Request
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
async def list_bindings(request: Request) -> Answer:
    return await listed(request, _all(request), BINDINGS)


def _all(request: Request) -> Iterator[BindingRecord]:
    """Implicit bindings first, as in RabbitMQ: the default exchange has no name."""
    for vhost in meant_vhosts(request):
        topology = request.services.broker.catalog.topologies[vhost.name]
        yield from (default_binding(vhost.name, queue) for queue in sorted(topology.queues))
        for source in sorted(topology.bindings_from):
            # Others have their turn in between, in which bindings may go.
            yield from list(topology.bindings_from.get(source, {}).values())


# ---- between two things


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/q/{destination}",
    Right.MANAGEMENT,
    "The bindings from an exchange to a queue",
)
async def get_bindings_to_queue(request: Request) -> list[Raw]:
    return await _between(request, True)


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/e/{destination}",
    Right.MANAGEMENT,
    "The bindings from an exchange to an exchange",
)
async def get_bindings_to_exchange(request: Request) -> list[Raw]:
    return await _between(request, False)


async def _between(request: Request, to_queue: bool) -> list[Raw]:
    """None, too, where an end is missing: RabbitMQ does not look whether it is there."""
    topology, source, destination = _ends(request, to_queue)
    return await shown(in_order(bindings_between(topology, source, to_queue, destination)), described)


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/q/{destination}/{properties_key}",
    Right.MANAGEMENT,
    "One binding to a queue",
)
def get_binding_to_queue(request: Request) -> Described:
    return _one(request, True)


@route(
    "GET",
    "/api/bindings/{vhost}/e/{exchange}/e/{destination}/{properties_key}",
    Right.MANAGEMENT,
    "One binding to an exchange",
)
def get_binding_to_exchange(request: Request) -> Described:
    return _one(request, False)


def _one(request: Request, to_queue: bool) -> Described:
    topology, source, destination = _ends(request, to_queue)
    binding = find_binding(topology, source, to_queue, destination, request.path["properties_key"])
    if binding is None:
        raise not_found()
    return described(binding)


def _ends(request: Request, to_queue: bool) -> tuple[Topology, str, str]:
    topology = request.services.broker.catalog.topologies[request.vhost.name]
    source, destination = request.exchange_name, request.path["destination"]
    if not to_queue and destination == DEFAULT_EXCHANGE:
        destination = ""
    return topology, source, destination
