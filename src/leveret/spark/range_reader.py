"""One range of a stream as Arrow batches: what a task of Spark's does.

The broker sends no further than the end of the range. A lost connection is made again and reading goes on with the next
message, so a restart of the broker is not a failed task. Memory is that of one batch and what the prefetch allows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from leveret.client.connection import Connection
from leveret.client.errors import ClientError, StaleDelivery
from leveret.client.streams.stream_start import OFFSET, is_leveret
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.rows import Rows
from leveret.spark.broker_client import IDENTITY, PAUSE_FIRST_S, PAUSE_MAX_S, Broker, is_hopeless, is_vanished
from leveret.spark.errors import DataLoss, SourceFailed
from leveret.spark.loss_policy import LossPolicy
from leveret.spark.pushed_filters import PushedFilters
from leveret.spark.ranges import Range
from leveret.spark.schema import table_of
from leveret.wire.basic_methods import BasicQos
from leveret.wire.queue_methods import QueueDeclare

__all__ = ["RangeReader"]

log = logging.getLogger(__name__)

# What may be on its way: messages, and octets of them. RabbitMQ knows no limit of octets, and so gets fewer messages.
PREFETCH, PREFETCH_BYTES, PREFETCH_FOREIGN = 20_000, 32 * 1024 * 1024, 2_000
# Taken messages are acknowledged long before they fill the prefetch, by count and by octets: a broker whose prefetch is
# full sends nothing.
ACK_EVERY, ACK_EVERY_BYTES = PREFETCH_FOREIGN // 4, PREFETCH_BYTES // 4
# A batch is full with so many rows, or so many octets of bodies and properties.
BATCH_ROWS, BATCH_BYTES = 10_000, 8 * 1024 * 1024
# Nothing has come for so long, although there are messages: the connection may be dead.
SILENCE_S = 30.0
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
        # Without a column of ours there are still rows to be counted.
        self._rows = Rows(frozenset(columns))
        self._rows.next_offset = range_.start
        self._rows.keys = pushed_filters.routing_keys
        self._rows.key_prefixes = pushed_filters.routing_key_prefixes
        self._channel: Channel | None = None
        self._sink = DeliveryBuffer(TAG)
        self._come = asyncio.Event()
        self._cancelled = False
        self._taken = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        try:
            while self._rows.next_offset < self._range.end:
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
        until = time.monotonic() + self._broker.retry_s
        pause = PAUSE_FIRST_S
        while True:
            before = self._rows.next_offset
            try:
                if self._channel is None:
                    await self._open(await self._broker.connection())
                await self._fill()
                return
            except (ClientError, TimeoutError) as error:
                self._drop()
                if is_vanished(error):
                    # It was there when the range was planned.
                    LossPolicy(self._fails).unread(self._range.stream, self._rows.next_offset, self._range.end)
                    self._rows.next_offset = self._range.end
                    return
                if self._rows.next_offset > before:
                    until, pause = time.monotonic() + self._broker.retry_s, PAUSE_FIRST_S
                if (is_hopeless(error) and not isinstance(error, TimeoutError)) or time.monotonic() + pause > until:
                    raise SourceFailed(self._words(error)) from None
                log.warning("reading %s goes on at offset %d: %s", self._range.stream, self._rows.next_offset, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)

    def _words(self, error: BaseException) -> str:
        return (
            f"reading the stream {self._range.stream!r} at {self._broker.address} failed at offset "
            f"{self._rows.next_offset}: {error}"
        )

    async def _open(self, connection: Connection) -> None:
        channel = await connection.channel()
        if is_leveret(channel.link):
            await channel.call(BasicQos(prefetch_size=PREFETCH_BYTES, prefetch_count=PREFETCH))
        else:
            await channel.prefetch(PREFETCH_FOREIGN)
        self._sink, self._cancelled = DeliveryBuffer(TAG), False
        self._taken = self._rows.taken_octets = 0
        self._sink.wake = self._come.set
        channel.on_end(lambda reason: self._come.set())
        arguments: dict[str, Any] = {OFFSET: self._rows.next_offset}
        self._rows.stamped = is_leveret(channel.link)
        if self._rows.stamped:
            arguments["x-stream-stop-offset"] = self._range.end
            arguments["x-stream-timestamps"] = True
            if self._range.identity is not None:
                arguments[IDENTITY] = self._range.identity
        await channel.consume(self._range.stream, self._sink, arguments=arguments, on_cancel=self._on_cancel)
        self._channel = channel

    def _on_cancel(self) -> None:
        self._cancelled = True
        self._come.set()

    async def _fill(self) -> None:
        rows, items = self._rows, self._sink.items
        assert self._channel is not None
        while rows.count < BATCH_ROWS and rows.octets < BATCH_BYTES and rows.next_offset < self._range.end:
            if items:
                self._taken += rows.gather(items, BATCH_ROWS, BATCH_BYTES, self._range.end)
                if (
                    items
                    and rows.next_offset < self._range.end
                    and rows.count < BATCH_ROWS
                    and rows.octets < BATCH_BYTES
                ):
                    # It stands before one behind the range: all that was left of it is gone.
                    self._lose_rest()
                if self._taken >= ACK_EVERY or rows.taken_octets >= ACK_EVERY_BYTES:
                    self._acknowledge()
            elif self._cancelled:
                await self._judge_cancel()
            else:
                self._channel.check()
                self._acknowledge()
                self._come.clear()
                await self._wait()

    def _acknowledge(self) -> None:
        """What was taken, so that the broker sends more."""
        if self._taken:
            self._taken = self._rows.taken_octets = 0
            self._rows.last.ack(multiple=True)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self._come.wait()
        except TimeoutError:
            raise TimeoutError(f"nothing came for {SILENCE_S:.0f} s") from None

    async def _judge_cancel(self) -> None:
        """The broker sends no more, before the range is read: the stream may be deleted, or retention was faster."""
        assert self._channel is not None
        channel, self._channel = self._channel, None
        await channel.close()
        probe = await (await self._broker.connection()).channel()
        try:
            await probe.call(QueueDeclare(self._range.stream, passive=True))
        finally:
            await probe.close()
        self._lose_rest()

    def _lose_rest(self) -> None:
        rows = self._rows
        if rows.gap_end == 0:
            rows.gap_start, rows.gap_end = rows.next_offset, self._range.end
        rows.next_offset = self._range.end

    def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(ClientError, StaleDelivery):
                channel.give_up(ClientError("it is opened again"))

    def _check_gap(self) -> None:
        rows = self._rows
        if rows.gap_end == 0:
            return
        text = (
            f"the messages {rows.gap_start} to {rows.gap_end - 1} of the stream {self._range.stream!r} are gone: "
            "they were deleted "
            f"by its retention before they were read (the range was {self._range.start} to {self._range.end - 1})"
        )
        if self._fails:
            raise DataLoss(f"{text}; keep them longer, read sooner, or pass over them with failOnDataLoss=false")
        log.warning("%s; they are passed over, as failOnDataLoss=false says", text)
        rows.gap_start = rows.gap_end = 0
