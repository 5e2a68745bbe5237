"""Reading a stream: messages in their order, from any place, and on from there after a lost connection.

    async with connection.stream("orders", offset="first", consumer="queue log", store=store) as stream:
        async for message in stream:
            print(message.offset, message.body)

Nothing is acknowledged by the user: acks only ask for more here, and are sent for what was handed out. A message counts
as done when the next one is asked for. How far a named consumer is, is stored every so many messages and seconds: in
`store`, or by Leveret itself if there is none, where it is the acks that tell it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any

import msgspec

from leveret.client.consuming.feed import Feed
from leveret.client.errors import AlreadySettled, ClientError, StaleDelivery
from leveret.client.owner import Owner
from leveret.client.payload import Decoder
from leveret.client.streams.offset_store import OffsetStore
from leveret.client.streams.stream_start import OFFSET, STORED, Start, check_start, is_leveret, offset_of, resolve
from leveret.client.transport.channel import Channel
from leveret.core.client.delivery import Delivery

__all__ = ["Stream", "StreamCounters", "StreamMessage"]

log = logging.getLogger(__name__)

PREFETCH_MAX = 65535


class StreamCounters(msgspec.Struct):
    # Messages that were handed out.
    messages_total: int = 0
    # What came a second time after a lost connection, and was passed over.
    duplicates_total: int = 0
    stored_total: int = 0
    store_failures_total: int = 0


class StreamMessage:
    """A message with its place: `offset` in the stream `stream`. What is not here is in `delivery`."""

    __slots__ = ("_decoder", "delivery", "offset", "stream")

    def __init__(self, stream: str, offset: int, delivery: Any, decoder: Decoder[Any] | None) -> None:
        self._decoder = decoder
        self.stream = stream
        self.offset = offset
        self.delivery = delivery

    @property
    def body(self) -> bytes:
        body: bytes = self.delivery.body
        return body

    @property
    def headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = self.delivery.headers
        return headers

    @property
    def message_id(self) -> str | None:
        identity: str | None = self.delivery.message_id
        return identity

    @property
    def routing_key(self) -> str:
        key: str = self.delivery.routing_key
        return key

    @property
    def payload(self) -> Any:
        """The body as the stream's `type`. Raises Undecodable."""
        if self._decoder is None:
            raise TypeError("the stream was made without a type")
        return self._decoder.decode(self.delivery).payload

    def __repr__(self) -> str:
        return f"<StreamMessage {self.offset} of {self.stream!r}, {len(self.body)} bytes>"


class Stream:
    """Made by `connection.stream(name)`: enter it, or `await` it."""

    def __init__(
        self,
        connection: Owner,
        name: str,
        *,
        offset: Start = "next",
        consumer: str | None = None,
        store: OffsetStore | None = None,
        store_every: int = 1000,
        store_every_s: float = 5.0,
        prefetch: int = 1000,
        single_active: bool = False,
        filter: str | Sequence[str] | None = None,
        match_unfiltered: bool = False,
        type: type[Any] | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        """`offset` is where to start: "first", "last", "next", a number, a datetime, a time ago such as "1h" or
        "stored". What is stored for `consumer` counts instead if there is something; "stored" is "first" otherwise.

        With `store_every=0` nothing is stored but by `store_offset`. `single_active` and `filter` are for Leveret:
        of all readers with the consumer's name only one reads, and only messages with such a filter value come. With
        `type` a message's `payload` is its body as that."""
        if not 1 <= prefetch <= PREFETCH_MAX:
            raise ValueError(f"prefetch is {prefetch}, not from 1 to {PREFETCH_MAX}")
        if store_every < 0 or store_every_s <= 0:
            raise ValueError("store_every must not be below 0, and store_every_s must be above 0")
        if consumer is None and (store is not None or single_active or offset == STORED):
            raise ValueError("a store, single_active and the offset 'stored' need the consumer's name")
        if single_active and store is not None:
            raise ValueError("the broker stores the offsets of single active consumers: no store is needed")
        self.name = name
        self.consumer = consumer
        self._store = store
        self._start = check_start(offset)
        self._prefetch = prefetch
        self._is_manual = consumer is not None and store_every == 0
        self._store_every = store_every or 1
        self._store_every_s = store_every_s
        self._decoder = None if type is None else Decoder(type)
        self._arguments = _arguments(single_active, filter, match_unfiltered)
        self._wake_other = wake
        self.counters = StreamCounters()
        self._feed = Feed(
            connection,
            name,
            prefetch=prefetch,
            prepare=self._prepare,
            wake=self._wake,
            kind="stream",
            counters=self.counters,
        )
        self._waiter: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._is_closed = False
        # Where to go on: behind what was handed out, or else where we started, if that is known.
        self._next: int | None = None
        # The delivery that the user has, and the last one that is done with, of the present channel.
        self._current: Delivery | None = None
        self._current_offset = -1
        self._last: Delivery | None = None
        self._unacked = 0
        self._ack_every = max(1, prefetch // 4)
        # The last offset that is done with; the one that is stored, or was asked to be.
        self._done = -1
        self._stored = -1
        self._since_stored = 0

    # ---- its life

    @property
    def offset(self) -> int | None:
        """Of the message that was handed out last; None if there was none."""
        return self._current_offset if self._current_offset >= 0 else None

    async def start(self, deadline_s: float | None = None) -> Stream:
        await self._feed.start(deadline_s)
        if self.consumer is not None and not self._is_manual:
            self._keeper = asyncio.create_task(self._keep_storing(), name="leveret-stream-offsets")
        return self

    async def close(self, *, store: bool = True) -> None:
        """Stores how far we are, unless told not to, and reads no more."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if store and self.consumer is not None and not self._is_manual:
            self.finish()
            await self._keep()
        await self._feed.close()

    def __await__(self) -> Generator[Any, None, Stream]:
        return self.start().__await__()

    async def __aenter__(self) -> Stream:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            # The message in hand was not done with.
            self._current = None
        await self.close()

    # ---- reading

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> StreamMessage:
        self.finish()
        while True:
            message = self.take()
            if message is not None:
                return message
            self.check()
            await self._wait()

    def check(self) -> None:
        """Raises why there will be no more messages, if that is so."""
        if self._is_closed:
            raise StopAsyncIteration
        self._feed.check()
        if self._is_manual and self._store is None and self._unacked >= self._prefetch:
            raise ClientError(
                f"{self._prefetch} messages of {self.name!r} were handed out and their offsets not stored: "
                "the broker sends no more before store_offset() is called, or needs a larger prefetch"
            )

    def take(self) -> StreamMessage | None:
        """The next message if it is here already."""
        items = self._feed.items
        while items:
            delivery = items.popleft()
            offset = offset_of(delivery.headers)
            if self._next is not None and offset < self._next:
                self.counters.duplicates_total += offset <= self._current_offset
                self._finished(delivery, offset)
                continue
            self._next = offset + 1
            self._current, self._current_offset = delivery, offset
            self.counters.messages_total += 1
            return StreamMessage(self.name, offset, delivery, self._decoder)
        return None

    def finish(self) -> None:
        """What was handed out last is done with."""
        delivery = self._current
        if delivery is not None:
            self._current = None
            self._done = self._current_offset
            self._finished(delivery, self._current_offset)
            self._since_stored += 1
            if self._since_stored >= self._store_every:
                self._due.set()

    def _finished(self, delivery: Delivery, offset: int) -> None:
        if delivery.is_stale:
            return
        self._last = delivery
        self._unacked += 1
        if self._is_manual and self._store is None:
            # The ack is what stores it.
            if offset <= self._stored:
                self._ack()
        elif self._unacked >= self._ack_every:
            self._ack()

    def _ack(self) -> None:
        last, self._last, self._unacked = self._last, None, 0
        if last is not None:
            # Its channel may be gone: what was not acknowledged comes again and is passed over.
            with contextlib.suppress(StaleDelivery, AlreadySettled):
                last.ack(multiple=True)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._wake_other is not None:
            self._wake_other()
        if self._feed.ended_by is not None:
            self._due.set()

    async def _prepare(self, channel: Channel) -> dict[str, Any]:
        """Says where a new channel goes on."""
        self._last, self._unacked = None, 0
        arguments = dict(self._arguments)
        if self.consumer is not None and self._store is None:
            if not is_leveret(channel.link):
                raise ClientError(
                    f"this broker does not store offsets for {self.consumer!r}: give a store, such as SqliteOffsetStore"
                )
            arguments["x-stream-consumer-name"] = self.consumer
        elif arguments and not is_leveret(channel.link):
            raise ClientError("this broker has neither single active consumers nor filters for streams over AMQP")
        start: Start = "first" if self._start == STORED else self._start
        if self._next is None and self._store is not None and self.consumer is not None:
            stored = await self._store.load(self.name, self.consumer)
            if stored is not None:
                self._next, self._done, self._stored = stored + 1, stored, stored
        if self._next is not None:
            start = self._next
        else:
            self._next = await resolve(channel, self.name, start)
            if self._next is not None and is_leveret(channel.link):
                start = self._next
        arguments[OFFSET] = start
        return arguments

    # ---- storing

    async def store_offset(self) -> None:
        """Everything that was handed out is done with, the message in hand too; returns when that is stored. Where
        Leveret stores offsets it is told, and has it on disk a moment later."""
        if self.consumer is None:
            raise ValueError("a stream without a consumer's name stores no offsets")
        self._feed.check()
        if self._current_offset < 0:
            return
        self._stored = self._done = self._current_offset
        self.finish()
        if self._store is None:
            self._ack()
        else:
            await self._store.save(self.name, self.consumer, self._stored)
        self._since_stored = 0
        self.counters.stored_total += 1

    async def _keep_storing(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._store_every_s):
                    await self._due.wait()
            self._due.clear()
            await self._keep()
            if self._feed.ended_by is not None:
                return

    async def _keep(self) -> None:
        """Stores what is done with. If that fails it is tried again the next time: messages may come twice then."""
        if self._done <= self._stored:
            return
        done = self._done
        self._since_stored = 0
        if self._store is None:
            self._ack()
        else:
            assert self.consumer is not None
            try:
                await self._store.save(self.name, self.consumer, done)
            except Exception as error:
                self.counters.store_failures_total += 1
                log.exception("an offset is not stored", extra={"queue": self.name, "reason": str(error)})
                return
        self._stored = done
        self.counters.stored_total += 1


def _arguments(single_active: bool, filter: str | Sequence[str] | None, match_unfiltered: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if single_active:
        made["x-single-active-consumer"] = True
    if filter is not None:
        made["x-stream-filter"] = filter if isinstance(filter, str) else list(filter)
        if match_unfiltered:
            made["x-stream-match-unfiltered"] = True
    return made
