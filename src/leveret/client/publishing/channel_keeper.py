"""A place in the pool and a channel in it, another one whenever that has ended: for as long as a producer lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from leveret.client.backoff import backoff_s
from leveret.client.errors import ClientClosed, ClientError, ConnectionLost
from leveret.client.owner import Owner
from leveret.client.publishing.pool import Pool
from leveret.client.transport.channel import Channel

__all__ = ["ChannelKeeper"]

log = logging.getLogger(__name__)

# Between attempts to open a channel on a connection that is there.
PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 1.0


class ChannelKeeper:
    """`on_open` is told of each channel, `on_end` why one has ended. Between the two there is one."""

    def __init__(
        self,
        connection: Owner,
        pool: Pool,
        confirms: bool,
        deadline_s: float,
        on_open: Callable[[Channel], None],
        on_end: Callable[[ClientError], None],
    ) -> None:
        self._connection = connection
        self._pool = pool
        self._confirms = confirms
        self._deadline_s = deadline_s
        self._on_open = on_open
        self._on_end = on_end
        self.channel: Channel | None = None
        # Set while there is a channel, and at the end, so that nobody waits for one.
        self.opened = asyncio.Event()
        # Why there is none, as far as that is known.
        self.trouble = ""
        # Of the pool's places one is ours, with a channel in it or not.
        self._has_place = False
        self._opener: asyncio.Task[None] | None = None
        self._is_stopped = False

    def want(self) -> None:
        """Somebody needs a channel. Does nothing if one is there, or about to be."""
        if self.channel is None and self._opener is None and not self._is_stopped:
            self._opener = asyncio.get_running_loop().create_task(self._open(), name="leveret-producer")

    async def restore(self) -> None:
        """There is another link. Raises ClientError if it has no channel for us; then it is tried further."""
        if self._has_place:
            try:
                await self._open_now()
            except ClientError:
                self.want()
                raise

    async def _open(self) -> None:
        """However often that fails; while the connection is lost it waits for that."""
        failures = 0
        try:
            while self.channel is None and not self._is_stopped:
                try:
                    await self._connection.ready(self._deadline_s)
                    await self._open_now()
                except ClientClosed:
                    # Of the connection, which stops us too.
                    return
                except ConnectionLost as error:
                    self.trouble = str(error)
                except ClientError as error:
                    self.trouble = str(error)
                    failures += 1
                    pause = backoff_s(PAUSE_MIN_S, PAUSE_MAX_S, failures)
                    log.warning(
                        "no channel for a producer: %s", self.trouble, extra={"reason": self.trouble, "pause_s": pause}
                    )
                    await asyncio.sleep(pause)
        finally:
            self._opener = None

    async def _open_now(self) -> None:
        if self.channel is not None:
            return
        if self._has_place:
            channel = await self._pool.reopen(self._deadline_s, self._ended, self._confirms)
        else:
            channel = await self._pool.take(self._deadline_s, self._ended, self._confirms)
            self._has_place = True
        if self._is_stopped or self.channel is not None or not channel.is_open:
            # Stopped meanwhile, or somebody else has opened one, or it has ended before we knew of it.
            self._pool.leave(channel)
            channel.give_up(ClientClosed("the channel was not needed"))
            return
        self.trouble = ""
        self.channel = channel
        self._on_open(channel)
        self.opened.set()

    def _ended(self, reason: ClientError) -> None:
        channel, self.channel = self.channel, None
        if channel is not None:
            self.opened.clear()
            self.trouble = str(reason)
            self._pool.leave(channel)
            self._on_end(reason)

    def stop(self) -> asyncio.Task[None] | None:
        """Gives the channel and its place back. Gives a task if one is left, which ends soon."""
        self._is_stopped = True
        self.opened.set()
        opener = self._opener
        if opener is not None:
            opener.cancel()
        channel, self.channel = self.channel, None
        if channel is not None:
            self._pool.put(channel)
        elif self._has_place:
            self._pool.free()
        self._has_place = False
        return opener
