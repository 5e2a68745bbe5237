"""Exchanges: declaring and deleting them."""

from __future__ import annotations

from leveret.auth.access import Right
from leveret.broker.topology import strip_line_ends
from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.names import name_octets
from leveret.management.http.bodies import EXCHANGE_BODY
from leveret.management.http.errors import not_found
from leveret.management.http.fields import Fields
from leveret.management.http.names import checked_name
from leveret.management.http.request import CREATED, DONE, Answer, Request
from leveret.management.http.route import Parameter, route


@route(
    "PUT",
    "/api/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "Declare an exchange",
    answers={201: None, 204: None},
    accepts=EXCHANGE_BODY,
)
async def put_exchange(request: Request) -> Answer:
    who = request.requester()
    fields = Fields(request.body)
    name = strip_line_ends(checked_name("exchange", request.exchange_name))
    record = ExchangeRecord(
        who.vhost.name,
        name,
        fields.text("type", "direct"),
        fields.flag("durable"),
        fields.flag("auto_delete"),
        fields.flag("internal"),
        fields.table("arguments"),
    )
    new = name_octets(name) not in who.vhost.exchanges
    await request.durably(lambda: request.services.topology.declare_exchange(who, record))
    return CREATED if new else DONE


@route(
    "DELETE",
    "/api/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "Delete an exchange and its bindings",
    query=(Parameter("if-unused", "Only if nothing is bound to it.", {"type": "boolean"}),),
)
async def delete_exchange(request: Request) -> Answer:
    who = request.requester()
    name = request.exchange_name
    if name_octets(name) not in who.vhost.exchanges:
        raise not_found()
    if_unused = request.flag("if-unused")
    await request.durably(lambda: request.services.topology.delete_exchange(who, name, if_unused))
    return DONE
