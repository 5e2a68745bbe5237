"""The topology manager's own channel: one question at a time, and a new channel after each refusal.

A broker answers a declare that it cannot grant by closing the channel, so declaring never shares one with publishers
or consumers. A question whose answer was lost with the connection is asked again: all of them may be asked twice.
Owned by the manager; recovery has one of its own, over the connection that is just coming up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from leveret.client.deadline import within
from leveret.client.errors import ChannelClosed, ClientError, ConnectionLost, DeadlineExceeded
from leveret.client.topology.conflict import conflict_from
from leveret.client.topology.handle import QueueHandle
from leveret.client.topology.methods import Thing
from leveret.client.topology.records import describe
from leveret.wire.method import Method

__all__ = ["Caller", "OpenChannel", "Until"]

# The broker, or an operator, ended the connection, and not because of what was asked on it.
CONNECTION_FORCED: Final = 320


class TopologyChannel(Protocol):
    """What of leveret.client.transport.channel.Channel is needed here."""

    @property
    def is_open(self) -> bool: ...

    async def call(self, method: Method, deadline_s: float | None = None) -> Method: ...

    async def close(self) -> None: ...


# Gives an open channel, waiting no longer than so many seconds for one.
OpenChannel = Callable[[float | None], Awaitable[TopologyChannel]]


class Until:
    """A deadline that several waits share."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = asyncio.get_running_loop().time() + seconds

    def left(self, what: str) -> float:
        left = self._end - asyncio.get_running_loop().time()
        if left <= 0:
            raise DeadlineExceeded(f"{what} took longer than {self._seconds:g} s")
        return left


class Caller:
    def __init__(self, open_channel: OpenChannel, repeats: bool = True) -> None:
        self._open_channel = open_channel
        # Whether a question is asked again over the next connection.
        self._repeats = repeats
        self._turn = asyncio.Lock()
        self._channel: TopologyChannel | None = None
        # Channels whose answers nobody waits for any more; closed when the next one is opened.
        self._left: list[TopologyChannel] = []

    async def call(self, make: Callable[[], Method], about: Thing | QueueHandle, until: Until) -> Method:
        """The answer to the method that `make` makes, anew for each attempt: a queue may have another name by then.
        Raises TopologyConflict if the thing is there and is different, ChannelClosed if the broker
        refuses for another reason, ConnectionLost if it ends the connection because of this."""
        what = describe(about)
        await within(until.left(what), f"the turn of {what}", self._turn.acquire())
        try:
            while True:
                try:
                    return await self._ask(make, what, until)
                except ConnectionLost as lost:
                    if not self._repeats or lost.code not in (None, CONNECTION_FORCED):
                        raise
        finally:
            self._turn.release()

    async def call_all(self, methods: Sequence[Method], what: str, until: Until) -> list[Method]:
        """Asks all of it in one go, for a connection that is far away. The channel ends with the first that is refused,
        and then nobody knows which it was; whoever calls this asks one by one after that."""
        async with self._turn:
            channel = await self._opened(what, until)
            calls = (channel.call(method, until.left(what)) for method in methods)
            answers = await asyncio.gather(*calls, return_exceptions=True)
        failure = next((answer for answer in answers if isinstance(answer, BaseException)), None)
        if failure is not None:
            raise failure
        return [answer for answer in answers if isinstance(answer, Method)]

    async def _ask(self, make: Callable[[], Method], what: str, until: Until) -> Method:
        channel = await self._opened(what, until)
        try:
            answer = await channel.call(make(), until.left(what))
        except ChannelClosed as error:
            self._channel = None
            conflict = conflict_from(what, error)
            if conflict is not None:
                raise conflict from None
            error.add_note(f"while asking about {what}")
            raise
        except BaseException:
            # Gone, late or cancelled: an answer may still come, and must not be taken for the next one's.
            self._channel = None
            self._left.append(channel)
            raise
        return answer

    async def _opened(self, what: str, until: Until) -> TopologyChannel:
        await self._close_left()
        channel = self._channel
        if channel is None or not channel.is_open:
            channel = self._channel = await self._open_channel(until.left(f"a channel for {what}"))
        return channel

    async def close(self) -> None:
        if self._channel is not None:
            self._left.append(self._channel)
            self._channel = None
        await self._close_left()

    async def _close_left(self) -> None:
        while self._left:
            channel = self._left.pop()
            if channel.is_open:
                with suppress(ClientError):
                    await channel.close()
