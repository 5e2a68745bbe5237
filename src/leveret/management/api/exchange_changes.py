"""Exchanges: declaring and deleting them."""

from __future__ import annotations

from leveret.broker.access import Right
from leveret.broker.topology import strip_line_ends
from leveret.broker.vhost import octets
from leveret.catalog.records import ExchangeRecord
from leveret.management.http.ask import CREATED, DONE, Answer, Ask
from leveret.management.http.bodies import EXCHANGE_BODY
from leveret.management.http.errors import not_found
from leveret.management.http.fields import Fields
from leveret.management.http.names import checked_name
from leveret.management.http.route import Parameter, route


@route(
    "PUT",
    "/api/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "Declare an exchange",
    answers={201: None, 204: None},
    accepts=EXCHANGE_BODY,
)
async def put_exchange(ask: Ask) -> Answer:
    who = ask.requester()
    fields = Fields(ask.body)
    name = strip_line_ends(checked_name("exchange", ask.exchange_name))
    record = ExchangeRecord(
        who.vhost.name,
        name,
        fields.text("type", "direct"),
        fields.flag("durable"),
        fields.flag("auto_delete"),
        fields.flag("internal"),
        fields.table("arguments"),
    )
    new = octets(name) not in who.vhost.exchanges
    await ask.durably(lambda: ask.services.topology.declare_exchange(who, record))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "Delete an exchange and its bindings",
    query=(Parameter("if-unused", "Only if nothing is bound to it.", {"type": "boolean"}),),
)
async def delete_exchange(ask: Ask) -> Answer:
    who = ask.requester()
    name = ask.exchange_name
    if octets(name) not in who.vhost.exchanges:
        raise not_found()
    if_unused = ask.flag("if-unused")
    await ask.durably(lambda: ask.services.topology.delete_exchange(who, name, if_unused))
    return DONE
