"""Who sees what: which virtual hosts, connections and consumers appear in an operator's lists.

Whoever has the tag monitoring or administrator sees everything. Others see the virtual hosts that they may enter, and
of connections, channels and consumers their own."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.broker.access import Right, has, sees_vhost
from leveret.broker.connected import Connected, SeenChannel, SeenConsumer
from leveret.broker.vhost import LiveVhost
from leveret.core.contract import Queue
from leveret.core.router import Exchange
from leveret.management.http.ask import Ask
from leveret.management.http.errors import not_authorised, not_found

OTHERS = "User not authorised to access object"


def sees_everything(ask: Ask) -> bool:
    return has(ask.who, Right.MONITORING)


# ---- virtual hosts, and what is in them


def meant_vhosts(ask: Ask) -> list[LiveVhost]:
    """The one that the path names, else all that may be seen, in the order of their names."""
    if "vhost" in ask.path:
        return [ask.vhost]
    return [vhost for name, vhost in sorted(ask.services.broker.vhosts.items()) if sees_vhost(ask.who, name)]


def meant_queues(ask: Ask) -> list[Queue]:
    """In the order of their names, unless another one is asked for: then that of their coming is as good."""
    if "sort" in ask.query:
        return [queue for vhost in meant_vhosts(ask) for queue in vhost.queues.values()]
    return [vhost.queues[name] for vhost in meant_vhosts(ask) for name in sorted(vhost.queues)]


def meant_exchanges(ask: Ask) -> list[Exchange]:
    return [vhost.exchanges[name] for vhost in meant_vhosts(ask) for name in sorted(vhost.exchanges)]


# ---- connections, and what is in them


def may_see(ask: Ask, connection: Connected) -> bool:
    return connection.user == ask.who.name or sees_everything(ask)


def meant_connections(ask: Ask) -> list[Connected]:
    """Those that may be seen; of the virtual host in the path, if there is one."""
    vhost = ask.vhost.name if "vhost" in ask.path else None
    return [
        connection
        for connection in ask.services.broker.connections.values()
        if vhost in (None, connection.vhost_name) and may_see(ask, connection)
    ]


def meant_channels(ask: Ask) -> Iterator[SeenChannel]:
    return (channel for connection in meant_connections(ask) for channel in connection.channels())


def meant_consumers(ask: Ask) -> Iterator[SeenConsumer]:
    return (consumer for connection in meant_connections(ask) for consumer in connection.consumers())


def named_connection(ask: Ask, name: str) -> Connected:
    """Raises HttpError."""
    connection = ask.services.broker.connections_named.get(name)
    if connection is None:
        raise not_found()
    if not may_see(ask, connection):
        raise not_authorised(OTHERS)
    return connection


def named_channel(ask: Ask, name: str) -> SeenChannel:
    """A channel is called as its connection, with its number behind that: "... -> ... (1)"."""
    of_connection, _, number = name.removesuffix(")").rpartition(" (")
    if not name.endswith(")") or not number.isascii() or not number.isdecimal() or len(number) > 5:
        raise not_found()
    channel = named_connection(ask, of_connection).channel(int(number))
    if channel is None:
        raise not_found()
    return channel
