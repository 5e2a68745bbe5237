"""A connection that another node has dialled: who it is, then what it sends.

Nothing of a stranger is looked at but its first frame, which is a hello or, if the node lets others join, a request to
join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.cluster.links.connection import Connection, Surroundings
from leveret.cluster.links.frames import STAMP, FrameReader, Kind, frame
from leveret.cluster.links.handshake import Proven
from leveret.cluster.links.hello import HELLO_BYTES_MAX, Hello, Purpose, Welcome, pack_welcome, unpack_hello
from leveret.cluster.links.outgoing import QUESTION
from leveret.cluster.links.refusals import Reason, Refusal
from leveret.runtime.network import SocketTransport

FIRST_BYTES_MAX = 8192
_LATER = {
    Purpose.CONSENSUS: (Kind.HEARTBEAT, Kind.CONSENSUS, Kind.CARRIER),
    Purpose.TRAFFIC: (Kind.HEARTBEAT, Kind.TRAFFIC, Kind.QUESTION),
}


class Owner(Protocol):
    """Who judges strangers and gets what nodes send: cluster/links/links.py."""

    def judge(self, hello: Hello, proven: Proven) -> Welcome | Refusal: ...
    def entered(self, connection: Incoming) -> None: ...
    def message(self, connection: Incoming, kind: int, subject: int, octets: bytes) -> None: ...
    def asked(self, question: Question) -> None: ...
    def left(self, connection: Incoming, reason: str) -> None: ...


# A node that is not a member yet asks for the authority, or to join: kind, octets, and whom to answer, once.
Joins = Callable[["Incoming", int, bytes], None]


class Question:
    """A question of another node. Answered or failed once; afterwards, or when the connection is gone, nothing happens
    any more."""

    __slots__ = ("_connection", "_number", "node", "octets", "until")

    def __init__(self, connection: Incoming, number: int, octets: bytes, until: float) -> None:
        self._connection = connection
        self._number = number
        self.node = connection.node
        self.octets = octets
        # Nobody waits for the answer after this moment.
        self.until = until

    def answer(self, octets: bytes) -> None:
        self._connection.reply(self._number, Kind.ANSWER, octets)

    def fail(self, text: str) -> None:
        self._connection.reply(self._number, Kind.NO_ANSWER, text.encode()[:HELLO_BYTES_MAX])


class Incoming(Connection):
    def __init__(
        self, around: Surroundings, transport: SocketTransport, owner: Owner, joins: Joins | None = None
    ) -> None:
        kinds = (Kind.HELLO,) if joins is None else (Kind.HELLO, Kind.ASK_AUTHORITY, Kind.JOIN)
        super().__init__(around, transport, FrameReader(kinds, FIRST_BYTES_MAX, FIRST_BYTES_MAX))
        self._owner = owner
        self._joins = joins
        self._spoke = False
        self.hello: Hello | None = None
        # Questions that are not answered, with the moment after which nobody waits.
        self._open: dict[int, float] = {}

    @property
    def node(self) -> int:
        return self.hello.node if self.hello is not None else 0

    def take(self, kind: int, subject: int, octets: bytes) -> None:
        if not self.established:
            self._first(kind, octets)
        elif kind == Kind.HEARTBEAT:
            self.put_beat(Kind.ECHO, STAMP.unpack(octets)[0])
        elif kind == Kind.QUESTION:
            self._question(subject, octets)
        else:
            self._owner.message(self, kind, subject, octets)

    # ---- the handshake

    def _first(self, kind: int, octets: bytes) -> None:
        if self._spoke:
            raise ValueError("a second frame before the first was answered")
        self._spoke = True
        if kind != Kind.HELLO:
            self._join(kind, octets)
            return
        proven = self.proven()
        if isinstance(proven, Refusal):
            self.refuse(proven, tell=False)
            return
        hello = unpack_hello(octets)
        answer = self._owner.judge(hello, proven)
        if isinstance(answer, Refusal):
            self.refuse(answer, tell=True)
            return
        self.write_buffer.write(frame(Kind.WELCOME, 0, pack_welcome(answer)))
        self.around.hub.kick()
        if hello.purpose is Purpose.PROBE:
            self.transport.close()
            return
        self.hello = hello
        self.first = hello.purpose is Purpose.CONSENSUS
        self.establish(FrameReader(_LATER[hello.purpose]))
        self._owner.entered(self)

    def _join(self, kind: int, octets: bytes) -> None:
        assert self._joins is not None, "frames to join are read only where somebody may"
        if self.transport.tls is None or self.transport.tls.certificate is not None:
            self.refuse(Refusal(Reason.JOIN, "a node that has a certificate, or needs none, wants to join"), tell=True)
            return
        self._joins(self, kind, octets)

    def finish(self, kind: Kind, octets: bytes) -> None:
        """The answer to one that wants to join, and the end."""
        if not self.ended:
            self.write_buffer.write(frame(kind, 0, octets))
            self.around.hub.kick()
            self.transport.close()

    # ---- questions

    def _question(self, number: int, octets: bytes) -> None:
        if len(octets) < QUESTION.size or number in self._open:
            raise ValueError(f"question {number} with {len(octets)} octets")
        until = self.around.now() + QUESTION.unpack_from(octets)[0] / 1000
        question = Question(self, number, octets[QUESTION.size :], until)
        self._open[number] = until
        if len(self._open) > self.around.settings.questions_max:
            question.fail("too many questions are open")
            return
        self._owner.asked(question)

    def reply(self, number: int, kind: Kind, octets: bytes) -> None:
        if self._open.pop(number, None) is None or self.ended:
            return
        if not self.put(kind, number, octets):
            # The other side does not read its answers.
            self.close("answers are not read")

    def on_beat(self, now: float) -> None:
        for number in [number for number, until in self._open.items() if until <= now]:
            del self._open[number]

    def on_lost(self, reason: str) -> None:
        self._open.clear()
        self._owner.left(self, reason)
