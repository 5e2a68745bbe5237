"""The shortest life of a client that takes every step of the protocol: connect, declare, publish, consume, ack, close.

Run again and again with a fault at another step each time."""

from __future__ import annotations

from typing import Any, Final

from leveret.client import Connection, StaleDelivery, connect
from leveret.client.topology import Binding, Exchange, Queue
from tests.client.adversity.ledger import Attempt, Ledger, MessageId, Sighting, body_of, id_of
from tests.conformance.topology import unique_name

# Pauses that are short, and time enough for any single fault to be forgotten.
QUICK: Final[dict[str, Any]] = {
    "backoff_min_s": 0.005,
    "backoff_max_s": 0.05,
    "wait_s": 10.0,
    "deadline_s": 10.0,
    "close_deadline_s": 2.0,
    "pool_size": 1,
}
BATCH: Final = 2
MESSAGES: Final = 2 + BATCH


class Compact:
    """One life. Raises whatever its calls raise."""

    def __init__(self, url: str, ledger: Ledger, **options: Any) -> None:
        self.url = url
        self.ledger = ledger
        self.options = {**QUICK, **options}
        # Of one call. Recovering from one fault is part of it.
        self.deadline_s: float = self.options["deadline_s"]
        self.queue = unique_name("adversity")
        self.exchange = f"{self.queue}.exchange"
        self.reconnects_total = 0

    async def run(self) -> None:
        connecting = connect(self.url, **self.options)
        with self.ledger.bounded("connect", self.options["wait_s"] + self.options.get("connect_deadline_s", 10.0)):
            connection = await connecting
        try:
            await self._use(connection)
        finally:
            self.reconnects_total = connection.reconnects_total
            # Its parts one after another, and then the connection.
            with self.ledger.bounded("close", 4 * self.options["close_deadline_s"]):
                await connection.close()

    async def _use(self, connection: Connection) -> None:
        bounded, seconds, topology = self.ledger.bounded, self.deadline_s, connection.topology
        with bounded("declare", seconds):
            await topology.declare(
                Exchange(self.exchange, durable=False),
                Queue(self.queue, durable=False),
                Binding(self.exchange, self.queue, "key"),
            )
        await self._publish(connection)
        await self._consume(connection)
        with bounded("delete", 2 * seconds):
            await topology.delete(Queue(self.queue))
            await topology.delete(Exchange(self.exchange))

    def _attempt(self, number: int) -> bytes:
        message = MessageId(self.queue, number)
        self.ledger.attempts[message] = Attempt(self.queue)
        return body_of(message)

    def _confirm(self, *numbers: int) -> None:
        for number in numbers:
            self.ledger.attempts[MessageId(self.queue, number)].is_confirmed = True

    async def _publish(self, connection: Connection) -> None:
        bounded, seconds = self.ledger.bounded, self.deadline_s
        producer = connection.producer(self.exchange, "key")
        with bounded("publish", seconds):
            await producer.publish(self._attempt(0))
            self._confirm(0)
        with bounded("submit", 2 * seconds):
            await (await producer.submit(self._attempt(1)))
            self._confirm(1)
        batch = range(2, MESSAGES)
        with bounded("publish_batch", seconds):
            await producer.publish_batch([self._attempt(number) for number in batch])
            self._confirm(*batch)
        with bounded("close of the producer", seconds):
            await producer.close()

    async def _consume(self, connection: Connection) -> None:
        ledger, seconds = self.ledger, self.deadline_s
        consumer = connection.consumer(self.queue)
        with ledger.bounded("start of the consumer", seconds):
            await consumer.start()
        mine: set[int] = set()
        while len(mine) < MESSAGES:
            with ledger.bounded("a delivery", seconds):
                delivery = await consumer.next(seconds)
                message = id_of(delivery.body)
                if message is None:
                    ledger.damaged.append(repr(delivery.body))
                    continue
                ledger.see(Sighting(self.queue, "compact", message, delivery.redelivered))
                mine.add(message.sequence)
                ledger.processed.add(message)
                try:
                    delivery.ack()
                except StaleDelivery:
                    # It comes again.
                    mine.discard(message.sequence)
        with ledger.bounded("stop of the consumer", 2 * seconds):
            await consumer.stop()
