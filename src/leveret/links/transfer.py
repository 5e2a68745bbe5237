"""Messages from a consumer's channel to a publisher's, until one of the two ends: the moving part of every link.

Drives the compiled `core.client.relay.Relay` within a budget for each turn of the loop, and keeps its bounds: what
waits here is at most a prefetch, and nothing is taken while the destination refuses or blocks. Opens and closes no
connection: the run that made it does."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

from leveret.client.errors import ClientError, ConnectionLost, ConsumerCancelled, Unroutable
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.relay import Relay

__all__ = ["Transfer"]

# Deliveries that are forwarded before others have their turn.
FORWARDED_A_TURN = 512
REFUSED_PAUSE_MIN_S, REFUSED_PAUSE_MAX_S = 0.1, 5.0
# How long an orderly end waits for confirms of what is under way.
DRAIN_DEADLINE_S = 3.0
# Bodies that wait here to be forwarded: above that the source is not read.
WAITING_BYTES_MAX = 16 * 1024 * 1024
STREAM_OFFSET = "x-stream-offset"


class Transfer:
    """`waiting_max` bounds what a consumer without acknowledgements may pile up here."""

    def __init__(self, relay: Relay, source: Channel, target: Channel, queue: str, waiting_max: int) -> None:
        self.relay = relay
        self._source = source
        self._target = target
        self._queue = queue
        self._waiting_max = waiting_max
        self._loop = asyncio.get_running_loop()
        # Done with None when all that was asked for is moved, or with the error that ended it.
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._planned = False
        self._holding = False
        self._draining = False
        # Done when nothing is under way any more, once somebody waits for that.
        self._drained: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pause_s = REFUSED_PAUSE_MIN_S
        # Where a stream's consumer would go on: (tag, offset) of the last delivery of each turn that is under way.
        self._marks: deque[tuple[int, int]] = deque()
        self.next_offset: int | None = None
        relay.delivery_buffer.counts_bytes = True
        relay.delivery_buffer.wake = self._wake
        target.codec.owner = self._answered
        source.on_end(self.fail)
        target.on_end(self.fail)
        target.link.on_blocked = lambda reason: self._wake()

    # ---- state

    @property
    def blocked_reason(self) -> str:
        """Why nothing moves at present, empty if it may."""
        if self._target.link.blocked is not None:
            return f"the destination's broker is blocked: {self._target.link.blocked}"
        if self.relay.refused:
            return "the destination refuses messages: its queue is full"
        return ""

    def cancelled(self) -> None:
        """The source's broker ended the consumer."""
        self.fail(ConsumerCancelled(self._queue, "the broker cancelled it: the queue was deleted or has moved"))

    def fail(self, reason: ClientError) -> None:
        """Ends the transfer, unless it is over."""
        if not self.ended.done():
            self.ended.set_exception(reason)
            # The run may have been given up before it looks.
            self.ended.exception()

    def _finish_if_done(self) -> None:
        if self.relay.is_done and not self.ended.done():
            self.ended.set_result(None)

    # ---- moving

    def _wake(self) -> None:
        if self.ended.done() or self._draining or self._target.link.blocked is not None:
            return
        relay = self.relay
        try:
            taken = relay.transport(FORWARDED_A_TURN)
        except (ClientError, ValueError) as error:
            self.fail(_as_client_error(error))
            return
        if taken:
            self._mark(relay)
        if taken == FORWARDED_A_TURN and not self._planned:
            self._planned = True
            self._loop.call_soon(self._go_on)
        if relay.source.is_open:
            self._hold_or_let_go(
                len(relay.delivery_buffer.items) if relay.delivery_buffer.no_ack else 0,
                relay.delivery_buffer.waiting_bytes,
            )
        if relay.left == 0:
            self._finish_if_done()

    def _go_on(self) -> None:
        self._planned = False
        self._wake()

    def _answered(self, codec: ChannelCodec) -> None:
        relay = self.relay
        if self.ended.done():
            return
        if not relay.answered():
            assert relay.returned is not None
            code, text, delivery = relay.returned
            self.fail(Unroutable(delivery.exchange, delivery.routing_key, code, text.decode("utf-8", "replace")))
            return
        self._take_marks(relay)
        if relay.refused:
            self._retry_later()
        elif self._timer is None:
            self._pause_s = REFUSED_PAUSE_MIN_S
        if self._drained is not None and not relay.in_flight and not self._drained.done():
            self._drained.set_result(None)
        self._wake()
        self._finish_if_done()

    def _hold_or_let_go(self, waiting: int, size: int) -> None:
        """Without acknowledgements only the socket can hold the source back; and a prefetch says nothing of octets."""
        if not self._holding and (waiting > self._waiting_max or size > WAITING_BYTES_MAX):
            self._holding = True
            self._source.link.hold_reading(self)
        elif waiting <= self._waiting_max // 2 and size <= WAITING_BYTES_MAX // 2:
            self._let_go()

    def _let_go(self) -> None:
        if self._holding:
            self._holding = False
            self._source.link.let_read(self)

    # ---- what the destination refuses

    def _retry_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._pause_s * (0.5 + random.random() / 2), self._retry)
            self._pause_s = min(REFUSED_PAUSE_MAX_S, self._pause_s * 2)

    def _retry(self) -> None:
        self._timer = None
        if self.ended.done() or not self.relay.refused:
            return
        if self._target.link.blocked is not None:
            self._retry_later()
            return
        try:
            self.relay.retry()
        except (ClientError, ValueError) as error:
            self.fail(_as_client_error(error))

    # ---- a consumer that comes and goes

    async def consume(self, no_ack: bool, arguments: dict[str, Any]) -> None:
        """Raises ClientError."""
        self._draining = False
        await self._source.consume(
            self._queue, self.relay.delivery_buffer, no_ack=no_ack, arguments=arguments, on_cancel=self.cancelled
        )

    async def give_back(self) -> None:
        """No more deliveries for now. Those that were not forwarded go back to their queue. Raises ClientError."""
        self._draining = True
        self._let_go()
        delivery_buffer = self.relay.delivery_buffer
        await self._source.cancel(delivery_buffer, DRAIN_DEADLINE_S)
        while (delivery := delivery_buffer.take()) is not None:
            if not delivery_buffer.no_ack:
                delivery.nack(requeue=True)

    # ---- streams

    def _mark(self, relay: Relay) -> None:
        offset: Any = None if relay.last is None else relay.last.headers.get(STREAM_OFFSET)
        if isinstance(offset, int):
            self._marks.append((relay.taken_tag, offset))
            self._take_marks(relay)

    def _take_marks(self, relay: Relay) -> None:
        while self._marks and relay.source.settled_upto >= self._marks[0][0]:
            self.next_offset = self._marks.popleft()[1] + 1

    # ---- the end

    async def drain(self) -> None:
        """Takes nothing more, and waits a moment for the confirms of what is under way. Whatever is not confirmed then
        comes again."""
        self._draining = True
        # The answer is behind all that was not read; the end of the connection says as much.
        if self._source.is_open and not self._holding:
            try:
                await self._source.cancel(self.relay.delivery_buffer, DRAIN_DEADLINE_S)
            except ClientError:
                return
        if self.relay.in_flight and not self.ended.done():
            self._drained = self._loop.create_future()
            await asyncio.wait({self._drained, self.ended}, timeout=DRAIN_DEADLINE_S)

    def close(self) -> None:
        """Forgets everything. The channels are the run's."""
        self.fail(ConnectionLost("the link was stopped"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._let_go()
        self.relay.delivery_buffer.wake = None
        self._target.codec.owner = None
        self._target.link.on_blocked = None


def _as_client_error(error: Exception) -> ClientError:
    return error if isinstance(error, ClientError) else ClientError(str(error))
