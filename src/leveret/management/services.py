"""What the routes reach of the node, in one place: they know no more of it than this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leveret.broker.audit import Audit
from leveret.broker.broker import Broker
from leveret.broker.browsing import Browsing
from leveret.broker.checkouts import Checkouts
from leveret.broker.dead_letters import DeadLetters
from leveret.broker.definitions import DefinitionService
from leveret.broker.delayed import Delayed
from leveret.broker.parameters import ParameterService
from leveret.broker.pauses import Pauses
from leveret.broker.policies import Policies
from leveret.broker.publishing import Publishing
from leveret.broker.reprocess.reprocessor import Reprocessor
from leveret.broker.route_trace import RouteTrace
from leveret.broker.statistics.statistics import Statistics
from leveret.broker.streams import StreamService
from leveret.broker.super_streams import SuperStreams
from leveret.broker.taps import Taps
from leveret.broker.topology import Topology
from leveret.broker.users import UserService
from leveret.broker.vhosts import VhostService
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

    @property
    def full_protocol(self) -> str:
        """As RabbitMQ calls it: amqp/ssl, but https."""
        if not self.tls:
            return self.protocol
        return self.protocol.replace("http", "https") if self.protocol.startswith("http") else f"{self.protocol}/ssl"


@dataclass(frozen=True)
class ServedCertificate:
    """One that clients are shown, and when it ends, in seconds since 1970."""

    name: str
    ends_at_s: float


class Watched(Protocol):
    """What the node knows of its memory and its disk (node.watch)."""

    resident_bytes: int
    memory_watermark_bytes: int
    # None while the system cannot say.
    disk_free_bytes: int | None
    disk_free_bytes_min: int


@dataclass
class Services:
    broker: Broker
    topology: Topology
    policies: Policies
    super_streams: SuperStreams
    streams: StreamService
    delayed: Delayed
    reprocessor: Reprocessor
    users: UserService
    vhosts: VhostService
    parameters: ParameterService
    definitions: DefinitionService
    publishing: Publishing
    checkouts: Checkouts
    audit: Audit
    browsing: Browsing
    pauses: Pauses
    dead_letters: DeadLetters
    taps: Taps
    route_trace: RouteTrace
    statistics: Statistics
    table: Table
    node_name: str = "leveret@localhost"
    listeners: Callable[[], list[Listening]] = field(default=list)
    small_body_bytes_max: int = SMALL_BODY_BYTES_MAX
    large_body_bytes_max: int = LARGE_BODY_BYTES_MAX
    # Whether some paths need no /api before them.
    root_aliases: bool = False
    # As the settings have it; the global parameter cluster_name goes before it.
    cluster_name: str = "leveret"
    data_dir: str = ""
    mechanisms: Sequence[str] = ("PLAIN", "AMQPLAIN")
    # Of the node; 0 for no limit.
    connections_max: Callable[[], int] = int
    # When the node started, in seconds since 1970.
    started_at: float = 0.0
    # None until the node watches.
    watched: Callable[[], Watched | None] = lambda: None
    certificates: Callable[[], Sequence[ServedCertificate]] = tuple
    # Logins by protocol, succeeded and failed, that were there when an operator set them back: never in metrics.
    attempts_told: dict[str, tuple[int, int]] = field(default_factory=dict)
    # Whether clients are let in: not before everything is recovered, and not while the node stops.
    in_service: Callable[[], bool] = lambda: True
