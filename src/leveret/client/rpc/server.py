"""The answering side of RPC: takes questions from a queue, gives each to a handler, and publishes what that gives.

A question is acknowledged when the broker has taken its answer. So a question may be handled twice after a lost
connection, and none is lost. An answer larger than the broker takes costs the channel: the question comes again, and is
told then that its answer is too large."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any

import msgspec

from leveret.client.consuming.feed import Feed
from leveret.client.deadline import within
from leveret.client.errors import ChannelClosed, ClientError, DeadlineExceeded, StaleDelivery, again
from leveret.client.message import encode_body
from leveret.client.owner import Owner
from leveret.client.payload import Decoder, Undecodable
from leveret.client.rpc.caller import DIRECT, ERROR_HEADER, ERROR_TEXT_HEADER
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.delivery import Delivery
from leveret.core.client.outgoing import MANDATORY, Outgoing, make_address
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import encode_properties

__all__ = ["RpcServer", "ServerCounters"]

log = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Any]] | Callable[[Any], Any]
# Of an error's text, as it is sent to whoever asked.
ERROR_TEXT_MAX = 1000
STOP_DEADLINE_S = 10.0
# What a broker closes the channel with when a message is larger than it takes.
PRECONDITION_FAILED = 406


class AnswerTooLarge(ClientError):
    """The broker takes no message as large as the handler's answer. Whoever asked is told so."""


class ServerCounters(msgspec.Struct):
    requests_total: int = 0
    replies_total: int = 0
    # Handlers that raised.
    failed_total: int = 0
    # Answers whose queue is gone. Those to a direct reply-to are not among them: the broker tells nobody.
    unanswered_total: int = 0
    in_hand: int = 0


class RpcServer:
    """Made by `connection.serve(queue, handler)`."""

    def __init__(
        self,
        connection: Owner,
        queue: str,
        handler: Handler,
        *,
        concurrency: int = 10,
        type: type[Any] | None = None,
        reply_errors: bool = True,
    ) -> None:
        if not 1 <= concurrency <= 65535:
            raise ValueError(f"concurrency is {concurrency}, not from 1 to 65535")
        self._connection = connection
        self._handler = handler
        self._is_plain = not inspect.iscoroutinefunction(handler)
        self._concurrency = concurrency
        self._decoder = None if type is None else Decoder(type)
        self._reply_errors = reply_errors
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._stopping = False
        # The least size that the broker has refused over this link: what it takes may be another thing after the next.
        self._link: Link | None = None
        self._refused_bytes: int | None = None
        self.counters = ServerCounters()
        self._feed = Feed(
            connection,
            queue,
            prefetch=concurrency,
            prepare=self._prepare,
            wake=self._take,
            kind="rpc_server",
            counters=self.counters,
        )

    # ---- its life

    async def start(self, deadline_s: float | None = None) -> RpcServer:
        await self._feed.start(deadline_s)
        return self

    async def wait(self) -> None:
        """Until it is stopped. Raises why, if that was not by its user: the queue is gone, say."""
        await self._ended.wait()
        if not self._stopping:
            self._feed.check()

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Takes no more questions, and lets those in hand be answered; what is left at the deadline goes back."""
        if self._stopping:
            return
        self._stopping = True
        await self._feed.cancel()
        try:
            if self._tasks:
                await within(deadline_s, "finishing requests", asyncio.wait(self._tasks))
        except DeadlineExceeded:
            log.warning("requests go back", extra={"queue": self._feed.queue, "in_hand": len(self._tasks)})
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._feed.close()

    def __await__(self) -> Generator[Any, None, RpcServer]:
        return self.start().__await__()

    async def __aenter__(self) -> RpcServer:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # ---- requests

    async def _prepare(self, channel: Channel) -> dict[str, Any]:
        await channel.confirm()
        channel.codec.owner = _settle_replies
        channel.on_end(lambda reason: self._fail_replies(channel.codec, reason))
        if channel.link is not self._link:
            self._link, self._refused_bytes = channel.link, None
        return {}

    def _fail_replies(self, codec: ChannelCodec, reason: ClientError) -> None:
        lost = codec.abandon()
        if isinstance(reason, ChannelClosed) and (reason.code, reason.method) == (PRECONDITION_FAILED, "basic.publish"):
            # It does not say which one was too large. The largest was, then; one without a body is not what it means.
            largest = max((len(reply.body) for reply in lost), default=0)
            if largest:
                self._refused_bytes = largest
                self._feed.mended = reason
        for reply in lost:
            if not reply.owner.done():
                reply.owner.set_exception(again(reason))

    def _take(self) -> None:
        feed = self._feed
        if feed.ended_by is not None:
            self._ended.set()
            if not self._stopping:
                # The connection is closed: nobody can be answered any more.
                for task in self._tasks:
                    task.cancel()
        while feed.items and len(self._tasks) < self._concurrency and not self._stopping:
            request = feed.items.popleft()
            if request.is_stale:
                # It comes again on another channel.
                continue
            task = asyncio.create_task(self._serve(request), name="leveret-rpc-request")
            self._tasks.add(task)
            self.counters.in_hand += 1
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.counters.in_hand -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request failed inside", extra={"queue": self._feed.queue}, exc_info=error)
        self._take()

    async def _serve(self, request: Delivery) -> None:
        self.counters.requests_total += 1
        headers: dict[str, Any] = {}
        try:
            tracing = self._connection.tracing
            if tracing is None:
                body, content_type = self._encoded(request, await self._handle(request))
            else:
                where = self._connection.address
                with tracing.span_for_delivery(request, self._feed.queue, address=where, is_call=True):
                    body, content_type = self._encoded(request, await self._handle(request))
        except Exception as error:
            self.counters.failed_total += 1
            log.warning(
                "a request failed",
                extra={"queue": self._feed.queue, "message_id": request.message_id, "reason": repr(error)},
                exc_info=not isinstance(error, Undecodable | AnswerTooLarge),
            )
            if not self._reply_errors:
                _settle(request, failed=True)
                return
            body, content_type = b"", None
            headers = {ERROR_HEADER: error.__class__.__name__, ERROR_TEXT_HEADER: str(error)[:ERROR_TEXT_MAX]}
        if request.reply_to:
            await self._reply(request, body, content_type, headers)
        else:
            _settle(request, failed=bool(headers))

    async def _handle(self, request: Any) -> Any:
        argument = request if self._decoder is None else self._decoder.decode(request).payload
        if self._is_plain:
            answer = await asyncio.to_thread(self._handler, argument)
        else:
            answer = await self._handler(argument)
        return b"" if answer is None else answer

    def _encoded(self, request: Delivery, answer: Any) -> tuple[bytes, str | None]:
        body, content_type = encode_body(answer)
        if self._refused_bytes is not None and len(body) >= self._refused_bytes and request.reply_to:
            raise AnswerTooLarge(f"an answer of {len(body)} bytes is larger than the broker takes")
        return body, content_type

    async def _reply(self, request: Delivery, body: bytes, content_type: str | None, headers: dict[str, Any]) -> None:
        codec: ChannelCodec = request.codec
        if not codec.is_open:
            # It comes again, and so will the answer.
            return
        identity = request.correlation_id or request.message_id or ""
        raw = encode_properties(
            correlation_id=identity, message_id=identity, content_type=content_type, headers=headers or None
        )
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # RabbitMQ sends mandatory answers back even when they have reached a direct reply-to.
        reply_to = request.reply_to or ""
        bits = 0 if reply_to.startswith(DIRECT) else MANDATORY
        address = make_address("", reply_to)
        codec.publish(Outgoing(address, raw, body, name_octets(identity), bits, taken))
        try:
            is_taken = await taken
        except ClientError as error:
            log.warning("an answer is lost", extra={"queue": self._feed.queue, "reason": str(error)})
            return
        if is_taken:
            self.counters.replies_total += 1
        else:
            self.counters.unanswered_total += 1
        _settle(request, failed=False)


def _settle(request: Delivery, failed: bool) -> None:
    try:
        if failed:
            request.reject(requeue=False)
        else:
            request.ack()
    except StaleDelivery:
        # Its channel is gone: it comes again.
        log.info("a request will come again", extra={"message_id": request.message_id})


def _settle_replies(codec: ChannelCodec) -> None:
    for reply in codec.take_settled():
        if reply.owner is not None and not reply.owner.done():
            reply.owner.set_result(reply.is_confirmed)
    codec.take_strays()
