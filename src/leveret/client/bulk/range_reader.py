"""A range of a stream's offsets as rows, batch after batch.

The broker sends no further than the end of the range. The reader never retries: after an error its user calls `drop`,
and `fill` goes on with the next message over another connection. Memory is that of one batch and what the prefetch
allows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from leveret.client.bulk.queue_taker import count_ready
from leveret.client.errors import ClientError, StaleDelivery
from leveret.client.owner import Owner
from leveret.client.streams.stream_start import IDENTITY, OFFSET, is_leveret
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.rows import Rows
from leveret.wire.basic_methods import BasicQos

__all__ = ["RangeReader"]

# What may be on its way: messages, and octets of them. RabbitMQ knows no limit of octets, and so gets fewer messages.
PREFETCH, PREFETCH_BYTES, PREFETCH_FOREIGN = 20_000, 32 * 1024 * 1024, 2_000
# Taken messages are acknowledged long before they fill the prefetch, by count and by octets: a broker whose prefetch is
# full sends nothing.
ACK_EVERY, ACK_EVERY_BYTES = PREFETCH_FOREIGN // 4, PREFETCH_BYTES // 4
# A batch is full with so many rows, or so many octets of bodies and properties.
BATCH_ROWS, BATCH_BYTES = 10_000, 8 * 1024 * 1024
# Nothing has come for so long, although there are messages: the connection may be dead.
SILENCE_S = 30.0
Connect = Callable[[], Awaitable[Owner]]


class RangeReader:
    """Offsets from `start` to before `end`. `identity` is the broker's name for this stream, so that another stream of
    the same name is refused; `tag` is the consumer's name at the broker."""

    def __init__(
        self, stream: str, start: int, end: int, columns: Collection[str], *, identity: str | None, tag: bytes
    ) -> None:
        self._stream = stream
        self._tag = tag
        self._end = end
        self._identity = identity
        # Without a column of ours there are still rows to be counted.
        self.rows = Rows(frozenset(columns))
        self.rows.next_offset = start
        self._channel: Channel | None = None
        self._delivery_buffer = DeliveryBuffer(self._tag)
        self._come = asyncio.Event()
        self._cancelled = False
        self._taken = 0

    @property
    def next_offset(self) -> int:
        offset: int = self.rows.next_offset
        return offset

    @property
    def is_done(self) -> bool:
        return self.next_offset >= self._end

    def take_gap(self) -> tuple[int, int] | None:
        """The offsets that are gone, from the first to before the second, if any were passed over since this was asked
        last."""
        rows = self.rows
        if rows.gap_end == 0:
            return None
        gap = (rows.gap_start, rows.gap_end)
        rows.gap_start = rows.gap_end = 0
        return gap

    def skip_rest(self) -> None:
        """Nothing more of the range is read."""
        self.rows.next_offset = self._end

    def drop(self) -> None:
        """Gives the channel up; the next `fill` opens another one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(ClientError, StaleDelivery):
                channel.give_up(ClientError("it is opened again"))

    async def fill(self, connect: Connect) -> None:
        """Gathers rows until a batch is full or the range ends. `connect` gives an open connection, and is called when
        one is needed. Raises ClientError, and TimeoutError if nothing comes."""
        if self._channel is None:
            await self._open(await connect())
        rows, items = self.rows, self._delivery_buffer.items
        assert self._channel is not None
        while rows.count < BATCH_ROWS and rows.octets < BATCH_BYTES and rows.next_offset < self._end:
            if items:
                self._taken += rows.gather(items, BATCH_ROWS, BATCH_BYTES, self._end)
                if items and rows.next_offset < self._end and rows.count < BATCH_ROWS and rows.octets < BATCH_BYTES:
                    # It stands before one behind the range: all that was left of it is gone.
                    self._lose_rest()
                if self._taken >= ACK_EVERY or rows.taken_octets >= ACK_EVERY_BYTES:
                    self._acknowledge()
            elif self._cancelled:
                await self._judge_cancel(await connect())
            else:
                self._channel.check()
                self._acknowledge()
                self._come.clear()
                await self._wait()

    async def _open(self, connection: Owner) -> None:
        channel = await connection.channel()
        rows = self.rows
        rows.stamped = is_leveret(channel.link)
        if rows.stamped:
            await channel.call(BasicQos(prefetch_size=PREFETCH_BYTES, prefetch_count=PREFETCH))
        else:
            await channel.prefetch(PREFETCH_FOREIGN)
        self._delivery_buffer, self._cancelled = DeliveryBuffer(self._tag), False
        self._taken = rows.taken_octets = 0
        self._delivery_buffer.wake = self._come.set
        channel.on_end(lambda reason: self._come.set())
        arguments: dict[str, Any] = {OFFSET: rows.next_offset}
        if rows.stamped:
            arguments["x-stream-stop-offset"] = self._end
            arguments["x-stream-timestamps"] = True
            if self._identity is not None:
                arguments[IDENTITY] = self._identity
        await channel.consume(self._stream, self._delivery_buffer, arguments=arguments, on_cancel=self._on_cancel)
        self._channel = channel

    def _on_cancel(self) -> None:
        self._cancelled = True
        self._come.set()

    def _acknowledge(self) -> None:
        """What was taken, so that the broker sends more."""
        if self._taken:
            self._taken = self.rows.taken_octets = 0
            self.rows.last.ack(multiple=True)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self._come.wait()
        except TimeoutError:
            raise TimeoutError(f"nothing came for {SILENCE_S:.0f} s") from None

    async def _judge_cancel(self, connection: Owner) -> None:
        """The broker sends no more, before the range is read: the stream may be deleted, or retention was faster."""
        assert self._channel is not None
        channel, self._channel = self._channel, None
        await channel.close()
        # Raises if the stream is deleted.
        await count_ready(connection, self._stream)
        self._lose_rest()

    def _lose_rest(self) -> None:
        rows = self.rows
        if rows.gap_end == 0:
            rows.gap_start, rows.gap_end = rows.next_offset, self._end
        rows.next_offset = self._end
