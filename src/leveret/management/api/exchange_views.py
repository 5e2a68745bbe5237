"""Exchanges as operators see them: lists, one, and the bindings on either side of it."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import Right
from leveret.broker.vhost import octets
from leveret.catalog.policies import NOTHING_APPLIED
from leveret.catalog.records import ExchangeRecord
from leveret.core.router import Exchange
from leveret.management.api.binding_keys import default_binding, described, in_order
from leveret.management.api.numbers import SPAN_PARAMETERS, Described, message_stats
from leveret.management.api.visible import meant_exchanges
from leveret.management.http.ask import Answer, Ask
from leveret.management.http.bodies import EXCHANGE
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.route import Parameter, route

# Whoever makes what every virtual host is born with.
NOBODY = "rmq-internal"


def describe_exchange(ask: Ask, exchange: Exchange) -> Described:
    record: ExchangeRecord = exchange.record
    vhost = ask.services.broker.vhosts.get(record.vhost)
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
        "user_who_performed_action": NOBODY if is_predeclared(record) else "",
    }
    # Left out as RabbitMQ does, and never null: rabbitmqadmin's tables end in an error at a null.
    if applied.name is not None:
        found["policy"] = applied.name
    if applied.operator_name is not None:
        found["operator_policy"] = applied.operator_name
    if ask.flag("disable_stats"):
        return found
    found |= message_stats(ask, exchange, ask.services.statistics.exchange_stats(exchange))
    if exchange.holder is not None:
        found["messages_delayed"] = exchange.holder.delays.count
    return found


def is_predeclared(record: ExchangeRecord) -> bool:
    return record.name == "" or record.name.startswith("amq.")


def find_exchange(ask: Ask) -> Exchange:
    exchange = ask.vhost.exchanges.get(octets(ask.exchange_name))
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
async def list_exchanges(ask: Ask) -> Answer:
    return await listed(ask, meant_exchanges(ask), EXCHANGES)


@route(
    "GET",
    "/api/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "One exchange",
    query=(Parameter("columns", "Only these columns, separated by commas."), *SPAN_PARAMETERS),
    answers={200: EXCHANGE},
)
def get_exchange(ask: Ask) -> Described:
    found = describe_exchange(ask, find_exchange(ask))
    if not ask.flag("disable_stats"):
        found |= {"incoming": [], "outgoing": []}
    return one(ask, found)


@route(
    "GET", "/api/exchanges/{vhost}/{exchange}/bindings/source", Right.MANAGEMENT, "The bindings that an exchange has"
)
def get_bindings_from(ask: Ask) -> list[Described]:
    vhost, name = ask.vhost.name, ask.exchange_name
    topology = ask.services.broker.catalog.topologies[vhost]
    if name == "":
        return [described(default_binding(vhost, queue)) for queue in sorted(topology.queues)]
    return [described(binding) for binding in in_order(topology.bindings_from.get(name, {}).values())]


@route("GET", "/api/exchanges/{vhost}/{exchange}/bindings/destination", Right.MANAGEMENT, "What leads to an exchange")
def get_bindings_to(ask: Ask) -> list[Described]:
    topology = ask.services.broker.catalog.topologies[ask.vhost.name]
    inbound = topology.bindings_to.get((False, ask.exchange_name), {})
    return [described(binding) for binding in in_order(inbound.values())]
