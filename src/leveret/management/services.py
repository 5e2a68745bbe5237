"""What the routes reach of the node, in one place: they know no more of it than this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leveret.auth.audit import Audit
from leveret.broker.broker import Broker
from leveret.broker.definitions import DefinitionService
from leveret.broker.link_status import LinkDesk
from leveret.broker.parameters import ParameterService
from leveret.broker.policies import Policies
from leveret.broker.streams import StreamService
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import Topology
from leveret.broker.users import UserService
from leveret.broker.vhosts import VhostService
from leveret.management.http.budget import Budget
from leveret.management.http.pages import PageFile
from leveret.management.http.route import Table
from leveret.management.http.sessions import Sessions
from leveret.operations.browsing import Browsing
from leveret.operations.dead_letters import DeadLetters
from leveret.operations.delayed import Delayed
from leveret.operations.http_leases import HttpLeases
from leveret.operations.paused_queues import Pauses
from leveret.operations.publishing import Publishing
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.reprocess.schedule import Schedule
from leveret.operations.route_trace import RouteTrace
from leveret.operations.statistics.statistics import Statistics
from leveret.operations.taps import Taps
from leveret.operations.webhooks.webhooks import Webhooks
from leveret.runtime.descriptors import DescriptorBudget

SMALL_BODY_BYTES_MAX = 64 * 1024
LARGE_BODY_BYTES_MAX = 20 * 1024 * 1024
BODIES_BYTES_MAX = 64 * 1024 * 1024
ANSWERS_BYTES_MAX = 128 * 1024 * 1024
WRITE_DEADLINE_S = 30.0


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
    # Alarms that were not raised, because collecting garbage and giving memory back was enough.
    memory_alarms_averted_total: int

    @property
    def returned_bytes_total(self) -> int:
        """Memory given back to the system."""

    @property
    def collections_total(self) -> int:
        """Full collections of the garbage because memory was short."""


class WatchedDescriptors(Protocol):
    """What the node knows of its descriptors (node.descriptor_watch)."""

    budget: DescriptorBudget
    # How often storage had to wait, by what was short.
    shortages_total: dict[str, int]


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
    http_leases: HttpLeases
    audit: Audit
    browsing: Browsing
    pauses: Pauses
    dead_letters: DeadLetters
    taps: Taps
    route_trace: RouteTrace
    statistics: Statistics
    links: LinkDesk
    table: Table
    sessions: Sessions
    # The one of the settings that count now.
    schedule: Callable[[], Schedule]
    webhooks: Webhooks
    # The files of the user interface, by name.
    pages: dict[str, PageFile] = field(default_factory=dict)
    node_name: str = "leveret@localhost"
    listeners: Callable[[], list[Listening]] = field(default=list)
    small_body_bytes_max: int = SMALL_BODY_BYTES_MAX
    large_body_bytes_max: int = LARGE_BODY_BYTES_MAX
    # Memory for requests and answers that are on their way.
    bodies: Budget = field(default_factory=lambda: Budget("bodies", "management.bodies_bytes_max", BODIES_BYTES_MAX))
    answers: Budget = field(
        default_factory=lambda: Budget("answers", "management.answers_bytes_max", ANSWERS_BYTES_MAX)
    )
    write_deadline_s: float = WRITE_DEADLINE_S
    # Whether some paths need no /api before them.
    root_aliases: bool = True
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
    descriptors: WatchedDescriptors | None = None
    certificates: Callable[[], Sequence[ServedCertificate]] = tuple
    # Logins by protocol, succeeded and failed, that were there when an operator set them back: never in metrics.
    attempts_told: dict[str, tuple[int, int]] = field(default_factory=dict)
    # Whether clients are let in: not before everything is recovered, and not while the node stops.
    in_service: Callable[[], bool] = lambda: True
