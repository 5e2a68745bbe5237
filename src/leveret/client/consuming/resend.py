"""A delivery published once more elsewhere, and confirmed there: to a parking lot, or to a later step of retries.

One at a time on a channel of its own, so that whatever the broker sends back belongs to the one that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from leveret.client.deadline import within
from leveret.client.errors import ClientClosed, ClientError, DeadlineExceeded, Refused, Unroutable, again
from leveret.client.owner import Owner
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.delivery import Delivery
from leveret.core.client.outgoing import MANDATORY, Outgoing, make_address
from leveret.core.codec.names import name_octets

__all__ = ["Resender"]

# Not for a copy: it must not expire where it is to stay, and brokers take no message in another user's name.
LEFT_OUT: Final = ("expiration", "user_id")


class Resender:
    def __init__(self, connection: Owner) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()
        self._channel: Channel | None = None
        self._answered: asyncio.Future[Outgoing] | None = None

    async def resend(
        self, delivery: Delivery, exchange: str, routing_key: str, headers: Mapping[str, Any], deadline_s: float
    ) -> None:
        """Returns when the broker has it. Raises Unroutable, Refused, DeadlineExceeded or why the channel ended: then
        it may or may not be there."""
        changes: dict[str, Any] = dict.fromkeys(LEFT_OUT)
        changes["headers"] = dict(headers)
        raw = delivery.properties.replace(changes).raw
        what = f"the copy of a message to exchange {exchange!r} with the routing key {routing_key!r}"
        await within(deadline_s, what, self._in_turn(delivery, raw, exchange, routing_key, deadline_s))

    async def _in_turn(self, delivery: Delivery, raw: bytes, exchange: str, key: str, deadline_s: float) -> None:
        async with self._turn:
            channel = await self._opened(deadline_s)
            message_id = delivery.message_id or ""
            octets = name_octets(message_id)
            outgoing = Outgoing(make_address(exchange, key), raw, delivery.body, octets, MANDATORY)
            self._answered = asyncio.get_running_loop().create_future()
            try:
                channel.codec.publish(outgoing)
                await self._answered
            except BaseException:
                # A late answer must not be taken for the next one's.
                channel.give_up(DeadlineExceeded("a confirm did not come in time"))
                raise
            finally:
                self._answered = None
            strays = channel.codec.take_strays()
            if strays or outgoing.is_returned:
                code, text = (outgoing.reply_code, outgoing.reply_text) if not strays else strays[0][:2]
                words = text.decode("utf-8", "replace")
                raise Unroutable(exchange, key, code, words, message_id)
            if outgoing.is_refused:
                raise Refused(exchange, key, message_id)

    async def _opened(self, deadline_s: float) -> Channel:
        if self._channel is None or not self._channel.is_open:
            channel = await self._connection.channel(deadline_s)
            try:
                await channel.confirm()
            except BaseException:
                channel.give_up(ClientClosed("nobody needs it any more"))
                raise
            channel.codec.owner = self._on_answer
            channel.on_end(self._on_end)
            self._channel = channel
        return self._channel

    def _on_answer(self, codec: ChannelCodec) -> None:
        settled = codec.take_settled()
        if settled and self._answered is not None and not self._answered.done():
            self._answered.set_result(settled[-1])

    def _on_end(self, reason: ClientError) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(again(reason))

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
