"""Clients of the stream protocol as operators see them: their connections, publishers and consumers."""

from __future__ import annotations

from leveret.broker.access import Right
from leveret.broker.connected import STREAM, UP, WAITING, Connected, SeenPublisher, SeenSubscription
from leveret.management.api.connection_views import (
    COLUMNS,
    CONNECTION_FORCED,
    CONNECTIONS,
    describe_connection,
    reason_of,
)
from leveret.management.api.numbers import SPAN_PARAMETERS, Described
from leveret.management.api.visible import meant_connections, named_connection
from leveret.management.http.ask import DONE, Answer, Ask
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
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
async def list_stream_connections(ask: Ask) -> Answer:
    return await listed(ask, _meant(ask), CONNECTIONS)


def _meant(ask: Ask) -> list[Connected]:
    return [connection for connection in meant_connections(ask) if connection.protocol == STREAM]


def _named(ask: Ask) -> Connected:
    connection = named_connection(ask, ask.path["name"])
    if connection.protocol != STREAM or connection.vhost_name != ask.vhost.name:
        raise not_found()
    return connection


@route("GET", ONE, Right.MANAGEMENT, "One connection of a stream client", query=(COLUMNS, *SPAN_PARAMETERS))
def get_stream_connection(ask: Ask) -> Described:
    return one(ask, describe_connection(ask, _named(ask)))


@route("DELETE", ONE, Right.MANAGEMENT, "Closes it. The header X-Reason says why.", scope=Scope.SEE)
def close_stream_connection(ask: Ask) -> Answer:
    _named(ask).close_by_broker(CONNECTION_FORCED, reason_of(ask))
    ask.services.broker.kick()
    return DONE


# ---- publishers


def describe_publisher(ask: Ask, seen: SeenPublisher) -> Described:
    return {
        "connection_details": _connection(ask, seen.connection),
        "queue": {"name": seen.stream, "vhost": seen.connection.vhost_name},
        "publisher_id": seen.id,
        "reference": seen.reference,
        "published": seen.published_total,
        "confirmed": seen.confirmed_total,
        "errored": seen.refused_total,
    }


def _connection(ask: Ask, connection: Connected) -> Described:
    seen = connection.seen()
    return {
        "name": seen.name,
        "node": ask.services.node_name,
        "peer_host": seen.peer_host,
        "peer_port": seen.peer_port,
        "user": seen.user,
    }


PUBLISHERS: Listed[SeenPublisher] = Listed(describe=describe_publisher, name=lambda seen: seen.stream)


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
async def list_publishers(ask: Ask) -> Answer:
    stream = ask.path.get("stream")
    seen = (each for connection in _meant(ask) for each in connection.publishers_seen())
    return await listed(ask, (each for each in seen if stream in (None, each.stream)), PUBLISHERS)


@route("GET", f"{ONE}/publishers", Right.MANAGEMENT, "The publishers of one connection", query=LIST_PARAMETERS)
async def list_publishers_of_connection(ask: Ask) -> Answer:
    return await listed(ask, _named(ask).publishers_seen(), PUBLISHERS)


# ---- consumers


def describe_subscription(ask: Ask, seen: SeenSubscription) -> Described:
    return {
        "connection_details": _connection(ask, seen.connection),
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


SUBSCRIPTIONS: Listed[SeenSubscription] = Listed(
    describe=describe_subscription,
    name=lambda seen: seen.stream,
    cheap={"offset_lag": lambda seen: seen.offset_lag, "consumed": lambda seen: seen.consumed_total},
)


@route("GET", "/api/stream/consumers", Right.MANAGEMENT, "All consumers of stream clients", query=LIST_PARAMETERS)
@route("GET", "/api/stream/consumers/{vhost}", Right.MANAGEMENT, "Those in a virtual host", query=LIST_PARAMETERS)
async def list_subscriptions(ask: Ask) -> Answer:
    seen = (each for connection in _meant(ask) for each in connection.subscriptions_seen())
    return await listed(ask, seen, SUBSCRIPTIONS)


@route("GET", f"{ONE}/consumers", Right.MANAGEMENT, "The consumers of one connection", query=LIST_PARAMETERS)
async def list_subscriptions_of_connection(ask: Ask) -> Answer:
    return await listed(ask, _named(ask).subscriptions_seen(), SUBSCRIPTIONS)
