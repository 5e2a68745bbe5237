"""A channel of the pool in somebody's hands: publishes here, confirms here, and nobody else's in between.

Nothing is sent again after a lost connection; that is what producers are for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Unpack

from leveret.client.errors import BatchFailed, ClientClosed, ClientError, DeadlineExceeded, fresh
from leveret.client.message import Body, MessageProperties
from leveret.client.publishing.confirmation import Confirmation, failure_of
from leveret.client.publishing.message_encoder import MessageEncoder
from leveret.client.publishing.positional import NOT_GIVEN, as_named
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing

__all__ = ["Borrowing", "Lender", "PooledChannel"]


class Lender(Protocol):
    """The pool, as a borrower sees it."""

    async def take(self, deadline_s: float, on_end: Callable[[ClientError], None]) -> Channel: ...

    def put(self, channel: Channel) -> None: ...


class PooledChannel:
    """What `pool.borrow()` gives. `channel` is the raw channel, for anything that AMQP can do."""

    def __init__(self, confirm_deadline_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._encoder = MessageEncoder()
        self._confirm_deadline_s = confirm_deadline_s
        self._channel: Channel | None = None
        # Futures by their place among all that was published here; those that failed since somebody asked last.
        self._open: dict[Outgoing, tuple[int, Confirmation]] = {}
        self._failures: list[tuple[int, Exception, Confirmation]] = []
        self._count = 0
        self._idle: asyncio.Future[None] | None = None

    @property
    def channel(self) -> Channel:
        if self._channel is None:
            raise ClientClosed("the channel was given back to the pool")
        return self._channel

    @property
    def outstanding(self) -> int:
        """Messages that are not confirmed yet."""
        return len(self._open)

    def publish(
        self,
        body: Body = b"",
        routing_key: str | None = None,
        content: Body = NOT_GIVEN,
        properties: Mapping[str, Any] | None = None,
        *,
        exchange: str | None = None,
        mandatory: bool = True,
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        **named: Unpack[MessageProperties],
    ) -> Confirmation:
        """Writes a message at once. Await what it gives for the broker's answer, or `wait_confirms` for all of them.
        Also publish(exchange, routing_key, content, properties), as other clients have it."""
        if content is not NOT_GIVEN or properties is not None:
            body, exchange, headers, message_id, named = as_named(
                body, content, exchange, headers, message_id, properties, named
            )
        channel = self.channel
        channel.check()
        message = self._encoder.make(body, exchange, routing_key, mandatory, headers, message_id, named)
        channel.codec.publish(message)
        confirmation = Confirmation(message, self._drop, self._loop)
        self._open[message] = (self._count, confirmation)
        self._count += 1
        return confirmation

    async def wait_confirms(self, deadline_s: float | None = None) -> None:
        """Until the broker has answered for everything that was published. Raises BatchFailed with those messages that
        failed since this was asked last, counted from the first publish in this block."""
        failures = await self._all_answered(deadline_s)
        for _, _, confirmation in failures:
            # Told by what is raised here: asyncio need not complain that nobody has asked the future.
            confirmation.exception()
        if failures:
            raise BatchFailed([(index, error) for index, error, _ in failures])

    async def wait_for_confirms(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the documents' name
        """Whether the broker has confirmed everything that was published: False if some of it failed since this was
        asked last, or was not answered for within `timeout` seconds. `wait_confirms` says what it was."""
        try:
            await self.wait_confirms(timeout)
        except (BatchFailed, DeadlineExceeded):
            return False
        return True

    async def _all_answered(self, deadline_s: float | None) -> list[tuple[int, Exception, Confirmation]]:
        """Waits for all answers; those messages that failed and that nobody was told of."""
        seconds = self._confirm_deadline_s if deadline_s is None else deadline_s
        try:
            async with asyncio.timeout(seconds):
                while self._open:
                    if self._idle is None:
                        self._idle = self._loop.create_future()
                    await asyncio.shield(self._idle)
        except TimeoutError:
            raise DeadlineExceeded(f"{len(self._open)} messages were not confirmed within {seconds:g} s") from None
        failures, self._failures = self._failures, []
        return failures

    # ---- for the one who lends it

    def begin(self, channel: Channel) -> None:
        self._channel = channel
        channel.codec.take_settled()
        channel.codec.owner = self._answered

    def ended(self, reason: ClientError) -> None:
        """The channel is gone: what was answered before that counts, the rest nobody knows."""
        assert self._channel is not None
        self._answered(self._channel.codec)
        for message in list(self._open):
            self._settle(message, fresh(reason))

    async def finish(self) -> Channel:
        """Waits for what is outstanding; then this object can do nothing any more. If that takes too long the channel
        is given up."""
        assert self._channel is not None
        channel = self._channel
        try:
            # Each of those that failed has told whoever waits for it, or is logged by asyncio if nobody does.
            await self._all_answered(None)
        except BaseException as error:
            text = str(error) if isinstance(error, DeadlineExceeded) else "the wait for its confirms was cancelled"
            channel.give_up(DeadlineExceeded(text))
            raise
        finally:
            self._channel = None
        return channel

    def _answered(self, codec: ChannelCodec) -> None:
        for message in codec.take_settled():
            self._settle(message, failure_of(message))
        codec.take_strays()

    def _settle(self, message: Outgoing, error: ClientError | None) -> None:
        index, confirmation = self._open.pop(message, (0, None))
        if confirmation is not None:
            if error is not None:
                self._failures.append((index, error, confirmation))
            confirmation.settle(error)
        self._look_around()

    def _drop(self, message: Outgoing) -> None:
        self._open.pop(message, None)
        if self._channel is not None:
            self._channel.codec.forget(message)
        self._look_around()

    def _look_around(self) -> None:
        if not self._open and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None


class Borrowing:
    """Enter it: `async with pool.borrow() as channel`."""

    def __init__(self, pool: Lender, deadline_s: float, confirm_deadline_s: float) -> None:
        self._pool = pool
        self._deadline_s = deadline_s
        self._confirm_deadline_s = confirm_deadline_s
        self._face: PooledChannel | None = None
        self._channel: Channel | None = None

    async def __aenter__(self) -> PooledChannel:
        face = PooledChannel(self._confirm_deadline_s)
        self._channel = await self._pool.take(self._deadline_s, face.ended)
        face.begin(self._channel)
        self._face = face
        return face

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._face is not None and self._channel is not None
        try:
            await self._face.finish()
        finally:
            self._pool.put(self._channel)
