"""Connections and channels as operators see them, and the end of a connection that is not wanted."""

from __future__ import annotations

from leveret.auth.access import Right, has
from leveret.broker.connected import ChannelInfo, Connected, ConnectionInfo
from leveret.management.api.consumer_views import describe_consumer
from leveret.management.api.numbers import (
    DATA_RATES,
    SPAN_PARAMETERS,
    Described,
    detailed,
    message_stats,
)
from leveret.management.api.visible import (
    OTHERS,
    closable,
    meant_channels,
    meant_connections,
    named_channel,
    named_connection,
    sees_everything,
)
from leveret.management.http.bodies import CHANNEL, CONNECTION
from leveret.management.http.bodies import listed as listing
from leveret.management.http.errors import not_authorised
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one, shown
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Parameter, Scope, route

CONNECTION_FORCED = 320
CLOSED_TEXT = "Closed via management plugin"
REASON_CHARACTERS_MAX = 200
COLUMNS = Parameter("columns", "Only these columns, separated by commas.")
HALF_OPEN = Parameter(
    "half_open",
    "Those that are being opened or closed (state starting, tuning, opening or closing), too; for monitoring.",
    {"type": "boolean"},
)


# ---- connections


def describe_connection(request: Request, connection: Connected) -> Described:
    seen = connection.seen()
    traffic = {"recv_oct": seen.received_bytes, "send_oct": seen.sent_bytes}
    found: Described = {
        "name": seen.name,
        "node": request.services.node_name,
        "type": "network",
        "protocol": seen.protocol,
        "user": seen.user,
        "user_who_performed_action": seen.user,
        "vhost": seen.vhost,
        "host": seen.host,
        "port": seen.port,
        "peer_host": seen.peer_host,
        "peer_port": seen.peer_port,
        "connected_at": int(seen.connected_at * 1000),
        "auth_mechanism": seen.mechanism,
        "client_properties": seen.client_properties,
        "channels": seen.channel_count,
        "channel_max": seen.channel_max,
        "frame_max": seen.frame_max,
        "timeout": seen.heartbeat_s,
        "last_heartbeat": seen.last_heartbeat_ms,
        "state": seen.state,
        "recv_cnt": seen.received_count,
        "send_cnt": seen.sent_count,
        "send_pend": seen.pending_bytes,
        **describe_tls(seen),
        **detailed(request, connection.counted()[0], traffic, DATA_RATES),
    }
    given_name = seen.client_properties.get("connection_name")
    if isinstance(given_name, str):
        found["user_provided_name"] = given_name
    return found


def describe_tls(seen: ConnectionInfo) -> Described:
    tls = seen.tls
    return {
        "ssl": tls is not None,
        "ssl_protocol": None if tls is None else tls.protocol,
        "ssl_key_exchange": None if tls is None else tls.key_exchange,
        "ssl_cipher": None if tls is None else tls.cipher,
        "ssl_hash": None if tls is None else tls.hash,
        "peer_cert_subject": None if tls is None else tls.subject or None,
        "peer_cert_issuer": None if tls is None else tls.issuer or None,
        "peer_cert_validity": None if tls is None else tls.validity or None,
    }


CONNECTIONS: Listed[Connected] = Listed(
    describe=describe_connection,
    name=lambda connection: connection.name,
    cheap={
        "name": lambda connection: connection.name,
        "user": lambda connection: connection.user,
        "vhost": lambda connection: connection.vhost_name,
        "protocol": lambda connection: connection.protocol,
        "channels": lambda connection: connection.channel_count,
    },
)


@route(
    "GET",
    "/api/connections",
    Right.MANAGEMENT,
    "All connections",
    query=(*LIST_PARAMETERS, *SPAN_PARAMETERS, HALF_OPEN),
    answers={200: listing(CONNECTION)},
)
@route(
    "GET",
    "/api/vhosts/{vhost}/connections",
    Right.MANAGEMENT,
    "The connections to a virtual host",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
async def list_connections(request: Request) -> Answer:
    found = meant_connections(request)
    # RabbitMQ lists none of them: tools rely on it that what is listed has a user and a virtual host.
    if request.flag("half_open") and "vhost" not in request.path and sees_everything(request):
        found += request.services.broker.half_open.values()
    return await listed(request, found, CONNECTIONS)


@route(
    "GET",
    "/api/connections/{name}",
    Right.MANAGEMENT,
    "One connection; one's own, without the tag monitoring",
    query=(COLUMNS, *SPAN_PARAMETERS),
    answers={200: CONNECTION},
)
def get_connection(request: Request) -> Described:
    return one(request, describe_connection(request, named_connection(request, request.path["name"])))


@route(
    "DELETE",
    "/api/connections/{name}",
    Right.MANAGEMENT,
    "Closes a connection; one's own, without the tag administrator. The header X-Reason says why.",
    scope=Scope.NAME,
)
def close_connection(request: Request) -> Answer:
    return close(request, [named_connection(request, request.path["name"])])


def close(request: Request, connections: list[Connected]) -> Answer:
    for connection in closable(request, connections):
        connection.close_by_broker(CONNECTION_FORCED, reason_of(request))
    request.services.broker.kick()
    return DONE


@route(
    "GET",
    "/api/connections/username/{user}",
    Right.MANAGEMENT,
    "The connections of a user",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
async def list_connections_of_user(request: Request) -> Answer:
    return await listed(request, _of_user(request), CONNECTIONS)


@route(
    "DELETE",
    "/api/connections/username/{user}",
    Right.MANAGEMENT,
    "Closes all connections of a user; one's own, without the tag administrator. The header X-Reason says why.",
)
def close_connections_of_user(request: Request) -> Answer:
    if request.path["user"] != request.who.name and not has(request.who, Right.ADMINISTRATOR):
        # Whether there is such a user or not.
        raise not_authorised(OTHERS)
    return close(request, _of_user(request))


def _of_user(request: Request) -> list[Connected]:
    user = request.path["user"]
    if user != request.who.name and not sees_everything(request):
        raise not_authorised(OTHERS)
    return [connection for connection in request.services.broker.connections.values() if connection.user == user]


def reason_of(request: Request) -> str:
    """What the client is told; nothing that would end a line of its log."""
    given = request.headers.get("x-reason", "")
    return "".join(each for each in given if each.isprintable())[:REASON_CHARACTERS_MAX] or CLOSED_TEXT


# ---- channels


def describe_channel(request: Request, channel: ChannelInfo) -> Described:
    connection = channel.connection.seen()
    found: Described = {
        "name": channel.name,
        "number": channel.number,
        "node": request.services.node_name,
        "user": connection.user,
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost,
        "connection_details": {
            "name": connection.name,
            "peer_host": connection.peer_host,
            "peer_port": connection.peer_port,
        },
        "state": channel.state,
        "confirm": channel.confirming,
        "transactional": channel.transactional,
        "prefetch_count": channel.prefetch_count,
        "global_prefetch_count": channel.global_prefetch_count,
        "prefetch_size": channel.prefetch_bytes,
        "global_prefetch_size": channel.global_prefetch_bytes,
        "next_publish_seq": channel.next_publish_seq,
        "consumer_count": channel.consumer_count,
        "messages_unacknowledged": channel.unacked_count,
        "messages_unconfirmed": channel.unconfirmed_count,
        "messages_uncommitted": channel.uncommitted_count,
        "acks_uncommitted": channel.uncommitted_acks,
        "pending_raft_commands": 0,
    }
    return found | message_stats(request, channel.core, request.services.statistics.channel_stats(channel.core))


CHANNELS: Listed[ChannelInfo] = Listed(
    describe=describe_channel,
    name=lambda channel: channel.name,
    cheap={
        "name": lambda channel: channel.name,
        "number": lambda channel: channel.number,
        "user": lambda channel: channel.connection.user,
        "vhost": lambda channel: channel.connection.vhost_name,
        "consumer_count": lambda channel: channel.consumer_count,
        "messages_unacknowledged": lambda channel: channel.unacked_count,
        "messages_unconfirmed": lambda channel: channel.unconfirmed_count,
    },
)


@route(
    "GET",
    "/api/channels",
    Right.MANAGEMENT,
    "All channels",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
    answers={200: listing(CHANNEL)},
)
@route(
    "GET",
    "/api/vhosts/{vhost}/channels",
    Right.MANAGEMENT,
    "The channels in a virtual host",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
async def list_channels(request: Request) -> Answer:
    return await listed(request, meant_channels(request), CHANNELS)


@route(
    "GET",
    "/api/connections/{name}/channels",
    Right.MANAGEMENT,
    "The channels of a connection",
    query=LIST_PARAMETERS + SPAN_PARAMETERS,
)
async def list_channels_of_connection(request: Request) -> Answer:
    return await listed(request, named_connection(request, request.path["name"]).channels(), CHANNELS)


@route(
    "GET",
    "/api/channels/{name}",
    Right.MANAGEMENT,
    "One channel, with its consumers",
    query=(COLUMNS, *SPAN_PARAMETERS),
    answers={200: CHANNEL},
)
async def get_channel(request: Request) -> Described:
    channel = named_channel(request, request.path["name"])
    found = describe_channel(request, channel)
    own = [seen for seen in channel.connection.consumers() if seen.channel_number == channel.number]
    found["consumer_details"] = await shown(own, lambda seen: describe_consumer(request, seen))
    found |= {"deliveries": [], "publishes": []}
    return one(request, found)
