"""The consumers of the load: a loop, and a handler that fails at times; each writes down what it saw and finished."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, Final

from leveret.client import Connection, Delivery, StaleDelivery
from leveret.client.topology import QueueHandle, Retry
from tests.client.adversity.ledger import Ledger, MessageId, Sighting, id_of

CONCURRENCY: Final = 4
PREFETCH: Final = 20
# One message of so many fails when it comes for the first time.
FAILS_ONE_OF: Final = 10


class Reader:
    """Consumes one queue until its task is cancelled. Each start is a consumer of its own."""

    def __init__(self, connection: Connection, queue: str | QueueHandle, ledger: Ledger, name: str) -> None:
        self.connection = connection
        self.queue = queue
        # As publishers know it: a queue that the broker names has many names.
        self.queue_name = queue if isinstance(queue, str) else name
        self.ledger = ledger
        self.name = name
        self.starts = 0
        # A mistake that the checkers must find.
        self.acks_first = False

    def see(self, delivery: Delivery, was_retried: bool = False) -> MessageId | None:
        message = id_of(delivery.body)
        if message is None:
            self.ledger.damaged.append(f"{len(delivery.body)} octets in {self.queue_name}, {delivery.body[:40]!r}")
        else:
            consumer = f"{self.name}-{self.starts}"
            self.ledger.see(Sighting(self.queue_name, consumer, message, delivery.redelivered, was_retried))
        return message

    async def loop(self) -> None:
        self.starts += 1
        async with self.connection.consumer(self.queue, prefetch=PREFETCH) as consumer:
            async for delivery in consumer:
                message = self.see(delivery)
                if message is not None:
                    self.ledger.finish(message)
                try:
                    delivery.ack()
                except StaleDelivery:
                    # It comes again, and is known by then.
                    continue

    async def handle(self, retry: Retry | None) -> None:
        self.starts += 1

        async def handler(delivery: Delivery) -> None:
            was_retried = "x-death" in (delivery.headers or {})
            message = self.see(delivery, was_retried)
            if self.acks_first:
                delivery.ack()
            # Work takes time, in which anything may happen.
            await asyncio.sleep(0.001)
            if message is None:
                return
            if retry is not None and not was_retried and zlib.crc32(delivery.body[:40]) % FAILS_ONE_OF == 0:
                raise RuntimeError("not this time")
            self.ledger.finish(message)

        options: dict[str, Any] = {} if retry is None else {"retry": retry}
        consumer = self.connection.consumer(self.queue, prefetch=PREFETCH, **options)
        await consumer.run(handler, concurrency=CONCURRENCY)


async def double(delivery: Delivery) -> bytes:
    return b"%d" % (2 * int(delivery.body))


async def drained(connection: Connection, queue: str, ledger: Ledger) -> list[MessageId]:
    """Everything that is in a queue now."""
    found = []
    count = (await connection.topology.counts(queue)).message_count
    async with connection.consumer(queue, no_ack=True) as consumer:
        for _ in range(count):
            delivery = await consumer.next()
            message = id_of(delivery.body)
            if message is None:
                ledger.damaged.append(f"{len(delivery.body)} octets in {queue}")
            else:
                found.append(message)
    return found
