"""Where would a message go?"""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right, sees_vhost
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.errors import AmqpError
from leveret.management.api.fetch import refusal
from leveret.management.http.bodies import ERROR, SIMULATE_BODY
from leveret.management.http.errors import not_authorised, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.request import DEFAULT_EXCHANGE, Request
from leveret.management.http.route import route


@route(
    "POST",
    "/api/simulate-route",
    Right.MANAGEMENT,
    "Which bindings a message would take, which queues it would reach, and why none",
    answers={200: Any, 404: ERROR},
    harmless=True,
    accepts=SIMULATE_BODY,
)
async def simulate(request: Request) -> Any:
    """{vhost, exchange, routing_key, headers}; nothing is published."""
    fields = Fields(request.body)
    fields.need("exchange", "routing_key")
    name = fields.text("vhost", "/")
    vhost = request.services.broker.vhosts.get(name)
    if vhost is None:
        raise not_found()
    if not sees_vhost(request.who, name):
        raise not_authorised("User not authorised to access virtual host")
    exchange = fields.text("exchange")
    properties = parse_properties(encode_properties(headers=fields.table("headers")))
    try:
        return await request.services.route_trace.trace(
            vhost, "" if exchange == DEFAULT_EXCHANGE else exchange, fields.text("routing_key"), properties
        )
    except AmqpError as error:
        raise refusal(error) from None
