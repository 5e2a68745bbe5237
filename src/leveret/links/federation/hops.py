"""How far messages and bindings have come over federation links, and where they must stop.

A message has `x-received-from`: where it was received from, the latest first. A binding that a link has made has
`x-bound-from`: who asked for it. Brokers are known by the id of their cluster, or by its name where they tell no id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from leveret.core.client.delivery import Delivery
from leveret.links.message_edits import Edit, prepended

__all__ = ["BOUND_FROM", "CLUSTER_ID", "RECEIVED_FROM", "Cluster", "cluster_of", "received_edit"]

RECEIVED_FROM, BOUND_FROM = "x-received-from", "x-bound-from"
CLUSTER_NAME, CLUSTER_ID, VHOST = "cluster-name", "cluster-id", "vhost"
# Of a broker's properties in the handshake.
TOLD_NAME, TOLD_ID = "cluster_name", "cluster_id"


class Cluster(msgspec.Struct, frozen=True):
    """A virtual host of a broker, as others know it. `id` is empty for a broker that tells none."""

    name: str
    id: str
    vhost: str

    def entry(self) -> dict[str, Any]:
        named = {CLUSTER_NAME: self.name, VHOST: self.vhost}
        return {**named, CLUSTER_ID: self.id} if self.id else named

    def is_in(self, entries: list[Any]) -> bool:
        return any(isinstance(entry, dict) and self._is(entry) for entry in entries)

    def _is(self, entry: dict[str, Any]) -> bool:
        if entry.get(VHOST) != self.vhost:
            return False
        if self.id and CLUSTER_ID in entry:
            return bool(entry[CLUSTER_ID] == self.id)
        return bool(entry.get(CLUSTER_NAME) == self.name)


def cluster_of(server_properties: Mapping[str, Any], vhost: str) -> Cluster:
    name, identity = server_properties.get(TOLD_NAME), server_properties.get(TOLD_ID)
    return Cluster(name if isinstance(name, str) else "unknown", identity if isinstance(identity, str) else "", vhost)


def received_edit(ours: Cluster, entry: Mapping[str, Any], max_hops: int | None, trusts_user_id: bool) -> Edit:
    """Drops what has come too far or has been here before, if there is a `max_hops`; notes where the rest came from."""

    def edit(delivery: Delivery) -> bytes | None:
        headers = dict(delivery.headers)
        before = headers.get(RECEIVED_FROM)
        received = before if isinstance(before, list) else []
        if max_hops is not None and (len(received) >= max_hops or ours.is_in(received)):
            return None
        headers[RECEIVED_FROM] = prepended(headers, RECEIVED_FROM, {**entry, "redelivered": delivery.redelivered})
        changes: dict[str, Any] = {"headers": headers}
        if not trusts_user_id:
            changes["user_id"] = None
        raw: bytes = delivery.properties.replace(changes).raw
        return raw

    return edit
