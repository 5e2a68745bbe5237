"""A client's connection as the broker sees it: what it is told, and what operators want to know of it.

Implemented by sessions, which no other room may import. What is asked of a connection comes as plain values of one
moment, so that whoever looks holds nothing of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from leveret.broker.activity import Activity
from leveret.catalog.records import Arguments

AMQP = "AMQP 0-9-1"
STREAM = "stream"

# What a connection is doing: it is read; it would not be if it published, because of an alarm; it is not, because it
# did; it is not, because it is ahead of the disk.
RUNNING, BLOCKING, BLOCKED, FLOW = "running", "blocking", "blocked", "flow"
# Before that: nobody has logged in; the client is to say which limits it takes; and which virtual host it wants.
# Behind it: the other side has not closed yet.
STARTING, TUNING, OPENING, CLOSING = "starting", "tuning", "opening", "closing"
# Whether a consumer gets messages: it does, or it would if it were not behind a single active one.
UP, WAITING, SINGLE_ACTIVE = "up", "waiting", "single_active"


@dataclass(frozen=True, slots=True)
class TlsInfo:
    """What was agreed on, in the words of RabbitMQ's API; texts are empty where nothing is known."""

    protocol: str
    key_exchange: str
    cipher: str
    hash: str
    subject: str
    issuer: str
    validity: str


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """One connection at one moment."""

    name: str
    protocol: str
    user: str
    vhost: str
    peer_host: str
    peer_port: int
    host: str
    port: int
    # Seconds of the wall clock.
    connected_at: float
    mechanism: str
    client_properties: dict[str, Any]
    channel_max: int
    frame_max: int
    heartbeat_s: int
    state: str
    tls: TlsInfo | None
    channel_count: int
    received_bytes: int
    received_count: int
    sent_bytes: int
    sent_count: int
    pending_bytes: int
    # Milliseconds of the wall clock; None if no heartbeat came.
    last_heartbeat_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """One channel of an AMQP connection. `core` is the channel of the data plane, which counts."""

    connection: Connected
    number: int
    core: Any
    state: str
    prefetch_count: int
    global_prefetch_count: int
    confirming: bool
    transactional: bool
    consumer_count: int
    unacked_count: int
    unconfirmed_count: int
    uncommitted_count: int
    uncommitted_acks: int
    # Octets that may be unacknowledged, of each consumer to come and of all together; 0 is no limit.
    prefetch_bytes: int = 0
    global_prefetch_bytes: int = 0
    # What the next message to be confirmed is numbered; 0 unless the channel confirms.
    next_publish_seq: int = 0

    @property
    def name(self) -> str:
        return f"{self.connection.name} ({self.number})"


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """One consumer, of either protocol. `channel_number` is 0 for the stream protocol, which has none."""

    connection: Connected
    channel_number: int
    tag: str
    vhost: str
    queue: str
    ack_required: bool
    exclusive: bool
    prefetch_count: int
    arguments: Arguments
    active: bool
    activity_status: str
    # Milliseconds that an ack may take; None for as long as it likes.
    ack_timeout_ms: int | None
    unacked_count: int = 0
    prefetch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PublisherInfo:
    """A publisher of the stream protocol."""

    connection: Connected
    id: int
    stream: str
    reference: str
    published_total: int
    confirmed_total: int
    refused_total: int


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A consumer of the stream protocol, with what only its protocol has."""

    connection: Connected
    id: int
    stream: str
    credit: int
    # The next offset that it is sent, None while it is not served; how far that is behind the stream's end.
    offset: int | None
    offset_lag: int
    consumed_total: int
    active: bool
    properties: dict[str, str] = field(default_factory=dict)


class Connected(Protocol):
    connection_id: int
    # Both addresses, as in "10.0.0.5:4711 -> 10.0.0.1:5672"; no two open connections share one.
    name: str
    user: str

    @property
    def vhost_name(self) -> str: ...

    @property
    def protocol(self) -> str: ...

    # ---- what it is told

    def close_by_broker(self, code: int, text: str) -> None: ...

    def permissions_changed(self, user: str) -> None: ...

    def user_deleted(self, user: str) -> None: ...

    def vhost_deleted(self, vhost: str) -> None: ...

    def blocked_changed(self, reason: str | None) -> None: ...

    def disk_calmed(self) -> None: ...

    def ack_timeouts_changed(self) -> None: ...

    def tracing_changed(self) -> None:
        """Of its virtual host."""

    def collect_located(self, number: int, found: dict[tuple[int, int], object]) -> None: ...

    def count_into(self, activity: Activity) -> None:
        """Adds what it has counted so far."""

    def counted(self) -> tuple[Any, list[Any]]:
        """The compiled connection and its channels, which count."""

    # ---- what operators see of it

    def seen(self) -> ConnectionInfo: ...

    @property
    def channel_count(self) -> int: ...

    def channels(self) -> Iterator[ChannelInfo]:
        """In the order of their numbers; those that are closing left out."""

    def channel(self, number: int) -> ChannelInfo | None: ...

    def consumers(self) -> Iterator[ConsumerInfo]: ...

    def publishers_seen(self) -> Iterator[PublisherInfo]:
        """Of the stream protocol; an AMQP connection has none."""

    def subscriptions_seen(self) -> Iterator[SubscriptionInfo]:
        """The same."""


def shown_address(host: str, port: int) -> str:
    """An address as it stands in names: that of an IPv6 host in brackets, and one of IPv4 never as IPv6."""
    host = host.removeprefix("::ffff:") if "." in host else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connection_name(peer: tuple[str, int], local: tuple[str, int]) -> str:
    return f"{shown_address(*peer)} -> {shown_address(*local)}"
