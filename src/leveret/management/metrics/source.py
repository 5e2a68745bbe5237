"""Where the metrics come from: what the node hands to the server that shows them.

Only a description of what is read; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from leveret.broker.broker import Broker
from leveret.broker.statistics.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this is: every dashboard joins with it."""

    node: str
    cluster: str
    cluster_id: str
    version: str


class Watched(Protocol):
    """What the node knows of its memory and its disk (node.watch)."""

    @property
    def resident_bytes(self) -> int: ...

    @property
    def memory_watermark_bytes(self) -> int: ...

    @property
    def disk_free_bytes(self) -> int | None:
        """None while the system cannot say."""

    @property
    def disk_free_bytes_min(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Certificate:
    """One that clients are shown, and when it ends, in seconds since 1970."""

    name: str
    ends_at_s: float


def no_certificates() -> Sequence[Certificate]:
    return ()


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
    certificates: Callable[[], Sequence[Certificate]] = no_certificates
    # Deliveries that were handed out over HTTP and are not settled yet; None where nobody hands out any.
    http_leases: Callable[[], int] | None = None
