"""Who waits for the broker's answer to a message: a future for a single one, a count for a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from leveret.client.errors import ChannelClosed, ClientError, Refused, Unroutable
from leveret.core.client.outgoing import Outgoing
from leveret.core.codec.names import name_text

__all__ = ["BatchWait", "Confirmation", "failure_of", "is_named_in"]


class Confirmation(asyncio.Future[None]):
    """Done when the broker has answered for the message. To cancel it, or the task that awaits it, is to give the
    message up: if it was not sent yet it never is; if it was, nobody learns what became of it, and it is not sent
    again."""

    def __init__(self, message: Outgoing, drop: Callable[[Outgoing], None], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        # None once it is answered for: nobody needs its body any more.
        self.message: Outgoing | None = message
        self._octets: bytes = message.message_id
        self._drop = drop

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        if self.message is not None:
            self._drop(self.message)
            self.message = None
        return True

    @property
    def message_id(self) -> str:
        return name_text(self._octets)

    def settle(self, error: Exception | None) -> None:
        if self.done():
            return
        self.message = None
        if error is None:
            self.set_result(None)
        else:
            self.set_exception(error)


class BatchWait:
    """Many messages that one waits for: they are counted, and only those that fail are looked at."""

    __slots__ = ("done", "failures", "left", "sealed")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done: asyncio.Future[None] = loop.create_future()
        # Sent and not answered for.
        self.left = 0
        # No more messages come.
        self.sealed = False
        self.failures: list[tuple[int, Exception]] = []

    def finish(self) -> None:
        if self.sealed and self.left == 0 and not self.done.done():
            self.done.set_result(None)

    def fail(self, index: int, error: Exception) -> None:
        self.failures.append((index, error))

    async def wait(self) -> None:
        self.sealed = True
        self.finish()
        await self.done


def failure_of(message: Outgoing) -> ClientError | None:
    """What the broker's answer means, None if all is well."""
    if message.is_confirmed:
        return None
    exchange, key = message.exchange(), message.routing_key()
    message_id = name_text(message.message_id)
    if message.is_returned:
        text = message.reply_text.decode("utf-8", "replace")
        return Unroutable(exchange, key, message.reply_code, text, message_id)
    return Refused(exchange, key, message_id)


def is_named_in(error: ChannelClosed, message: Outgoing) -> bool:
    """Whether the broker's words are about where this message goes. It says no number, only a name."""
    if f"exchange '{message.exchange()}' in vhost" not in error.text:
        return False
    return "topic '" not in error.text or f"topic '{message.routing_key()}' in exchange" in error.text
