"""A connection that this node has dialled: it says hello, then sends; what comes back are answers and echoes."""

from __future__ import annotations

import struct
from collections.abc import Callable

from leveret.cluster.links.asks import Asks, Then
from leveret.cluster.links.connection import Connection, Surroundings
from leveret.cluster.links.frames import STAMP, FrameReader, Kind, frame
from leveret.cluster.links.handshake import judge_welcome, say_hello
from leveret.cluster.links.hello import HELLO_BYTES_MAX, Purpose, Welcome, pack_hello, unpack_refusal, unpack_welcome
from leveret.cluster.links.refusals import Reason, Refusal
from leveret.errors import AskFailed
from leveret.runtime.network import SocketTransport

# How long the one that asks waits, in milliseconds, before the question itself.
QUESTION = struct.Struct("!I")
_FIRST = (Kind.WELCOME, Kind.REFUSED)
_LATER = {
    Purpose.CONSENSUS: (Kind.ECHO,),
    Purpose.TRAFFIC: (Kind.ECHO, Kind.ANSWER, Kind.NO_ANSWER),
    Purpose.PROBE: (),
}


class Outgoing(Connection):
    """`opened` is called when the other side has welcomed us, `closed` once in any case."""

    def __init__(
        self,
        around: Surroundings,
        transport: SocketTransport,
        wanted: int,
        epoch: int,
        purpose: Purpose,
        opened: Callable[[Outgoing], None],
        closed: Callable[[Outgoing, str], None],
    ) -> None:
        super().__init__(around, transport, FrameReader(_FIRST, HELLO_BYTES_MAX, HELLO_BYTES_MAX))
        self.first = purpose is Purpose.CONSENSUS
        self.purpose = purpose
        self.wanted = wanted
        self.epoch = epoch
        self.welcome: Welcome | None = None
        self.asks = Asks(wanted)
        # Seconds from a heartbeat to its echo; None before the first.
        self.round_trip_s: float | None = None
        self._opened = opened
        self._closed = closed
        if self.first:
            self.queue.bytes_max = around.settings.consensus_bytes_max

    def start(self) -> None:
        super().start()
        if self.ended:
            return
        # TLS sends nothing before it knows that this is a node of the cluster.
        hello = say_hello(self.around.identity, self.wanted, self.epoch, self.purpose)
        self.write_buffer.write(frame(Kind.HELLO, 0, pack_hello(hello)))
        self.around.hub.kick()

    def take(self, kind: int, subject: int, octets: bytes) -> None:
        if kind == Kind.ECHO:
            stamp: int = STAMP.unpack(octets)[0]
            self.round_trip_s = max(0.0, self.around.now() - stamp / 1e6)
        elif kind == Kind.ANSWER:
            self.asks.answered(subject, octets)
        elif kind == Kind.NO_ANSWER:
            text = octets[:HELLO_BYTES_MAX].decode(errors="replace")
            self.asks.answered(subject, AskFailed(f"node {self.wanted} did not answer: {text}"))
        elif kind == Kind.WELCOME:
            self._welcomed(unpack_welcome(octets))
        else:
            reason, text = unpack_refusal(octets)
            self._refused(reason, text)

    def _welcomed(self, welcome: Welcome) -> None:
        proven = self.proven()
        refusal = (
            proven if isinstance(proven, Refusal) else judge_welcome(self.around.identity, welcome, proven, self.wanted)
        )
        if refusal is not None:
            self.refuse(refusal, tell=False)
            return
        self.welcome = welcome
        self.establish(FrameReader(_LATER[self.purpose]))
        if self.purpose is not Purpose.PROBE:
            self.on_beat(self.around.now())
        self._opened(self)

    def _refused(self, reason: int, text: str) -> None:
        known = Reason(reason) if reason in Reason._value2member_map_ else Reason.REFUSED
        self.refuse(Refusal(known, f"the other node says: {text}"), tell=False)

    def on_beat(self, now: float) -> None:
        self.put_beat(Kind.HEARTBEAT, int(now * 1e6))

    # ---- questions

    def ask(self, question: bytes, deadline_s: float, then: Then) -> int:
        """The number of the question; raises AskFailed."""
        number = self.asks.ask(self.around.now() + deadline_s, then)
        head = QUESTION.pack(min(int(deadline_s * 1000), 0xFFFFFFFF))
        if not self.put(Kind.QUESTION, number, head + question):
            self.asks.forget(number)
            raise AskFailed(f"too much waits to be sent to node {self.wanted}")
        return number

    def on_lost(self, reason: str) -> None:
        self.asks.end(reason)
        self._closed(self, reason)
