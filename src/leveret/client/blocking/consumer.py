"""Consumers for threads: `for delivery in consumer`, or a plain function that is called in worker threads."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast

from leveret.client.batches import Batch as AsyncBatch
from leveret.client.batches import plain
from leveret.client.blocking.bridge import Bridge
from leveret.client.blocking.channel import Delivery
from leveret.client.blocking.way import Way
from leveret.client.consuming.consumer import Consumer as AsyncConsumer
from leveret.client.consuming.loops import handful
from leveret.client.errors import AlreadySettled, ClientClosed, StaleDelivery
from leveret.client.payload import Typed
from leveret.core.client.delivery import Delivery as AsyncDelivery

__all__ = ["Batch", "Consumer", "Handler"]

M = TypeVar("M")
# Takes a delivery; of a typed consumer the payload, or the payload and the delivery.
Handler = Callable[..., Any]

# Deliveries that come over the bridge together, if there are as many.
SOME: Final = 64


class Batch(Generic[M]):
    """Deliveries that came over one channel, in this order. Settle a batch once, with `ack` or `nack`; before that tell
    with `failed` which of it are not done."""

    deliveries: list[M]

    def __init__(self, bridge: Bridge, inner: AsyncBatch[Any]) -> None:
        self._bridge = bridge
        self._inner = inner
        self.deliveries = [_wrapped(bridge, message) for message in inner]

    def __len__(self) -> int:
        return len(self.deliveries)

    def __iter__(self) -> Iterator[M]:
        return iter(self.deliveries)

    @property
    def payloads(self) -> list[Any]:
        """Of a typed consumer."""
        return self._inner.payloads

    @property
    def is_stale(self) -> bool:
        """Its channel is gone: it cannot be settled, and will be delivered again."""
        return self._inner.is_stale

    def failed(self, message: M, requeue: bool = False) -> None:
        """This one is not done: to the dead letters, or back into the queue. The others are not touched."""
        cast("Delivery", plain(message)).nack(requeue=requeue)

    def ack(self) -> None:
        """All that has not failed. Raises StaleDelivery if the channel is gone."""
        self._bridge.do(self._inner.ack)

    def nack(self, requeue: bool = True) -> None:
        """All that has not been settled: the whole batch comes again, or goes to the dead letters."""
        self._bridge.do(self._inner.nack, requeue)

    def __repr__(self) -> str:
        return repr(self._inner)


class Consumer(Generic[M]):
    """Made by `connection.consumer(...)`. Deliveries come between `with`, over as many connections as it takes:

        with connection.consumer("orders") as consumer:
            for delivery in consumer:
                work(delivery.body)
                delivery.ack()

    Several threads may take from one consumer."""

    # Numbers of the asyncio client's consumer, see __getattr__.
    queue: str
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    in_hand: int
    failed: int
    parked: int
    rejected: int
    stale: int
    resubscribed: int

    def __init__(self, way: Way, inner: AsyncConsumer[Any], auto_ack: bool) -> None:
        self._way = way
        self._bridge = way.bridge
        self._inner = inner
        self._auto_ack = auto_ack
        # What came over the bridge and was not handed out yet.
        self._here: deque[Any] = deque()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def waiting(self) -> int:
        """Received and not handed out."""
        return self._inner.waiting + len(self._here)

    def __repr__(self) -> str:
        return f"<blocking {self._inner!r}>"

    # ---- its life

    def start(self) -> None:
        """Raises ChannelClosed if the broker does not let us: with 404 there is no such queue."""
        self._way.call(None, self._inner.start)

    def stop_soon(self) -> None:
        """Nothing more is handed out: loops end, and runs end when what is in hand is done. Does not wait, so a signal
        handler may call it, and so may a handler of messages."""
        self._bridge.soon(self._stop_soon)

    def _stop_soon(self) -> None:
        self._inner.stop_soon()
        self._put_back()

    def stop(self, deadline_s: float | None = None) -> None:
        """In good order: the broker sends no more, what is in hand is finished and settled, the rest goes back into the
        queue. What is not finished by the deadline goes back as well."""
        self.stop_soon()
        seconds = self._way.deadline_s if deadline_s is None else deadline_s
        # After the deadline it still has to close its channel.
        self._way.call(seconds + self._way.deadline_s, self._inner.stop, seconds)

    def _put_back(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                delivery = plain(self._here.popleft())
                with contextlib.suppress(StaleDelivery, AlreadySettled):
                    delivery.nack(requeue=True)

    def __enter__(self) -> Consumer[M]:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Runs are ended in good order. What was taken by hand and is not settled goes back into the queue."""
        if self._bridge.is_foreign:
            return
        with contextlib.suppress(ClientClosed):
            # Its parts have deadlines of their own: the runs, the broker's answer, the channel.
            self._way.call(3 * self._way.deadline_s, self._inner.__aexit__, None, None, None)

    # ---- one by one

    def __iter__(self) -> Iterator[M]:
        """Every delivery until the consumer is stopped. Raises ConsumerCancelled or ClientClosed if it ended in another
        way. With auto_ack a delivery is acknowledged when the loop comes back for the next one."""
        while (message := self._take()) is not None:
            yield message
            if self._auto_ack:
                with contextlib.suppress(StaleDelivery, AlreadySettled):
                    cast("Any", message).ack()

    def _take(self) -> M | None:
        """The next; None when the consumer was stopped."""
        while True:
            with contextlib.suppress(IndexError):
                message = self._here.popleft()
                if plain(message).is_stale and not plain(message).is_settled:
                    # Its channel is gone: it comes again.
                    continue
                return cast("M", _wrapped(self._bridge, message))
            some = self._bridge.acquire(self._keep, None, handful, self._inner, SOME)
            if not some:
                return None
            self._here.extend(some)

    async def _keep(self, some: list[Any]) -> None:
        """They came when the caller was interrupted: for whoever takes next."""
        self._here.extend(some)

    def next(self, deadline_s: float | None = None) -> M:
        """One message. Raises DeadlineExceeded if none comes, ClientClosed if the consumer was stopped."""
        with contextlib.suppress(IndexError):
            while True:
                message = self._here.popleft()
                if not plain(message).is_stale:
                    return cast("M", _wrapped(self._bridge, message))

        async def keep(message: Any) -> None:
            self._here.append(message)

        return cast("M", _wrapped(self._bridge, self._way.acquire(keep, deadline_s, self._inner.next, deadline_s)))

    def batches(self, size: int | None = None, wait_s: float = 0.5) -> Iterator[Batch[M]]:
        """Up to `size` deliveries together: fewer when `wait_s` has passed since the first of them came."""
        inner = self._bridge.do(self._inner.batches, size, wait_s)
        return (Batch(self._bridge, batch) for batch in self._bridge.iterate(inner))

    # ---- by handler

    def run(self, handler: Handler, *, concurrency: int = 10, handler_deadline_s: float | None = None) -> None:
        """Calls a plain function for each message, in so many threads, until the consumer is stopped: by `stop` or
        `stop_soon` of another thread, a signal handler, or the handler itself.

        It gets the delivery; that of a typed consumer gets the payload, or the payload and the delivery if it takes
        two. When it returns, the message is acknowledged, unless it did that itself. What it raises decides otherwise:
        Reject, Requeue, RetryLater, and for all else the consumer's `on_error`."""
        self._bridge.call(
            None,
            self._inner.run,
            self._plain(handler),
            concurrency=concurrency,
            threads=True,
            handler_deadline_s=handler_deadline_s,
        )

    def run_batches(
        self,
        handler: Handler,
        *,
        size: int | None = None,
        wait_s: float = 0.5,
        concurrency: int = 1,
        handler_deadline_s: float | None = None,
    ) -> None:
        """As `run`, by the batch. The handler returns None if all is done, or those of the batch that failed; if it
        raises, the whole batch has failed."""
        self._bridge.call(
            None,
            self._inner.run_batches,
            self._plain(handler),
            size=size,
            wait_s=wait_s,
            concurrency=concurrency,
            threads=True,
            handler_deadline_s=handler_deadline_s,
        )

    def _plain(self, handler: Handler) -> Handler:
        """What the handler gets may be settled in its thread; what it gives is understood in the loop."""
        if inspect.iscoroutinefunction(handler):
            raise TypeError("a blocking consumer calls plain functions; coroutine functions are for leveret.client")

        # With the handler's own signature, which says whether it wants a payload alone.
        @functools.wraps(handler)
        def call(*arguments: Any) -> Any:
            result = handler(*(_wrapped(self._bridge, one) for one in arguments))
            is_batch = isinstance(arguments[0], AsyncBatch)
            return [_unwrapped(one) for one in result] if is_batch and result is not None else result

        return call


def _wrapped(bridge: Bridge, message: Any) -> Any:
    """What is not to be settled by other threads, as something that is."""
    if isinstance(message, AsyncDelivery):
        return Delivery(bridge, message)
    if isinstance(message, Typed):
        return Typed(message.payload, cast("Any", Delivery(bridge, message.delivery)))
    if isinstance(message, AsyncBatch):
        return Batch(bridge, message)
    return message


def _unwrapped(message: Any) -> Any:
    delivery = plain(message)
    return delivery.inner if isinstance(delivery, Delivery) else delivery
