"""Bindings: making and deleting them."""

from __future__ import annotations

from leveret.auth.access import Right
from leveret.broker.topology import exchange_text, queue_text
from leveret.catalog.records import BindingRecord
from leveret.core.codec.names import name_octets
from leveret.management.api.binding_keys import find_binding, location_of
from leveret.management.http.bodies import BINDING_BODY
from leveret.management.http.errors import HttpError, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.names import checked_name
from leveret.management.http.request import DEFAULT_EXCHANGE, DONE, Answer, Request, Requester
from leveret.management.http.route import route


@route(
    "POST",
    "/api/bindings/{vhost}/e/{exchange}/q/{queue}",
    Right.MANAGEMENT,
    "Bind a queue to an exchange; the Location header names the binding",
    answers={201: None},
    accepts=BINDING_BODY,
)
async def bind_queue(request: Request) -> Answer:
    return await _bind(request, to_queue=True, destination=request.path["queue"])


@route(
    "POST",
    "/api/bindings/{vhost}/e/{exchange}/e/{destination}",
    Right.MANAGEMENT,
    "Bind an exchange to another; the Location header names the binding",
    answers={201: None},
    accepts=BINDING_BODY,
)
async def bind_exchange(request: Request) -> Answer:
    return await _bind(request, to_queue=False, destination=_exchange_name(request.path["destination"]))


async def _bind(request: Request, to_queue: bool, destination: str) -> Answer:
    who = request.requester()
    fields = Fields(request.body)
    key = checked_name("routing_key", fields.text("routing_key"))
    arguments = fields.table("arguments")
    binding = BindingRecord(who.vhost.name, request.exchange_name, to_queue, destination, key, arguments)
    _check_ends(who, binding)
    await request.durably(lambda: request.services.topology.bind(who, binding))
    return Answer(201, headers={"Location": location_of(destination, key, arguments)})


def _check_ends(who: Requester, binding: BindingRecord) -> None:
    """Names the missing object, if the caller has the right to know of it."""
    who_reads = who.access.identity
    vhost = who.vhost
    destinations = vhost.queues if binding.to_queue else vhost.exchanges
    missing = None
    if name_octets(binding.source) not in vhost.exchanges:
        missing = exchange_text(vhost.name, binding.source)
    elif name_octets(binding.destination) not in destinations:
        text = queue_text if binding.to_queue else exchange_text
        missing = text(vhost.name, binding.destination)
    if missing is not None and who_reads.may_enter(vhost.name):
        raise HttpError(404, "not_found", f"no {missing}")


@route(
    "DELETE", "/api/bindings/{vhost}/e/{exchange}/q/{queue}/{props}", Right.MANAGEMENT, "Delete a binding of a queue"
)
async def unbind_queue(request: Request) -> Answer:
    return await _unbind(request, to_queue=True, destination=request.path["queue"])


@route(
    "DELETE",
    "/api/bindings/{vhost}/e/{exchange}/e/{destination}/{props}",
    Right.MANAGEMENT,
    "Delete a binding of an exchange",
)
async def unbind_exchange(request: Request) -> Answer:
    return await _unbind(request, to_queue=False, destination=_exchange_name(request.path["destination"]))


async def _unbind(request: Request, to_queue: bool, destination: str) -> Answer:
    who = request.requester()
    topology = request.services.broker.catalog.topologies[who.vhost.name]
    binding = find_binding(topology, request.exchange_name, to_queue, destination, request.path["props"])
    if binding is None:
        raise not_found()
    await request.durably(lambda: request.services.topology.unbind(who, binding))
    return DONE


def _exchange_name(name: str) -> str:
    return "" if name == DEFAULT_EXCHANGE else name
