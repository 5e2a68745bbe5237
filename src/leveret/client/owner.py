"""What parts of a connection know of it, and what a connection knows of its parts.

Protocols and no code: producers, consumers, the pool, RPC and streams depend on `Owner`, and only connection.py, which
assembles them, depends on them. So parts can be read, tested and replaced one by one."""

from __future__ import annotations

from typing import Protocol

from leveret.client.errors import ClientError
from leveret.client.options import Options
from leveret.client.topology.handle import QueueHandle
from leveret.client.tracing import Tracing
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.client.transport.recovery import State
from leveret.client.url import Address

__all__ = ["Owner", "Part", "QueueNames"]


class Part(Protocol):
    """Something that lives on a connection and outlives its links."""

    # Lower ones are restored first: topology 0, pool 1, producers 2, consumers 3.
    rank: int
    # For events and logs.
    name: str

    async def restore(self, link: Link) -> None:
        """There is a new link. A ClientError is reported, and the others go on."""

    def lost(self, reason: ClientError) -> None:
        """The link is gone. Must not block, and not raise."""

    async def stop(self, reason: ClientError) -> None:
        """The connection is closed by its user, or recovery was given up: nobody may wait any longer."""


class QueueNames(Protocol):
    """The topology as consumers need it."""

    def resolve(self, queue: str | QueueHandle) -> str:
        """The name that the queue has now."""

    def consumer_added(self, queue: str | QueueHandle) -> None: ...

    def consumer_removed(self, queue: str | QueueHandle) -> None: ...

    def doubt(self, queue: str | QueueHandle) -> None:
        """The broker said that the queue is gone."""


class Owner(Protocol):
    """The connection as its parts see it."""

    @property
    def options(self) -> Options: ...

    @property
    def tracing(self) -> Tracing | None: ...

    @property
    def address(self) -> Address:
        """Of the broker that it is connected to, or was last."""

    @property
    def state(self) -> State: ...

    @property
    def blocked(self) -> str | None:
        """Why the broker takes no messages at present, or None."""

    @property
    def topology(self) -> QueueNames: ...

    def check(self) -> None:
        """Raises why the connection is closed, if it is."""

    async def ready(self, deadline_s: float | None = None) -> Link:
        """The link, as soon as there is one and everything is restored."""

    async def channel(self, deadline_s: float | None = None) -> Channel:
        """A channel on the present link. It does not come back when the connection is lost."""

    def attach(self, part: Part) -> None: ...

    def detach(self, part: Part) -> None: ...
