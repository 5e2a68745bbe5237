"""One range of a stream as Arrow batches: what a task of Spark's does.

A lost connection is made again and reading goes on with the next message, so a restart of the broker is not a failed
task. What is read from the broker, and how, is the client's (client/bulk/range_reader.py)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from leveret.client.bulk.range_reader import RangeReader as BulkReader
from leveret.client.errors import ClientError
from leveret.spark.broker_client import PAUSE_FIRST_S, PAUSE_MAX_S, Broker, is_hopeless, is_vanished
from leveret.spark.errors import DataLoss, SourceFailed
from leveret.spark.loss_policy import LossPolicy
from leveret.spark.pushed_filters import PushedFilters
from leveret.spark.ranges import Range
from leveret.spark.schema import table_of

__all__ = ["RangeReader"]

log = logging.getLogger(__name__)

TAG = b"leveret-spark"


class RangeReader:
    def __init__(
        self,
        broker: Broker,
        range_: Range,
        columns: Sequence[str],
        pushed_filters: PushedFilters,
        fail_on_data_loss: bool,
    ) -> None:
        self._broker = broker
        self._range = range_
        self._columns = list(columns)
        self._fails = fail_on_data_loss
        self._reader = BulkReader(range_.stream, range_.start, range_.end, columns, identity=range_.identity, tag=TAG)
        self._rows = self._reader.rows
        self._rows.keys = pushed_filters.routing_keys
        self._rows.key_prefixes = pushed_filters.routing_key_prefixes

    def read(self) -> Iterator[pa.RecordBatch]:
        try:
            while not self._reader.is_done:
                self._broker.loop.run_until_complete(self._gather())
                self._check_gap()
                if self._rows.count:
                    yield table_of(self._rows, self._columns, self._range.stream, self._range.partition)
        finally:
            self._broker.close()

    # ---- until there is a batch

    async def _gather(self) -> None:
        """Fills the rows; leaves earlier at the end of the range. A connection is tried again while there is patience,
        which every message renews."""
        reader = self._reader
        until = time.monotonic() + self._broker.retry_s
        pause = PAUSE_FIRST_S
        while True:
            before = reader.next_offset
            try:
                await reader.fill(self._broker.connection)
                return
            except (ClientError, TimeoutError) as error:
                reader.drop()
                if is_vanished(error):
                    # It was there when the range was planned.
                    LossPolicy(self._fails).unread(self._range.stream, reader.next_offset, self._range.end)
                    reader.skip_rest()
                    return
                if reader.next_offset > before:
                    until, pause = time.monotonic() + self._broker.retry_s, PAUSE_FIRST_S
                if (is_hopeless(error) and not isinstance(error, TimeoutError)) or time.monotonic() + pause > until:
                    raise SourceFailed(self._words(error)) from None
                log.warning("reading %s goes on at offset %d: %s", self._range.stream, reader.next_offset, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)

    def _words(self, error: BaseException) -> str:
        return (
            f"reading the stream {self._range.stream!r} at {self._broker.address} failed at offset "
            f"{self._reader.next_offset}: {error}"
        )

    def _check_gap(self) -> None:
        gap = self._reader.take_gap()
        if gap is None:
            return
        text = (
            f"the messages {gap[0]} to {gap[1] - 1} of the stream {self._range.stream!r} are gone: "
            "they were deleted "
            f"by its retention before they were read (the range was {self._range.start} to {self._range.end - 1})"
        )
        if self._fails:
            raise DataLoss(f"{text}; keep them longer, read sooner, or pass over them with failOnDataLoss=false")
        log.warning("%s; they are passed over, as failOnDataLoss=false says", text)
