"""Paths without /api before them: publishing, fetching and acknowledging as a small REST API for programs.

Rights, limits and what is done are those of the routes under /api; answers are shorter. What has no route here and
begins with /queues, /exchanges or /bindings is answered as under /api (management/http/server.py). Not there at all if
`management.root_aliases` is off."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right
from leveret.core.connection.leased_get import LeasedGet
from leveret.management.api.binding_changes import bind_queue
from leveret.management.api.exchange_changes import put_exchange
from leveret.management.api.fetch import (
    AUTOMATIC,
    LEASED_AT_ONCE_MAX,
    MANUAL,
    Letters,
    leased,
    tagged,
)
from leveret.management.api.message_json import AUTO, name_of, payload_of, properties_of
from leveret.management.api.publish import Message, published
from leveret.management.api.queue_changes import purged, put_queue
from leveret.management.api.reprocess import reprocess
from leveret.management.http.bodies import (
    BINDING_BODY,
    EXCHANGE_BODY,
    PLAIN_ACK_BODY,
    PLAIN_MESSAGE_BODY,
    PLAIN_MESSAGES,
    PLAIN_NACK_BODY,
    PLAIN_QUEUE_BODY,
    PUBLISHED,
    PURGED,
    REPROCESS_BODY,
    TASK,
)
from leveret.management.http.errors import bad_request
from leveret.management.http.fields import Fields
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter, Scope, Size, route
from leveret.operations.http_leases import Lease

TEXT = "string"


@route(
    "PUT",
    "/exchanges/{vhost}/{exchange}",
    Right.MANAGEMENT,
    "Declare an exchange",
    answers={201: None, 204: None},
    accepts=EXCHANGE_BODY,
)
async def declare_exchange(request: Request) -> Answer:
    answer: Answer = await put_exchange(request)
    return answer


@route(
    "POST",
    "/exchanges/{vhost}/{exchange}/publish",
    Right.MANAGEMENT,
    "Publish a message; answers once it is safe",
    size=Size.LARGE,
    body=Message,
    answers={200: PUBLISHED},
    accepts=PLAIN_MESSAGE_BODY,
)
async def publish_message(request: Request) -> Answer:
    """A payload is text unless `payload_encoding` says base64; there need not be properties."""
    fields = Fields(request.body)
    fields.need("routing_key", "payload")
    return await published(request, fields)


@route(
    "PUT",
    "/queues/{vhost}/{queue}",
    Right.MANAGEMENT,
    "Declare a queue",
    answers={201: None, 204: None},
    accepts=PLAIN_QUEUE_BODY,
)
async def declare_queue(request: Request) -> Answer:
    if Fields(request.body).flag("exclusive"):
        raise bad_request("a queue cannot be exclusive here: a request has no connection that it could belong to")
    answer: Answer = await put_queue(request)
    return answer


@route(
    "POST",
    "/bindings/{vhost}/e/{exchange}/q/{queue}",
    Right.MANAGEMENT,
    "Bind a queue to an exchange; the Location header names the binding",
    answers={201: None},
    accepts=BINDING_BODY,
)
async def bind(request: Request) -> Answer:
    answer: Answer = await bind_queue(request)
    return answer


@route(
    "GET",
    "/queues/{vhost}/{queue}/get",
    Right.MANAGEMENT,
    "Fetch messages on a lease, to be acknowledged by their delivery_tag",
    scope=Scope.ENTER,
    query=(
        Parameter("count", "How many at most.", {"type": "integer", "minimum": 1, "maximum": LEASED_AT_ONCE_MAX}),
        Parameter("ack_mode", "auto takes them for good at once.", {"type": "string", "enum": [MANUAL, AUTOMATIC]}),
        Parameter("lease_s", "Seconds until what is not acknowledged goes back.", {"type": "number", "minimum": 1}),
    ),
    private=True,
    answers={200: PLAIN_MESSAGES},
)
async def fetch(request: Request) -> Answer:
    """Tags count from 1 for each user and queue, as on a channel of AMQP, while queue and process are the same."""
    letters = Letters(request, before=b'{"messages":', behind=b"}")
    user, http_leases = request.who.name, request.services.http_leases

    async def add(leased_get: LeasedGet, one: Lease | None) -> None:
        # What is taken for good has a tag, too, which names nothing that could be acknowledged.
        tag = http_leases.next_number(user, leased_get.queue) if one is None else one.number
        await letters.add_shown(_shown(leased_get, tag))

    return await leased(request, letters, add, numbered=True)


def _shown(leased_get: LeasedGet, tag: int) -> dict[str, Any]:
    message = leased_get.message
    payload, encoding = payload_of(leased_get.body, AUTO, None)
    return {
        "delivery_tag": tag,
        "exchange": name_of(message.exchange),
        "routing_key": name_of(message.routing_key),
        "properties": properties_of(message.properties),
        "payload": payload,
        **({} if encoding == TEXT else {"payload_encoding": encoding}),
        "redelivered": leased_get.redelivered,
    }


@route(
    "POST",
    "/queues/{vhost}/{queue}/ack",
    Right.MANAGEMENT,
    "Acknowledge messages that were fetched on a lease",
    answers={200: Any},
    accepts=PLAIN_ACK_BODY,
)
def acknowledge(request: Request) -> dict[str, Any]:
    http_leases = request.services.http_leases
    found, unknown = tagged(request, Fields(request.body), http_leases.by_number)
    return {"acked": http_leases.ack(found), "unknown": unknown}


@route(
    "POST",
    "/queues/{vhost}/{queue}/nack",
    Right.MANAGEMENT,
    "Give back messages that were fetched on a lease, or have them dead-lettered (requeue: false)",
    answers={200: Any},
    accepts=PLAIN_NACK_BODY,
)
def give_back(request: Request) -> dict[str, Any]:
    http_leases, fields = request.services.http_leases, Fields(request.body)
    requeue = fields.flag("requeue", True)
    found, unknown = tagged(request, fields, http_leases.by_number)
    return {"nacked": http_leases.nack(found, requeue), "unknown": unknown}


@route(
    "POST",
    "/queues/{vhost}/{queue}/reprocess",
    Right.MANAGEMENT,
    "Move dead letters back to where they died, or elsewhere",
    answers={200: TASK, 202: TASK},
    accepts=REPROCESS_BODY,
)
async def replay(request: Request) -> Answer:
    answer: Answer = await reprocess(request)
    return answer


@route(
    "DELETE",
    "/queues/{vhost}/{queue}/contents",
    Right.MANAGEMENT,
    "Delete all messages that wait in a queue",
    answers={200: PURGED},
)
async def purge(request: Request) -> dict[str, Any]:
    return {"messages_deleted": await purged(request)}
