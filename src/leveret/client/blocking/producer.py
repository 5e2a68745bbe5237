"""Publishing from threads. Each call waits for the broker's answer unless it says otherwise."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

from leveret.client.blocking.bridge import Bridge
from leveret.client.blocking.way import Way
from leveret.client.errors import BatchFailed, ClientClosed, DeadlineExceeded
from leveret.client.message import Body, Message, MessageProperties
from leveret.client.publishing.confirmation import Confirmation as AsyncConfirmation
from leveret.client.publishing.in_flight import Counters
from leveret.client.publishing.positional import NOT_GIVEN
from leveret.client.publishing.producer import Producer as AsyncProducer

__all__ = ["Confirmation", "Producer"]

# How many messages of a generator are under way together.
PART = 10_000


class Confirmation:
    """The broker's answer to one message, which comes later."""

    def __init__(self, bridge: Bridge, inner: AsyncConfirmation, deadline_s: float) -> None:
        """In the loop."""
        self._bridge = bridge
        self._inner = inner
        self._deadline_s = deadline_s
        self._answer: concurrent.futures.Future[None] = concurrent.futures.Future()
        inner.add_done_callback(self._answered)

    def _answered(self, inner: asyncio.Future[None]) -> None:
        if inner.cancelled():
            self._answer.cancel()
            self._answer.set_running_or_notify_cancel()
        elif (error := inner.exception()) is not None:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(None)

    @property
    def message_id(self) -> str:
        return self._inner.message_id

    @property
    def is_done(self) -> bool:
        return self._answer.done()

    def wait(self, deadline_s: float | None = None) -> None:
        """Returns when the message is confirmed, and raises what `publish` raises if it is not."""
        self._bridge.check()
        seconds = self._deadline_s if deadline_s is None else deadline_s
        try:
            self._answer.result(seconds)
        except concurrent.futures.CancelledError:
            raise ClientClosed("the message was given up") from None
        except TimeoutError:
            if self._answer.done():
                raise
            raise DeadlineExceeded(f"message {self.message_id} was not confirmed within {seconds:g} s") from None

    def cancel(self) -> None:
        """Gives the message up: if it was not sent yet it never is."""

        def cancel() -> None:
            self._inner.cancel()

        self._bridge.soon(cancel)


class Producer:
    """Made by `connection.producer(...)`; any number of threads may publish with it at once. It survives reconnects:
    what the broker has not answered for is sent again."""

    def __init__(self, way: Way, inner: AsyncProducer) -> None:
        self._way = way
        self._inner = inner

    @property
    def in_flight(self) -> int:
        """Messages that were taken and not answered for; never more than the window."""
        return self._inner.in_flight

    @property
    def in_flight_bytes(self) -> int:
        return self._inner.in_flight_bytes

    @property
    def waiting(self) -> int:
        """Publishes that wait for room in the window."""
        return self._inner.waiting

    @property
    def counters(self) -> Counters:
        return self._inner.counters

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    def publish(
        self,
        body: Body | Message = b"",
        routing_key: str | None = None,
        content: Body = NOT_GIVEN,
        properties: Mapping[str, Any] | None = None,
        *,
        exchange: str | None = None,
        mandatory: bool | None = None,
        deadline_s: float | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        **named: Unpack[MessageProperties],
    ) -> None:
        """Returns when the broker has taken responsibility for the message. Give it a body and the rest by name, or, as
        other clients do, publish(exchange, routing_key, content, properties).

        Raises Unroutable if no queue takes it, Refused if the broker does not, ChannelClosed if it must not be
        published at all, DeadlineExceeded if there was no answer in time: then nobody knows whether it arrived."""
        self._way.call(
            deadline_s,
            self._inner.publish,
            body,
            routing_key,
            content,
            properties,
            exchange=exchange,
            mandatory=mandatory,
            deadline_s=deadline_s,
            headers=headers,
            message_id=message_id,
            **named,
        )

    def submit(
        self,
        body: Body | Message = b"",
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
        mandatory: bool | None = None,
        deadline_s: float | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Confirmation:
        """Like publish, but waits only for room in the window; `wait()` on what it gives waits for the answer."""

        async def submit() -> Confirmation:
            inner = await self._inner.submit(
                body,
                exchange=exchange,
                routing_key=routing_key,
                mandatory=mandatory,
                deadline_s=deadline_s,
                headers=headers,
                message_id=message_id,
                **properties,
            )
            return Confirmation(self._way.bridge, inner, self._way.deadline_s if deadline_s is None else deadline_s)

        return self._way.call(deadline_s, submit)

    def publish_batch(self, messages: Iterable[Body | Message], *, deadline_s: float | None = None) -> None:
        """Publishes all of them in their order, and returns when all are confirmed. A generator is run by the thread
        that calls, a part at a time.

        Raises BatchFailed if some failed, with the place of each; the others stand. The deadline is for all
        together."""
        if isinstance(messages, Sequence):
            self._way.call(deadline_s, self._inner.publish_batch, messages, deadline_s=deadline_s)
            return
        due = time.monotonic() + (self._way.deadline_s if deadline_s is None else deadline_s)
        failures: list[tuple[int, Exception]] = []
        waiting = iter(messages)
        first = 0
        while part := list(itertools.islice(waiting, PART)):
            left = max(0.0, due - time.monotonic())
            try:
                self._way.call(left, self._inner.publish_batch, part, deadline_s=left)
            except BatchFailed as failed:
                failures += [(first + place, error) for place, error in failed.failures]
                if failed.unsent_from is not None:
                    raise BatchFailed(failures, first + failed.unsent_from) from None
            first += len(part)
        if failures:
            raise BatchFailed(failures)

    def flush(self, deadline_s: float | None = None) -> None:
        """Waits until the broker has answered for everything that was taken before."""
        self._way.call(deadline_s, self._inner.flush, deadline_s)

    def wait_for_confirms(self, timeout: float | None = None) -> bool:
        """Whether the broker has confirmed everything that was published: False if some of it failed since this was
        asked last, or was not answered for within `timeout` seconds."""
        return self._way.call(timeout, self._inner.wait_for_confirms, timeout)

    def close(self, deadline_s: float | None = None) -> None:
        """Takes no more messages, and waits for the answers to those that are under way."""
        if not self._way.bridge.is_foreign and self._inner.is_open:
            self._way.call(deadline_s, self._inner.close, deadline_s)

    def __enter__(self) -> Producer:
        self._way.call(None, self._inner.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
