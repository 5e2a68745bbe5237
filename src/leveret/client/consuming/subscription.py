"""A place at a queue that lasts: channels come and go beneath it, and each new one consumes again.

Owns the channel, the delivery buffer in which deliveries gather, and those who wait for one. Knows nothing of what is
done with deliveries; the consumer does. Deliveries that still wait when their channel goes are dropped, because the
broker delivers them again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import msgspec

from leveret.client.backoff import backoff_s, spread_s
from leveret.client.consuming.consumer_options import PREFETCH, PREFETCH_MAX, ConsumerOptions
from leveret.client.errors import (
    ChannelClosed,
    ClientClosed,
    ClientError,
    ConnectionLost,
    ConsumerCancelled,
    DeadlineExceeded,
    again,
)
from leveret.client.owner import Owner
from leveret.client.topology.handle import QueueHandle
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.delivery import Delivery
from leveret.core.codec.names import name_octets

__all__ = ["Subscription"]

log = logging.getLogger(__name__)

NOT_FOUND: Final = 404
# Deliveries handed out before others of the loop have a turn, and settlements are written.
TURN_MAX: Final = 512
# The longest pause between two attempts to consume again.
PAUSE_MAX_S: Final = 5.0
# Reading goes on when so much of what may wait is left.
LOW_SHARE: Final = 0.5


class Totals(msgspec.Struct):
    """Of channels that are gone."""

    received: int = 0
    dropped: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0


class Subscription:
    rank = 3
    kind = "consumer"

    def __init__(self, connection: Owner, queue: str | QueueHandle, options: ConsumerOptions) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._queue = queue
        self.options = options
        self.name = f"consumer of {self.queue_name!r}"
        self._tag = name_octets(options.tag)
        self._channel: Channel | None = None
        self._delivery_buffer = self._new_delivery_buffer()
        self._totals = Totals()
        self._is_consuming = False
        # Between a successful start and the end.
        self.is_started = False
        # Nothing more is handed out.
        self.is_over = False
        self.ended_by: ClientError | None = None
        # Who waits for a delivery, the first first.
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self.prefetch = 0
        self._turn_size = self._turn = TURN_MAX
        self.ask_for(PREFETCH if options.prefetch is None else options.prefetch)
        self._held: Link | None = None
        self._is_leaving = False
        # One at a time asks the broker: a start, a restore or a retry.
        self._asking = asyncio.Lock()
        self._retrying: asyncio.Task[None] | None = None
        self._closing = asyncio.Lock()
        self.resubscribed_total = 0
        # For metrics, by the consumer.
        self.numbers: Callable[[], dict[str, float]] = dict
        # What else has to end when the connection does.
        self.when_stopped: Callable[[ClientError], Awaitable[None]] | None = None

    def ask_for(self, prefetch: int) -> None:
        """So many are to be prefetched at least; from the next start on."""
        self.prefetch = max(self.prefetch, min(prefetch, PREFETCH_MAX))
        self._turn_size = self._turn = max(1, min(TURN_MAX, self.prefetch // 2 if self.prefetch else TURN_MAX))

    @property
    def queue_name(self) -> str:
        return self._connection.topology.resolve(self._queue)

    @property
    def label(self) -> str:
        return self.queue_name

    def spans(self) -> Callable[[Any], AbstractContextManager[Any]] | None:
        """What is traced around the work on a message or a batch; None if nothing is."""
        tracing = self._connection.tracing
        if tracing is None:
            return None
        return lambda message: tracing.span_for_work(message, self.queue_name, self._connection.address)

    # ---- deliveries

    def take_now(self) -> Delivery | None:
        """A delivery that is there, as long as it is not somebody else's turn."""
        if self._turn <= 0 or self.is_over:
            return None
        self._turn -= 1
        delivery: Delivery | None = self._delivery_buffer.take()
        if self._held is not None:
            self._read_again()
        return delivery

    async def take(self, until: float | None = None) -> Delivery | None:
        """The next delivery; None when all is over, or at that time of the loop's clock."""
        while not self.is_over:
            if self._turn <= 0:
                # Who works without pause must not keep settlements and heartbeats from being written.
                await asyncio.sleep(0)
                self._turn = self._turn_size
            delivery = self.take_now()
            if delivery is not None:
                return delivery
            if not await self._arrival(until):
                return None
            self._turn = self._turn_size
        return None

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """They were taken, and nobody wants them yet: they are handed out again, as the next ones."""
        delivery_buffer, channel = self._delivery_buffer, self._channel
        for delivery in reversed(deliveries):
            if channel is not None and delivery.codec is channel.codec and not delivery.is_stale:
                delivery_buffer.items.appendleft(delivery)
                if delivery_buffer.counts_bytes:
                    delivery_buffer.waiting_bytes += len(delivery.body)
        self._wake()

    async def _arrival(self, until: float | None) -> bool:
        """Something came, or all is over; False if it became too late before."""
        if self.is_over:
            return True
        waiter: asyncio.Future[bool] = self._loop.create_future()
        timer = None if until is None else self._loop.call_at(until, _too_late, waiter)
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # It was told of a delivery that somebody else may have now.
                self._wake()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        """Deliveries came: as many as there are of those who wait may look."""
        waiting = len(self._delivery_buffer.items)
        if self.options.is_unbounded and self._held is None and not self._is_leaving:
            self._hold_if_full(waiting)
        while waiting > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                waiting -= 1

    def _wake_all(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)

    def check(self) -> None:
        """Raises what it ended with, unless its user stopped it."""
        if self.ended_by is not None:
            raise again(self.ended_by)

    # ---- more than can be kept

    def _hold_if_full(self, waiting: int) -> None:
        options = self.options
        if waiting < options.waiting_max and self._delivery_buffer.waiting_bytes < options.waiting_bytes_max:
            return
        if self._channel is not None:
            self._held = self._channel.link
            self._held.hold_reading(self)
            log.info("reading pauses", extra={"queue": self.queue_name, "waiting": waiting})

    def _read_again(self) -> None:
        options = self.options
        if (
            len(self._delivery_buffer.items) <= options.waiting_max * LOW_SHARE
            and self._delivery_buffer.waiting_bytes <= options.waiting_bytes_max * LOW_SHARE
        ):
            self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.let_read(self)

    @property
    def is_holding(self) -> bool:
        """The whole connection is not read, because more waits here than may."""
        return self._held is not None

    # ---- consuming

    async def start(self, deadline_s: float) -> None:
        """Raises what the broker answers, at once: a queue that is not there now is most likely a mistake."""
        self._connection.attach(self)
        end = self._loop.time() + deadline_s
        try:
            while True:
                link = await self._connection.ready(max(0.0, end - self._loop.time()))
                try:
                    await self._subscribe(link)
                except ConnectionLost:
                    continue
                break
        except BaseException:
            self._connection.detach(self)
            self._give_up_channel()
            raise
        self.is_started = True
        self._connection.topology.consumer_added(self._queue)

    async def _subscribe(self, link: Link) -> None:
        """Consumes over this link, unless that is so already."""
        async with self._asking:
            channel = self._channel
            if self.is_over or (self._is_consuming and channel is not None and channel.link is link):
                return
            link.check()
            if channel is None or not channel.is_open or channel.link is not link:
                channel = await self._open_channel(link)
            options = self.options
            await channel.consume(
                self.queue_name,
                self._delivery_buffer,
                no_ack=options.no_ack,
                exclusive=options.exclusive,
                arguments=dict(options.arguments),
                on_cancel=partial(self._on_cancel, channel),
            )
            # The channel may have ended in the same moment in which the broker said yes.
            self._is_consuming = channel.is_open
            if not self._is_consuming:
                channel.check()

    async def _open_channel(self, link: Link) -> Channel:
        channel = await Channel.open(link, self._connection.options.deadline_s)
        try:
            if (self.prefetch or self.options.prefetch_size) and not self.options.no_ack:
                await channel.prefetch(self.prefetch, self.options.prefetch_size)
        except BaseException:
            channel.give_up(ClientClosed("the consumer was not started"))
            raise
        self._forget_channel()
        self._channel = channel
        self._delivery_buffer = self._new_delivery_buffer()
        channel.on_end(partial(self._on_channel_end, channel))
        return channel

    def _new_delivery_buffer(self) -> DeliveryBuffer:
        delivery_buffer = DeliveryBuffer(self._tag)
        delivery_buffer.wake = self._wake
        delivery_buffer.counts_bytes = self.options.is_unbounded
        return delivery_buffer

    def _forget_channel(self) -> None:
        """What it counted is kept; what waits in its delivery buffer is dropped, and comes again."""
        channel, delivery_buffer, totals = self._channel, self._delivery_buffer, self._totals
        self._let_go()
        self._is_consuming = False
        self._channel = None
        totals.received += delivery_buffer.received_total
        totals.redelivered += delivery_buffer.redelivered_total
        totals.dropped += len(delivery_buffer.items)
        if channel is not None:
            totals.acked += channel.codec.acked_total
            totals.nacked += channel.codec.nacked_total
            # It may have been given up, and not be over for the broker.
            channel.codec.delivery_buffers.pop(delivery_buffer.tag, None)
        self._delivery_buffer = self._new_delivery_buffer()

    def _give_up_channel(self) -> None:
        channel = self._channel
        self._forget_channel()
        if channel is not None:
            channel.give_up(ClientClosed("the consumer was stopped"))

    # ---- what may happen to it

    def _on_cancel(self, channel: Channel) -> None:
        """The broker ended the consumer: the queue was deleted, or has moved. What came before can still be settled."""
        if channel is not self._channel or self.is_over:
            return
        self._is_consuming = False
        channel.codec.delivery_buffers.pop(self._delivery_buffer.tag, None)
        self._connection.topology.doubt(self._queue)
        self._fell(ConsumerCancelled(self.queue_name, "the broker cancelled it: the queue was deleted or has moved"))

    def _on_channel_end(self, channel: Channel, reason: ClientError) -> None:
        if channel is not self._channel:
            return
        self._forget_channel()
        # A link that is gone is the connection's business: it calls restore when there is another one.
        if not self.is_over and not channel.link.ended.done():
            self._fell(reason)

    def _fell(self, reason: ClientError) -> None:
        """The link is there, but the broker delivers no more to us."""
        if not self.is_started or self.is_over:
            return
        log.warning("the consumer fell: %s", reason, extra={"queue": self.queue_name, "reason": str(reason)})
        is_gone = isinstance(reason, ConsumerCancelled) or (
            isinstance(reason, ChannelClosed) and reason.code == NOT_FOUND
        )
        if is_gone and self.options.on_cancel == "raise":
            self._end(reason if isinstance(reason, ConsumerCancelled) else self._cancelled(reason))
        elif self._retrying is None or self._retrying.done():
            self._retrying = self._loop.create_task(self._retry(reason), name=f"leveret {self.name}")

    async def _retry(self, reason: ClientError) -> None:
        """Until it consumes again, or has tried for long enough over a connection that is open."""
        options = self._connection.options
        longest = min(PAUSE_MAX_S, options.backoff_max_s)
        tries, tried_s = 0, 0.0
        while not self.is_over and not self._is_consuming:
            tries += 1
            pause = spread_s(backoff_s(options.backoff_min_s, longest, tries), random.random())
            await asyncio.sleep(nap := min(pause, max(0.0, self.options.retry_for_s - tried_s)))
            tried_s += nap
            began = self._loop.time()
            try:
                await self._subscribe(await self._connection.ready())
            except ClientClosed:
                return
            except (ConnectionLost, DeadlineExceeded):
                # There is no connection, or none that answers. That is not for the queue to blame.
                continue
            except ClientError as error:
                reason = error
                tried_s += self._loop.time() - began
            if tried_s >= self.options.retry_for_s and not self._is_consuming:
                self._end(self._cancelled(reason))
        if self._is_consuming:
            self.resubscribed_total += 1
            log.info("the consumer is back", extra={"queue": self.queue_name})

    def _cancelled(self, reason: ClientError) -> ConsumerCancelled:
        text = reason.reason if isinstance(reason, ConsumerCancelled) else str(reason)
        return ConsumerCancelled(self.queue_name, text)

    def _end(self, reason: ClientError) -> None:
        """For good, and not by its user."""
        if self.is_over:
            return
        log.error("the consumer ended: %s", reason, extra={"queue": self.queue_name, "reason": str(reason)})
        self.ended_by = reason
        self.finish()
        self._connection.detach(self)

    # ---- for the connection

    async def restore(self, link: Link) -> None:
        if not self.is_started:
            return
        try:
            await self._subscribe(link)
        except ConnectionLost:
            raise
        except ClientError as error:
            self._fell(error)
            raise
        if self._is_consuming:
            self.resubscribed_total += 1

    def lost(self, reason: ClientError) -> None:
        """The channel has told already."""

    async def stop(self, reason: ClientError) -> None:
        if self.ended_by is None and not self.is_over:
            self.ended_by = reason
        self.finish()
        if self.when_stopped is not None:
            await self.when_stopped(reason)
        await self.close(self._connection.options.close_deadline_s)

    # ---- the end

    def finish(self) -> None:
        """Nothing more is handed out, from this moment on."""
        self.is_over = True
        self._wake_all()

    def _say_goodbye(self) -> None:
        """A queue that is deleted with its last consumer is not to be declared again for nobody."""
        if self.is_started:
            self.is_started = False
            self._connection.topology.consumer_removed(self._queue)

    def _leave(self) -> None:
        """The broker's answers must be heard from now on, however much comes before them."""
        self._is_leaving = True
        self._let_go()

    async def cancel(self, deadline_s: float) -> None:
        """The broker is to send nothing more. What came can still be settled."""
        self.finish()
        self._leave()
        self._say_goodbye()
        channel, was_consuming = self._channel, self._is_consuming
        if channel is not None and channel.is_open and was_consuming:
            self._is_consuming = False
            with contextlib.suppress(ClientError):
                await channel.cancel(self._delivery_buffer, deadline_s)

    async def close(self, deadline_s: float) -> None:
        """Everything that was not settled goes back into the queue."""
        self.finish()
        self._leave()
        self._connection.detach(self)
        retrying, self._retrying = self._retrying, None
        if retrying is not None and retrying is not asyncio.current_task():
            retrying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await retrying
        self._say_goodbye()
        async with self._closing:
            channel = self._channel
            if channel is not None:
                try:
                    await channel.close(deadline_s)
                finally:
                    self._give_up_channel()

    @property
    def close_deadline_s(self) -> float:
        return self._connection.options.close_deadline_s

    # ---- numbers

    @property
    def delivered(self) -> int:
        """How many were handed out."""
        delivery_buffer, totals = self._delivery_buffer, self._totals
        return int(totals.received - totals.dropped + delivery_buffer.received_total - len(delivery_buffer.items))

    @property
    def waiting(self) -> int:
        return len(self._delivery_buffer.items)

    @property
    def redelivered(self) -> int:
        return int(self._totals.redelivered + self._delivery_buffer.redelivered_total)

    @property
    def acked(self) -> int:
        return int(self._totals.acked + (0 if self._channel is None else self._channel.codec.acked_total))

    @property
    def nacked(self) -> int:
        return int(self._totals.nacked + (0 if self._channel is None else self._channel.codec.nacked_total))

    @property
    def in_hand(self) -> int:
        """Handed out, not settled, and still to be settled: those of a channel that is gone are not."""
        if self._channel is None or self.options.no_ack:
            return 0
        return int(self._channel.codec.unsettled_count) - len(self._delivery_buffer.items)


def _too_late(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
