"""Answering nodes that join, for as long as `leveret cluster token --wait` runs: no other node gets in."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Callable, Sequence

from leveret.cluster.links.address import Address
from leveret.cluster.links.doors import LinkCertificates
from leveret.cluster.links.incoming import Question
from leveret.cluster.links.links import NodeLinks
from leveret.cluster.members.authority import Authority
from leveret.cluster.members.credentials import Files, load_credentials
from leveret.cluster.members.join_desk import JoinDesk
from leveret.errors import StartupError
from leveret.runtime.clock import Clock
from leveret.runtime.network import SocketHub


class _NoMembers:
    """Listens to links of which there are none: nobody is a member."""

    def received(self, node: int, frame: bytes) -> None:
        raise ValueError("no node is a member here")

    def received_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        raise ValueError("no node is a member here")

    def traffic(self, node: int, pipe: int, octets: bytes) -> None:
        raise ValueError("no node is a member here")

    def asked(self, question: Question) -> None:
        question.fail("no node is a member here")

    def lost(self, node: int) -> None: ...
    def drained(self, node: int) -> None: ...
    def up(self, node: int) -> None: ...
    def down(self, node: int, reason: str) -> None: ...


def admit(
    files: Files, authority: Authority, listen: Address, count: int, ends_at: int, tell: Callable[[str], None]
) -> None:
    """Blocks until so many nodes have joined, the token ends, or the command is stopped. Raises StartupError."""
    if listen.path:
        raise StartupError("nodes join over TLS; --wait takes HOST:PORT")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_admit(files, authority, listen, count, ends_at, tell))


async def _admit(
    files: Files, authority: Authority, listen: Address, count: int, ends_at: int, tell: Callable[[str], None]
) -> None:
    loop, clock = asyncio.get_running_loop(), Clock()
    done = asyncio.Event()
    nodes: set[int] = set()

    def joined(node: int, address: str) -> None:
        tell(f"node {node} at {address} has joined")
        nodes.add(node)
        if len(nodes) >= count:
            # The answer is sent first.
            loop.call_soon(done.set)

    hub = SocketHub(loop)
    desk = JoinDesk(loop, authority, clock.wall, joined)
    identity = load_credentials(files).in_this_life(clock.now_ms())
    certificates = LinkCertificates(files.tls, desk.is_open)
    links = NodeLinks(hub, identity, _NoMembers(), certificates, random.random, joins=desk)
    loop.add_signal_handler(signal.SIGTERM, done.set)
    try:
        try:
            address = links.listen(listen.host, listen.port)
        except OSError as error:
            raise StartupError(f"cannot listen on {listen}: {error.strerror or error}") from None
        tell(f"waiting at {address} for nodes that join; end with Ctrl-C")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), max(0.0, ends_at - clock.wall()))
        await links.drain()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        await links.close()
        desk.close()
        hub.close()
