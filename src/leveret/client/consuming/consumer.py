"""Consumers: what an application uses to work on the messages of a queue, one by one, by a handler, or in batches.

The place at the queue, which survives reconnects, is a Subscription; what becomes of failures is decided in poison.py.
Here is how deliveries are handed out, how workers work on them, and how all of it ends in good order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast

from leveret.client.batches import Batch, plain
from leveret.client.consuming.consumer_options import PREFETCH, ConsumerOptions
from leveret.client.consuming.handlers import Caller, Handler
from leveret.client.consuming.loops import BatchLoop, Loop
from leveret.client.consuming.poison import Failures, OnError
from leveret.client.consuming.resend import Resender
from leveret.client.consuming.subscription import Subscription
from leveret.client.errors import ClientClosed, ClientError, DeadlineExceeded, StaleDelivery
from leveret.client.owner import Owner
from leveret.client.payload import Decoder, Undecodable
from leveret.client.topology.handle import QueueHandle
from leveret.core.client.delivery import Delivery

__all__ = ["Consumer"]

M = TypeVar("M")

BATCH: Final = 100
# What metrics tell of a consumer that only grows.
TOTALS: Final = (
    *("delivered", "redelivered", "acked", "nacked"),
    *("failed", "parked", "rejected", "stale", "resubscribed"),
)
# How often the end looks whether everything that is in hand was settled.
LOOK_S: Final = 0.01


class Consumer(Generic[M]):
    """Made by Connection.consumer. Deliveries come between `async with`, over as many connections as it takes:

        async with connection.consumer("orders") as consumer:
            async for delivery in consumer:
                work(delivery.body)
                delivery.ack()

    After a reconnect those that were not acknowledged come again; to acknowledge an old one raises StaleDelivery."""

    def __init__(
        self,
        connection: Owner,
        queue: str | QueueHandle,
        decoder: Decoder[Any] | None,
        options: ConsumerOptions,
    ) -> None:
        self._subscription = Subscription(connection, queue, options)
        self._subscription.when_stopped = self._connection_stops
        self._subscription.numbers = self._numbers
        self._decoder = decoder
        self._auto_ack = options.auto_ack
        self._deadline_s = connection.options.deadline_s if options.deadline_s is None else options.deadline_s
        self._resender = Resender(connection)
        self._failures = Failures(
            self._resender,
            OnError(options.on_error),
            options.retry,
            options.max_deliveries,
            options.requeue_pause_s,
        )
        # Nothing has to be looked at before it is handed out.
        self._is_plain = decoder is None and options.max_deliveries is None
        self._workers: set[asyncio.Task[None]] = set()
        # One for each run that is under way; done when its workers are.
        self._runs: set[asyncio.Future[None]] = set()

    # ---- numbers

    @property
    def queue(self) -> str:
        """The name that the queue has now."""
        return self._subscription.queue_name

    @property
    def delivered(self) -> int:
        """How many deliveries were handed out."""
        return self._subscription.delivered

    @property
    def redelivered(self) -> int:
        """How many came that the broker had delivered before, to us or to others."""
        return self._subscription.redelivered

    @property
    def acked(self) -> int:
        return self._subscription.acked

    @property
    def nacked(self) -> int:
        """Rejected or returned."""
        return self._subscription.nacked

    @property
    def in_hand(self) -> int:
        """Handed out and not settled."""
        return self._subscription.in_hand

    @property
    def waiting(self) -> int:
        """Received and not handed out."""
        return self._subscription.waiting

    @property
    def failed(self) -> int:
        """Handlers that raised, and bodies that did not decode."""
        return self._failures.failed

    @property
    def parked(self) -> int:
        return self._failures.parked

    @property
    def rejected(self) -> int:
        """Put aside for good where there is no parking lot."""
        return self._failures.rejected

    @property
    def stale(self) -> int:
        """Handled, but the channel was gone before they could be settled: they came again."""
        return self._failures.stale

    @property
    def resubscribed(self) -> int:
        """How often it had to begin to consume anew."""
        return self._subscription.resubscribed_total

    @property
    def is_holding(self) -> bool:
        """Nothing of the whole connection is read at present, because too much waits here."""
        return self._subscription.is_holding

    def _numbers(self) -> dict[str, float]:
        """For metrics, by the subscription, which is the connection's part."""
        return {
            **{f"{name}_total": getattr(self, name) for name in TOTALS},
            "in_hand": self.in_hand,
            "waiting": self.waiting,
            "holding": float(self.is_holding),
        }

    def __repr__(self) -> str:
        return f"<Consumer of {self.queue!r}, {self.delivered} delivered, {self.in_hand} in hand>"

    # ---- its life

    async def start(self) -> None:
        """Raises ChannelClosed if the broker does not let us: with 404 there is no such queue."""
        if self._subscription.is_over:
            raise ClientClosed("the consumer was stopped; make another one")
        if self._subscription.is_started:
            raise RuntimeError("the consumer is started already")
        await self._subscription.start(self._deadline_s)

    def stop_soon(self) -> None:
        """Nothing more is handed out: loops end, and runs end when what is in hand is done. Does not wait, so a signal
        handler may call it, and so may a handler of messages."""
        self._subscription.finish()

    async def stop(self, deadline_s: float | None = None) -> None:
        """In good order: the broker is told to send no more, what is in hand is finished and settled, and the rest
        goes back into the queue. What is not finished by the deadline is cancelled, and goes back as well."""
        self.stop_soon()
        if asyncio.current_task() in self._workers:
            # A handler cannot wait for its own end.
            return
        end = asyncio.get_running_loop().time() + (self._deadline_s if deadline_s is None else deadline_s)
        try:
            await self._subscription.cancel(_left(end))
            await self._end_runs(_left(end))
            while self.in_hand > 0 and _left(end) > 0:  # noqa: ASYNC110 - settling is too frequent to be told of
                await asyncio.sleep(min(LOOK_S, _left(end)))
        finally:
            await self._close()

    async def _end_runs(self, seconds: float) -> None:
        if self._runs:
            await asyncio.wait(self._runs, timeout=seconds)
        for worker in list(self._workers):
            worker.cancel()
        if self._runs:
            # A handler that does not let itself be cancelled is left to itself.
            await asyncio.wait(self._runs, timeout=self._subscription.close_deadline_s)

    async def _connection_stops(self, reason: ClientError) -> None:
        await self._end_runs(self._subscription.close_deadline_s)

    async def _close(self) -> None:
        try:
            await self._subscription.close(self._subscription.close_deadline_s)
        finally:
            await self._resender.close()

    async def __aenter__(self) -> Consumer[M]:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Runs are ended in good order. Whatever was taken by hand and is not settled goes back into the queue."""
        self.stop_soon()
        try:
            if self._runs:
                await self._subscription.cancel(self._deadline_s)
            await self._end_runs(self._deadline_s)
        finally:
            await self._close()

    # ---- one by one

    def __aiter__(self) -> AsyncIterator[M]:
        """Every delivery until the consumer is stopped. Raises ConsumerCancelled or ClientClosed if it ended in another
        way. With auto_ack a delivery is acknowledged when the loop comes back for the next one: one that leaves with
        `break` or an exception is not, and comes again."""
        self._check_started()
        return Loop(self)

    async def next(self, deadline_s: float | None = None) -> M:
        """One message. Raises DeadlineExceeded if none comes, ClientClosed if the consumer was stopped."""
        self._check_started()
        seconds = self._deadline_s if deadline_s is None else deadline_s
        until = asyncio.get_running_loop().time() + seconds
        message = await self._take(until)
        if message is not None:
            return message
        self._subscription.check()
        if self._subscription.is_over:
            raise ClientClosed("the consumer was stopped")
        raise DeadlineExceeded(f"no message came from queue {self.queue!r} within {seconds:g} s")

    async def _take(self, until: float | None = None) -> M | None:
        """The next that is good to be handed out; None when all is over or it is too late."""
        while True:
            delivery = await self._subscription.take(until)
            if delivery is None or self._is_plain:
                return cast("M | None", delivery)
            message = await self._examine(delivery)
            if message is not None:
                return message

    async def _examine(self, delivery: Delivery) -> M | None:
        """The message, decoded; None if it was poison and was put aside."""
        reason = self._failures.too_many(delivery, self._subscription.queue_name)
        if reason is None:
            if self._decoder is None:
                return cast("M", delivery)
            try:
                return cast("M", self._decoder.decode(delivery))
            except Undecodable as error:
                self._failures.failed += 1
                reason = str(error)
        await self._failures.put_aside(delivery, reason)
        return None

    def _check_started(self) -> None:
        if not self._subscription.is_started and not self._subscription.is_over:
            raise RuntimeError("the consumer is not started; use it with 'async with'")

    # ---- by handler

    async def run(
        self,
        handler: Handler,
        *,
        concurrency: int = 10,
        threads: bool | None = None,
        handler_deadline_s: float | None = None,
    ) -> None:
        """Calls the handler for each message, so many at a time, until the consumer is stopped.

        It gets the delivery; that of a typed consumer gets the payload, or the payload and the delivery if it takes
        two. When it returns, the message is acknowledged, unless it did that itself. What it raises decides otherwise:
        Reject, Requeue, RetryLater, and for all else the consumer's `on_error`. A plain function is called in a thread,
        unless `threads` is False, and must not settle the delivery itself there.

        Starts the consumer if it is not started, and then stops it as well."""
        caller = self._caller(handler, concurrency, threads, handler_deadline_s)
        self._prefetch_for(concurrency)

        async def work() -> None:
            while (delivery := await self._subscription.take()) is not None:
                await self._work_on(delivery, caller)

        await self._run(work, caller, concurrency)

    def _prefetch_for(self, count: int) -> None:
        """So many are worked on at a time: they must be here, unless the user has said what may be."""
        if self._subscription.options.prefetch is None and not self._subscription.is_started:
            self._subscription.ask_for(count)

    def _caller(self, handler: Handler, concurrency: int, threads: bool | None, deadline_s: float | None) -> Caller:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}, and must be at least 1")
        return Caller(
            handler,
            is_typed=self._decoder is not None,
            concurrency=concurrency,
            threads=threads,
            deadline_s=deadline_s,
            spans=self._subscription.spans(),
        )

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]], caller: Caller, concurrency: int) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if not self._subscription.is_started and not self._subscription.is_over:
                await stack.enter_async_context(self)
            done = asyncio.get_running_loop().create_future()
            self._runs.add(done)
            is_idle = False
            workers: set[asyncio.Task[None]] = set()
            try:
                async with asyncio.TaskGroup() as group:
                    workers = {group.create_task(work()) for _ in range(concurrency)}
                    self._workers |= workers
                is_idle = not any(worker.cancelled() for worker in workers)
            finally:
                self._workers -= workers
                self._runs.discard(done)
                done.set_result(None)
                caller.close(is_idle)
        self._subscription.check()

    async def _work_on(self, delivery: Delivery, caller: Caller) -> None:
        try:
            message = cast("M", delivery) if self._is_plain else await self._examine(delivery)
            if message is None:
                return
            await caller.call(message)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                self._failures.requeue(delivery)
                raise
            # Something that the handler waited for was cancelled, not the handler.
            await self._fail(delivery, RuntimeError(f"cancelled: {error}"))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, its message has to be settled
            await self._fail(delivery, error)
        else:
            self._failures.ack(delivery)

    async def _fail(self, delivery: Delivery, error: Exception) -> None:
        self._failures.log_failure(delivery, error)
        try:
            await self._failures.fail(delivery, error)
        except asyncio.CancelledError:
            self._failures.requeue(delivery)
            raise

    # ---- by batches

    def batches(self, size: int | None = None, wait_s: float = 0.5) -> AsyncIterator[Batch[M]]:
        """Up to `size` deliveries together, by default as many as the prefetch: fewer when `wait_s` has passed since
        the first of them came. They are settled with batch.ack()."""
        size = self._check_batch(size, wait_s)
        self._check_started()
        return BatchLoop(self, size, wait_s)

    async def run_batches(
        self,
        handler: Handler,
        *,
        size: int | None = None,
        wait_s: float = 0.5,
        concurrency: int = 1,
        threads: bool | None = None,
        handler_deadline_s: float | None = None,
    ) -> None:
        """As `run`, by the batch. The handler returns None if all is done, or those of the batch that failed; if it
        raises, the whole batch has failed. The good ones are acknowledged together."""
        self._prefetch_for((size or PREFETCH) * concurrency)
        size = self._check_batch(size, wait_s)
        caller = self._caller(handler, concurrency, threads, handler_deadline_s)

        async def work() -> None:
            while (batch := await self._gather(size, wait_s)) is not None:
                await self._work_on_batch(batch, caller)

        await self._run(work, caller, concurrency)

    def _check_batch(self, size: int | None, wait_s: float) -> int:
        """The size that is meant."""
        prefetch = self._subscription.prefetch
        if size is None:
            given = self._subscription.options.prefetch
            size = PREFETCH if given is None else BATCH if self._subscription.options.no_ack else given or BATCH
        if size < 1 or wait_s < 0:
            raise ValueError(f"a batch of {size} within {wait_s} s makes no sense")
        if 0 < prefetch < size and not self._subscription.options.no_ack:
            raise ValueError(f"batches of {size} never fill with prefetch={prefetch}: it must be at least the size")
        return size

    async def _gather(self, size: int, wait_s: float) -> Batch[M] | None:
        """The next batch, all of one channel; None when all is over."""
        gathered: list[M] = []
        try:
            await self._fill(gathered, size, wait_s)
        except BaseException:
            # Whoever does not wait for the rest must not keep others from these.
            self._subscription.give_back([plain(message) for message in gathered])
            raise
        if self._subscription.is_over:
            self._subscription.give_back([plain(message) for message in gathered])
            return None
        return Batch(gathered)

    async def _fill(self, gathered: list[M], size: int, wait_s: float) -> None:
        until: float | None = None
        while len(gathered) < size and not self._subscription.is_over:
            message = await self._take(until)
            if gathered and plain(gathered[0]).is_stale:
                # There is a new channel, or will be: the broker delivers these once more.
                gathered.clear()
                until = None
            if message is None:
                if gathered:
                    return
            else:
                gathered.append(message)
            if until is None and gathered:
                until = asyncio.get_running_loop().time() + wait_s

    async def _work_on_batch(self, batch: Batch[M], caller: Caller) -> None:
        error: Exception | None = None
        failed: Iterable[M] = ()
        try:
            failed = await caller.call(batch) or ()
        except asyncio.CancelledError:
            with contextlib.suppress(StaleDelivery):
                batch.nack(requeue=True)
            raise
        except Exception as problem:  # noqa: BLE001 - whatever a handler raises, its batch has to be settled
            failed, error = batch.deliveries, problem
            self._failures.log_failure(plain(batch.deliveries[0]), problem)
        error = error or RuntimeError("its handler named it as failed")
        unsettled = [delivery for delivery in map(plain, failed) if not delivery.is_settled]
        try:
            if unsettled and self._failures.pauses(error):
                await asyncio.sleep(self._failures.requeue_pause_s)
            for delivery in unsettled:
                await self._failures.fail(delivery, error, pause=False)
        except asyncio.CancelledError:
            for delivery in unsettled:
                self._failures.requeue(delivery)
            raise
        finally:
            if batch.is_stale:
                self._failures.stale += sum(not plain(one).is_settled for one in batch)
            else:
                batch.ack()


def _left(end: float) -> float:
    return max(0.0, end - asyncio.get_running_loop().time())


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
