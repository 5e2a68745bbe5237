"""Clients that were connected before anything ran out: they publish, consume, settle and read on, round by round.

What they are told is written down as by the script of the enumeration, and judged in the same way."""

import time
from typing import Final, Self

from tests.conformance.amqp_codec import Value
from tests.crash.client import Closed, CrashClient, Delivery, connected
from tests.crash.enumeration.evidence import Evidence, Fate
from tests.crash.enumeration.publishing import Cut, Publishing, Unfinished
from tests.crash.enumeration.topology import EVENTS, FENCE, WORK
from tests.crash.messages import MessageId, id_of
from tests.crash.stream_load import offset_of

# One of so many messages is rejected.
_REJECTED_EVERY: Final = 10


class Workers:
    """A publisher, a consumer that begins only when it is told to, and a reader of a stream."""

    def __init__(self, port: int, evidence: Evidence) -> None:
        self._evidence = evidence
        self._clients: list[CrashClient] = []
        self.publisher = Publishing(self._connected(port), evidence)
        self._consumer = self._connected(port)
        self._reader = self._connected(port)
        self._fence = Publishing(self._consumer, evidence)
        self._next_offset = 0
        self._read: set[MessageId] = set()
        # Settled since the last fence that was confirmed.
        self._unanswered: set[MessageId] = set()

    def _connected(self, port: int) -> CrashClient:
        client = connected(port)
        self._clients.append(client)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        for client in self._clients:
            client.socket.close()

    def begin(self) -> None:
        """Asks for a backlog and for a stream from its first offset: both are on disk."""
        for client, queue, start in ((self._consumer, WORK, None), (self._reader, EVENTS, "first")):
            client.send(1, "basic.qos", prefetch_count=2000)
            arguments: dict[str, Value] = {} if start is None else {"x-stream-offset": start}
            client.send(1, "basic.consume", queue=queue, consumer_tag=queue, arguments=arguments)

    def round(self, wait_s: float, count: int = 8, size: int = 2500) -> None:
        """Publishes, settles what came, and reads on; Unfinished if the confirms do not come in time."""
        self.publisher.send(0, count, size)
        self.publisher.send(6, count // 2, size // 2)
        self.take(0.02)
        self._fence.send(FENCE, 1, 100)
        self.await_confirms(wait_s)

    def await_confirms(self, wait_s: float) -> None:
        self.publisher.await_confirms(wait_s)
        self._fence.await_confirms(wait_s)
        self._evidence.answered |= self._unanswered
        self._unanswered.clear()

    def await_everything(self, wait_s: float) -> None:
        """Returns when all that was confirmed has come to the consumer and to the reader."""
        self.await_confirms(wait_s)
        deadline = time.monotonic() + wait_s
        while True:
            self.take(0.1)
            work = {m for m in self._evidence.confirmed(WORK) if m.publisher == 0} - set(self._evidence.settled)
            events = self._evidence.confirmed(EVENTS) - self._read
            if not work and not events:
                break
            if time.monotonic() > deadline:
                raise Unfinished(f"{len(work)} messages of {WORK} and {len(events)} of {EVENTS} did not come")
        self._fence.send(FENCE, 1, 100)
        self.await_confirms(wait_s)

    def take(self, wait_s: float) -> None:
        """Settles and writes down what has come to the consumer and to the reader."""
        came = self._fence.take_delivered()
        for item in self._consumer.incoming(wait_s):
            if isinstance(item, Delivery):
                came.append(item)
            else:
                self._fence.hear(item)
        for delivery in came:
            self._settle(delivery)
        for item in self._reader.incoming(wait_s):
            if isinstance(item, Closed):
                raise Cut(item.reason)
            if isinstance(item, Delivery):
                self._note_read(item)

    def _settle(self, item: Delivery) -> None:
        message = id_of(item.body)
        if message is None:
            self._evidence.wrong.append(f"damaged: {WORK} gave {item.body[:40]!r}")
        elif message.publisher == 0:
            rejects = message.sequence % _REJECTED_EVERY == 0
            self._evidence.settled[message] = Fate.REJECTED if rejects else Fate.ACKED
            self._unanswered.add(message)
            self._consumer.reject(item.tag) if rejects else self._consumer.ack(item.tag)

    def _note_read(self, item: Delivery) -> None:
        offset, message = offset_of(item), id_of(item.body)
        if offset != self._next_offset or message is None:
            self._evidence.wrong.append(f"skipped: offset {offset} of {EVENTS} came for {self._next_offset}")
        else:
            self._read.add(message)
        self._next_offset = offset + 1
        self._reader.ack(item.tag)
