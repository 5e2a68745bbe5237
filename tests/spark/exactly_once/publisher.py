"""Whoever fills the source: numbered messages, in a thread, until it is told to stop; and whoever reads the target.

Producers of streams have a name and their messages have numbers, so what is sent again after the broker was killed is
no duplicate of their own making. Only what the broker confirmed is in the ledger."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from leveret.client import blocking
from leveret.client.blocking import Connection
from leveret.client.message import Message
from leveret.client.streams.super_stream import partition_key
from leveret.client.topology import Binding, Exchange, Queue
from leveret.wire.queue_methods import QueueDeclare
from tests.spark.exactly_once.ledger import Ledger
from tests.spark.exactly_once.places import PARTITIONS, SOURCE, TARGET

__all__ = ["Publisher", "Send", "declare_streams", "numbered", "publish_numbers", "read_bodies", "read_stream"]

Send = Callable[[range], None]

AT_ONCE = 20
# A kill and a restart lie within.
DEADLINE_S = 120.0


def declare_streams(url: str) -> None:
    partitions = [f"{SOURCE}-{number}" for number in range(PARTITIONS)]
    with blocking.connect(url) as connection:
        connection.topology.declare(
            Exchange(SOURCE, "direct", arguments={"x-super-stream": True}),
            *(Queue(name, queue_type="stream") for name in (*partitions, TARGET)),
            *(
                Binding(SOURCE, name, str(number), arguments={"x-stream-partition-order": number})
                for number, name in enumerate(partitions)
            ),
        )


def numbered(number: int) -> Message:
    key = partition_key(f"customer-{number % 97}", PARTITIONS)
    return Message(body=str(number).encode(), routing_key=key, message_id=f"order-{number}")


def publish_numbers(url: str, ledger: Ledger, numbers: range) -> None:
    with blocking.connect(url) as connection:
        connection.producer(exchange=SOURCE).publish_batch([numbered(number) for number in numbers])
    ledger.confirm(numbers)


def read_stream(url: str, name: str) -> list[int]:
    """The ids of all messages in a stream of numbers."""
    return [int(body) for body in read_bodies(url, name)]


def read_bodies(url: str, name: str) -> list[bytes]:
    """All that is in a stream, read without Spark."""
    with blocking.connect(url) as connection:
        with connection.channel() as channel:
            count = channel.call(QueueDeclare(name, passive=True)).message_count
        if count == 0:
            return []
        with connection.stream(name, offset="first") as stream:
            return [bytes(message.body) for message in itertools.islice(stream, count)]


class Publisher(threading.Thread):
    def __init__(
        self, url: str, opened: Callable[[Connection], Send], pause_s: float, may_publish: Callable[[], bool]
    ) -> None:
        """Publishes by what is opened on a connection. Pauses between batches, and as long as it may not publish."""
        super().__init__(name="publisher", daemon=True)
        self._url = url
        self._opened = opened
        self._pause_s = pause_s
        self._may_publish = may_publish
        self._enough = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            with blocking.connect(self._url, backoff_max_s=0.5, deadline_s=DEADLINE_S) as connection:
                send = self._opened(connection)
                for first in itertools.count(0, AT_ONCE):
                    send(range(first, first + AT_ONCE))
                    while not self._enough.wait(self._pause_s) and not self._may_publish():
                        pass
                    if self._enough.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - whoever stops it is told
            self._error = error

    def stop(self) -> None:
        """Returns when everything that was published is confirmed; raises what went wrong on the way."""
        self._enough.set()
        self.join(DEADLINE_S + 10)
        if self._error is not None:
            raise self._error
        assert not self.is_alive(), "the publisher still waits for a confirm"
