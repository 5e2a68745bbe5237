"""Limits: how many connections and channels there may be, of the node, of a virtual host, of a user; with those of
consumers (auth/consumer_limits.py) and of topology (auth/topology_limits.py).

Counts what is open and refuses what would be one too many, in RabbitMQ's words. Everything happens within one turn of
the loop, from the question to the count, so that a crowd that comes at once gets exactly as many as there are places.
A limit that is missing or negative is none; lowering one closes nothing that is open."""

from __future__ import annotations

from collections import Counter

import msgspec

from leveret.auth.consumer_limits import ConsumerLimits, less
from leveret.auth.identity import Identity
from leveret.auth.node_limits import NodeLimits
from leveret.auth.topology_limits import MAX_QUEUES, TopologyLimits
from leveret.auth.unfinished import UnfinishedMessages
from leveret.catalog.catalog import Catalog
from leveret.errors import HardError

MAX_CONNECTIONS, MAX_CHANNELS = "max-connections", "max-channels"
VHOST_LIMITS = (MAX_CONNECTIONS, MAX_QUEUES)
USER_LIMITS = (MAX_CONNECTIONS, MAX_CHANNELS)


class _Place(msgspec.Struct, frozen=True):
    """Taken by a connection."""

    user: str
    vhost: str


class Limits:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._node = NodeLimits()
        # By connection.
        self._places: dict[int, _Place] = {}
        self._of_vhost: Counter[str] = Counter()
        self._of_user: Counter[str] = Counter()
        self._channels_of_user: Counter[str] = Counter()
        self.channels = 0
        self.unfinished = UnfinishedMessages(self._node)
        self.consumers = ConsumerLimits(lambda: self.node)
        self.topology = TopologyLimits(catalog, lambda: self.node)

    @property
    def node(self) -> NodeLimits:
        return self._node

    @node.setter
    def node(self, limits: NodeLimits) -> None:
        self._node = limits
        self.unfinished.configure(limits)

    # ---- connections

    def take_place(self, connection_id: int, identity: Identity, vhost: str) -> None:
        """Before a connection is opened; raises 530 if there is none left."""
        user, most = identity.name, self.node.connections_max
        if most and len(self._places) >= most:
            raise HardError(530, f"connection refused: node connection limit ({most}) is reached")
        limit = _limit(self._catalog.vhosts[vhost].limits.get(MAX_CONNECTIONS))
        if limit is not None and self._of_vhost[vhost] >= limit:
            raise HardError(
                530, f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
            )
        limit = _limit(identity.limit(MAX_CONNECTIONS))
        if limit is not None and self._of_user[user] >= limit:
            raise HardError(530, f"connection refused for user '{user}': user connection limit ({limit}) is reached")
        self._places[connection_id] = _Place(user, vhost)
        self._of_vhost[vhost] += 1
        self._of_user[user] += 1

    def leave_place(self, connection_id: int) -> None:
        place = self._places.pop(connection_id, None)
        if place is not None:
            less(self._of_vhost, place.vhost)
            less(self._of_user, place.user)

    def connections_of_vhost(self, vhost: str) -> int:
        return self._of_vhost[vhost]

    def connections_of_user(self, user: str) -> int:
        return self._of_user[user]

    # ---- channels

    def take_channel(self, identity: Identity) -> None:
        """Before a channel is opened; raises 530 if the user or the node has none left."""
        user, most = identity.name, self.node.channels_max
        limit = _limit(identity.limit(MAX_CHANNELS))
        if limit is not None and self._channels_of_user[user] >= limit:
            raise HardError(
                530,
                f"number of channels opened for user '{user}' has reached the maximum allowed user limit of ({limit})",
            )
        if most and self.channels >= most:
            raise HardError(530, f"number of channels opened on the node has reached its limit of ({most})")
        self.channels += 1
        self._channels_of_user[user] += 1

    def leave_channel(self, user: str) -> None:
        self.channels -= 1
        less(self._channels_of_user, user)


def _limit(value: int | None) -> int | None:
    return None if value is None or value < 0 else value
