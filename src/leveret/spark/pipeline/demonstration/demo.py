"""The shop of the demonstration: its exchange, streams and queues, and a day of its messages in seconds.

Everything goes to the topic exchange `shop`. Streams beside the work queues see what goes through (`orders`,
`payments`, `shipments`), and what dies in a queue goes by the exchange `shop.dead` into the stream `dead-letters`. The
letters die as they do in earnest: rejected by a consumer, expired, pushed out by newer ones, returned too often."""

from __future__ import annotations

import time
from datetime import date
from typing import NamedTuple

from leveret.client import blocking
from leveret.client.topology import Binding, Exchange, Queue
from leveret.spark.pipeline.demonstration.demo_day import day_of, messages_of, yesterday

__all__ = ["DEAD_LETTERS", "STREAMS", "Produced", "produce_day"]

SHOP, DEAD = "shop", "shop.dead"
STREAMS = {"orders": "order.#", "payments": "payment.#", "shipments": "shipment.#"}
DEAD_LETTERS = "dead-letters"
# Small, so that the clock in a message is that of its publishing.
BATCH = 250
EXPIRE_MS = 200
DELIVERY_LIMIT = 2
DEADLINE_S = 60.0
PAUSE_S = 0.05
# The work queues, by the key that leads to them, each with the end that its messages come to.
QUEUES = {
    "billing.charge": Queue("billing", dead_letter_exchange=DEAD),
    "offer.send": Queue("offers", dead_letter_exchange=DEAD, message_ttl_ms=EXPIRE_MS),
    "index.update": Queue("search-index", dead_letter_exchange=DEAD, max_length=5),
    "warehouse.reserve": Queue("warehouse", dead_letter_exchange=DEAD, delivery_limit=DELIVERY_LIMIT),
}


class Produced(NamedTuple):
    """What there is now: messages by stream, and how many wait in work queues."""

    messages: dict[str, int]
    waiting: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.messages.values())


def produce_day(url: str, *, orders: int = 6000, day: date | None = None, seed: int = 8) -> Produced:
    """Declares the shop and lives through one day of it; yesterday, unless another is given."""
    events = day_of(orders, seed)
    day = day or yesterday()
    with blocking.connect(url) as connection:
        _declare(connection)
        expected = _count(connection, DEAD_LETTERS) + sum(_waiting(connection).values())
        with connection.producer(SHOP) as producer:
            for start in range(0, len(events), BATCH):
                now_ms = int(time.time() * 1000)
                producer.publish_batch(messages_of(events[start : start + BATCH], day, now_ms))
        _reject_all(connection, "billing")
        _return_all(connection, "warehouse")
        expected += sum(event.routing_key in QUEUES for event in events)
        _wait_until_dead(connection, expected)
        messages = {name: _count(connection, name) for name in (*STREAMS, DEAD_LETTERS)}
        return Produced(messages, _waiting(connection))


def _count(connection: blocking.Connection, queue: str) -> int:
    return connection.topology.counts(queue).message_count


def _waiting(connection: blocking.Connection) -> dict[str, int]:
    return {queue.name: _count(connection, queue.name) for queue in QUEUES.values()}


def _declare(connection: blocking.Connection) -> None:
    parts: list[Exchange | Queue | Binding] = [Exchange(SHOP, "topic"), Exchange(DEAD, "fanout")]
    parts += [Queue(name, queue_type="stream") for name in (*STREAMS, DEAD_LETTERS)]
    parts += [Binding(SHOP, name, key) for name, key in STREAMS.items()]
    parts += QUEUES.values()
    parts += [Binding(SHOP, queue.name, key) for key, queue in QUEUES.items()]
    parts.append(Binding(DEAD, DEAD_LETTERS))
    connection.topology.declare(*parts)


def _reject_all(connection: blocking.Connection, queue: str) -> None:
    with connection.channel() as channel:
        while (delivery := channel.get(queue)) is not None:
            delivery.reject(requeue=False)


def _return_all(connection: blocking.Connection, queue: str) -> None:
    """Each message comes back until it has come back too often."""
    with connection.channel() as channel:
        while (delivery := channel.get(queue)) is not None:
            delivery.nack(requeue=True)


def _wait_until_dead(connection: blocking.Connection, expected: int) -> None:
    """Until everything that failed is a dead letter, but for what the queues keep: the newest of `search-index`."""
    until = time.monotonic() + DEADLINE_S
    while (found := _count(connection, DEAD_LETTERS)) < expected - sum(_waiting(connection).values()) or _count(
        connection, "offers"
    ):
        if time.monotonic() > until:
            raise TimeoutError(
                f"{found} of {expected} dead letters came to the stream {DEAD_LETTERS!r} in {DEADLINE_S:.0f} s"
            )
        time.sleep(PAUSE_S)
