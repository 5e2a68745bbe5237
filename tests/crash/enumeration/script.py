"""The workload: short, the same each time, and with a bit of everything that makes a broker touch its files.

Each step is tried again if it fails, with a new connection, as an application would. What was confirmed, acked,
declared and deleted is written down; a step that never comes to its end says so."""

import base64
import http.client
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tests.conformance.amqp_codec import Value
from tests.crash.client import Closed, ConnectionLost, CrashClient, Delivery, Refused, connected
from tests.crash.enumeration.evidence import Evidence, Fate
from tests.crash.enumeration.publishing import Publishing, Unfinished
from tests.crash.enumeration.topology import (
    ARGUMENTS,
    BINDINGS,
    BURIAL,
    DOOMED,
    DOOMED_STREAM,
    EVENTS,
    FANOUT,
    FENCE,
    NEW,
    NEW_STREAM,
    STAY,
    WORK,
    declare,
)
from tests.crash.messages import MessageId, id_of
from tests.crash.stream_load import offset_of

_ANSWER_S_MAX: Final = 6.0
_PAUSES_S: Final = (0.05, 0.3, 0.8)
_CHURN: Final = 30
# One of so many messages is rejected, and one of so many left alone.
_REJECTED_EVERY: Final = 10
_LEFT_EVERY: Final = 7


class Script:
    """One run against one broker. `is_alive` says whether there is any point in going on."""

    def __init__(self, port: int, management_port: int, evidence: Evidence, is_alive: Callable[[], bool]) -> None:
        self._port = port
        self._management_port = management_port
        self._evidence = evidence
        self._is_alive = is_alive

    # ---- the two parts

    def prepare(self) -> None:
        """What is there before anything fails."""
        with self._connection() as client:
            for exchange in (FANOUT, BURIAL):
                client.call(1, "exchange.declare", exchange=exchange, type="fanout", durable=True)
            for name in ARGUMENTS:
                if name not in (NEW, NEW_STREAM):
                    self._declare(client, name)
            for exchange, queue in BINDINGS:
                client.call(1, "queue.bind", queue=queue, exchange=exchange)
        for number, count in ((0, 40), (1, 12), (2, 3), (3, 30), (4, 3), (5, 3)):
            self._publish(number, count, 2000)

    def run(self) -> bool:
        """Every step in its turn; False if the broker has ended on the way."""
        steps: list[tuple[str, Callable[[], None]]] = [
            ("publish to a queue", lambda: self._publish(0, 20, 3000)),
            ("publish to a queue and a stream", lambda: self._publish(6, 15, 1000)),
            ("consume a backlog", self._consume),
            ("read a stream", self._read_stream),
            ("delete a queue and a stream", self._delete),
            ("declare a queue and a stream", self._declare_new),
            ("publish to a new queue", lambda: self._publish(7, 5, 1000)),
            ("publish to a new stream", lambda: self._publish(8, 5, 1000)),
            ("declare and delete many queues", self._churn),
            ("publish beyond retention", lambda: self._publish(5, 8, 1500)),
            ("ask over HTTP", self._ask_over_http),
            ("publish to a queue and a stream again", lambda: self._publish(6, 3, 100)),
            ("publish to a queue again", lambda: self._publish(0, 3, 100)),
        ]
        for name, step in steps:
            if not self._tried(name, step):
                return False
        # What is done behind everybody's back: indexes, retention, compaction.
        time.sleep(0.15)
        return self._is_alive()

    def _tried(self, name: str, step: Callable[[], None]) -> bool:
        """Whether the broker is still there; a step that failed each time is written down."""
        for pause_s in (*_PAUSES_S, None):
            try:
                step()
            except (Unfinished, Refused, http.client.HTTPException, *ConnectionLost) as error:
                problem = f"{type(error).__name__} {error}"
            else:
                return True
            if pause_s is None:
                break
            # A broker that closes its connections may be about to end.
            time.sleep(pause_s)
            if not self._is_alive():
                return False
        if self._is_alive():
            self._evidence.wrong.append(f"stalled: {name}: {problem}")
        return self._is_alive()

    # ---- steps

    def _connection(self) -> CrashClient:
        client = connected(self._port)
        client.socket.settimeout(_ANSWER_S_MAX)
        return client

    def _declare(self, client: CrashClient, name: str) -> None:
        declare(client, name)
        self._evidence.declared.add(name)

    def _declare_new(self) -> None:
        with self._connection() as client:
            self._declare(client, NEW)
            self._declare(client, NEW_STREAM)

    def _delete(self) -> None:
        with self._connection() as client:
            for name in (DOOMED, DOOMED_STREAM):
                self._evidence.deleting.add(name)
                client.call(1, "queue.delete", queue=name)
                self._evidence.deleted.add(name)

    def _churn(self) -> None:
        with self._connection() as client:
            for number in range(_CHURN):
                name = f"passing-{number}-{'x' * 60}"
                client.send(1, "queue.declare", queue=name, durable=True, nowait=True)
                client.send(1, "queue.delete", queue=name, nowait=True)
            client.call(1, "queue.declare", queue=STAY, passive=True)

    def _ask_over_http(self) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self._management_port, timeout=_ANSWER_S_MAX)
        try:
            login = base64.b64encode(b"guest:guest").decode()
            client.request("GET", "/api/overview", headers={"Authorization": f"Basic {login}"})
            status = client.getresponse().status
            if status != 200:
                raise Unfinished(f"HTTP status {status}")
        finally:
            client.close()

    def _publish(self, number: int, count: int, size: int) -> None:
        with self._connection() as client:
            publishing = Publishing(client, self._evidence)
            publishing.send(number, count, size)
            publishing.await_confirms(_ANSWER_S_MAX)

    def _consume(self) -> None:
        """Takes all that was in the queue before; acks most of it, rejects some, leaves some."""
        wanted = {m for m in self._evidence.confirmed(WORK) if m.publisher == 0} - set(self._evidence.settled)
        left = {message for message in wanted if message.sequence % _LEFT_EVERY == 3}
        with self._connection() as client:
            publishing = Publishing(client, self._evidence)
            client.send(1, "basic.consume", queue=WORK, consumer_tag="worker")
            settled: set[MessageId] = set()
            deadline = time.monotonic() + _ANSWER_S_MAX
            while wanted:
                if time.monotonic() > deadline:
                    raise Unfinished(f"{len(wanted)} messages did not come")
                for item in client.incoming(0.5):
                    if isinstance(item, Closed):
                        raise Unfinished(item.reason)
                    if isinstance(item, Delivery):
                        message = id_of(item.body)
                        if message is None:
                            self._evidence.wrong.append(f"damaged: {WORK} gave {item.body[:40]!r}")
                            continue
                        if message in wanted - left:
                            self._settle(client, item, message)
                            settled.add(message)
                        wanted.discard(message)
            publishing.send(FENCE, 1, 100)
            publishing.await_confirms(_ANSWER_S_MAX)
        self._evidence.answered |= settled

    def _settle(self, client: CrashClient, item: Delivery, message: MessageId) -> None:
        rejects = message.sequence % _REJECTED_EVERY == 0
        self._evidence.settled[message] = Fate.REJECTED if rejects else Fate.ACKED
        if rejects:
            client.reject(item.tag)
        else:
            client.ack(item.tag)

    def _read_stream(self) -> None:
        """From the first offset to the last that was confirmed: each offset, one behind the other."""
        wanted = self._evidence.confirmed(EVENTS)
        with self._connection() as client:
            client.call(1, "basic.qos", prefetch_count=20)
            start: dict[str, Value] = {"x-stream-offset": "first"}
            client.send(1, "basic.consume", queue=EVENTS, consumer_tag="reader", arguments=start)
            expected = 0
            deadline = time.monotonic() + _ANSWER_S_MAX
            while wanted:
                if time.monotonic() > deadline:
                    raise Unfinished(f"{len(wanted)} messages of the stream did not come")
                for item in client.incoming(0.5):
                    if isinstance(item, Closed):
                        raise Unfinished(item.reason)
                    if isinstance(item, Delivery):
                        offset, message = offset_of(item), id_of(item.body)
                        if offset != expected or message is None:
                            self._evidence.wrong.append(f"skipped: offset {offset} of {EVENTS} came for {expected}")
                            return
                        expected += 1
                        wanted.discard(message)
                        client.ack(item.tag)
            with suppress(*ConnectionLost):
                client.leave()
