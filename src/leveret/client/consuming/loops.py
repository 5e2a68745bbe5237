"""Loops over a consumer: one by one, by the batch, and by the handful for those who come from another thread.

Used by consumer.py, of which it knows what `Takes` names."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, cast

from leveret.client.batches import Batch, plain
from leveret.client.consuming.poison import Failures
from leveret.client.consuming.subscription import Subscription

__all__ = ["BatchLoop", "Loop", "handful"]

M = TypeVar("M")


class Takes(Protocol[M]):
    """A consumer, as its loops see it."""

    # Nothing has to be looked at before it is handed out.
    _is_plain: bool
    _auto_ack: bool
    _subscription: Subscription
    _failures: Failures

    @property
    def waiting(self) -> int: ...

    def _check_started(self) -> None: ...

    async def _take(self, until: float | None = None) -> M | None: ...

    async def _gather(self, size: int, wait_s: float) -> Batch[M] | None: ...


async def handful(consumer: Takes[M], count: int) -> list[M]:
    """At least one message, and up to so many of those that are there already; none when the consumer was stopped."""
    consumer._check_started()
    found: list[M] = []
    while not found or (consumer.waiting and len(found) < count):
        message = await consumer._take(0.0 if found else None)
        if message is None:
            break
        found.append(message)
    if not found:
        consumer._subscription.check()
    return found


class Loop(Generic[M]):
    """One `async for`."""

    __slots__ = ("_consumer", "_last", "_subscription")

    def __init__(self, consumer: Takes[M]) -> None:
        self._consumer = consumer
        self._subscription = consumer._subscription
        # To be acknowledged when the loop comes back.
        self._last: M | None = None

    def __aiter__(self) -> Loop[M]:
        return self

    async def __anext__(self) -> M:
        consumer = self._consumer
        if self._last is not None:
            last, self._last = self._last, None
            consumer._failures.ack(plain(last))
        message: M | None = None
        if consumer._is_plain:
            # The short way: there is one, and nothing has to be looked at.
            message = cast("M | None", self._subscription.take_now())
        if message is None:
            message = await consumer._take()
            if message is None:
                self._subscription.check()
                raise StopAsyncIteration
        if consumer._auto_ack:
            self._last = message
        return message


class BatchLoop(Generic[M]):
    """One `async for` over batches."""

    __slots__ = ("_consumer", "_size", "_wait_s")

    def __init__(self, consumer: Takes[M], size: int, wait_s: float) -> None:
        self._consumer = consumer
        self._size = size
        self._wait_s = wait_s

    def __aiter__(self) -> BatchLoop[M]:
        return self

    async def __anext__(self) -> Batch[M]:
        batch = await self._consumer._gather(self._size, self._wait_s)
        if batch is None:
            self._consumer._subscription.check()
            raise StopAsyncIteration
        return batch
