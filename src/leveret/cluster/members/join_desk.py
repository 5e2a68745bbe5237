"""Where a running node lets others join: answers those that come to its port for links without a certificate.

The authority works in a thread of its own, because it signs and writes; one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from leveret.cluster.links.frames import Kind
from leveret.cluster.links.hello import pack_refusal
from leveret.cluster.links.incoming import Incoming
from leveret.cluster.links.refusals import Reason, Refusal
from leveret.cluster.members.authority import Authority
from leveret.cluster.members.join_limits import JoinLimits
from leveret.cluster.members.join_messages import Joined, JoinRequest, pack, unpack
from leveret.errors import LeveretError
from leveret.runtime.log import get_logger
from leveret.runtime.threads import started_pool

log = get_logger(__name__)

TOO_OFTEN = "too many nodes want to join at once; try again in a minute"


class JoinDesk:
    """`joined` hears of every node that got a certificate, with its address, before the node itself does."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        authority: Authority,
        wall: Callable[[], float],
        joined: Callable[[int, str], None] = lambda node, address: None,
        limits: JoinLimits | None = None,
    ) -> None:
        """Raises OSError if there is no thread."""
        self._loop = loop
        self._authority = authority
        self._wall = wall
        self._joined = joined
        self._limits = limits or JoinLimits(loop.time())
        self._pool = started_pool("leveret-join", 1)
        self.joined_total = 0
        self.refused_total = 0

    def is_open(self) -> bool:
        """Whether a token could be used now."""
        return self._authority.is_open(self._wall())

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, connection: Incoming, kind: int, octets: bytes) -> None:
        if not self._limits.take(connection.transport.peer[0], self._loop.time()):
            self._refuse(connection, TOO_OFTEN)
        elif kind == Kind.ASK_AUTHORITY:
            connection.finish(Kind.AUTHORITY, self._authority.pem)
        else:
            request = unpack(octets, JoinRequest)
            work = self._pool.submit(self._authority.admit, request, self._wall())
            work.add_done_callback(
                lambda done: self._loop.call_soon_threadsafe(self._answer, connection, request, done)
            )

    def _answer(self, connection: Incoming, request: JoinRequest, done: Future[Joined]) -> None:
        if done.cancelled():
            return
        try:
            joined = done.result()
        except (LeveretError, OSError) as error:
            self._refuse(connection, str(error), request.node_name)
            return
        self.joined_total += 1
        log.info("a node has joined", node=joined.node, name=request.node_name, address=request.address)
        self._joined(joined.node, request.address)
        connection.finish(Kind.JOINED, pack(joined))

    def _refuse(self, connection: Incoming, text: str, name: str = "") -> None:
        self.refused_total += 1
        connection.around.refuse(connection.peer, Refusal(Reason.JOIN, f"{name or 'a node'}: {text}"))
        connection.finish(Kind.REFUSED, pack_refusal(Reason.JOIN, text))
