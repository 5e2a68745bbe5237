"""One AMQP channel on one link: questions and answers, messages out and in. It ends once, with a reason.

It never recovers; what lives longer (producers, consumers, the topology) opens another one. Questions are answered in
their order, so several may be under way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from leveret.client.errors import ChannelClosed, ClientClosed, ClientError, ConnectionLost, DeadlineExceeded, again
from leveret.client.link import Link
from leveret.core.client.delivery import Delivery
from leveret.core.client.lane import Lane, Sink
from leveret.wire.basic_methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicQos,
)
from leveret.wire.channel_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
)
from leveret.wire.codec import decode_method, method_name
from leveret.wire.confirm_methods import ConfirmSelect
from leveret.wire.method import Method

GOODBYE = 200
CLOSE_DEADLINE_S = 5.0


class Channel:
    def __init__(self, link: Link, number: int, deadline_s: float) -> None:
        self._link = link
        self.number = number
        self._deadline_s = deadline_s
        # Who waits for an answer, the first first.
        self._asked: deque[asyncio.Future[Any]] = deque()
        self.closed_by: ClientError | None = None
        self._on_end: list[Callable[[ClientError], None]] = []
        # Called when the broker cancels a consumer, by its tag.
        self._on_cancel: dict[str, Callable[[], None]] = {}
        self.lane: Lane = link.add_channel(number, self._handle, self._end)

    @classmethod
    async def open(cls, link: Link, deadline_s: float) -> Channel:
        """Raises ConnectionLost if the link is gone, ClientError if it has no channel left."""
        link.check()
        number = link.free_number()
        if not number:
            raise ClientError(f"all {link.agreed.channel_max} channels of the connection are in use")
        channel = cls(link, number, deadline_s)
        await channel.call(ChannelOpen())
        return channel

    @property
    def is_open(self) -> bool:
        return self.closed_by is None

    @property
    def link(self) -> Link:
        return self._link

    def check(self) -> None:
        """Raises what the channel ended with, if it did."""
        if self.closed_by is not None:
            raise again(self.closed_by)

    def on_end(self, call: Callable[[ClientError], None]) -> None:
        """Calls this once with the reason when the channel ends; at once if it has."""
        if self.closed_by is not None:
            call(self.closed_by)
        else:
            self._on_end.append(call)

    # ---- questions and answers

    async def call(self, method: Method, deadline_s: float | None = None) -> Any:
        """The broker's answer. Raises ChannelClosed if it says no, ConnectionLost, or DeadlineExceeded: then the
        channel is given up, because an answer may come later."""
        self.check()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._link.send(self.number, method)
        self._asked.append(answer)
        seconds = self._deadline_s if deadline_s is None else deadline_s
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            late = DeadlineExceeded(f"the broker did not answer {method_name(method.METHOD)} within {seconds:g} s")
            self.give_up(late)
            raise late from None

    def send(self, method: Method) -> None:
        """For what has no answer."""
        self.check()
        self._link.send(self.number, method)

    def _handle(self, method_id: int, arguments: Any) -> None:
        if self.closed_by is not None:
            self._handle_late(method_id)
            return
        if isinstance(arguments, Delivery):
            self._answer(arguments)
            return
        method = decode_method(method_id, arguments)
        if isinstance(method, ChannelClose):
            self._link.send(self.number, ChannelCloseOk())
            self._link.drop_channel(self.number)
            cause = method.class_id << 16 | method.method_id
            self._end(ChannelClosed(method.reply_code, method.reply_text, method_name(cause) if cause else None))
        elif isinstance(method, BasicCancel):
            cancelled = self._on_cancel.pop(method.consumer_tag, None)
            if cancelled is not None:
                cancelled()
        elif isinstance(method, ChannelFlow):
            self._link.send(self.number, ChannelFlowOk(method.active))
        else:
            self._answer(method)

    def _handle_late(self, method_id: int) -> None:
        """Given up: only the end counts, with which the number is free again."""
        if method_id == ChannelClose.METHOD:
            self._link.send(self.number, ChannelCloseOk())
        if method_id in (ChannelClose.METHOD, ChannelCloseOk.METHOD):
            self._link.drop_channel(self.number)

    def _answer(self, answer: Any) -> None:
        if self._asked:
            waiting = self._asked.popleft()
            if not waiting.done():
                waiting.set_result(answer)
        else:
            self._link.fail(ConnectionLost(f"the broker answered what nobody asked: {type(answer).__name__}"))

    # ---- messages

    async def confirm(self) -> None:
        """From now on the broker confirms what is published here. Asking twice does nothing."""
        if not self.lane.confirming:
            await self.call(ConfirmSelect())
            self.lane.confirming = True

    async def prefetch(self, count: int) -> None:
        """How many unsettled deliveries the consumers to come on this channel may have each; 0 is any number."""
        await self.call(BasicQos(prefetch_count=count))

    async def get(self, queue: str, no_ack: bool = False, deadline_s: float | None = None) -> Delivery | None:
        """One message, or None if there is none."""
        answer = await self.call(BasicGet(queue, no_ack), deadline_s)
        if not isinstance(answer, Delivery):
            return None
        if no_ack:
            answer.mark_settled()
        return answer

    async def consume(
        self,
        queue: str,
        sink: Sink,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: dict[str, Any] | None = None,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        """Deliveries come into the sink from now on. Its tag is the consumer's, chosen by us: the first delivery may
        come together with the broker's answer."""
        self.check()
        tag = sink.tag.decode("utf-8", "surrogateescape")
        self.lane.sinks[sink.tag] = sink
        sink.no_ack = no_ack
        if on_cancel is not None:
            self._on_cancel[tag] = on_cancel
        try:
            await self.call(BasicConsume(queue, tag, no_ack=no_ack, exclusive=exclusive, arguments=arguments or {}))
        except BaseException:
            self.lane.sinks.pop(sink.tag, None)
            self._on_cancel.pop(tag, None)
            raise

    async def cancel(self, sink: Sink, deadline_s: float | None = None) -> None:
        """No more deliveries; those that are in the sink remain."""
        tag = sink.tag.decode("utf-8", "surrogateescape")
        self._on_cancel.pop(tag, None)
        try:
            await self.call(BasicCancel(tag), deadline_s)
        finally:
            self.lane.sinks.pop(sink.tag, None)

    # ---- the end

    async def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        if self.closed_by is not None:
            return
        with contextlib.suppress(ClientError):
            await self.call(ChannelClose(GOODBYE, "goodbye"), deadline_s)
        self._link.drop_channel(self.number)
        self._end(ClientClosed("the channel was closed"))

    def give_up(self, reason: ClientError) -> None:
        """Nobody knows any more what the broker thinks of this channel: it is closed without waiting. Its number is not
        used again before the broker has answered."""
        if self.closed_by is not None:
            return
        with contextlib.suppress(ClientError):
            self.send(ChannelClose(GOODBYE, "given up"))
        self._end(reason)

    def _end(self, reason: ClientError) -> None:
        if self.closed_by is not None:
            return
        self.closed_by = reason
        self.lane.is_open = False
        for waiting in self._asked:
            if not waiting.done():
                waiting.set_exception(reason)
                # Whoever asked may have been cancelled: then nobody looks.
                waiting.exception()
        calls, self._on_end = self._on_end, []
        for call in calls:
            call(reason)
