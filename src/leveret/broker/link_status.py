"""What operators see of shovels and federation links, and what they may ask of them.

Only shapes and one contract: the links themselves live in `leveret.links`, above this floor. The node hands an
implementation to the management API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

STARTING, RUNNING, BLOCKED, TERMINATED, PAUSED = "starting", "running", "blocked", "terminated", "paused"
STATES = (STARTING, RUNNING, BLOCKED, TERMINATED, PAUSED)


@dataclass(slots=True)
class LinkCounters:
    """Since the link was configured; a reconnect does not set them back."""

    forwarded: int = 0
    forwarded_bytes: int = 0
    confirmed: int = 0
    # Not forwarded on purpose: a loop, or too many hops.
    dropped: int = 0
    # Refused by the destination, and sent again.
    refused: int = 0
    reconnects: int = 0


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One link at one moment. `details` are the fields of RabbitMQ's answer that only this kind of link has."""

    name: str
    vhost: str
    kind: str
    state: str
    # Why it is terminated, blocked or not running yet; empty if nothing is wrong.
    reason: str
    # Seconds of the wall clock at which the state was entered.
    since: float
    node: str
    counters: LinkCounters
    in_flight: int
    # Messages that wait at the source, None if that is unknown.
    lag: int | None
    details: dict[str, object] = field(default_factory=dict)


class LinkDesk(Protocol):
    """What the management API asks of links."""

    def shovels(self, vhost: str | None = None) -> list[LinkStatus]: ...

    def restart_shovel(self, vhost: str, name: str) -> bool:
        """Whether there is such a shovel."""

    def pause_shovel(self, vhost: str, name: str, paused: bool) -> bool:
        """Whether there is such a shovel."""

    def federation(self, vhost: str | None = None) -> list[LinkStatus]: ...

    def restart_federation(self, vhost: str, link_id: str) -> bool:
        """Whether there is such a link."""


class NoLinks:
    """A broker without links, as in many tests."""

    def shovels(self, vhost: str | None = None) -> list[LinkStatus]:
        return []

    def restart_shovel(self, vhost: str, name: str) -> bool:
        return False

    def pause_shovel(self, vhost: str, name: str, paused: bool) -> bool:
        return False

    def federation(self, vhost: str | None = None) -> list[LinkStatus]:
        return []

    def restart_federation(self, vhost: str, link_id: str) -> bool:
        return False
