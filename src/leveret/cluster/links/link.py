"""The link with one other node: two connections that this node dials, two that the other node dials.

Keeps the dialled ones up, with pauses that grow; takes what the newest connection of the other node brings, and nothing
of older ones. One belongs to each member; cluster/links/links.py owns them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from leveret.cluster.links.address import Address
from leveret.cluster.links.connection import Octets, Surroundings
from leveret.cluster.links.frames import Kind
from leveret.cluster.links.hello import Purpose
from leveret.cluster.links.incoming import Incoming
from leveret.cluster.links.outgoing import Outgoing
from leveret.cluster.links.redial import Redial
from leveret.errors import AskFailed
from leveret.runtime.log import get_logger
from leveret.runtime.network import SocketTransport

log = get_logger(__name__)

PURPOSES = (Purpose.CONSENSUS, Purpose.TRAFFIC)


class Changes(Protocol):
    """Who hears of a link's connections: cluster/links/links.py."""

    async def connect(self, address: Address) -> SocketTransport:
        """Raises OSError."""

    def changed(self, link: Link, purpose: Purpose, reason: str) -> None:
        """A connection for this purpose was made, or was lost for this reason."""

    def drained(self, link: Link) -> None: ...


@dataclass(slots=True)
class LinkStatistics:
    """What operators see of a link. Octets and frames are those of connections that are over."""

    past: Octets = field(default_factory=Octets)
    dials: int = 0
    connects: int = 0
    losses: int = 0
    # Messages that were not sent because there was no connection, or no room.
    dropped: int = 0
    last_error: str = ""


class Link:
    def __init__(
        self, around: Surroundings, node: int, address: Address, changes: Changes, random: Callable[[], float]
    ) -> None:
        self.around = around
        self.node = node
        self.address = address
        self._changes = changes
        self._random = random
        self.outgoing: dict[Purpose, Outgoing] = {}
        self.incoming: dict[Purpose, Incoming] = {}
        # Incarnation and epoch of the last connection of the other node that was taken.
        self._newest: dict[Purpose, tuple[int, int]] = {}
        self.statistics = LinkStatistics()
        # Whether the listener was told that it is up.
        self.was_up = False
        self._epoch = 0
        self._tasks: list[asyncio.Task[None]] = []

    # ---- life

    def start(self) -> None:
        loop = self.around.hub.loop
        for purpose in PURPOSES:
            task = loop.create_task(self._keep(purpose), name=f"link to node {self.node}, {purpose.name.lower()}")
            self._tasks.append(task)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for connection in [*self.outgoing.values(), *self.incoming.values()]:
            connection.close("this node ends the link")

    @property
    def is_up(self) -> bool:
        return len(self.outgoing) == len(self.incoming) == len(PURPOSES)

    @property
    def round_trip_s(self) -> float | None:
        """Of the consensus connection."""
        connection = self.outgoing.get(Purpose.CONSENSUS)
        return None if connection is None else connection.round_trip_s

    @property
    def octets(self) -> Octets:
        total = Octets()
        total.add(self.statistics.past)
        for connection in [*self.outgoing.values(), *self.incoming.values()]:
            total.add(connection.octets)
        return total

    # ---- dialling

    async def _keep(self, purpose: Purpose) -> None:
        """Dials, waits for the end of the connection, and dials again."""
        settings = self.around.settings
        redial = Redial(settings.redial_min_s, settings.redial_max_s)
        while True:
            lasted_s = await self._dial(purpose)
            await asyncio.sleep(redial.pause_s(lasted_s, self._random()))

    async def _dial(self, purpose: Purpose) -> float:
        """One connection from its first octet to its last; how long it stood."""
        self.statistics.dials += 1
        try:
            transport = await self._changes.connect(self.address)
        except OSError as error:
            self._failed(purpose, f"cannot connect: {error.strerror or error}")
            return 0.0
        self._epoch += 1
        ended = self.around.hub.loop.create_future()
        opened_at: list[float] = []

        def opened(connection: Outgoing) -> None:
            opened_at.append(self.around.now())
            self.statistics.connects += 1
            self.statistics.last_error = ""
            self.outgoing[purpose] = connection
            self._changes.changed(self, purpose, "")

        def closed(connection: Outgoing, reason: str) -> None:
            if not ended.done():
                ended.set_result(None)
            self.statistics.past.add(connection.octets)
            if self.outgoing.get(purpose) is connection:
                del self.outgoing[purpose]
                self._lost(purpose, reason)
            else:
                self._failed(purpose, reason)

        connection = Outgoing(self.around, transport, self.node, self._epoch, purpose, opened, closed)
        connection.on_drained = lambda: self._changes.drained(self)
        connection.start()
        try:
            await ended
        finally:
            connection.close("this node ends the link")
        return self.around.now() - opened_at[0] if opened_at else 0.0

    def _failed(self, purpose: Purpose, reason: str) -> None:
        # Once per kind of failure: it is tried again all the time.
        if reason != self.statistics.last_error:
            log.info(
                "no connection to a node", node=self.node, address=str(self.address), purpose=purpose.name.lower(),
                reason=reason,
            )  # fmt: skip
        self.statistics.last_error = reason

    def _lost(self, purpose: Purpose, reason: str) -> None:
        self.statistics.losses += 1
        self.statistics.last_error = reason
        self._changes.changed(self, purpose, reason or "closed")

    # ---- connections of the other node

    def newest(self, purpose: Purpose) -> tuple[int, int]:
        return self._newest.get(purpose, (0, 0))

    def entered(self, connection: Incoming) -> None:
        """Takes the place of the one before, which brings nothing any more."""
        assert connection.hello is not None
        purpose = connection.hello.purpose
        self._newest[purpose] = connection.hello.incarnation, connection.hello.epoch
        before = self.incoming.get(purpose)
        if before is not None:
            # Its end is told first: what holds for one connection does not hold for the next.
            before.close("a newer connection has taken its place")
        self.incoming[purpose] = connection
        self._changes.changed(self, purpose, "")

    def left(self, connection: Incoming, reason: str) -> None:
        assert connection.hello is not None
        purpose = connection.hello.purpose
        if self.incoming.get(purpose) is connection:
            del self.incoming[purpose]
            self.statistics.past.add(connection.octets)
            self._lost(purpose, reason)

    def is_newest(self, connection: Incoming) -> bool:
        return connection.hello is not None and self.incoming.get(connection.hello.purpose) is connection

    # ---- sending

    def send_consensus(self, kind: Kind, octets: bytes) -> None:
        connection = self.outgoing.get(Purpose.CONSENSUS)
        if connection is None:
            self.statistics.dropped += 1
        elif not connection.put(kind, 0, octets):
            # In order, or lost together with everything after it.
            self.statistics.dropped += 1
            connection.spoil(f"more than {connection.queue.bytes_max} octets wait to be sent")

    def send_traffic(self, pipe: int, octets: bytes) -> bool:
        """False if there is no connection or no room: `drained` says when there is."""
        connection = self.outgoing.get(Purpose.TRAFFIC)
        if connection is None or not connection.put(Kind.TRAFFIC, pipe, octets):
            self.statistics.dropped += 1
            return False
        return True

    async def ask(self, question: bytes, deadline_s: float) -> bytes:
        connection = self.outgoing.get(Purpose.TRAFFIC)
        if connection is None:
            raise AskFailed(
                f"there is no link to node {self.node}: {self.statistics.last_error or 'not connected yet'}"
            )
        loop = self.around.hub.loop
        answered: asyncio.Future[bytes] = loop.create_future()

        def then(answer: bytes | AskFailed) -> None:
            if answered.done():
                return
            if isinstance(answer, AskFailed):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        number = connection.ask(question, deadline_s, then)
        until = self.around.now() + deadline_s
        timer = loop.call_later(deadline_s, lambda: connection.asks.expire(max(until, self.around.now())))
        try:
            return await answered
        finally:
            timer.cancel()
            connection.asks.forget(number)
