"""Questions and answers over a broker: `rpc.call` publishes a question and waits for its answer.

    async with connection.rpc() as rpc:
        reply = await rpc.call(b"21", routing_key="double", deadline_s=5)

Answers come by direct reply-to: there is no queue for them, and they are gone with the channel. So a question whose
connection is lost is failed at once, unless it may be asked twice. The other side is in rpc_server.py."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

import msgspec

from leveret.client.errors import (
    ClientClosed,
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    Refused,
    Unroutable,
    again,
)
from leveret.client.message import encode_body
from leveret.client.metrics import numbers_of
from leveret.client.owner import Owner
from leveret.client.payload import Decoder
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.client.transport.recovery import State
from leveret.core.client.channel_codec import ChannelCodec, DeliveryBuffer
from leveret.core.client.delivery import Delivery
from leveret.core.client.outgoing import MANDATORY, Outgoing, make_address
from leveret.core.codec.properties import encode_properties

__all__ = ["RemoteError", "Rpc", "RpcCounters"]

T = TypeVar("T")

# The queue that is none: what is published with it as reply_to is answered straight to the channel.
DIRECT = "amq.rabbitmq.reply-to"
# An answer that tells of an error has its type and text in these headers.
ERROR_HEADER, ERROR_TEXT_HEADER = "x-error", "x-error-text"
# Each exchange has a channel of its own, so that one that does not exist ends only its own questions.
LINES_MAX = 32


class RemoteError(ClientError):
    """The handler on the other side failed. `type` is its error's name there, such as "ValueError"."""

    def __init__(self, type: str, text: str) -> None:
        super().__init__(f"{type}: {text}" if text else type)
        self.type = type
        self.text = text


class RpcCounters(msgspec.Struct):
    calls_total: int = 0
    replies_total: int = 0
    # Answers that told of an error on the other side.
    remote_errors_total: int = 0
    # Questions that were asked again on another connection.
    retried_total: int = 0
    # Answers that nobody waited for any more.
    late_total: int = 0
    deadlines_exceeded_total: int = 0
    outstanding: int = 0


class Rpc:
    """Made by `connection.rpc()`. Any number of tasks may call at once; at most `calls_max` are under way."""

    rank = 2
    kind = label = name = "rpc"

    def __init__(self, connection: Owner, *, deadline_s: float | None = None, calls_max: int = 1000) -> None:
        if calls_max < 1:
            raise ValueError(f"calls_max is {calls_max}, and must be at least 1")
        self._connection = connection
        self._deadline_s = connection.options.deadline_s if deadline_s is None else deadline_s
        self._turns = asyncio.Semaphore(calls_max)
        self._lines: dict[str, _Line] = {}
        self._opening = asyncio.Lock()
        # By the types that answers were asked for.
        self._decoders: dict[Any, Decoder[Any]] = {}
        self._ids = itertools.count(1)
        self._prefix = secrets.token_hex(4)
        self._closed_by: ClientError | None = None
        self.counters = RpcCounters()
        connection.attach(self)

    def numbers(self) -> dict[str, float]:
        return numbers_of(self.counters)

    @overload
    async def call(
        self,
        body: Any,
        *,
        routing_key: str,
        exchange: str = "",
        type: type[T],
        deadline_s: float | None = None,
        retry: bool = False,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> T: ...

    @overload
    async def call(
        self,
        body: Any,
        *,
        routing_key: str,
        exchange: str = "",
        type: None = None,
        deadline_s: float | None = None,
        retry: bool = False,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Delivery: ...

    async def call(
        self,
        body: Any,
        *,
        routing_key: str,
        exchange: str = "",
        type: type[Any] | None = None,
        deadline_s: float | None = None,
        retry: bool = False,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Any:
        """Publishes the body (octets, text, or what msgspec makes JSON of) and gives the answer: a Delivery that needs
        no ack, or what its body is as `type`. The question expires in the broker with its deadline, so that nobody
        answers in vain.

        Raises Unroutable at once if no queue takes the question, Refused, RemoteError if the handler failed,
        DeadlineExceeded, and ConnectionLost if the connection breaks after it was asked: whether it was worked on is
        not known then. With `retry` it is asked again instead, on the next connection, until the deadline."""
        tracing = self._connection.tracing
        if tracing is None:
            reply = await self._call(body, exchange, routing_key, deadline_s, retry, headers, properties)
        else:
            where = self._connection.address
            with tracing.span_for_publish(exchange, routing_key, headers, address=where, is_call=True) as traced:
                reply = await self._call(body, exchange, routing_key, deadline_s, retry, traced, properties)
        return reply if type is None else self._decoder(type).decode(reply).payload

    def _decoder(self, kind: type[Any]) -> Decoder[Any]:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = Decoder(kind)
        return decoder

    async def _call(
        self,
        body: Any,
        exchange: str,
        routing_key: str,
        deadline_s: float | None,
        retry: bool,
        headers: Mapping[str, Any] | None,
        properties: Mapping[str, Any],
    ) -> Delivery:
        octets, content_type = encode_body(body)
        fields = {"content_type": content_type, **properties, "headers": dict(headers or {}), "reply_to": DIRECT}
        fields["correlation_id"] = f"{self._prefix}-{next(self._ids)}"
        seconds = self._deadline_s if deadline_s is None else deadline_s
        counters = self.counters
        counters.calls_total += 1
        counters.outstanding += 1
        try:
            async with asyncio.timeout(seconds) as timeout, self._turns:
                due = timeout.when()
                assert due is not None
                reply = await self._ask(make_address(exchange, routing_key), exchange, octets, fields, due, retry)
        except TimeoutError:
            counters.deadlines_exceeded_total += 1
            state = self._connection.state
            why = "" if state is State.OPEN else f": the connection is {state.value}"
            raise DeadlineExceeded(f"no answer came from {routing_key!r} within {seconds:g} s{why}") from None
        finally:
            counters.outstanding -= 1
        counters.replies_total += 1
        answer_headers = reply.headers
        if answer_headers and ERROR_HEADER in answer_headers:
            counters.remote_errors_total += 1
            raise RemoteError(str(answer_headers[ERROR_HEADER]), str(answer_headers.get(ERROR_TEXT_HEADER, "")))
        return reply

    async def _ask(
        self, address: bytes, exchange: str, body: bytes, fields: dict[str, Any], due: float, retry: bool
    ) -> Delivery:
        loop = asyncio.get_running_loop()
        identity = fields["correlation_id"].encode()
        while True:
            line = await self._line(exchange, due - loop.time())
            # At least a millisecond: 0 would mean that it goes to a consumer at once or nowhere.
            expiration = str(max(1, round(1000 * (due - loop.time()))))
            raw = encode_properties(**{**fields, "expiration": expiration, "message_id": fields["correlation_id"]})
            try:
                return await line.ask(Outgoing(address, raw, body, identity, MANDATORY))
            except ConnectionLost:
                if not retry or self._closed_by is not None:
                    raise
                self.counters.retried_total += 1

    async def _line(self, exchange: str, seconds: float) -> _Line:
        line = self._lines.get(exchange)
        if line is not None and line.channel.is_open:
            return line
        async with self._opening:
            line = self._lines.get(exchange)
            if line is not None and line.channel.is_open:
                return line
            self._check()
            self._lines = {name: line for name, line in self._lines.items() if line.channel.is_open}
            if len(self._lines) >= LINES_MAX:
                raise ClientError(f"one rpc speaks to at most {LINES_MAX} exchanges")
            made = await self._open_line(seconds)
            self._lines[exchange] = made
            return made

    async def _open_line(self, seconds: float) -> _Line:
        while True:
            try:
                channel = await self._connection.channel(seconds)
                line = _Line(channel, self.counters)
                try:
                    await line.open()
                except BaseException:
                    channel.give_up(ClientClosed("the rpc's channel could not be opened"))
                    raise
                return line
            except ConnectionLost:
                # Nothing was asked yet.
                self._check()

    def _check(self) -> None:
        if self._closed_by is not None:
            raise again(self._closed_by)

    # ---- its life

    async def restore(self, link: Link) -> None:
        """Channels are opened by those who ask."""

    def lost(self, reason: ClientError) -> None:
        """Its channels know."""

    async def stop(self, reason: ClientError) -> None:
        self._closed_by = self._closed_by or reason
        for line in self._lines.values():
            line.end(reason)

    async def close(self) -> None:
        """Questions that are under way end with ClientClosed."""
        await self.stop(ClientClosed("the rpc was closed"))
        self._connection.detach(self)
        for line in self._lines.values():
            await line.channel.close()
        self._lines.clear()

    async def __aenter__(self) -> Rpc:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class _Line:
    """The channel of one exchange: its questions go out and their answers come in."""

    def __init__(self, channel: Channel, counters: RpcCounters) -> None:
        self.channel = channel
        self._counters = counters
        self._waiting: dict[str, asyncio.Future[Delivery]] = {}
        self._delivery_buffer = DeliveryBuffer(b"leveret-replies")
        self._delivery_buffer.wake = self._replied
        channel.codec.owner = self._answered
        channel.on_end(self.end)

    async def open(self) -> None:
        await self.channel.confirm()
        await self.channel.consume(DIRECT, self._delivery_buffer, no_ack=True)

    async def ask(self, question: Outgoing) -> Delivery:
        link = self.channel.link
        if link.is_congested:
            await link.room()
        self.channel.check()
        name = question.message_id.decode()
        reply: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._waiting[name] = reply
        question.owner = reply
        self.channel.codec.publish(question)
        try:
            return await reply
        finally:
            del self._waiting[name]
            self.channel.codec.forget(question)

    def _answered(self, codec: ChannelCodec) -> None:
        """The broker has taken questions, or not. That it took one needs no answer: the other side gives that."""
        for question in codec.take_settled():
            reply: asyncio.Future[Delivery] = question.owner
            if reply.done() or question.is_confirmed:
                continue
            where = question.exchange(), question.routing_key()
            name = question.message_id.decode()
            if question.is_returned:
                text = question.reply_text.decode("utf-8", "replace")
                reply.set_exception(Unroutable(*where, question.reply_code, text, name))
            else:
                reply.set_exception(Refused(*where, name))
        codec.take_strays()

    def _replied(self) -> None:
        items = self._delivery_buffer.items
        while items:
            delivery = items.popleft()
            reply = self._waiting.get(delivery.correlation_id or "")
            if reply is None or reply.done():
                self._counters.late_total += 1
                continue
            reply.set_result(delivery)

    def end(self, reason: ClientError) -> None:
        self.channel.codec.abandon()
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(again(reason))
