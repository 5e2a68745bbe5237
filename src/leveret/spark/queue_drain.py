"""Taking a queue's messages into tables: `spark.readStream.format("leveret").option("queue", name)`.

At least once: the driver holds what a batch has taken and acknowledges it when Spark says that the batch is committed.
If the query or the broker ends before, the messages go back into the queue and come again, and a batch that is run
again has whatever the queue gives then. Bodies go through the driver, so this is for emptying a queue into a table;
what flows all the time is better read from a stream bound beside the queue."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from leveret.client.connection import Connection
from leveret.client.errors import ChannelClosed, ClientError, StaleDelivery
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.delivery import Delivery
from leveret.core.client.rows import Rows
from leveret.spark.broker_client import Broker
from leveret.spark.errors import SourceFailed
from leveret.spark.queue_snapshot import check_queue_options
from leveret.spark.schema import table_of
from leveret.wire.queue_methods import QueueDeclare

__all__ = ["QueueDrain"]

# What a batch takes at most, where maxOffsetsPerTrigger does not say it; and of octets, because they go through the
# driver.
BATCH_ROWS, BATCH_BYTES = 10_000, 32 * 1024 * 1024
# A queue that has given nothing for so long has nothing for us.
QUIET_S = 0.5
# The first message may take longer: the broker has said that there is one, but somebody else may have got it.
FIRST_S = 5.0
NEVER = (1 << 64) - 1
# AMQP has no larger one; a batch is not larger either then.
PREFETCH_MAX = 65_535
BATCHES = "batches"


class QueueDrain(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, Any], columns: Sequence[str]) -> None:
        check_queue_options(options)
        self._queue: str = options["queue"]
        self._most: int = options["maxOffsetsPerTrigger"] or BATCH_ROWS
        self._columns = list(columns)
        self._broker = Broker(options, "leveret-spark drain")
        self._channel: Channel | None = None
        # The last delivery of each batch that is not committed, by the batch's end.
        self._held: dict[int, Delivery | None] = {}
        self._planned: tuple[int, list[InputPartition]] | None = None
        # For Trigger.AvailableNow: how many there were when it began.
        self._left: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_channel": None, "_held": {}, "_planned": None}

    # ---- offsets: how many batches there were

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {BATCHES: 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._left = self._waiting()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        number = start[BATCHES]
        # Whatever Spark goes on from is committed. It says so itself only with the next batch, and so of the last one
        # of a query never: its messages would come again each time.
        self.commit(start)
        if self._left is not None and self._left <= 0:
            return {BATCHES: number}
        return {BATCHES: number + 1 if self._waiting() > 0 else number}

    def _waiting(self) -> int:
        async def count(connection: Connection) -> int:
            channel = await connection.channel()
            try:
                answer = await channel.call(QueueDeclare(self._queue, passive=True))
                waiting: int = answer.message_count
                return waiting
            except ChannelClosed as error:
                if error.code == 404:
                    raise SourceFailed(
                        f"there is no queue {self._queue!r} in the virtual host {self._broker.vhost!r}"
                    ) from None
                raise
            finally:
                await channel.close()

        return self._broker.run(count, f"asking for the queue {self._queue!r}")

    # ---- batches

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        number = end[BATCHES]
        if self._planned is not None and self._planned[0] == number:
            return self._planned[1]
        batches = self._broker.run(lambda connection: self._take(connection, number), f"taking from {self._queue!r}")
        self._planned = (number, [InputPartition(batches)])
        return self._planned[1]

    async def _take(self, connection: Connection, number: int) -> list[pa.RecordBatch]:
        channel = self._channel
        if channel is None or not channel.is_open:
            # What an earlier channel held has gone back into the queue.
            self._held.clear()
            channel = self._channel = await connection.channel()
        # A fresh allowance for each batch: it ends with what it has got.
        await channel.prefetch(min(self._most, PREFETCH_MAX))
        sink, come = DeliveryBuffer(f"leveret-drain-{number}".encode()), asyncio.Event()
        sink.wake = come.set
        channel.on_end(lambda reason: come.set())
        rows = Rows(frozenset(self._columns))
        rows.by_tag, rows.stamped = True, False
        made: list[pa.RecordBatch] = []
        taken = 0
        await channel.consume(self._queue, sink, on_cancel=come.set)
        while taken < self._most and rows.octets < BATCH_BYTES:
            channel.check()
            come.clear()
            if not sink.items:
                try:
                    async with asyncio.timeout(QUIET_S if taken else FIRST_S):
                        await come.wait()
                except TimeoutError:
                    break
            taken += rows.gather(sink.items, self._most, BATCH_BYTES, NEVER)
        await channel.cancel(sink)
        self._give_back(sink)
        if rows.count:
            made.append(table_of(rows, self._columns, self._queue, 0))
        self._held[number] = rows.last
        if self._left is not None:
            self._left -= taken
        return made

    @staticmethod
    def _give_back(sink: DeliveryBuffer) -> None:
        """What came beyond the batch."""
        for delivery in sink.items:
            with contextlib.suppress(ClientError, StaleDelivery):
                delivery.nack(requeue=True)

    def commit(self, end: dict[str, int]) -> None:
        done = [number for number in self._held if number <= end[BATCHES]]
        deliveries = [delivery for number in done if (delivery := self._held.pop(number)) is not None]

        async def ack(connection: Connection) -> None:
            for delivery in deliveries:
                # If its channel is gone it is back in the queue, and comes again: at least once.
                with contextlib.suppress(StaleDelivery):
                    delivery.ack(multiple=True)
            if self._channel is not None and self._channel.is_open:
                # The broker has read the acks when it has answered this.
                await self._channel.prefetch(min(self._most, PREFETCH_MAX))

        if deliveries:
            self._broker.run(ack, f"acknowledging messages of {self._queue!r}")

    def stop(self) -> None:
        self._channel = None
        self._broker.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(partition.value)
