"""A connection that lasts: links come and go beneath it, and what was built on it is built again.

`connect` is where everything begins. One task looks after the link; recovery.py decides when to try whom, and the parts
(topology, channel pool, producers, consumers) restore themselves in the order of their ranks."""

from __future__ import annotations

import asyncio
import builtins
import logging
import random
from collections.abc import AsyncIterator, Generator, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from leveret.client import events
from leveret.client.consuming.consumer import Consumer
from leveret.client.consuming.consumer_options import read_consumer_options
from leveret.client.consuming.getting import Getter
from leveret.client.errors import (
    AuthenticationFailed,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    again,
)
from leveret.client.events import Event, Events
from leveret.client.metrics import ConnectionMetrics, take_metrics
from leveret.client.options import Options, read_options
from leveret.client.owner import Part
from leveret.client.payload import Decoder, Typed
from leveret.client.publishing.pool import Pool
from leveret.client.publishing.producer import Producer
from leveret.client.rpc.caller import Rpc
from leveret.client.rpc.server import Handler, RpcServer
from leveret.client.streams.stream import Stream
from leveret.client.streams.super_stream import SuperStream
from leveret.client.topology.handle import QueueHandle
from leveret.client.topology.manager import Topology
from leveret.client.tracing import make_tracing
from leveret.client.transport.channel import Channel
from leveret.client.transport.handshake import open_link
from leveret.client.transport.link import Link
from leveret.client.transport.recovery import Recovery, State
from leveret.client.url import DEFAULT_URL, Address, parse_urls
from leveret.core.client.delivery import Delivery

__all__ = ["Connection", "connect"]

log = logging.getLogger(__name__)
T = TypeVar("T")


class Connection:
    """Use `connect`. Everything that waits on it has a deadline."""

    def __init__(self, addresses: Sequence[Address], options: Options) -> None:
        self._addresses = list(addresses)
        self.options = options
        self._loop = asyncio.get_running_loop()
        self._recovery = Recovery(
            len(self._addresses),
            options.backoff_min_s,
            options.backoff_max_s,
            options.wait_s,
            options.give_up_after_s,
            random.random,
            self._loop.time(),
        )
        self.tracing = make_tracing(options.tracing)
        self._events = Events()
        self._link: Link | None = None
        # What the application needs on the broker: declared, remembered, and declared again after a reconnect.
        self.topology = Topology(
            self.channel, virtual_host=self._addresses[0].vhost, deadline_s=self.options.deadline_s
        )
        self._parts: list[Part] = [self.topology]
        self._pool: Pool | None = None
        self._opened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed_by: ClientError | None = None
        self._closing = False
        self._last_reason = "it was never connected"
        self._getter = Getter(self)
        self.address: Address = self._addresses[0]
        self.reconnects_total = 0

    # ---- as it is

    @property
    def state(self) -> State:
        return self._recovery.state

    @property
    def blocked(self) -> str | None:
        """Why the broker takes no messages at present, or None."""
        return None if self._link is None or self._link.ended.done() else self._link.blocked

    @property
    def server_properties(self) -> dict[str, Any]:
        return {} if self._link is None else self._link.server_properties

    @property
    def link(self) -> Link | None:
        """The present connection to a broker, or the last one."""
        return self._link

    @property
    def parts(self) -> list[Part]:
        return list(self._parts)

    @property
    def busyness(self) -> int:
        """How much is done on it, to compare with others: producers, consumers, channels that are borrowed or waited
        for."""
        pool = None if self._pool is None else self._pool.statistics
        return len(self._parts) + (0 if pool is None else pool.borrowed + pool.waiting)

    def metrics(self) -> ConnectionMetrics:
        """Everything in numbers, as of now."""
        return take_metrics(self)

    def events(self) -> AsyncIterator[Event]:
        """What happens to this connection from now on."""
        return self._events.listen()

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {self.state.value}>"

    # ---- what it is for

    async def ready(self, deadline_s: float | None = None) -> Link:
        """The link, as soon as there is one and everything is restored."""
        if self.state is State.OPEN and self._link is not None and not self._link.ended.done():
            return self._link
        seconds = self.options.deadline_s if deadline_s is None else deadline_s
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._opened.wait()
                    self.check()
                    if self._link is not None and not self._link.ended.done():
                        return self._link
                    if self._closing:
                        raise ClientClosed("the connection is being closed")
                    # It has ended in this very turn: whoever looks after it is about to notice.
                    await asyncio.sleep(0)
        except TimeoutError:
            raise DeadlineExceeded(f"the connection was not open within {seconds:g} s: {self._last_reason}") from None

    async def channel(self, deadline_s: float | None = None) -> Channel:
        """A channel of one's own. It does not come back when the connection is lost."""
        seconds = self.options.deadline_s if deadline_s is None else deadline_s
        due = self._loop.time() + seconds
        link = await self.ready(seconds)
        return await Channel.open(link, self.options.deadline_s, max(due - self._loop.time(), 0.001))

    @overload
    def consumer(self, queue: str | QueueHandle, *, type: None = None, **options: Any) -> Consumer[Delivery]: ...

    @overload
    def consumer(self, queue: str | QueueHandle, *, type: builtins.type[T], **options: Any) -> Consumer[Typed[T]]: ...

    def consumer(self, queue: str | QueueHandle, *, type: Any = None, **options: Any) -> Consumer[Any]:
        """Deliveries of a queue, given by its name or as the topology's handle. With `type` bodies are decoded, from
        JSON or MessagePack. The options are in consumer_options.py."""
        self.check()
        decoder = None if type is None else Decoder(type)
        return Consumer(self, queue, decoder, read_consumer_options(options))

    async def get(
        self, queue: str | QueueHandle, *, no_ack: bool = False, deadline_s: float | None = None
    ) -> Delivery | None:
        """One message of a queue, or None if it has none. To be settled like any other."""
        name = self.topology.resolve(queue)
        return await self._getter.get(name, no_ack, self.options.deadline_s if deadline_s is None else deadline_s)

    def rpc(self, **options: Any) -> Rpc:
        """Asks questions: `async with connection.rpc() as rpc: reply = await rpc.call(...)`."""
        return Rpc(self, **options)

    def serve(self, queue: str, handler: Handler, **options: Any) -> RpcServer:
        """Answers questions: `async with connection.serve(queue, handler, concurrency=10)`, or `await` it."""
        return RpcServer(self, queue, handler, **options)

    def stream(self, name: str, **options: Any) -> Stream:
        """Reads a stream: `async with connection.stream(name, offset="first") as stream: async for message in ...`."""
        return Stream(self, name, **options)

    def super_stream(self, name: str, **options: Any) -> SuperStream:
        """Reads all partitions of a super stream as one."""
        return SuperStream(self, name, **options)

    def check(self) -> None:
        """Raises why the connection is closed, if it is."""
        if self._closed_by is not None:
            raise again(self._closed_by)

    @property
    def pool(self) -> Pool:
        """Channels to borrow, see pool.py."""
        if self._pool is None:
            self._pool = Pool(self)
        return self._pool

    def producer(
        self, exchange: str = "", routing_key: str = "", *, mandatory: bool = True, **options: Any
    ) -> Producer:
        """Something to publish with. Exchange, routing key and `mandatory` are what messages have that say nothing
        else; so are properties, such as `app_id="shop"`. The options are in producer_options.py."""
        return Producer.make(self, self.pool, exchange, routing_key, mandatory, options)

    # ---- its parts

    def attach(self, part: Part) -> None:
        self.check()
        self._parts.append(part)
        self._parts.sort(key=lambda one: one.rank)

    def detach(self, part: Part) -> None:
        if part in self._parts:
            self._parts.remove(part)

    def tell(self, event: Event) -> None:
        self._events.tell(event)

    # ---- its life

    async def open(self) -> Connection:
        """The first connection. Raises ConnectionFailed with every attempt, or AuthenticationFailed at once."""
        failures: list[tuple[str, str]] = []
        try:
            link = await self._attempts(failures, at_once=True)
        except BaseException:
            self._end(ClientClosed("it could not be opened"))
            raise
        if link is None:
            self._end(ClientClosed("it could not be opened"))
            tried = "; ".join(dict.fromkeys(reason for _, reason in failures))
            raise ConnectionFailed(f"no broker could be reached: {tried}", failures)
        await self._begin(link)
        self._task = asyncio.create_task(self._look_after(link), name="leveret-connection")
        if self.options.fill_pool:
            try:
                await self.pool.fill()
            except BaseException:
                await self.close()
                raise
        return self

    async def _attempts(self, failures: list[tuple[str, str]], at_once: bool) -> Link | None:
        """Tries until a broker lets us in; None if that is given up."""
        while True:
            address = self._addresses[self._recovery.next_host()]
            self.tell(events.Connecting(str(address), self._recovery.attempts + 1))
            try:
                link = await open_link(address, self.options)
            except AuthenticationFailed as error:
                if at_once:
                    error.attempts = [*failures, (str(address), str(error))]
                    raise
                # It may be that the broker has just started and does not know us yet.
                failure: ConnectionFailed = error
            except ConnectionFailed as error:
                failure = error
            else:
                self.address = address
                return link
            failures.append((str(address), str(failure)))
            self._last_reason = str(failure)
            pause = self._recovery.failed(self._loop.time())
            log.warning(
                "no connection: %s", failure, extra={"address": str(address), "reason": str(failure), "pause_s": pause}
            )
            self.tell(events.AttemptFailed(str(address), str(failure), pause or 0.0))
            if pause is None:
                return None
            await asyncio.sleep(pause)

    async def _begin(self, link: Link) -> None:
        """Restores everything on a new link. If that is lost meanwhile, whoever looks after it will see."""
        self._link = link
        link.on_blocked = self._on_blocked
        self._recovery.opened(self._loop.time())
        self.tell(events.Opened(str(self.address)))
        problems = 0
        done: list[Part] = []
        # Parts come and go meanwhile.
        while (part := next((one for one in self._parts if one not in done), None)) is not None:
            done.append(part)
            problem: Exception | None = None
            try:
                await part.restore(link)
            except ClientError as error:
                problem = error
                log.error("not restored: %s", error, extra={"part": part.name, "reason": str(error)})
            except Exception as error:
                # A mistake of ours; the others go on nevertheless.
                problem = error
                log.exception("not restored", extra={"part": part.name, "reason": str(error)})
            if link.ended.done():
                return
            if problem is not None:
                problems += 1
                self.tell(events.Problem(part.name, str(problem)))
        if link.ended.done():
            return
        self._recovery.restored()
        self._opened.set()
        self.tell(events.Restored(self._loop.time() - self._recovery.lost_at, problems))

    async def _look_after(self, link: Link) -> None:
        try:
            while True:
                reason = await asyncio.shield(link.ended)
                if self._closing:
                    return
                pause = self._lose(reason)
                if pause is None:
                    break
                await asyncio.sleep(pause)
                following = await self._attempts([], at_once=False)
                if following is None:
                    break
                link = following
                self.reconnects_total += 1
                await self._begin(link)
        except Exception as error:
            # A mistake of ours: nobody is to wait for what will not come.
            log.exception("the connection cannot go on")
            await self._stop_parts(ClientClosed(f"the connection failed inside: {error!r}"))
            raise
        await self._stop_parts(ClientClosed(f"recovery was given up: {self._last_reason}"))

    def _lose(self, reason: ClientError) -> float | None:
        self._opened.clear()
        self._last_reason = str(reason)
        pause = self._recovery.lost(self._loop.time())
        log.warning("the connection is lost: %s", reason, extra={"address": str(self.address), "reason": str(reason)})
        self.tell(events.Lost(str(reason)))
        for part in list(self._parts):
            part.lost(reason)
        return pause

    def _on_blocked(self, reason: str | None) -> None:
        self.tell(events.Unblocked() if reason is None else events.Blocked(reason))

    # ---- the end

    async def close(self) -> None:
        """Stops consumers and producers in an orderly way, then the connection. Closing twice does nothing. Whoever
        cancels it ends the connection at once."""
        if self._closing:
            return
        self._closing = True
        reason = ClientClosed("the connection was closed")
        try:
            if self.state is not State.OPEN:
                # Before the parts: none may be restored after it was stopped.
                await self._stop_looking_after()
            await self._stop_parts(reason)
            if self._link is not None:
                await self._link.close(self.options.close_deadline_s)
        finally:
            self._end(reason)
            await self._stop_looking_after()

    async def _stop_looking_after(self) -> None:
        if self._task is not None:
            self._task.cancel()
            # Not awaited itself: whoever cancels us is not to be mistaken for it.
            await asyncio.wait((self._task,))
            if not self._task.cancelled():
                self._task.exception()

    async def _stop_parts(self, reason: ClientError) -> None:
        # Consumers first, the topology last.
        for part in reversed(list(self._parts)):
            try:
                await part.stop(reason)
            except Exception:
                log.exception("not stopped", extra={"part": part.name})
        self._parts.clear()
        if not self._closing:
            self._end(reason)

    def _end(self, reason: ClientError) -> None:
        if self._closed_by is None:
            self._closed_by = reason
            self._recovery.closed()
            self._opened.set()
            self.tell(events.Closed(str(reason)))
            if self._link is not None:
                self._link.fail(ConnectionLost(str(reason)))

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class _Connecting:
    """Either `await` it, or enter it."""

    def __init__(self, urls: str | Sequence[str], given: dict[str, Any]) -> None:
        self._addresses = parse_urls(urls)
        self._options = read_options(self._addresses, given)
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def _open(self) -> Connection:
        self._connection = Connection(self._addresses, self._options)
        return await self._connection.open()

    async def __aenter__(self) -> Connection:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._connection is not None
        await self._connection.close()


def connect(urls: str | Sequence[str] = DEFAULT_URL, **options: Any) -> _Connecting:
    """A connection to the first of these brokers that answers:

        async with connect("amqp://guest:guest@localhost/") as connection: ...
        connection = await connect(["amqp://one", "amqp://two"], heartbeat=10)

    The options are in options.py. The connection comes back by itself when it is lost."""
    return _Connecting(urls, options)
