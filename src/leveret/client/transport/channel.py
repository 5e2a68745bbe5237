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
from leveret.client.transport.link import Link
from leveret.core.client.channel_codec import ChannelCodec, DeliveryBuffer
from leveret.core.client.delivery import Delivery
from leveret.core.codec.names import name_octets, name_text
from leveret.wire.basic_methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
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
from leveret.wire.exchange_methods import ExchangeUnbind, ExchangeUnbindOk
from leveret.wire.method import Method

GOODBYE = 200
CLOSE_DEADLINE_S = 5.0

# An answer's number follows its question's, but for these.
ODD_ANSWERS = {(BasicGet.METHOD, BasicGetEmpty.METHOD), (ExchangeUnbind.METHOD, ExchangeUnbindOk.METHOD)}

# What is done with an answer for which nobody waits any more.
Unclaimed = Callable[[Any], None]


class Channel:
    def __init__(self, link: Link, number: int, deadline_s: float) -> None:
        self._link = link
        self.number = number
        self._deadline_s = deadline_s
        # Who waits for an answer, the first first, and to which method. One who was cancelled keeps his place: the
        # answer comes.
        self._asked: deque[tuple[asyncio.Future[Any], Unclaimed | None, int]] = deque()
        # Our channel.close is sent: nothing may follow it, and the number is in use until it is answered.
        self._close_sent = False
        self.closed_by: ClientError | None = None
        self._on_end: list[Callable[[ClientError], None]] = []
        # Called when the broker cancels a consumer, by its tag.
        self._on_cancel: dict[str, Callable[[], None]] = {}
        self.codec: ChannelCodec = link.add_channel(number, self._handle, self._end)

    @classmethod
    async def open(cls, link: Link, deadline_s: float, open_deadline_s: float | None = None) -> Channel:
        """`deadline_s` is for all questions to come, and for this one unless it has one of its own. Raises
        ConnectionLost if the link is gone, ClientError if it has no channel left."""
        link.check()
        number = link.free_number()
        if not number:
            raise ClientError(f"all {link.agreed.channel_max} channels of the connection are in use")
        channel = cls(link, number, deadline_s)
        try:
            await channel.call(ChannelOpen(), open_deadline_s)
        except BaseException:
            channel.give_up(ClientClosed("it was given up before it was open"))
            raise
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
        if self._close_sent:
            raise ClientClosed("the channel is being closed")

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
        return await self._answered(self._ask(method), method, deadline_s)

    def _ask(self, method: Method, unclaimed: Unclaimed | None = None) -> asyncio.Future[Any]:
        self.check()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._link.send(self.number, method)
        self._asked.append((answer, unclaimed, method.METHOD))
        return answer

    async def _answered(
        self,
        answer: asyncio.Future[Any],
        method: Method,
        deadline_s: float | None,
        unclaimed: Unclaimed | None = None,
    ) -> Any:
        seconds = self._deadline_s if deadline_s is None else deadline_s
        try:
            async with asyncio.timeout(seconds) as limit:
                return await answer
        except TimeoutError:
            # The channel may have ended with the deadline of another question.
            if not limit.expired():
                raise
            late = DeadlineExceeded(f"the broker did not answer {method_name(method.METHOD)} within {seconds:g} s")
            self.give_up(late)
            raise late from None
        except asyncio.CancelledError:
            # In the very moment in which the answer came.
            if unclaimed is not None and not answer.cancelled() and answer.exception() is None:
                unclaimed(answer.result())
            raise

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
            if not self._close_sent:
                self._link.drop_channel(self.number)
            cause = method.class_id << 16 | method.method_id
            self._end(ChannelClosed(method.reply_code, method.reply_text, method_name(cause) if cause else None))
        elif isinstance(method, BasicCancel):
            self.codec.delivery_buffers.pop(name_octets(method.consumer_tag), None)
            cancelled = self._on_cancel.pop(method.consumer_tag, None)
            if cancelled is not None:
                cancelled()
        elif isinstance(method, ChannelFlow):
            self._link.send(self.number, ChannelFlowOk(method.active))
        elif isinstance(method, ChannelCloseOk) and self._close_sent:
            self._link.drop_channel(self.number)
            self._answer(method)
        else:
            self._answer(method)

    def _handle_late(self, method_id: int) -> None:
        """Given up: only the answer to our close counts, with which the number is free again. The broker's own close
        may have crossed it, and it answers nevertheless."""
        if method_id == ChannelClose.METHOD:
            self._link.send(self.number, ChannelCloseOk())
        elif method_id == ChannelCloseOk.METHOD:
            self._link.drop_channel(self.number)

    def _answer(self, answer: Any) -> None:
        if not self._asked or not _answers(self._asked[0][2], answer):
            self._link.fail(ConnectionLost(f"the broker answered what nobody asked: {type(answer).__name__}"))
            return
        waiting, unclaimed, _ = self._asked.popleft()
        if not waiting.done():
            waiting.set_result(answer)
        elif unclaimed is not None:
            unclaimed(answer)

    # ---- messages

    async def confirm(self) -> None:
        """From now on the broker confirms what is published here. Asking twice does nothing."""
        if not self.codec.confirming:
            answer = self._ask(ConfirmSelect())
            # The broker counts what is written after the question, not after its answer.
            self.codec.confirming = True
            await self._answered(answer, ConfirmSelect(), None)

    async def prefetch(self, count: int, size: int = 0) -> None:
        """How many unsettled deliveries, and how many bytes of them, the consumers to come on this channel may have
        each; 0 is any number. RabbitMQ knows no size, and closes the connection with 540."""
        await self.call(BasicQos(prefetch_size=size, prefetch_count=count))

    async def get(self, queue: str, no_ack: bool = False, deadline_s: float | None = None) -> Delivery | None:
        """One message, or None if there is none."""
        question = BasicGet(queue, no_ack)

        def give_back(answer: Any) -> None:
            if isinstance(answer, Delivery) and not answer.is_stale and not no_ack:
                answer.nack(requeue=True)

        answer = await self._answered(self._ask(question, give_back), question, deadline_s, give_back)
        if not isinstance(answer, Delivery):
            return None
        if no_ack:
            answer.mark_settled()
        return answer

    async def consume(
        self,
        queue: str,
        delivery_buffer: DeliveryBuffer,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: dict[str, Any] | None = None,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        """Deliveries come into the delivery buffer from now on. Its tag is the consumer's, chosen by us: the first
        delivery may come together with the broker's answer."""
        self.check()
        tag = name_text(delivery_buffer.tag)
        self.codec.delivery_buffers[delivery_buffer.tag] = delivery_buffer
        delivery_buffer.no_ack = no_ack
        if on_cancel is not None:
            self._on_cancel[tag] = on_cancel
        try:
            await self.call(BasicConsume(queue, tag, no_ack=no_ack, exclusive=exclusive, arguments=arguments or {}))
        except BaseException as error:
            self._on_cancel.pop(tag, None)
            if isinstance(error, asyncio.CancelledError) and self.is_open:
                self._withdraw(delivery_buffer, no_ack)
            else:
                self.codec.delivery_buffers.pop(delivery_buffer.tag, None)
            raise

    def _withdraw(self, delivery_buffer: DeliveryBuffer, no_ack: bool) -> None:
        """Whoever wanted this consumer does not wait for it: it is cancelled, and what came for it goes back."""

        def give_back(_: Any) -> None:
            self.codec.delivery_buffers.pop(delivery_buffer.tag, None)
            while delivery_buffer.items and not no_ack and self.codec.is_open:
                delivery_buffer.items.popleft().nack(requeue=True)

        delivery_buffer.wake = None
        with contextlib.suppress(ClientError):
            self._ask(BasicCancel(name_text(delivery_buffer.tag)), give_back).cancel()

    async def cancel(self, delivery_buffer: DeliveryBuffer, deadline_s: float | None = None) -> None:
        """No more deliveries; those that are in the delivery buffer remain."""
        question = BasicCancel(name_text(delivery_buffer.tag))
        self._on_cancel.pop(question.consumer_tag, None)

        def forget(_: Any) -> None:
            self.codec.delivery_buffers.pop(delivery_buffer.tag, None)

        await self._answered(self._ask(question, forget), question, deadline_s, forget)
        forget(None)

    # ---- the end

    async def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Closing twice does nothing. It is closed when this is cancelled, too."""
        if self.closed_by is not None or self._close_sent:
            return
        question = ChannelClose(GOODBYE, "goodbye")
        answer = self._ask(question)
        self._close_sent = True
        self.codec.is_open = False
        try:
            with contextlib.suppress(ClientError):
                await self._answered(answer, question, deadline_s)
        finally:
            self._end(ClientClosed("the channel was closed"))

    def give_up(self, reason: ClientError) -> None:
        """Nobody knows any more what the broker thinks of this channel: it is closed without waiting. Its number is not
        used again before the broker has answered."""
        if self.closed_by is not None:
            return
        if not self._close_sent:
            self._close_sent = True
            self._link.send(self.number, ChannelClose(GOODBYE, "given up"))
        self._end(reason)

    def _end(self, reason: ClientError) -> None:
        if self.closed_by is not None:
            return
        self.closed_by = reason
        self.codec.is_open = False
        # What comes for them from now on is of nobody, and will come again.
        self.codec.delivery_buffers.clear()
        self._on_cancel.clear()
        for waiting, _, _ in self._asked:
            if not waiting.done():
                waiting.set_exception(reason)
                # Whoever asked may have been cancelled: then nobody looks.
                waiting.exception()
        self._asked.clear()
        calls, self._on_end = self._on_end, []
        for call in calls:
            call(reason)


def _answers(question: int, answer: Any) -> bool:
    """Whether this can be the answer: another one would be somebody else's, and so would all that follow."""
    if isinstance(answer, Delivery):
        return question == BasicGet.METHOD
    return question + 1 == answer.METHOD or (question, answer.METHOD) in ODD_ANSWERS
