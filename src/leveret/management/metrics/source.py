"""Where the metrics come from: what the node hands to the server that shows them.

Only a description of what is read; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from leveret.broker.broker import Broker
from leveret.broker.link_status import LinkDesk
from leveret.management.http.budget import Budget
from leveret.management.services import ServedCertificate, Watched, WatchedDescriptors
from leveret.operations.firehose import Firehoses
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.statistics.statistics import Statistics
from leveret.operations.webhooks.webhooks import Webhooks


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
    reprocessor: Reprocessor
    webhooks: Webhooks
    certificates: Callable[[], Sequence[ServedCertificate]] = tuple
    # Deliveries that were handed out over HTTP and are not settled yet; None where there are no HTTP leases.
    http_leases: Callable[[], int] | None = None
    descriptors: WatchedDescriptors | None = None
    http_budgets: Mapping[str, Budget] = field(default_factory=dict)
    firehoses: Firehoses | None = None
    links: LinkDesk | None = None
    # Logins of browsers that count; None where there is no server for them.
    http_sessions: Callable[[], int] | None = None
