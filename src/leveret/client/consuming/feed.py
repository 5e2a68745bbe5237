"""A consumer that lasts: whenever there is a new link it has a channel there and consumes again.

What RPC servers and streams stand on. It settles nothing and looks into no message. If the broker ends the consumer or
its channel while the connection is well, it tries again for a while, and then ends with the broker's reason."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from leveret.client.deadline import within
from leveret.client.errors import ChannelClosed, ClientClosed, ClientError, ConnectionLost, again
from leveret.client.metrics import numbers_of
from leveret.client.owner import Owner
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.delivery import Delivery

log = logging.getLogger(__name__)

# Pauses between attempts while the connection is well: they double from the first to the second.
PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 5.0
# What trying again does not mend: no right to the queue, a wrong argument, something the broker does not have.
HOPELESS = (403, 406, 540)

# Readies a channel before it consumes, and says with which arguments it does.
Prepare = Callable[[Channel], Awaitable[dict[str, Any]]]


class Feed:
    rank = 3

    def __init__(
        self,
        connection: Owner,
        queue: str,
        *,
        prefetch: int,
        prepare: Prepare,
        wake: Callable[[], None],
        kind: str,
        counters: msgspec.Struct,
        patience_s: float = 30.0,
    ) -> None:
        # For metrics: what this is a part of, and what that counts.
        self.kind = kind
        self._counters = counters
        self.label = queue
        self.name = f"the consumer of {queue!r}"
        self.queue = queue
        self._connection = connection
        self._prefetch = prefetch
        self._prepare = prepare
        # Called when there is something to take, and at the end.
        self._wake = wake
        # How long the broker may go on refusing.
        self._patience_s = patience_s
        self._tags = (f"leveret-{number}".encode() for number in itertools.count(1))
        self._opening = asyncio.Lock()
        self._again: asyncio.Task[None] | None = None
        self.channel: Channel | None = None
        # Deliveries of the present channel that nobody has taken.
        self.items: deque[Delivery] = deque()
        self._delivery_buffer: DeliveryBuffer | None = None
        self.ended_by: ClientError | None = None
        # Why a channel was closed, if whoever uses the feed has seen to it that it does not happen again.
        self.mended: ClientError | None = None
        self.is_started = False

    def numbers(self) -> dict[str, float]:
        return numbers_of(self._counters)

    # ---- its life

    async def start(self, deadline_s: float | None = None) -> None:
        """Consumes from now on. Raises what the broker has against it; a lost connection is waited for."""
        self._connection.attach(self)
        seconds = self._connection.options.deadline_s if deadline_s is None else deadline_s
        try:
            await within(seconds, f"starting {self.name}", self._start(seconds))
        except BaseException as error:
            self._end(error if isinstance(error, ClientError) else ClientClosed(f"{self.name} was not started"))
            raise
        self.is_started = True

    async def _start(self, seconds: float) -> None:
        while True:
            try:
                await self._open(await self._connection.ready(seconds))
                return
            except ConnectionLost:
                # There will be another link.
                continue

    async def restore(self, link: Link) -> None:
        if not self.is_started:
            return
        try:
            await self._open(link)
        except ConnectionLost:
            raise
        except ClientError as error:
            self._try_again(error)
            raise

    def lost(self, reason: ClientError) -> None:
        if self._again is not None:
            self._again.cancel()

    async def stop(self, reason: ClientError) -> None:
        self._end(reason)
        await self._stop_trying()

    async def cancel(self) -> None:
        """The broker sends nothing more; what came before can still be taken and settled. Part of a gentle end."""
        if self.channel is not None and self.channel.is_open and self._delivery_buffer is not None:
            with contextlib.suppress(ClientError):
                await self.channel.cancel(self._delivery_buffer)

    async def close(self) -> None:
        """The end: what was not settled goes back to the broker."""
        self._end(ClientClosed(f"{self.name} was closed"))
        await self._stop_trying()
        if self.channel is not None:
            await self.channel.close()

    def check(self) -> None:
        if self.ended_by is not None:
            raise again(self.ended_by)

    def _end(self, reason: ClientError) -> None:
        if self.ended_by is None:
            self.ended_by = reason
            self._connection.detach(self)
            self._wake()

    async def _stop_trying(self) -> None:
        task = self._again
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # ---- a channel after another

    async def _open(self, link: Link) -> None:
        async with self._opening:
            self.check()
            if self.channel is not None and self.channel.link is link and self.channel.is_open:
                return
            channel = await Channel.open(link, self._connection.options.deadline_s)
            try:
                await channel.prefetch(self._prefetch)
                arguments = await self._prepare(channel)
                # Each consumer has a tag of its own: the broker may still speak of the one before.
                delivery_buffer = DeliveryBuffer(next(self._tags))
                delivery_buffer.wake = self._wake
                self.channel, self._delivery_buffer, self.items = channel, delivery_buffer, delivery_buffer.items
                await channel.consume(
                    self.queue,
                    delivery_buffer,
                    arguments=arguments,
                    on_cancel=lambda: self._cancelled(channel),
                )
            except BaseException:
                channel.give_up(ClientClosed(f"{self.name} could not be started"))
                raise
            channel.on_end(lambda reason: self._channel_ended(channel, reason))

    def _cancelled(self, channel: Channel) -> None:
        gone = ChannelClosed(404, f"the broker ended {self.name}: its queue may be gone", "basic.cancel")
        # What was delivered cannot be told from what comes again.
        channel.give_up(gone)

    def _channel_ended(self, channel: Channel, reason: ClientError) -> None:
        if channel is self.channel and isinstance(reason, ChannelClosed) and self.ended_by is None:
            self._try_again(reason)

    def _try_again(self, reason: ClientError) -> None:
        if self._again is None or self._again.done():
            self._again = asyncio.create_task(self._keep_trying(reason), name="leveret-consumer-again")

    async def _keep_trying(self, reason: ClientError) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_s
        pause = PAUSE_MIN_S
        while (reason is self.mended or not _is_hopeless(reason)) and loop.time() + pause < until:
            log.warning(
                "consuming again: %s", reason, extra={"queue": self.queue, "reason": str(reason), "pause_s": pause}
            )
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_S)
            try:
                await self._open(await self._connection.ready())
                return
            except ConnectionLost:
                # It is restored with the connection.
                return
            except ClientError as error:
                reason = error
        log.error("consuming is given up: %s", reason, extra={"queue": self.queue, "reason": str(reason)})
        self._end(reason)


def _is_hopeless(reason: ClientError) -> bool:
    return isinstance(reason, ChannelClosed) and reason.code in HOPELESS
