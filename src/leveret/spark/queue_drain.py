"""Taking a queue's messages into tables: `spark.readStream.format("leveret").option("queue", name)`.

At least once: the driver holds what a batch has taken and acknowledges it when Spark says that the batch is committed.
If the query or the broker ends before, the messages go back into the queue and come again, and a batch that is run
again has whatever the queue gives then. Bodies go through the driver, so this is for emptying a queue into a table;
what flows all the time is better read from a stream bound beside the queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from leveret.client.bulk.queue_taker import QueueTaker, count_ready
from leveret.client.connection import Connection
from leveret.client.errors import ChannelClosed
from leveret.spark.broker_client import Broker
from leveret.spark.errors import SourceFailed
from leveret.spark.queue_snapshot import check_queue_options
from leveret.spark.schema import table_of

__all__ = ["QueueDrain"]

# What a batch takes at most, where maxOffsetsPerTrigger does not say it.
BATCH_ROWS = 10_000
BATCHES = "batches"


class QueueDrain(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, Any], columns: Sequence[str]) -> None:
        check_queue_options(options)
        self._queue: str = options["queue"]
        self._most: int = options["maxOffsetsPerTrigger"] or BATCH_ROWS
        self._columns = list(columns)
        self._broker = Broker(options, "leveret-spark drain")
        self._taker = self._new_taker()
        self._planned: tuple[int, list[InputPartition]] | None = None
        # For Trigger.AvailableNow: how many there were when it began.
        self._left: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_taker": self._new_taker(), "_planned": None}

    def _new_taker(self) -> QueueTaker:
        return QueueTaker(self._queue, self._most, self._columns)

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
            try:
                return await count_ready(connection, self._queue)
            except ChannelClosed as error:
                if error.code == 404:
                    raise SourceFailed(
                        f"there is no queue {self._queue!r} in the virtual host {self._broker.vhost!r}"
                    ) from None
                raise

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
        rows, taken = await self._taker.take(connection, number)
        made = [table_of(rows, self._columns, self._queue, 0)] if rows.count else []
        if self._left is not None:
            self._left -= taken
        return made

    def commit(self, end: dict[str, int]) -> None:
        number = end[BATCHES]
        if self._taker.has_uncommitted(number):
            self._broker.run(lambda _: self._taker.commit(number), f"acknowledging messages of {self._queue!r}")

    def stop(self) -> None:
        self._taker.forget()
        self._broker.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(partition.value)
