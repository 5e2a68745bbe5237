"""Channels in confirm mode that are kept ready and used by turns, at most so many of them.

Opening a channel for each message costs two round trips, and sharing one mixes up whose confirms are whose. So N
channels are opened at the first use, or before that with `fill`. A task that needs one borrows it; a task that finds
none waits in a line. Producers borrow one for their life. A channel that the broker has closed is replaced; after a
reconnect all are opened anew."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from leveret.client.deadline import within
from leveret.client.errors import ChannelClosed, ClientClosed, ClientError, ConnectionLost
from leveret.client.metrics import numbers_of
from leveret.client.owner import Owner
from leveret.client.publishing.pooled_channel import Borrowing
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link

__all__ = ["Pool", "PoolStatistics"]

OnEnd = Callable[[ClientError], None]


class PoolStatistics(msgspec.Struct, frozen=True):
    # Open and in nobody's hands; in somebody's hands, producers' included; being opened.
    idle: int
    borrowed: int
    opening: int
    # Who stands in line for one.
    waiting: int
    # Channels that were given up or closed by the broker, and made good for.
    replaced_total: int
    borrowed_total: int


class Pool:
    """Use `connection.pool`. There are never more than `channels_max` channels; those that come back when `pool_size`
    are idle are closed."""

    rank = 1
    kind = label = "pool"
    name = "the channel pool"

    def __init__(self, connection: Owner) -> None:
        self._connection = connection
        self._size = connection.options.pool_size
        self._max = connection.options.channels_max
        self._link: Link | None = None
        self._idle: deque[Channel] = deque()
        # Channels in somebody's hands, with whom to tell when one ends.
        self._borrowed: dict[Channel, OnEnd] = {}
        # Places that are taken: by idle channels, by borrowed ones, and by those who hold one without a channel.
        self._places = 0
        # Channels that are being opened for nobody in particular.
        self._filling = 0
        # Who waits: given a channel, or None for a place to open one in.
        self._line: deque[asyncio.Future[Channel | None]] = deque()
        self._is_started = False
        self._filler: asyncio.Task[None] | None = None
        self._closed_by: str | None = None
        self._replaced_total = 0
        self._borrowed_total = 0
        connection.attach(self)

    @property
    def statistics(self) -> PoolStatistics:
        borrowed = len(self._borrowed)
        return PoolStatistics(
            idle=len(self._idle),
            borrowed=borrowed,
            opening=self._places - len(self._idle) - borrowed,
            waiting=sum(not one.done() for one in self._line),
            replaced_total=self._replaced_total,
            borrowed_total=self._borrowed_total,
        )

    def numbers(self) -> dict[str, float]:
        return numbers_of(self.statistics)

    def borrow(self, deadline_s: float | None = None, confirm_deadline_s: float | None = None) -> Borrowing:
        """A channel for oneself:

            async with connection.pool.borrow() as channel:
                first = channel.publish(b"one", routing_key="orders")
                await channel.wait_confirms()

        `deadline_s` is for getting one. At the end of the block the pool takes it back when everything that was
        published is confirmed; after `confirm_deadline_s` it is thrown away instead, and DeadlineExceeded raised."""
        seconds = self._connection.options.deadline_s
        return Borrowing(
            self,
            seconds if deadline_s is None else deadline_s,
            seconds if confirm_deadline_s is None else confirm_deadline_s,
        )

    async def fill(self, deadline_s: float | None = None) -> None:
        """Opens the channels that the pool keeps, `pool_size` of them, and waits until there are so many. Raises what
        keeps the first of them from being opened."""
        seconds = self._connection.options.deadline_s if deadline_s is None else deadline_s
        await within(seconds, "to fill the pool of channels", self._fill_up(seconds))

    async def _fill_up(self, seconds: float) -> None:
        self._check()
        self._is_started = True
        if self._filler is not None:
            await asyncio.wait([self._filler])
        while self._places < self._size:
            self._places += 1
            try:
                channel = await self._open(seconds)
            except BaseException:
                self.free()
                raise
            self._offer(channel)

    # ---- taking and giving back

    async def take(self, deadline_s: float, on_end: OnEnd, confirms: bool = True) -> Channel:
        """A channel, until `put`. Without `confirms` it is a new one that does not confirm."""
        return await within(deadline_s, "to get a channel of the pool", self._take(deadline_s, on_end, confirms))

    async def _take(self, deadline_s: float, on_end: OnEnd, confirms: bool) -> Channel:
        found = await self._take_place()
        if found is not None and not (confirms and found.is_open):
            # Its place is used for another one.
            found.give_up(ClientClosed("the channel was not needed"))
            found = None
        if found is None:
            return await self._open_or_free(deadline_s, on_end, confirms)
        self._borrowed[found] = on_end
        self._borrowed_total += 1
        return found

    async def reopen(self, deadline_s: float, on_end: OnEnd, confirms: bool = True) -> Channel:
        """For whoever has kept its place when its channel ended: another one. The place remains if that fails."""
        self._check()
        return await self._open_for(deadline_s, on_end, confirms)

    def put(self, channel: Channel) -> None:
        """It is of no more use to whoever took it, and neither is the place."""
        self.leave(channel)
        if (
            not channel.is_open
            or channel.codec.unconfirmed
            or channel.codec.delivery_buffers
            or not channel.codec.confirming
        ):
            self._discard(channel)
        else:
            channel.codec.owner = None
            self._offer(channel)

    def leave(self, channel: Channel) -> None:
        """The channel has ended; its place is kept for `reopen`, or given back with `free`."""
        self._borrowed.pop(channel, None)
        if channel.closed_by is not None and not isinstance(channel.closed_by, ConnectionLost | ClientClosed):
            self._replaced_total += 1

    def free(self) -> None:
        """A place is free: the first in line may open a channel in it."""
        waiting = self._first_in_line()
        if waiting is not None:
            waiting.set_result(None)
        else:
            self._places -= 1
            assert self._places >= 0

    def _discard(self, channel: Channel) -> None:
        if channel.is_open:
            self._replaced_total += channel.codec.confirming
            channel.give_up(ClientClosed("the channel was given back in a state that is of no use to others"))
        self.free()
        self._refill()

    def _offer(self, channel: Channel) -> None:
        waiting = self._first_in_line()
        if waiting is not None:
            waiting.set_result(channel)
        elif len(self._idle) < self._size and self._closed_by is None:
            self._idle.append(channel)
        else:
            channel.give_up(ClientClosed("the channel was not needed"))
            self.free()

    def _first_in_line(self) -> asyncio.Future[Channel | None] | None:
        while self._line:
            waiting = self._line.popleft()
            if not waiting.done():
                return waiting
        return None

    async def _take_place(self) -> Channel | None:
        """An idle channel, or None and a place to open one in."""
        self._check()
        if not self._is_started:
            self._is_started = True
            self._fill_soon(self._size)
        if self._idle and not self._line:
            return self._idle.popleft()
        if self._places < self._max and len(self._line) >= self._filling:
            self._places += 1
            return None
        waiting: asyncio.Future[Channel | None] = asyncio.get_running_loop().create_future()
        self._line.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                # Given at the moment when nobody wanted it any more: it is the next one's.
                given = waiting.result()
                if given is not None and given.is_open:
                    self._offer(given)
                else:
                    self.free()
            raise

    # ---- opening

    async def _open_or_free(self, deadline_s: float, on_end: OnEnd, confirms: bool) -> Channel:
        try:
            channel = await self._open_for(deadline_s, on_end, confirms)
        except BaseException:
            self.free()
            raise
        self._borrowed_total += 1
        return channel

    async def _open_for(self, deadline_s: float, on_end: OnEnd, confirms: bool) -> Channel:
        channel = await self._open(deadline_s, confirms)
        self._borrowed[channel] = on_end
        return channel

    async def _open(self, deadline_s: float, confirms: bool = True) -> Channel:
        link = self._link
        if link is None or link.ended.done():
            link = await self._connection.ready(deadline_s)
        channel = await Channel.open(link, self._connection.options.deadline_s, deadline_s)
        try:
            if confirms:
                await channel.confirm()
        except BaseException:
            channel.give_up(ClientClosed("the channel was not opened to its end"))
            raise
        channel.on_end(lambda reason: self._ended(channel, reason))
        channel.check()
        return channel

    def _ended(self, channel: Channel, reason: ClientError) -> None:
        told = self._borrowed.get(channel)
        if told is not None:
            told(reason)
        elif channel in self._idle:
            self._idle.remove(channel)
            self.free()
            if isinstance(reason, ChannelClosed):
                self._replaced_total += 1
                self._refill()

    def _refill(self) -> None:
        """There are to be as many as at the beginning."""
        missing = self._size - self._places
        has_link = self._link is None or not self._link.ended.done()
        if self._is_started and missing > 0 and has_link and self._closed_by is None:
            self._fill_soon(missing)

    def _fill_soon(self, count: int) -> None:
        if self._filler is None or self._filler.done():
            self._reserve(count)
            self._filler = asyncio.get_running_loop().create_task(self._fill(count), name="leveret-pool")
            self._filler.add_done_callback(_swallow)

    def _reserve(self, count: int) -> None:
        self._places += count
        self._filling += count

    async def _fill(self, count: int) -> None:
        """Opens channels in places that were reserved for them; those that fail are free again."""
        seconds = self._connection.options.deadline_s
        openings = [asyncio.ensure_future(self._open(seconds)) for _ in range(count)]
        try:
            for opening in asyncio.as_completed(openings):
                try:
                    channel = await opening
                except ClientError:
                    self._filling -= 1
                    count -= 1
                    self.free()
                else:
                    self._filling -= 1
                    count -= 1
                    if channel.is_open:
                        self._offer(channel)
                    else:
                        self.free()
        finally:
            for one in openings:
                one.cancel()
            self._filling -= count
            for _ in range(count):
                self.free()

    # ---- a part of the connection

    async def restore(self, link: Link) -> None:
        self._link = link
        missing = self._size - self._places
        if self._is_started and missing > 0:
            self._reserve(missing)
            await self._fill(missing)

    def lost(self, reason: ClientError) -> None:
        # Every channel has told its own end already.
        self._link = None

    async def stop(self, reason: ClientError) -> None:
        self._closed_by = str(reason)
        if self._filler is not None:
            self._filler.cancel()
            await asyncio.gather(self._filler, return_exceptions=True)
        line, self._line = self._line, deque()
        for waiting in line:
            if not waiting.done():
                waiting.set_exception(ClientClosed(self._closed_by))

    def _check(self) -> None:
        if self._closed_by is not None:
            raise ClientClosed(self._closed_by)


def _swallow(task: asyncio.Task[None]) -> None:
    """Whoever waits for a channel meets the same trouble when it opens one itself."""
    if not task.cancelled():
        task.exception()
