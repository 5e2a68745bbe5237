"""Who sees what: which virtual hosts, connections and consumers appear in an operator's lists.

Users with the tag monitoring or administrator see everything. Others see the virtual hosts that they may enter, and
of connections, channels and consumers their own."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.auth.access import Right, has, sees_vhost
from leveret.broker.connected import ChannelInfo, Connected, ConsumerInfo
from leveret.broker.vhost import LiveVhost
from leveret.core.connection.router import Exchange
from leveret.core.queue.contract import Queue
from leveret.management.http.errors import not_authorised, not_found
from leveret.management.http.request import Request

OTHERS = "User not authorised to access object"


def sees_everything(request: Request) -> bool:
    return has(request.who, Right.MONITORING)


# ---- virtual hosts, and what is in them


def meant_vhosts(request: Request) -> list[LiveVhost]:
    """The one that the path names, else all that may be seen, in the order of their names."""
    if "vhost" in request.path:
        return [request.vhost]
    return [vhost for name, vhost in sorted(request.services.broker.vhosts.items()) if sees_vhost(request.who, name)]


def meant_queues(request: Request) -> list[Queue]:
    """In the order of their names, unless another one is asked for: then that of their coming is as good."""
    if "sort" in request.query:
        return [queue for vhost in meant_vhosts(request) for queue in vhost.queues.values()]
    return [vhost.queues[name] for vhost in meant_vhosts(request) for name in sorted(vhost.queues)]


def meant_exchanges(request: Request) -> list[Exchange]:
    return [vhost.exchanges[name] for vhost in meant_vhosts(request) for name in sorted(vhost.exchanges)]


# ---- connections, and what is in them


def may_see(request: Request, connection: Connected) -> bool:
    return connection.user == request.who.name or sees_everything(request)


def meant_connections(request: Request) -> list[Connected]:
    """Those that may be seen; of the virtual host in the path, if there is one."""
    vhost = request.vhost.name if "vhost" in request.path else None
    return [
        connection
        for connection in request.services.broker.connections.values()
        if vhost in (None, connection.vhost_name) and may_see(request, connection)
    ]


def meant_channels(request: Request) -> Iterator[ChannelInfo]:
    """Others may have their turn between two of them, in which a connection may lose some."""
    return (channel for connection in meant_connections(request) for channel in connection.channels())


def meant_consumers(request: Request) -> Iterator[ConsumerInfo]:
    return (consumer for connection in meant_connections(request) for consumer in connection.consumers())


def named_connection(request: Request, name: str) -> Connected:
    """Raises HttpError."""
    connection = request.services.broker.connections_named.get(name)
    if connection is None:
        raise not_found()
    if not may_see(request, connection):
        raise not_authorised(OTHERS)
    return connection


def closable(request: Request, connections: list[Connected]) -> list[Connected]:
    """The same connections, if all of them may be closed: one's own, and by administrators any. To see them takes
    less, as in RabbitMQ's documentation. Raises HttpError."""
    if not has(request.who, Right.ADMINISTRATOR) and any(each.user != request.who.name for each in connections):
        raise not_authorised(OTHERS)
    return connections


def named_channel(request: Request, name: str) -> ChannelInfo:
    """A channel is called as its connection, with its number behind that: "... -> ... (1)"."""
    of_connection, _, number = name.removesuffix(")").rpartition(" (")
    if not name.endswith(")") or not number.isascii() or not number.isdecimal() or len(number) > 5:
        raise not_found()
    channel = named_connection(request, of_connection).channel(int(number))
    if channel is None:
        raise not_found()
    return channel
