"""Channels of the pool, borrowed by threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from leveret.client.blocking.channel import Channel
from leveret.client.blocking.producer import Confirmation
from leveret.client.blocking.way import Face
from leveret.client.message import Body, MessageProperties
from leveret.client.publishing.pool import Pool as AsyncPool
from leveret.client.publishing.pool import PoolStatistics
from leveret.client.publishing.pooled_channel import PooledChannel as AsyncPooledChannel
from leveret.client.publishing.positional import NOT_GIVEN

__all__ = ["Pool", "PooledChannel"]


class PooledChannel(Face[AsyncPooledChannel]):
    """A channel of the pool in one thread's hands. Nothing is sent again after a lost connection; that is what
    producers are for."""

    @property
    def channel(self) -> Channel:
        """The raw channel, for anything that AMQP can do."""
        return Channel(self._way, self._inner.channel)

    @property
    def outstanding(self) -> int:
        """Messages that are not confirmed yet."""
        return self._inner.outstanding

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
        """Writes a message. `wait()` on what it gives waits for the broker's answer, `wait_confirms` for all of
        them. Also publish(exchange, routing_key, content, properties), as other clients have it."""

        def publish() -> Confirmation:
            inner = self._inner.publish(
                body,
                routing_key,
                content,
                properties,
                exchange=exchange,
                mandatory=mandatory,
                headers=headers,
                message_id=message_id,
                **named,
            )
            return Confirmation(self._way.bridge, inner, self._way.deadline_s)

        return self._way.bridge.do(publish)

    def wait_confirms(self, deadline_s: float | None = None) -> None:
        """Until the broker has answered for everything that was published. Raises BatchFailed with what failed."""
        self._way.call(deadline_s, self._inner.wait_confirms, deadline_s)

    def wait_for_confirms(self, timeout: float | None = None) -> bool:
        """Whether the broker has confirmed everything that was published: False if some of it failed since this was
        asked last, or was not answered for within `timeout` seconds."""
        return self._way.call(timeout, self._inner.wait_for_confirms, timeout)


class Pool(Face[AsyncPool]):
    """Use `connection.pool`."""

    @property
    def statistics(self) -> PoolStatistics:
        return self._way.bridge.do(lambda: self._inner.statistics)

    def fill(self, deadline_s: float | None = None) -> None:
        """Opens the channels that the pool keeps, and waits until all are idle or in use."""
        self._way.call(deadline_s, self._inner.fill, deadline_s)

    @contextmanager
    def borrow(
        self, deadline_s: float | None = None, confirm_deadline_s: float | None = None
    ) -> Iterator[PooledChannel]:
        """A channel for oneself: `with connection.pool.borrow() as channel`. `deadline_s` is for getting one. At the
        end of the block the pool takes it back when everything that was published is confirmed; after
        `confirm_deadline_s` it is thrown away instead, and DeadlineExceeded raised."""
        borrowing = self._inner.borrow(deadline_s, confirm_deadline_s)

        async def give_back(_: object = None) -> None:
            await borrowing.__aexit__(None, None, None)

        inner = self._way.acquire(give_back, deadline_s, borrowing.__aenter__)
        try:
            yield PooledChannel(self._way, inner)
        finally:
            self._way.call(confirm_deadline_s, give_back)
