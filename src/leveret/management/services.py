"""What the routes reach of the node, in one place: they know no more of it than this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from leveret.broker.broker import Broker
from leveret.broker.checkouts import Checkouts
from leveret.broker.delayed import Delayed
from leveret.broker.policies import Policies
from leveret.broker.publishing import Publishing
from leveret.broker.reprocess.reprocessor import Reprocessor
from leveret.broker.streams import StreamService
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import Topology
from leveret.management.http.route import Table

SMALL_BODY_BYTES_MAX = 64 * 1024
LARGE_BODY_BYTES_MAX = 20 * 1024 * 1024


@dataclass(frozen=True)
class Listening:
    """A port that is open."""

    protocol: str
    host: str
    port: int
    tls: bool = False


@dataclass
class Services:
    broker: Broker
    topology: Topology
    policies: Policies
    super_streams: SuperStreams
    streams: StreamService
    delayed: Delayed
    reprocessor: Reprocessor
    publishing: Publishing
    checkouts: Checkouts
    table: Table
    node_name: str = "leveret@localhost"
    listeners: Callable[[], list[Listening]] = field(default=list)
    small_body_bytes_max: int = SMALL_BODY_BYTES_MAX
    large_body_bytes_max: int = LARGE_BODY_BYTES_MAX
