"""Exchanges as operators see them: lists, one, and the bindings on either side of it."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from leveret.auth.access import Right
from leveret.catalog.policies import NOTHING_APPLIED
from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.names import name_octets
from leveret.core.connection.router import Exchange
from leveret.management.api.binding_keys import default_binding, described, in_order
from leveret.management.api.numbers import SPAN_PARAMETERS, Described, message_stats
from leveret.management.api.visible import meant_exchanges
from leveret.management.http.bodies import EXCHANGE
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one, shown
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter, route
from leveret.queues.holder import ExchangeHolder

# The creator of the exchanges that every virtual host begins with.
INTERNAL_USER = "rmq-internal"


def describe_exchange(request: Request, exchange: Exchange) -> Described:
    record: ExchangeRecord = exchange.record
    vhost = request.services.broker.vhosts.get(record.vhost)
    # A list takes its time, in which all of a virtual host may go.
    applied = NOTHING_APPLIED if vhost is None else vhost.policies.of_exchange(record)
    found: Described = {
        "name": record.name,
        "vhost": record.vhost,
        "type": record.kind,
        "durable": record.durable,
        "auto_delete": record.auto_delete,
        "internal": record.internal,
        "arguments": record.arguments,
        "effective_policy_definition": applied.definition,
        "user_who_performed_action": INTERNAL_USER if is_predeclared(record) else "",
    }
    # Left out as RabbitMQ does, and never null: rabbitmqadmin's tables end in an error at a null.
    if applied.name is not None:
        found["policy"] = applied.name
    if applied.operator_name is not None:
        found["operator_policy"] = applied.operator_name
    if request.flag("disable_stats"):
        return found
    found |= message_stats(request, exchange, request.services.statistics.exchange_stats(exchange))
    if isinstance(exchange.holder, ExchangeHolder):
        found["messages_delayed"] = exchange.holder.delays.count
    return found


def is_predeclared(record: ExchangeRecord) -> bool:
    return record.name == "" or record.name.startswith("amq.")


def find_exchange(request: Request) -> Exchange:
    exchange = request.vhost.exchanges.get(name_octets(request.exchange_name))
    if exchange is None:
        raise not_found()
    return exchange


EXCHANGES: Listed[Any] = Listed(
    describe=describe_exchange,
    name=lambda exchange: exchange.record.name,
    cheap={
        "name": lambda exchange: exchange.record.name,
        "vhost": lambda exchange: exchange.record.vhost,
        "type": lambda exchange: exchange.record.kind,
        "message_stats.publish_in": lambda exchange: exchange.published_total,
        "message_stats.publish_out": lambda exchange: exchange.routed_total,
    },
)


@route(
    "GET",
    "/api/exchanges",
    Right.MANAGEMENT,
    "All exchanges",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
    answers={200: listing(EXCHANGE)},
)
@route(
    "GET",
    "/api/exchanges/{vhost}",
    Right.MANAGEMENT,
    "The exchanges of a virtual host",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
    answers={200: listing(EXCHANGE)},
)
async def list_exchanges(request: Request) -> Answer:
    return await listed(request, meant_exchanges(request), EXCHANGES)


@route(
    "GET",
    "/api/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "One exchange",
    query=(Parameter("columns", "Only these columns, separated by commas."), *SPAN_PARAMETERS),
    answers={200: EXCHANGE},
)
def get_exchange(request: Request) -> Described:
    found = describe_exchange(request, find_exchange(request))
    if not request.flag("disable_stats"):
        found |= {"incoming": [], "outgoing": []}
    return one(request, found)


@route(
    "GET", "/api/exchanges/{vhost}/{exchange}/bindings/source", Right.MANAGEMENT, "The bindings that an exchange has"
)
async def get_bindings_from(request: Request) -> list[Raw]:
    vhost, name = request.vhost.name, request.exchange_name
    topology = request.services.broker.catalog.topologies[vhost]
    if name == "":
        return await shown(sorted(topology.queues), lambda queue: described(default_binding(vhost, queue)))
    return await shown(in_order(topology.bindings_from.get(name, {}).values()), described)


@route("GET", "/api/exchanges/{vhost}/{exchange}/bindings/destination", Right.MANAGEMENT, "What leads to an exchange")
async def get_bindings_to(request: Request) -> list[Raw]:
    topology = request.services.broker.catalog.topologies[request.vhost.name]
    inbound = topology.bindings_to.get((False, request.exchange_name), {})
    return await shown(in_order(inbound.values()), described)
