"""The load on streams: publishers with and without a name, readers at the head, at the tail and anywhere, all through
every death of the broker."""

import random
import threading
import time
from typing import Final

from tests.conformance.amqp_codec import Value, encode_properties
from tests.crash.client import Address, Closed, ConnectionLost, CrashClient, Delivery, Incoming, Refused, connected
from tests.crash.load import Crew
from tests.crash.messages import MessageId, id_of
from tests.crash.publisher import Publisher
from tests.crash.stream_checkers import Read, Session, State, StreamHistory

# All of it stays, in segments that roll all the time; and one of which retention leaves a few segments.
KEPT: Final = "crash.stream"
SHORT: Final = "crash.stream.short"
ARGUMENTS: Final[dict[str, dict[str, Value]]] = {
    KEPT: {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 400_000},
    SHORT: {
        "x-queue-type": "stream",
        "x-stream-max-segment-size-bytes": 60_000,
        "x-max-length-bytes": 300_000,
    },
}
# Of all publishers together.
RATE: Final = 4000.0
VALUES: Final = ("red", "green", "blue")
_RECONNECT_S: Final = 0.02
_STATE_S_MAX: Final = 60.0
_OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"


def declare_streams(port: int) -> None:
    with connected(port) as client:
        for stream, arguments in ARGUMENTS.items():
            client.call(1, "queue.declare", queue=stream, durable=True, arguments=arguments)
        client.leave()


def offset_of(delivery: Delivery) -> int:
    at = delivery.properties_raw.index(_OFFSET_FIELD) + len(_OFFSET_FIELD)
    return int.from_bytes(delivery.properties_raw[at : at + 8], "big")


class NamedPublisher(Publisher):
    """Gives itself a name and its messages ids, and sends again what was not confirmed when the broker died."""

    def _resume(self, client: CrashClient, unconfirmed: list[int]) -> None:
        if unconfirmed:
            self._send(client, unconfirmed)

    def _properties(self, message: MessageId) -> bytes:
        return publishing_properties(message)


def publishing_properties(message: MessageId) -> bytes:
    headers: dict[str, Value] = {
        "x-producer-name": f"publisher {message.publisher}",
        "x-publishing-id": message.sequence,
        "x-stream-filter-value": VALUES[message.sequence // 50 % len(VALUES)],
    }
    return encode_properties({"delivery_mode": 2, "headers": headers})


class StreamReader:
    """Reads one stream, session after session, until told to stop."""

    prefetch = 400

    def __init__(self, name: str, stream: str, history: StreamHistory, seed: int) -> None:
        self.name = name
        self.stream = stream
        self.history = history
        self.dice = random.Random(f"{seed} {name}")
        self.stopping = threading.Event()
        self.newest = 0
        self.filtered = False
        self.session = 0

    def run(self, port: int) -> None:
        while True:
            try:
                self._connection(port)
            except Refused as refusal:
                self.history.refusals.append(f"{self.name}: {refusal}")
            except ConnectionLost:
                pass
            if self.stopping.wait(_RECONNECT_S):
                return

    def _arguments(self) -> dict[str, Value]:
        """Where it starts: everything from the first on."""
        return {"x-stream-offset": "first"}

    def _acked(self) -> int | None:
        return None

    def _session_s(self) -> float:
        """How long it stays."""
        return 1e9

    def _connection(self, port: int) -> None:
        with connected(port) as client:
            # After the login: a broker that answered this is the one of the present life, or already dead.
            life = self.history.life
            client.call(1, "basic.qos", prefetch_count=self.prefetch)
            arguments = self._arguments()
            session = Session(life, self.stream, self.name, self.filtered, self._acked())
            self.session = self.history.open_session(session)
            client.send(1, "basic.consume", queue=self.stream, consumer_tag=self.name, arguments=arguments)
            until = time.monotonic() + self._session_s()
            while not self.stopping.is_set() and time.monotonic() < until:
                if not self._take(client, client.incoming(0.05)):
                    client.await_end()
                    return
            self._note(client.leave())

    def _take(self, client: CrashClient, items: list[Incoming]) -> bool:
        deliveries = self._note(items)
        if deliveries:
            client.ack(deliveries[-1].tag, multiple=True)
            self._acknowledged(offset_of(deliveries[-1]))
        return not any(isinstance(item, Closed) for item in items)

    def _note(self, items: list[Incoming]) -> list[Delivery]:
        deliveries = []
        for item in items:
            match item:
                case Delivery(_, _, body):
                    offset, message = offset_of(item), id_of(body)
                    if message is None:
                        self.history.damaged.append(f"{len(body)} octets at {offset} of {self.stream}, {body[:32]!r}")
                    else:
                        self.history.reads.append(Read(self.session, offset, message))
                    self.newest = max(self.newest, offset)
                    deliveries.append(item)
                case Closed(reason):
                    self.history.refusals.append(f"{self.name}: {reason}")
        return deliveries

    def _acknowledged(self, offset: int) -> None:
        """An ack up to this offset was sent."""


class TailReader(StreamReader):
    """Wants only what is still to come."""

    def _arguments(self) -> dict[str, Value]:
        return {"x-stream-offset": "next"}


class Wanderer(StreamReader):
    """Starts anywhere, stays a moment, and starts elsewhere."""

    def _arguments(self) -> dict[str, Value]:
        return {"x-stream-offset": self.dice.randint(0, self.newest + 5)}

    def _session_s(self) -> float:
        return self.dice.uniform(0.05, 0.6)


class FilteringReader(StreamReader):
    """Wants one value of three."""

    def __init__(self, name: str, stream: str, history: StreamHistory, seed: int) -> None:
        super().__init__(name, stream, history, seed)
        self.filtered = True

    def _arguments(self) -> dict[str, Value]:
        return {"x-stream-offset": "first", "x-stream-filter": "red"}


class NamedReader(StreamReader):
    """Goes on where it was the last time, as the broker remembers it; leaves now and then by itself."""

    def __init__(self, name: str, stream: str, history: StreamHistory, seed: int) -> None:
        super().__init__(name, stream, history, seed)
        self.acked = -1

    def _arguments(self) -> dict[str, Value]:
        return {"x-stream-offset": "first", "x-stream-consumer-name": self.name}

    def _acked(self) -> int | None:
        return self.acked

    def _acknowledged(self, offset: int) -> None:
        self.acked = max(self.acked, offset)

    def _session_s(self) -> float:
        return self.dice.uniform(0.2, 2.0)


class StreamLoad(Crew):
    def __init__(self, port: int, history: StreamHistory, seed: int = 0, rate: float = RATE) -> None:
        first, each = len(history.published), rate / 3
        publishers: list[Publisher] = [
            Publisher(first, Address("", KEPT), (KEPT,), each, history, seed),
            NamedPublisher(first + 1, Address("", KEPT), (KEPT,), each, history, seed),
            NamedPublisher(first + 2, Address("", SHORT), (SHORT,), each, history, seed),
        ]
        self.readers = [
            StreamReader("head", KEPT, history, seed),
            TailReader("tail", KEPT, history, seed),
            FilteringReader("filter", KEPT, history, seed),
            NamedReader(f"named {first}", KEPT, history, seed),
            Wanderer("wanderer", KEPT, history, seed),
            StreamReader("short head", SHORT, history, seed),
            Wanderer("short wanderer", SHORT, history, seed),
        ]
        super().__init__(port, history, publishers, self.readers)  # type: ignore[arg-type]


def read_state(port: int, history: StreamHistory, stream: str) -> State:
    """All that the stream has now, from its first to its last offset."""
    with connected(port) as client:
        try:
            first, committed = query(client, stream)
        except Refused as refusal:
            # A stream that is gone has nothing.
            history.refusals.append(f"state: {refusal}")
            first = committed = 0
        messages: dict[int, MessageId] = {}
        if committed > first:
            client.call(1, "basic.qos", prefetch_count=2000)
            arguments: dict[str, Value] = {"x-stream-offset": first, "x-stream-stop-offset": committed}
            client.send(1, "basic.consume", queue=stream, consumer_tag="state", arguments=arguments)
        deadline = time.monotonic() + _STATE_S_MAX
        while committed > first and max(messages, default=-1) < committed - 1:
            assert time.monotonic() < deadline, f"{stream} gave {len(messages)} of {first} to {committed}"
            newest = 0
            for item in client.incoming(0.2):
                assert not isinstance(item, Closed), item
                if isinstance(item, Delivery):
                    message, newest = id_of(item.body), item.tag
                    assert message is not None, f"{stream} has something damaged at {offset_of(item)}"
                    messages[offset_of(item)] = message
            if newest:
                client.ack(newest, multiple=True)
    state = State(history.life, stream, first, committed, messages)
    history.states.append(state)
    return state


def query(client: CrashClient, stream: str) -> tuple[int, int]:
    """First and committed offset."""
    client.call(1, "basic.qos", prefetch_count=1)
    client.send(1, "basic.consume", queue=stream, consumer_tag="query", arguments={"x-stream-query": True})
    deadline = time.monotonic() + _STATE_S_MAX
    answers: list[Delivery] = []
    while not answers:
        assert time.monotonic() < deadline, "no answer"
        for item in client.incoming(0.2):
            if isinstance(item, Closed):
                raise Refused(item.reason)
            if isinstance(item, Delivery):
                answers.append(item)
    headers = answers[0].properties["headers"]
    assert isinstance(headers, dict)
    first, committed = headers["x-stream-first-offset"], headers["x-stream-committed-offset"]
    assert isinstance(first, int) and isinstance(committed, int)
    return first, committed
