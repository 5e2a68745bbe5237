"""Single messages from queues, without a consumer.

A delivery is settled over the channel that it came by, so that one must stay; and a queue that is not there ends the
channel on which it was asked. So a channel is used again only when nothing of it is unsettled."""

from __future__ import annotations

from typing import Final

from leveret.client.deadline import within
from leveret.client.errors import ConnectionLost
from leveret.client.owner import Owner
from leveret.client.transport.channel import Channel
from leveret.core.client.delivery import Delivery

__all__ = ["Getter"]

# For so many messages that are unsettled at once; further ones share.
CHANNELS_MAX: Final = 16


class Getter:
    """One for a connection. Its channels end with that."""

    def __init__(self, connection: Owner) -> None:
        self._connection = connection
        self._channels: list[Channel] = []
        self._busy: dict[Channel, int] = {}

    async def get(self, queue: str, no_ack: bool, deadline_s: float) -> Delivery | None:
        return await within(deadline_s, f"a message from queue {queue!r}", self._get(queue, no_ack, deadline_s))

    async def _get(self, queue: str, no_ack: bool, deadline_s: float) -> Delivery | None:
        while True:
            channel = await self._channel(deadline_s)
            self._busy[channel] = self._busy.get(channel, 0) + 1
            try:
                return await channel.get(queue, no_ack, deadline_s)
            except ConnectionLost:
                # What needs no answer may be gone for good, so its user is told.
                if no_ack:
                    raise
            finally:
                self._busy[channel] -= 1
                if not self._busy[channel]:
                    del self._busy[channel]

    async def _channel(self, deadline_s: float) -> Channel:
        self._channels = [channel for channel in self._channels if channel.is_open]
        for channel in self._channels:
            if channel not in self._busy and not channel.codec.unsettled_count:
                return channel
        if len(self._channels) >= CHANNELS_MAX:
            return min(self._channels, key=lambda one: (self._busy.get(one, 0), one.codec.unsettled_count))
        channel = await self._connection.channel(deadline_s)
        self._channels.append(channel)
        return channel
