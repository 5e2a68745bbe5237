"""Publishing that survives lost connections: every message is kept until the broker has answered for it.

What is under way is in in_flight.py, how messages are written in message_encoder.py, and on which channel in
channel_keeper.py."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Unpack

from leveret.client.deadline import within
from leveret.client.errors import BatchFailed, ClientClosed, ClientError, ConnectionLost, DeadlineExceeded, fresh
from leveret.client.message import Body, Message, MessageProperties
from leveret.client.owner import Owner
from leveret.client.publishing.channel_keeper import ChannelKeeper
from leveret.client.publishing.confirmation import BatchWait, Confirmation
from leveret.client.publishing.in_flight import Counters, InFlight
from leveret.client.publishing.message_encoder import MessageEncoder
from leveret.client.publishing.pool import Pool
from leveret.client.publishing.positional import NOT_GIVEN, as_named
from leveret.client.publishing.producer_options import ProducerOptions
from leveret.client.tracing import Place, start_span, with_headers
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.client.transport.recovery import State
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing

__all__ = ["Producer"]

log = logging.getLogger(__name__)

NOTHING_GIVEN = (None, None, None, None, None)


class Producer:
    """Use `connection.producer(...)`; its options are in producer_options.py. It opens its channel when it is entered,
    or with the first message, and is closed with its connection if it was not before."""

    rank = 2
    kind = "producer"

    def __init__(self, connection: Owner, pool: Pool, encoder: MessageEncoder, options: ProducerOptions) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._encoder = encoder
        self._confirms = options.confirms
        self._deadline_s = connection.options.deadline_s if options.deadline_s is None else options.deadline_s
        self.name = f"the producer {encoder.prefix}"
        self.label = encoder.exchange or "amq.default"
        self._tracing = connection.tracing
        self._keeper = ChannelKeeper(connection, pool, options.confirms, self._deadline_s, self._opened, self._ended)
        self._transit = InFlight(self._loop, options, self._keeper.want, self._why)
        self._window = self._transit.window
        self._closed_by: ClientClosed | None = None
        connection.attach(self)

    @classmethod
    def make(
        cls,
        connection: Owner,
        pool: Pool,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        given: Mapping[str, Any],
    ) -> Producer:
        """`given` are options, and properties that every message is to have."""
        names = ProducerOptions.__struct_fields__
        options = ProducerOptions(**{name: value for name, value in given.items() if name in names})
        options.check()
        encoder = MessageEncoder(
            exchange,
            routing_key,
            mandatory,
            {name: value for name, value in given.items() if name not in names},
            numbered=options.confirms,
            deduplicate=options.deduplicate,
            publishing_name=options.publishing_name,
        )
        return cls(connection, pool, encoder, options)

    # ---- as it is

    @property
    def in_flight(self) -> int:
        """Messages that were taken and not answered for; never more than the window."""
        return self._window.count

    @property
    def in_flight_bytes(self) -> int:
        return self._window.bytes

    @property
    def waiting(self) -> int:
        """Publishes that wait for room in the window."""
        return self._window.waiting

    @property
    def counters(self) -> Counters:
        return self._transit.counters

    @property
    def published(self) -> int:
        return self.counters.published

    @property
    def confirmed(self) -> int:
        return self.counters.confirmed

    @property
    def returned(self) -> int:
        return self.counters.returned

    @property
    def refused(self) -> int:
        return self.counters.refused

    @property
    def retransmitted(self) -> int:
        return self.counters.retransmitted

    @property
    def is_open(self) -> bool:
        """It takes messages, whether or not there is a connection at the moment."""
        return self._closed_by is None

    def numbers(self) -> dict[str, float]:
        return self._transit.numbers()

    def _place(self) -> Place:
        return Place(self._encoder.exchange, self._encoder.routing_key, self._connection.address)

    # ---- publishing

    async def publish(
        self,
        body: Body | Message = b"",
        routing_key: str | None = None,
        content: Body = NOT_GIVEN,
        properties: Mapping[str, Any] | None = None,
        *,
        exchange: str | None = None,
        mandatory: bool | None = None,
        deadline_s: float | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        **named: Unpack[MessageProperties],
    ) -> None:
        """Returns when the broker has taken responsibility for the message. Give it a body and the rest by name, or, as
        other clients do, publish(exchange, routing_key, content, properties).

        Raises Unroutable if no queue takes it, Refused if the broker does not, ChannelClosed if it must not be
        published at all (there is no such exchange, no right to it), DeadlineExceeded if there was no answer in time:
        then nobody knows whether it arrived. ClientClosed means the same for a producer that was closed meanwhile. If
        the task is cancelled, a message that was not sent yet never is."""
        if content is not NOT_GIVEN or properties is not None:
            body, exchange, headers, message_id, named = as_named(
                body, content, exchange, headers, message_id, properties, named
            )
        if self._tracing is None:
            await self._publish(body, exchange, routing_key, mandatory, deadline_s, headers, message_id, named)
            return
        span, body, headers = start_span(self._tracing, self._place(), body, exchange, routing_key, headers, message_id)
        with span:
            await self._publish(body, exchange, routing_key, mandatory, deadline_s, headers, message_id, named)

    async def _publish(
        self,
        body: Body | Message,
        exchange: str | None,
        routing_key: str | None,
        mandatory: bool | None,
        deadline_s: float | None,
        headers: Mapping[str, Any] | None,
        message_id: str | None,
        properties: MessageProperties,
    ) -> None:
        message = self._make(body, exchange, routing_key, mandatory, headers, message_id, properties)
        due = self._loop.time() + (self._deadline_s if deadline_s is None else deadline_s)
        if not self._confirms:
            await self._write(message, due)
            return
        if not self._window.take(len(message.body)):
            await self._room(message, due)
        await self._promise(message, due)

    async def submit(
        self,
        body: Body | Message = b"",
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
        mandatory: bool | None = None,
        deadline_s: float | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Confirmation:
        """Like publish, but waits only for room in the window. What it gives is a future: await it for the answer."""
        if not self._confirms:
            raise TypeError("a producer without confirms has no answers to wait for: use publish")
        if self._tracing is None:
            message = self._make(body, exchange, routing_key, mandatory, headers, message_id, properties)
            return await self._submit(message, deadline_s)
        span, body, headers = start_span(self._tracing, self._place(), body, exchange, routing_key, headers, message_id)
        with span.unless_done():
            message = self._make(body, exchange, routing_key, mandatory, headers, message_id, properties)
            confirmation = await self._submit(message, deadline_s)
        confirmation.add_done_callback(span.end_with)
        return confirmation

    async def _submit(self, message: Outgoing, deadline_s: float | None) -> Confirmation:
        due = self._loop.time() + (self._deadline_s if deadline_s is None else deadline_s)
        if not self._window.take(len(message.body)):
            await self._room(message, due)
        confirmation = self._promise(message, due)
        codec = self._transit.codec
        if codec is not None and codec.write_buffer.congested:
            # Whoever submits in a loop must let the others have their turn, the socket first.
            await self._breathe(due)
        return confirmation

    async def publish_batch(self, messages: Iterable[Body | Message], *, deadline_s: float | None = None) -> None:
        """Publishes all of them, on one channel and in their order, and returns when all are confirmed. They may come
        from a generator: no more are taken from it than there is room for.

        Raises BatchFailed if some failed, with the place of each; the others stand. The deadline is for all together.
        Without confirms it returns when all are written."""
        if self._tracing is None:
            await self._publish_batch(messages, deadline_s)
            return
        span, _, headers = start_span(self._tracing, self._place())
        with span:
            await self._publish_batch(with_headers(messages, headers), deadline_s)

    async def publish_made(self, messages: list[Outgoing], *, deadline_s: float | None = None) -> None:
        """The same for messages that somebody else has made, as they stand on the wire, by the run instead of one by
        one: for our own connectors. Only with confirms; no span is written into messages that are made already."""
        assert self._confirms, "messages that are made already are published with confirms"
        self._check()
        await self._wait_for(lambda batch, due: self._feed_made(batch, messages, due), deadline_s)

    async def _publish_batch(self, messages: Iterable[Body | Message], deadline_s: float | None) -> None:
        self._check()
        await self._wait_for(lambda batch, due: self._feed(batch, messages, due), deadline_s)

    async def _wait_for(
        self, feed: Callable[[BatchWait, float], Awaitable[int | None]], deadline_s: float | None
    ) -> None:
        due = self._loop.time() + (self._deadline_s if deadline_s is None else deadline_s)
        batch = BatchWait(self._loop)
        try:
            unsent_from = await feed(batch, due)
            await batch.wait()
        except BaseException:
            self._transit.drop_batch(batch)
            raise
        if batch.failures or unsent_from is not None:
            raise BatchFailed(sorted(batch.failures, key=lambda failure: failure[0]), unsent_from)

    async def flush(self, deadline_s: float | None = None) -> None:
        """Waits until the broker has answered for everything that was taken before; a batch counts as a whole. What the
        answers are, those who wait for them learn. Raises DeadlineExceeded."""
        await self._transit.flush(self._deadline_s if deadline_s is None else deadline_s)

    async def wait_for_confirms(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the documents' name
        """Whether the broker has confirmed everything that was published: False if some of it failed since this was
        asked last, or was not answered for within `timeout` seconds."""
        if not self._confirms:
            raise TypeError("a producer without confirms has no answers to wait for")
        return await self._transit.all_confirmed(self._deadline_s if timeout is None else timeout)

    # ---- one message's way

    def _make(
        self,
        body: Body | Message,
        exchange: str | None,
        routing_key: str | None,
        mandatory: bool | None,
        headers: Mapping[str, Any] | None,
        message_id: str | None,
        properties: MessageProperties,
    ) -> Outgoing:
        self._check()
        given = (exchange, routing_key, mandatory, headers, message_id)
        is_plain = not properties and given == NOTHING_GIVEN
        if is_plain and type(body) is bytes:
            return self._encoder.plain(body)
        if isinstance(body, Message):
            if not is_plain:
                raise TypeError("a Message has everything in it: nothing else can be given beside it")
            return self._encoder.make_from(body)
        return self._encoder.make(body, exchange, routing_key, mandatory, headers, message_id, properties)

    async def _room(self, message: Outgoing, due: float) -> None:
        self._transit.arm(due)
        await self._window.wait(len(message.body), due, self._loop)
        if self._transit.is_stopped:
            self._window.release(1, len(message.body))
            self._check()

    def _promise(self, message: Outgoing, due: float) -> Confirmation:
        confirmation = Confirmation(message, self._transit.drop, self._loop)
        self._transit.accept(message, due, confirmation)
        return confirmation

    async def _breathe(self, due: float) -> None:
        """Lets what is written go out before more is."""
        await asyncio.sleep(0)
        channel = self._keeper.channel
        if channel is None or not channel.link.is_congested:
            return
        # A lost link, or time that is over: those who wait for the messages learn it.
        with contextlib.suppress(ConnectionLost, DeadlineExceeded):
            await within(max(0.0, due - self._loop.time()), "to write", channel.link.room())

    async def _feed(self, batch: BatchWait, messages: Iterable[Body | Message], due: float) -> int | None:
        """Hands over the messages of a batch. The place of the first that was not, if time is over or we are closed."""
        transit, window, encoder = self._transit, self._window, self._encoder
        for index, item in enumerate(messages):
            if self._closed_by is not None:
                return index
            try:
                if type(item) is bytes:
                    message = encoder.plain(item)
                elif isinstance(item, Message):
                    message = encoder.make_from(item)
                else:
                    message = encoder.make(item)
            except (TypeError, ValueError) as error:
                batch.fail(index, error)
                continue
            message.index = index
            try:
                if not self._confirms:
                    await self._write(message, due)
                    continue
                if not window.take(len(message.body)) and not await self._much_room(message, due):
                    return index
            except (DeadlineExceeded, ClientClosed):
                return index
            batch.left += 1
            transit.accept(message, due, batch)
            if transit.codec is not None and transit.codec.write_buffer.congested:
                await self._breathe(due)
        return None

    async def _much_room(self, message: Outgoing, due: float) -> bool:
        """Waits with a message of a batch until there is room for it and many more, and takes it; false if we were
        closed meanwhile."""
        self._transit.arm(due)
        await self._window.wait_for_much(due, self._loop)
        if self._closed_by is not None:
            return False
        if not self._window.take(len(message.body)):
            await self._room(message, due)
        return True

    async def _feed_made(self, batch: BatchWait, messages: list[Outgoing], due: float) -> int | None:
        """The same as _feed. Whatever cannot be written at once, for lack of room or of a channel, goes its way."""
        transit = self._transit
        place = 0
        while place < len(messages):
            if self._closed_by is not None:
                return place
            written = transit.accept_run(messages, place, due, batch)
            place += written
            if not written:
                message = messages[place]
                message.index = place
                try:
                    if not self._window.take(len(message.body)) and not await self._much_room(message, due):
                        return place
                except (DeadlineExceeded, ClientClosed):
                    return place
                batch.left += 1
                transit.accept(message, due, batch)
                place += 1
            if transit.codec is not None and transit.codec.write_buffer.congested:
                await self._breathe(due)
        return None

    async def _write(self, message: Outgoing, due: float) -> None:
        """Without confirms: written and forgotten, as soon as the socket takes it."""
        while self._transit.codec is None or self._is_congested:
            left = max(0.0, due - self._loop.time())
            if self._transit.codec is None:
                self._keeper.want()
                await within(left, f"to write a message ({self._why() or 'no channel'})", self._keeper.opened.wait())
            else:
                # No window bounds what is kept here while the broker does not read: the next one must wait outside.
                await self._room_to_write(left)
            self._check()
        self._transit.codec.publish(message)
        self.counters.published += 1
        if self._transit.codec.write_buffer.congested:
            await self._breathe(due)

    @property
    def _is_congested(self) -> bool:
        channel = self._keeper.channel
        return channel is not None and channel.link.is_congested

    async def _room_to_write(self, seconds: float) -> None:
        channel = self._keeper.channel
        assert channel is not None
        # With another link there may be room.
        with contextlib.suppress(ConnectionLost):
            await within(seconds, "to write a message (the broker does not read)", channel.link.room())

    # ---- its channel

    def _opened(self, channel: Channel) -> None:
        self._transit.use(channel.codec)
        if not self._confirms:
            channel.codec.owner = self._came_back

    def _ended(self, reason: ClientError) -> None:
        if not self._confirms:
            log.warning("a producer without confirms lost its channel", extra={"reason": str(reason)})
        self._transit.ended(reason)

    def _came_back(self, codec: ChannelCodec) -> None:
        """Without confirms nobody waits for it: it is counted and logged."""
        for code, text, stray in codec.take_strays():
            self.counters.returned += 1
            extra = {"exchange": stray.exchange, "routing_key": stray.routing_key, "code": code, "reason": text}
            log.warning("a message was returned", extra=extra)
        # Or nobody is told of the next one.
        codec.take_settled()

    def _why(self) -> str:
        """Why messages may not be confirmed at present; empty if nothing is known."""
        blocked = self._connection.blocked
        return f"the broker takes no messages: {blocked}" if blocked is not None else self._keeper.trouble

    # ---- a part of the connection

    async def restore(self, link: Link) -> None:
        await self._keeper.restore()

    def lost(self, reason: ClientError) -> None:
        # The channel has told it already.
        pass

    async def stop(self, reason: ClientError) -> None:
        # Without a connection nothing will be answered.
        is_open = self._connection.state is State.OPEN
        await self._stop(str(reason), self._connection.options.close_deadline_s if is_open else 0.0)

    async def close(self, deadline_s: float | None = None) -> None:
        """Takes no more messages, waits for the answers to those that are under way, and gives up what is not answered
        by then: whoever waits for it gets ClientClosed. Closing twice does nothing."""
        await self._stop("the producer was closed", self._deadline_s if deadline_s is None else deadline_s)
        self._connection.detach(self)

    async def _stop(self, reason: str, deadline_s: float) -> None:
        if self._closed_by is not None:
            return
        self._closed_by = ClientClosed(reason)
        opener = None
        try:
            if deadline_s > 0:
                with contextlib.suppress(DeadlineExceeded):
                    await self.flush(deadline_s)
        finally:
            # Also if whoever closes us is cancelled.
            self._transit.stop(reason)
            opener = self._keeper.stop()
        if opener is not None:
            await asyncio.gather(opener, return_exceptions=True)

    def _check(self) -> None:
        if self._closed_by is not None:
            raise fresh(self._closed_by)

    async def __aenter__(self) -> Producer:
        self._check()
        if self._keeper.channel is None:
            self._keeper.want()
            await within(self._deadline_s, "to open a producer", self._keeper.opened.wait())
            self._check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
