"""A client at work while the world breaks: producers, consumers with retries, a queue that the broker names, questions.

async with Load(proxy.url, ledger) as load:
    ...                              # faults
    await load.settle()              # all is well again: everything that was promised must come true
check(ledger, load.findings)"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from leveret.client import Connection, Producer, connect
from leveret.client.topology import Binding, Exchange, Queue, Retry
from tests.client.adversity.checkers import twice
from tests.client.adversity.consumers import Reader, double, drained
from tests.client.adversity.ledger import Ledger
from tests.client.adversity.producers import Publisher, Say, ask_on, say
from tests.client.waiting import until
from tests.conformance.topology import unique_name

OPTIONS: Final[dict[str, Any]] = {
    "backoff_min_s": 0.005,
    "backoff_max_s": 0.1,
    "connect_deadline_s": 2.0,
    "close_deadline_s": 2.0,
    "wait_s": 10.0,
}
# Without anything that comes.
SETTLE_S: Final = 15.0
RETRY_DELAY_S: Final = 0.05
CLOSE_S: Final = 15.0


class Load:
    """`exact` adds what only Leveret promises when a broker dies: dead letters that are safe, and messages once."""

    def __init__(
        self, url: str, ledger: Ledger, *, exact: bool = True, deadline_s: float = 20.0, **options: Any
    ) -> None:
        self.url = url
        self.ledger = ledger
        self.exact = exact
        self.deadline_s = deadline_s
        self.options = {**OPTIONS, "deadline_s": deadline_s, **options}
        self.findings: list[str] = []
        name = unique_name("load")
        self.work, self.plain, self.once = f"{name}.work", f"{name}.plain", f"{name}.once"
        self.asked, self.fan = f"{name}.asked", f"{name}.fan"
        self.retry = Retry(self.work, delays_s=(RETRY_DELAY_S,), max_retries=20) if exact else None
        self.stopping = asyncio.Event()
        self.say: Say = say
        # A mistake that the checkers must find: the queue that is to take messages once does not know what it had.
        self.forgetful = False
        self.connection: Connection
        self.readers: dict[str, Reader] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._publishing: list[asyncio.Task[None]] = []
        self._producers: list[Producer] = []
        self._stack = AsyncExitStack()
        self._watch: asyncio.Task[None] | None = None

    # ---- its life

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self.ledger.watch_lag())
        try:
            self.connection = await connect(self.url, **self.options)
            self._stack.push_async_callback(self._close)
            await self._declare()
            self._publish()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stopping.set()
        tasks = [*self._publishing, *self._reading.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def _close(self) -> None:
        with self.ledger.bounded("close", CLOSE_S):
            await self.connection.close()

    async def _declare(self) -> None:
        topology = self.connection.topology
        work: Queue | Retry = Queue(self.work) if self.retry is None else self.retry
        await topology.declare(work, Queue(self.plain), Queue(self.asked), Exchange(self.fan, "fanout"))
        if self.exact:
            once = {} if self.forgetful else {"x-message-deduplication": True, "x-cache-size": 1_000_000}
            await topology.declare(Queue(self.once, arguments=once))
        handle = await topology.declare_queue(Queue("", durable=False, exclusive=True))
        await topology.declare(Binding(self.fan, handle))
        await self._stack.enter_async_context(self.connection.serve(self.asked, double))
        for name, queue in (("worker", self.work), ("looper", self.plain), ("listener", handle)):
            self.readers[name] = Reader(self.connection, queue, self.ledger, name)
            self._read(name)

    def _read(self, name: str) -> None:
        reader = self.readers[name]
        work: Coroutine[Any, Any, None] = reader.handle(self.retry) if name == "worker" else reader.loop()
        self._reading[name] = asyncio.create_task(work, name=name)

    def _publisher(self, name: str, queue: str) -> Publisher:
        return Publisher(f"{name}-{queue}", queue, self.ledger, self.stopping, self.deadline_s)

    def _producer(self, *where: str, **options: Any) -> Producer:
        made = self.connection.producer(*where, **options)
        self._producers.append(made)
        return made

    def _publish(self) -> None:
        producer = self._producer
        listened = self._publisher("heard", "listener")
        # The queue of the listener goes with its connection, and what is in it as well.
        listened.counts = listened.is_consumed = False
        self._start(listened.one_by_one(producer(self.fan)))
        self._start(self._publisher("single", self.work).one_by_one(producer("", self.work), self.say))
        self._start(self._publisher("future", self.plain).by_futures(producer("", self.plain)))
        hasty = self._publisher("hasty", self.plain)
        self._start(hasty.impatiently(producer("", self.plain, window=3), random.Random(self.plain)))
        self._start(self._publisher("batch", self.plain).by_batches(producer("", self.plain)))
        if self.exact:
            once = self._publisher("once", self.once)
            once.is_consumed = False
            self._start(once.one_by_one(producer("", self.once, deduplicate=True)))
        self._start(ask_on(self.connection, self.asked, self.ledger, self.stopping, self.deadline_s))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._publishing.append(asyncio.create_task(work))

    # ---- what tests do to it

    async def crash_consumers(self) -> None:
        """As if the applications were killed and started again: what was in their hands comes again."""
        for name in ("worker", "looper"):
            task = self._reading[name]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._read(name)

    async def settle(self) -> None:
        """Everything is well again. Whoever publishes ends, and all that was confirmed must be worked on."""
        self.stopping.set()
        with self.ledger.bounded("the last answers", self.deadline_s):
            for ended in await asyncio.gather(*self._publishing, return_exceptions=True):
                if isinstance(ended, BaseException):
                    self.findings.append(f"raised: {ended!r}")
        await self._channels_again()
        self._find_leftovers()
        await self._prove_listener()
        await self._processed(SETTLE_S)
        for name, task in self._reading.items():
            if task.done():
                self.findings.append(f"raised: {name} ended: {task.exception() or 'without an error'!r}")
        if self.exact:
            self.findings += twice(self.ledger, await drained(self.connection, self.once, self.ledger), self.once)
            # That they are in the queue was asked here.
            self.ledger.processed.update(
                message for message, attempt in self.ledger.attempts.items() if attempt.queue == self.once
            )
            assert self.retry is not None and self.retry.parking_lot_name is not None
            self.ledger.parked.update(await drained(self.connection, self.retry.parking_lot_name, self.ledger))
        await self._delete()

    async def _channels_again(self) -> None:
        """The last answer may have been an error, and the connection is only now coming back."""
        await until(lambda: not self.connection.pool.statistics.opening, "channels for all", self.deadline_s)

    def _find_leftovers(self) -> None:
        """Everybody was answered: no producer may still keep something, nor somebody stand in a line."""
        for producer in self._producers:
            if producer.in_flight or producer.in_flight_bytes or producer.waiting:
                kept = f"{producer.in_flight} messages, {producer.in_flight_bytes} octets, {producer.waiting} waiting"
                self.findings.append(f"kept: {producer.name} has {kept}")
        pool = self.connection.pool.statistics
        if pool.borrowed != len(self._producers) or pool.waiting or pool.opening:
            self.findings.append(f"kept: {pool} with {len(self._producers)} producers")

    async def _prove_listener(self) -> None:
        """The queue that the broker names is bound, and consumed, under whatever name it has now."""
        publisher = self._publisher("proof", "listener")
        message, body = publisher.attempt()
        with self.ledger.bounded("the proof", self.deadline_s):
            await self.connection.producer(self.fan).publish(body)
            publisher.confirmed(message)

    async def _processed(self, seconds: float) -> None:
        """Waits until nothing is missing, or nothing has come for so long; what then still is, the checkers find."""
        ledger, loop = self.ledger, asyncio.get_running_loop()
        missing = {one for one in ledger.confirmed if ledger.attempts[one].queue != self.once}
        end = loop.time() + seconds
        while loop.time() < end:
            before = len(missing)
            missing -= ledger.processed
            if not missing:
                return
            if len(missing) < before:
                end = loop.time() + seconds
            await asyncio.sleep(0.05)

    async def _delete(self) -> None:
        for task in self._reading.values():
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)
        topology = self.connection.topology
        names = [handle for handle in topology.queues if not handle.is_server_named and handle.name != self.asked]
        with self.ledger.bounded("the end of the topology", len(names) * self.deadline_s):
            await topology.delete(*names, *topology.exchanges)
