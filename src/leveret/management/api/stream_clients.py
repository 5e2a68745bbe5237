"""Clients of the stream protocol as operators see them: their connections, publishers and consumers."""

from __future__ import annotations

from leveret.auth.access import Right
from leveret.broker.connected import STREAM, UP, WAITING, Connected, PublisherInfo, SubscriptionInfo
from leveret.management.api.connection_views import (
    COLUMNS,
    CONNECTIONS,
    close,
    describe_connection,
)
from leveret.management.api.numbers import SPAN_PARAMETERS, Described
from leveret.management.api.visible import meant_connections, named_connection
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Scope, route

ONE = "/api/stream/connections/{vhost}/{name}"


# ---- connections


@route(
    "GET",
    "/api/stream/connections",
    Right.MANAGEMENT,
    "All connections of stream clients",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
@route(
    "GET",
    "/api/stream/connections/{vhost}",
    Right.MANAGEMENT,
    "Those to a virtual host",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
async def list_stream_connections(request: Request) -> Answer:
    return await listed(request, _meant(request), CONNECTIONS)


def _meant(request: Request) -> list[Connected]:
    return [connection for connection in meant_connections(request) if connection.protocol == STREAM]


def _named(request: Request) -> Connected:
    connection = named_connection(request, request.path["name"])
    if connection.protocol != STREAM or connection.vhost_name != request.vhost.name:
        raise not_found()
    return connection


@route("GET", ONE, Right.MANAGEMENT, "One connection of a stream client", query=(COLUMNS, *SPAN_PARAMETERS))
def get_stream_connection(request: Request) -> Described:
    return one(request, describe_connection(request, _named(request)))


@route("DELETE", ONE, Right.MANAGEMENT, "Closes it; one's own, without the tag administrator.", scope=Scope.SEE)
def close_stream_connection(request: Request) -> Answer:
    return close(request, [_named(request)])


# ---- publishers


def describe_publisher(request: Request, seen: PublisherInfo) -> Described:
    return {
        "connection_details": _connection(request, seen.connection),
        "queue": {"name": seen.stream, "vhost": seen.connection.vhost_name},
        "publisher_id": seen.id,
        "reference": seen.reference,
        "published": seen.published_total,
        "confirmed": seen.confirmed_total,
        "errored": seen.refused_total,
    }


def _connection(request: Request, connection: Connected) -> Described:
    seen = connection.seen()
    return {
        "name": seen.name,
        "node": request.services.node_name,
        "peer_host": seen.peer_host,
        "peer_port": seen.peer_port,
        "user": seen.user,
    }


PUBLISHERS: Listed[PublisherInfo] = Listed(describe=describe_publisher, name=lambda seen: seen.stream)


@route("GET", "/api/stream/publishers", Right.MANAGEMENT, "All publishers of stream clients", query=LIST_PARAMETERS)
@route(
    "GET",
    "/api/stream/publishers/{vhost}",
    Right.MANAGEMENT,
    "Those in a virtual host",
    query=LIST_PARAMETERS,
)
@route(
    "GET",
    "/api/stream/publishers/{vhost}/{stream}",
    Right.MANAGEMENT,
    "Those of one stream",
    query=LIST_PARAMETERS,
)
async def list_publishers(request: Request) -> Answer:
    stream = request.path.get("stream")
    seen = (each for connection in _meant(request) for each in connection.publishers_seen())
    return await listed(request, (each for each in seen if stream in (None, each.stream)), PUBLISHERS)


@route("GET", f"{ONE}/publishers", Right.MANAGEMENT, "The publishers of one connection", query=LIST_PARAMETERS)
async def list_publishers_of_connection(request: Request) -> Answer:
    return await listed(request, _named(request).publishers_seen(), PUBLISHERS)


# ---- consumers


def describe_subscription(request: Request, seen: SubscriptionInfo) -> Described:
    return {
        "connection_details": _connection(request, seen.connection),
        "queue": {"name": seen.stream, "vhost": seen.connection.vhost_name},
        "subscription_id": seen.id,
        "credits": seen.credit,
        "consumed": seen.consumed_total,
        "offset": seen.offset,
        "offset_lag": seen.offset_lag,
        "active": seen.active,
        "activity_status": UP if seen.active else WAITING,
        "properties": seen.properties,
    }


SUBSCRIPTIONS: Listed[SubscriptionInfo] = Listed(
    describe=describe_subscription,
    name=lambda seen: seen.stream,
    cheap={"offset_lag": lambda seen: seen.offset_lag, "consumed": lambda seen: seen.consumed_total},
)


@route("GET", "/api/stream/consumers", Right.MANAGEMENT, "All consumers of stream clients", query=LIST_PARAMETERS)
@route("GET", "/api/stream/consumers/{vhost}", Right.MANAGEMENT, "Those in a virtual host", query=LIST_PARAMETERS)
async def list_subscriptions(request: Request) -> Answer:
    seen = (each for connection in _meant(request) for each in connection.subscriptions_seen())
    return await listed(request, seen, SUBSCRIPTIONS)


@route("GET", f"{ONE}/consumers", Right.MANAGEMENT, "The consumers of one connection", query=LIST_PARAMETERS)
async def list_subscriptions_of_connection(request: Request) -> Answer:
    return await listed(request, _named(request).subscriptions_seen(), SUBSCRIPTIONS)
