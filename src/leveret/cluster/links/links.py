"""The way to the other nodes of the cluster, as the consensus driver and everything above it know it.

Listens for other nodes, keeps a link with every member, and hands what comes to a listener. Implements the Links of
cluster/consensus/driver.py; the simulator has another one. Never decides who is a member."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from leveret.cluster.links.address import Address
from leveret.cluster.links.carrier import pack_carrier, unpack_carrier
from leveret.cluster.links.connection import Pump, Surroundings
from leveret.cluster.links.doors import AcceptDoor, LinkCertificates, LinkDialDoor
from leveret.cluster.links.frames import Kind
from leveret.cluster.links.handshake import Identity, Proven, judge_hello
from leveret.cluster.links.hello import Hello, Purpose, Welcome
from leveret.cluster.links.incoming import Incoming, Joins, Question
from leveret.cluster.links.link import Link
from leveret.cluster.links.outgoing import Outgoing
from leveret.cluster.links.refusals import Reason, Refusal, RefusalCounters
from leveret.cluster.links.settings import LinkSettings
from leveret.errors import AskFailed, ClusterError
from leveret.runtime.listener import Listener
from leveret.runtime.log import get_logger
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.peers.dialer import dial, dial_unix
from leveret.runtime.peers.unix_sockets import UnixListener, own_user, user_of_peer

log = get_logger(__name__)

# The same refusal of the same peer is logged no more often; how many peers are remembered.
LOGGED_EVERY_S = 10.0
LOGGED_PEERS_MAX = 256


class LinkListener(Protocol):
    """Who gets what other nodes send. A ValueError of `received`, `received_carrier` or `traffic` closes the
    connection."""

    def received(self, node: int, frame: bytes) -> None: ...

    def received_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None: ...

    def lost(self, node: int) -> None:
        """A connection for consensus, to or from this node, was made anew or is gone: Driver.lost."""

    def traffic(self, node: int, pipe: int, octets: bytes) -> None: ...

    def drained(self, node: int) -> None:
        """Traffic for this node that had to wait has room again."""

    def asked(self, question: Question) -> None: ...

    def up(self, node: int) -> None:
        """All connections with this node stand."""

    def down(self, node: int, reason: str) -> None:
        """One of them is gone: what was under way may be lost."""


class NodeLinks:
    """`certificates` may be None if all members are on this machine, over unix sockets."""

    def __init__(
        self,
        hub: SocketHub,
        identity: Identity,
        listener: LinkListener,
        certificates: LinkCertificates | None,
        random: Callable[[], float],
        settings: LinkSettings | None = None,
        joins: Joins | None = None,
    ) -> None:
        self.identity = identity
        self.refusals = RefusalCounters()
        self._hub = hub
        self._listener = listener
        self._random = random
        self._joins = joins
        self._settings = settings or LinkSettings()
        now = hub.loop.time
        self._around = Surroundings(hub, self._settings, identity, now, self.refuse, Pump(hub.loop))
        self._accept_door = None if certificates is None else AcceptDoor(hub.loop, certificates, self.refuse)
        self._dial_door = None if certificates is None else LinkDialDoor(hub.loop, certificates, self.refuse)
        self.links: dict[int, Link] = {}
        self._listeners: list[Listener | UnixListener] = []
        # Connections that have not said who they are.
        self._strangers: set[Incoming] = set()
        self._no_strangers = asyncio.Event()
        self._logged: OrderedDict[tuple[str, Reason], float] = OrderedDict()
        self._closing = False

    # ---- life

    def listen(self, host: str, port: int) -> Address:
        """Where it listens. Raises OSError."""
        assert self._accept_door is not None, "without certificates there are only unix sockets"
        listener = Listener(self._hub, host, port, self._accepted, self._accept_door)
        self._listeners.append(listener)
        return Address(listener.host, listener.port)

    def listen_unix(self, path: str) -> Address:
        """Raises StartupError."""
        self._listeners.append(UnixListener(self._hub, path, self._accepted_unix))
        return Address(path=path)

    async def set_members(self, members: Mapping[int, Address]) -> None:
        """All members with their addresses; this node itself may be among them. Links with others are ended."""
        wanted = {node: address for node, address in members.items() if node != self.identity.node}
        for node in [node for node, link in self.links.items() if wanted.get(node) != link.address]:
            await self._end(node)
        for node, address in wanted.items():
            if node not in self.links and not self._closing:
                link = self.links[node] = Link(self._around, node, address, self, self._random)
                link.start()

    async def _end(self, node: int) -> None:
        link = self.links.pop(node)
        await link.close()
        self._tell_down(link, "it is not a member any more")

    async def close(self) -> None:
        self._closing = True
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for connection in list(self._strangers):
            connection.close("this node ends")
        for link in self.links.values():
            await link.close()

    async def drain(self) -> None:
        """Lets those that are being answered read their answer, for no longer than a handshake may take."""
        if self._strangers:
            self._no_strangers.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._no_strangers.wait(), self._settings.handshake_s)

    # ---- Links, for the driver

    def send(self, node: int, frame: bytes) -> None:
        link = self.links.get(node)
        if link is not None:
            link.send_consensus(Kind.CONSENSUS, frame)

    def send_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        link = self.links.get(node)
        if link is not None:
            link.send_consensus(Kind.CARRIER, pack_carrier(frame, payloads))

    # ---- for everybody else

    def send_traffic(self, node: int, pipe: int, octets: bytes) -> bool:
        """False if it was not taken: there is no connection, or no room until `drained`."""
        link = self.links.get(node)
        return link is not None and link.send_traffic(pipe, octets)

    async def ask(self, node: int, question: bytes, deadline_s: float) -> bytes:
        """The answer of another node. Raises AskFailed: at the deadline, when the link goes, if too much is open."""
        link = self.links.get(node)
        if link is None:
            raise AskFailed(f"node {node} is not a member")
        return await link.ask(question, deadline_s)

    async def probe(self, address: Address) -> Welcome:
        """Which node is behind an address. Raises ClusterError."""
        found = self._hub.loop.create_future()

        def ended(connection: Outgoing, reason: str) -> None:
            if not found.done():
                found.set_exception(ClusterError(f"{address} did not say which node it is: {reason}"))

        def opened(connection: Outgoing) -> None:
            assert connection.welcome is not None
            if not found.done():
                found.set_result(connection.welcome)

        try:
            transport = await self.connect(address)
        except OSError as error:
            raise ClusterError(f"cannot connect to {address}: {error.strerror or error}") from None
        connection = Outgoing(self._around, transport, 0, 0, Purpose.PROBE, opened, ended)
        connection.start()
        try:
            welcome: Welcome = await found
            return welcome
        finally:
            connection.close("probed")

    # ---- dialling, for links

    async def connect(self, address: Address) -> SocketTransport:
        """A transport that is not started. Raises OSError."""
        if address.path:
            sock = await dial_unix(address.path, self._settings.dial_s)
            if user_of_peer(sock) != own_user():
                sock.close()
                self.refuse(str(address), Refusal(Reason.WRONG_USER, "another user listens on this unix socket"))
                raise OSError("another user listens on this unix socket")
            return SocketTransport(self._hub, sock, (address.path, 0))
        if self._dial_door is None:
            raise OSError("this node has no certificate: it reaches others over unix sockets only")
        sock = await dial(address.host, address.port, self._settings.dial_s)
        return self._dial_door(self._hub, sock, (address.host, address.port))

    # ---- accepting

    def _accepted(self, transport: SocketTransport) -> None:
        self._greet(transport, self._joins)

    def _accepted_unix(self, transport: SocketTransport, user: int) -> None:
        if user != own_user():
            self.refuse(transport.peer[0], Refusal(Reason.WRONG_USER, f"it runs as user {user}"))
            transport.abort("another user")
            return
        self._greet(transport, None)

    def _greet(self, transport: SocketTransport, joins: Joins | None) -> None:
        if len(self._strangers) >= self._settings.strangers_max or self._closing:
            refusal = Refusal(Reason.CROWDED, f"{len(self._strangers)} connections are in their handshake")
            self.refuse(transport.peer[0], refusal)
            transport.abort(refusal.text)
            return
        connection = Incoming(self._around, transport, self, joins)
        self._strangers.add(connection)
        connection.start()

    def judge(self, hello: Hello, proven: Proven) -> Welcome | Refusal:
        return judge_hello(self.identity, hello, proven, self.links, self._newest)

    def _newest(self, node: int, purpose: Purpose) -> tuple[int, int]:
        return self.links[node].newest(purpose)

    def entered(self, connection: Incoming) -> None:
        self._forget_stranger(connection)
        self.links[connection.node].entered(connection)

    def left(self, connection: Incoming, reason: str) -> None:
        self._forget_stranger(connection)
        link = self.links.get(connection.node)
        if link is not None:
            link.left(connection, reason)

    def _forget_stranger(self, connection: Incoming) -> None:
        self._strangers.discard(connection)
        if not self._strangers:
            self._no_strangers.set()

    # ---- what comes in

    def message(self, connection: Incoming, kind: int, subject: int, octets: bytes) -> None:
        link = self.links.get(connection.node)
        if link is None or not link.is_newest(connection):
            return
        if kind == Kind.CONSENSUS:
            self._listener.received(link.node, octets)
        elif kind == Kind.CARRIER:
            self._listener.received_carrier(link.node, *unpack_carrier(octets))
        else:
            self._listener.traffic(link.node, subject, octets)

    def asked(self, question: Question) -> None:
        self._listener.asked(question)

    # ---- changes of links

    def changed(self, link: Link, purpose: Purpose, reason: str) -> None:
        if self.links.get(link.node) is not link:
            return
        if purpose is Purpose.CONSENSUS:
            self._listener.lost(link.node)
        if link.is_up and not link.was_up:
            link.was_up = True
            log.info("link up", node=link.node, address=str(link.address))
            self._listener.up(link.node)
        elif not link.is_up:
            self._tell_down(link, reason)

    def _tell_down(self, link: Link, reason: str) -> None:
        if link.was_up:
            link.was_up = False
            log.info("link down", node=link.node, address=str(link.address), reason=reason)
            self._listener.down(link.node, reason)

    def drained(self, link: Link) -> None:
        if self.links.get(link.node) is link:
            self._listener.drained(link.node)

    # ---- refusals

    def refuse(self, peer: str, refusal: Refusal) -> None:
        """Counts; logs the same of the same host now and then."""
        self.refusals.count(refusal.reason)
        now = self._hub.loop.time()
        key = (peer.rpartition(":")[0] or peer, refusal.reason)
        if now - self._logged.get(key, -LOGGED_EVERY_S) < LOGGED_EVERY_S:
            return
        self._logged[key] = now
        self._logged.move_to_end(key)
        while len(self._logged) > LOGGED_PEERS_MAX:
            self._logged.popitem(last=False)
        log.warning("connection between nodes refused", peer=peer, reason=refusal.text, advice=refusal.advice)
