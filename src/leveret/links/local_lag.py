"""How many messages wait at the source of a link, where this broker can know it: in a queue of its own."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.broker.broker import Broker
from leveret.catalog.parameters import direct_vhost

__all__ = ["waiting_at"]


def waiting_at(broker: Broker, vhost: str, uris: Sequence[str], queue: str | None) -> int | None:
    """None if the source is elsewhere, or no queue."""
    local = direct_vhost(uris[0])
    if local is None or queue is None:
        return None
    live = broker.vhosts.get(local or vhost)
    found = None if live is None else live.queues.get(queue.encode("utf-8", "surrogateescape"))
    return None if found is None else int(found.ready_count())
