"""One connection between two nodes: octets to messages and back, heartbeats, silence, and the end.

Both sides derive from it: cluster/links/outgoing.py and incoming.py say what the messages mean. Owns its transport, its
reader and what waits to be sent."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from leveret.cluster.links.frames import FrameReader, Kind, beat, frame
from leveret.cluster.links.handshake import SAME_USER, Identity, Proven, proven_by
from leveret.cluster.links.hello import pack_refusal
from leveret.cluster.links.refusals import Reason, Refusal
from leveret.cluster.links.send_queue import SendQueue
from leveret.cluster.links.settings import LinkSettings
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.runtime.network import SocketHub, SocketTransport


@dataclass(slots=True)
class Octets:
    """Of one connection, or of all with one node."""

    sent: int = 0
    received: int = 0
    frames_sent: int = 0
    frames_received: int = 0

    def add(self, other: Octets) -> None:
        self.sent += other.sent
        self.received += other.received
        self.frames_sent += other.frames_sent
        self.frames_received += other.frames_received


@dataclass(frozen=True)
class Surroundings:
    """What all connections of a node share."""

    hub: SocketHub
    settings: LinkSettings
    identity: Identity
    # Monotonic seconds.
    now: Callable[[], float]
    # Counts and logs: who, and why not.
    refuse: Callable[[str, Refusal], None]
    pump: Pump


class Pump:
    """At the end of a turn moves what was put into queues to write buffers, that of consensus first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wanting: dict[Connection, bool] = {}
        self._scheduled = False

    def want(self, connection: Connection, first: bool) -> None:
        self._wanting[connection] = first
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        wanting, self._wanting = self._wanting, {}
        for connection in sorted(wanting, key=lambda one: not wanting[one]):
            connection.pump()


class Connection(ABC):
    # Whether what it carries goes before the traffic of others.
    first = False

    def __init__(self, around: Surroundings, transport: SocketTransport, reader: FrameReader) -> None:
        self.around = around
        self.transport = transport
        self.reader = reader
        self.write_buffer = WriteBuffer(around.hub.dirty, around.hub.spares)
        self.queue = SendQueue(around.settings.traffic_bytes_max)
        self.established = False
        self.ended = False
        self._heard_at = around.now()
        self._was_full = False
        # There is room again where there was none.
        self.on_drained: Callable[[], None] = lambda: None
        # Nothing may follow what could not be sent.
        self._spoiled = False
        self._octets_received = 0
        self._frames_before = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    @property
    def peer(self) -> str:
        host, port = self.transport.peer
        return f"{host}:{port}" if port else host

    @property
    def octets(self) -> Octets:
        return Octets(
            self.write_buffer.bytes_sent,
            self._octets_received,
            self.queue.frames_total,
            self._frames_before + self.reader.frames_total,
        )

    # ---- the handshake

    def start(self) -> None:
        loop = self.around.hub.loop
        self._timer = loop.call_later(self.around.settings.handshake_s, self._late)
        self.transport.start(self)

    def _late(self) -> None:
        self._timer = None
        self.around.refuse(self.peer, Refusal(Reason.DEADLINE, "the hello has not come in time"))
        self.transport.abort("handshake timeout")

    def proven(self) -> Proven | Refusal:
        """What TLS, or the kernel, says of the other side."""
        tls = self.transport.tls
        if tls is None:
            # The user of a unix socket was compared before the first octet.
            return SAME_USER
        if tls.certificate is None:
            return Refusal(Reason.CERTIFICATE_MISSING, "the other side has shown no certificate")
        try:
            return proven_by(tls.certificate.login_name("san_uri"))
        except ValueError as error:
            return Refusal(Reason.CERTIFICATE_STRANGE, str(error))

    def establish(self, reader: FrameReader) -> None:
        """The handshake is over: heartbeats begin."""
        self._frames_before = self.reader.frames_total
        self.reader = reader
        self.established = True
        self._cancel_timer()
        self._expect_beat()

    def refuse(self, refusal: Refusal, tell: bool) -> None:
        """Counts, logs and closes. `tell` is for a side that is a node of ours as far as we know."""
        self.around.refuse(self.peer, refusal)
        if tell:
            self.write_buffer.write(frame(Kind.REFUSED, 0, pack_refusal(refusal.reason, refusal.text)))
            self.around.hub.kick()
            self.transport.close()
        else:
            self.transport.abort(refusal.text)

    # ---- in

    def received(self, data: bytearray, size: int) -> None:
        self._heard_at = self.around.now()
        self._octets_received += size
        try:
            for kind, subject, octets in self.reader.feed(memoryview(data)[:size]):
                if self.ended:
                    return
                self.take(kind, subject, octets)
        except ValueError as error:
            # Whatever a frame means to those above, it is not as it should be.
            self.refuse(Refusal(Reason.MALFORMED, str(error)), tell=False)

    @abstractmethod
    def take(self, kind: int, subject: int, octets: bytes) -> None:
        """One message; a ValueError ends the connection."""

    # ---- out

    def put(self, kind: Kind, subject: int, octets: bytes) -> bool:
        """Queues a message for the end of the turn; False if there is no room."""
        if self.ended or self._spoiled or not self.queue.put(kind, subject, octets):
            self._was_full = True
            return False
        self.around.pump.want(self, self.first)
        return True

    def put_beat(self, kind: Kind, stamp: int) -> None:
        if self.queue.put_beat(beat(kind, stamp)):
            self.around.pump.want(self, True)
        elif kind is Kind.ECHO:
            raise ValueError("heartbeats come faster than their answers are read")

    def pump(self) -> None:
        if self.ended:
            return
        self.queue.fill(self.write_buffer)
        self.around.hub.kick()
        if self._was_full and self.queue.octets <= self.queue.bytes_max // 2:
            self._was_full = False
            self.on_drained()

    def calmed(self) -> None:
        self.pump()

    # ---- heartbeats

    def _expect_beat(self) -> None:
        loop = self.around.hub.loop
        self._timer_due = self.around.now() + self.around.settings.heartbeat_s
        self._timer = loop.call_later(self.around.settings.heartbeat_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self.around.now()
        # If this process itself stood still, what the other side sent meanwhile is still to be read.
        stood_still = now - self._timer_due > self.around.settings.heartbeat_s
        if now - self._heard_at > self.around.settings.idle_s and not stood_still:
            self.transport.abort(f"nothing was heard for {self.around.settings.idle_s:g} s")
            return
        self.on_beat(now)
        self._expect_beat()

    @abstractmethod
    def on_beat(self, now: float) -> None:
        """Once per heartbeat interval."""

    # ---- the end

    def close(self, reason: str) -> None:
        self.transport.abort(reason)

    def spoil(self, reason: str) -> None:
        """Takes nothing more, and ends when whoever sends just now is done."""
        if not self._spoiled:
            self._spoiled = True
            self.around.hub.loop.call_soon(self.close, reason)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lost(self, reason: str) -> None:
        self.ended = True
        self._cancel_timer()
        self.on_lost(reason)

    @abstractmethod
    def on_lost(self, reason: str) -> None: ...
