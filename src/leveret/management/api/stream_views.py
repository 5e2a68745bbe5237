"""Streams as operators see them: how far consumers have come, where a moment is, and super streams."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import Right
from leveret.broker.super_streams import SuperStream
from leveret.core.codec.field_types import Timestamp
from leveret.management.api.numbers import Described
from leveret.management.api.visible import meant_vhosts
from leveret.management.http.bodies import SUPER_STREAM_BODY
from leveret.management.http.errors import bad_request, keys_missing, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Parameter, Scope, route

STREAM = "/api/stream/{vhost}/{stream}"
OFFSETS, WRITERS = "offset", "writer"
NUMBER_DIGITS_MAX = 19


# ---- tracking


@route(
    "GET",
    f"{STREAM}/tracking",
    Right.MANAGEMENT,
    "How far named consumers have come, and the last ids of named producers; needs READ on the stream",
    query=(Parameter("type", "Only one of the two.", {"type": "string", "enum": ["all", OFFSETS, WRITERS]}),),
)
def get_tracking(request: Request) -> Described:
    view = request.services.streams.view(request.requester(), request.path["stream"])
    kind = request.query.get("type", "all")
    found: Described = {}
    if kind != WRITERS:
        found["offsets"] = view.stored_offsets
        found["lags"] = view.stored_lags
    if kind != OFFSETS:
        found["writers"] = view.producer_ids
    return found


@route(
    "GET",
    f"{STREAM}/tracking/{{consumer}}",
    Right.MANAGEMENT,
    "The last offset that a consumer is done with; needs READ on the stream",
)
def get_stored_offset(request: Request) -> Described:
    consumer = request.path["consumer"]
    offset = request.services.streams.stored_offset(request.requester(), request.path["stream"], consumer)
    if offset is None:
        raise not_found()
    return {"consumer": consumer, "offset": offset}


@route(
    "PUT",
    f"{STREAM}/tracking/{{consumer}}",
    Right.MANAGEMENT,
    "Says that a consumer is done with everything up to an offset; needs READ on the stream",
)
async def put_stored_offset(request: Request) -> Answer:
    if not isinstance(request.body, dict) or "offset" not in request.body:
        raise keys_missing("offset")
    offset = request.body["offset"]
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise bad_request("offset must be a whole number")
    request.services.streams.store_offset(request.requester(), request.path["stream"], request.path["consumer"], offset)
    await request.synced()
    return DONE


@route(
    "DELETE",
    f"{STREAM}/tracking/{{consumer}}",
    Right.MANAGEMENT,
    "Forgets how far a consumer has come; needs READ on the stream",
)
async def delete_stored_offset(request: Request) -> Answer:
    if not request.services.streams.forget_offset(
        request.requester(), request.path["stream"], request.path["consumer"]
    ):
        raise not_found()
    await request.synced()
    return DONE


# ---- where something is


@route(
    "GET",
    f"{STREAM}/offset",
    Right.MANAGEMENT,
    "Where a consumer would begin; needs READ on the stream",
    query=(
        Parameter("at", "As in x-stream-offset: first, last, next, an offset, or how long ago, such as 2h."),
        Parameter("timestamp", "Instead of that: a moment in seconds since 1970.", {"type": "integer", "minimum": 0}),
    ),
)
async def get_offset(request: Request) -> Described:
    offset = await request.services.streams.offset_at(request.requester(), request.path["stream"], _when(request))
    return {"offset": offset}


def _when(request: Request) -> object:
    """As an AMQP client would have sent it: a moment has a type of its own."""
    stamp = request.query.get("timestamp")
    if stamp:
        return Timestamp(_digits("timestamp", stamp))
    at = request.query.get("at", "first")
    return _digits("at", at) if at.isascii() and at.isdecimal() else at


def _digits(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
        raise bad_request(f"{name} is {text[:64]!r}; it must be a whole number")
    return int(text)


# ---- super streams


def describe_super_stream(vhost: str, found: SuperStream) -> Described:
    return {
        "name": found.name,
        "vhost": vhost,
        "type": found.kind,
        "partitions": list(found.partitions),
        "binding_keys": list(found.binding_keys),
    }


@route("GET", "/api/stream/super-streams", Right.MANAGEMENT, "All super streams")
@route("GET", "/api/stream/super-streams/{vhost}", Right.MANAGEMENT, "The super streams of a virtual host")
def list_super_streams(request: Request) -> list[Described]:
    services = request.services
    return [
        describe_super_stream(vhost.name, each)
        for vhost in meant_vhosts(request)
        for each in services.super_streams.list(vhost.name)
    ]


@route("GET", "/api/stream/super-streams/{vhost}/{name}", Right.MANAGEMENT, "One super stream")
def get_super_stream(request: Request) -> Described:
    vhost = request.vhost.name
    for found in request.services.super_streams.list(vhost):
        if found.name == request.path["name"]:
            return describe_super_stream(vhost, found)
    raise not_found()


@route(
    "PUT",
    "/api/stream/super-streams/{vhost}/{name}",
    Right.MANAGEMENT,
    "Makes a super stream: a number of partitions, or binding-keys separated by commas",
    scope=Scope.ENTER,
    answers={201: None},
    accepts=SUPER_STREAM_BODY,
)
async def put_super_stream(request: Request) -> Answer:
    body: dict[str, Any] = request.body if isinstance(request.body, dict) else {}
    partitions, keys = body.get("partitions"), body.get("binding-keys")
    if not isinstance(body.get("arguments", {}), dict):
        raise bad_request("arguments must be an object")
    arguments = Fields(body).table("arguments")
    if isinstance(keys, str):
        keys = [key.strip() for key in keys.split(",")]
    if keys is not None and (not isinstance(keys, list) or not all(isinstance(key, str) for key in keys)):
        raise bad_request("binding-keys must be a text or a list of texts")
    if keys is None and (not isinstance(partitions, int) or isinstance(partitions, bool)):
        raise bad_request("Partitions or binding keys must be given: partitions is a whole number")
    wanted = keys if keys is not None else partitions
    assert wanted is not None
    requester = request.requester()
    await request.durably(
        lambda: request.services.super_streams.create(requester, request.path["name"], wanted, arguments)
    )
    return Answer(201)


@route(
    "DELETE",
    "/api/stream/super-streams/{vhost}/{name}",
    Right.MANAGEMENT,
    "Deletes a super stream and its partitions, with all that is in them",
    scope=Scope.ENTER,
)
async def delete_super_stream(request: Request) -> Answer:
    requester = request.requester()
    await request.durably(lambda: request.services.super_streams.delete(requester, request.path["name"]))
    return DONE
