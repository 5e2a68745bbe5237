"""Messages of a queue as rows, a batch at a time, acknowledged later and together.

What a batch has taken stays unacknowledged until `commit`; if the channel ends before, the messages go back into the
queue and come again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from leveret.client.errors import ClientError, StaleDelivery
from leveret.client.owner import Owner
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.delivery import Delivery
from leveret.core.client.rows import Rows
from leveret.wire.queue_methods import QueueDeclare

__all__ = ["QueueTaker", "count_ready"]

# Of octets a batch has no more than about this.
BATCH_BYTES = 32 * 1024 * 1024
# A queue that has given nothing for so long has nothing for us.
QUIET_S = 0.5
# The first message may take longer: the broker has said that there is one, but somebody else may have got it.
FIRST_S = 5.0
NEVER = (1 << 64) - 1
# AMQP has no larger one; a batch is not larger either then.
PREFETCH_MAX = 65_535


async def count_ready(connection: Owner, queue: str) -> int:
    """How many messages wait in a queue. Raises ChannelClosed with 404 if there is no such queue."""
    channel = await connection.channel()
    try:
        answer = await channel.call(QueueDeclare(queue, passive=True))
        count: int = answer.message_count
        return count
    finally:
        await channel.close()


class QueueTaker:
    """Batches of up to `rows_max` messages; each has a number that grows."""

    def __init__(self, queue: str, rows_max: int, columns: Collection[str]) -> None:
        self._queue = queue
        self._rows_max = rows_max
        self._columns = frozenset(columns)
        self._channel: Channel | None = None
        # The last delivery of each batch that is not committed, by the batch's number.
        self._held: dict[int, Delivery | None] = {}

    async def take(self, connection: Owner, number: int) -> tuple[Rows, int]:
        """What there is, and how many messages these are."""
        channel = self._channel
        if channel is None or not channel.is_open:
            # What an earlier channel held has gone back into the queue.
            self._held.clear()
            channel = self._channel = await connection.channel()
        # A fresh allowance for each batch: it ends with what it has got.
        await channel.prefetch(min(self._rows_max, PREFETCH_MAX))
        delivery_buffer, come = DeliveryBuffer(f"leveret-drain-{number}".encode()), asyncio.Event()
        delivery_buffer.wake = come.set
        channel.on_end(lambda reason: come.set())
        rows = Rows(self._columns)
        rows.by_tag, rows.stamped = True, False
        taken = 0
        await channel.consume(self._queue, delivery_buffer, on_cancel=come.set)
        while taken < self._rows_max and rows.octets < BATCH_BYTES:
            channel.check()
            come.clear()
            if not delivery_buffer.items:
                try:
                    async with asyncio.timeout(QUIET_S if taken else FIRST_S):
                        await come.wait()
                except TimeoutError:
                    break
            taken += rows.gather(delivery_buffer.items, self._rows_max, BATCH_BYTES, NEVER)
        await channel.cancel(delivery_buffer)
        _give_back(delivery_buffer)
        self._held[number] = rows.last
        return rows, taken

    def has_uncommitted(self, number: int) -> bool:
        """Whether `commit` would acknowledge something."""
        return any(one <= number and delivery is not None for one, delivery in self._held.items())

    async def commit(self, number: int) -> None:
        """Acknowledges all batches up to this one; returns when the broker has read it."""
        done = [one for one in self._held if one <= number]
        deliveries = [delivery for one in done if (delivery := self._held.pop(one)) is not None]
        for delivery in deliveries:
            # If its channel is gone it is back in the queue, and comes again: at least once.
            with contextlib.suppress(StaleDelivery):
                delivery.ack(multiple=True)
        if self._channel is not None and self._channel.is_open:
            # The broker has read the acks when it has answered this.
            await self._channel.prefetch(min(self._rows_max, PREFETCH_MAX))

    def forget(self) -> None:
        """The connection is closed: what was held goes back into the queue."""
        self._channel = None
        self._held.clear()


def _give_back(delivery_buffer: DeliveryBuffer) -> None:
    """What came beyond the batch."""
    for delivery in delivery_buffer.items:
        with contextlib.suppress(ClientError, StaleDelivery):
            delivery.nack(requeue=True)
