"""Where the metrics come from: what the node hands to the server that shows them.

Only a description of what is read; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leveret.broker.broker import Broker
from leveret.broker.statistics.statistics import Statistics
from leveret.management.services import ServedCertificate, Watched


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this is: every dashboard joins with it."""

    node: str
    cluster: str
    cluster_id: str
    version: str


@dataclass(frozen=True, slots=True)
class Source:
    broker: Broker
    statistics: Statistics
    identity: Identity
    # When the node started, in seconds since 1970.
    started_at: float
    # None until the node watches.
    watched: Callable[[], Watched | None]
    # Dead letters that jobs have sent back to work.
    replayed: Callable[[], int]
    certificates: Callable[[], Sequence[ServedCertificate]] = tuple
    # Deliveries that were handed out over HTTP and are not settled yet; None where nobody hands out any.
    http_leases: Callable[[], int] | None = None
