"""A connection for programs without asyncio: the same client, in a thread of its own.

    with connect("amqp://guest:guest@localhost/") as connection:
        channel = connection.channel()

May be used by many threads at once. What is left open when the program ends is closed then."""

from __future__ import annotations

import builtins
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from leveret.client.blocking.bridge import Bridge, LoopFactory
from leveret.client.blocking.channel import Channel, Delivery, put_back
from leveret.client.blocking.consumer import Consumer
from leveret.client.blocking.pool import Pool
from leveret.client.blocking.producer import Producer
from leveret.client.blocking.rpc import Rpc, RpcServer, plain_handler
from leveret.client.blocking.stream import Stream, SuperStream
from leveret.client.blocking.topology import Topology
from leveret.client.blocking.way import Way
from leveret.client.connection import Connection as AsyncConnection
from leveret.client.connection import connect as connect_async
from leveret.client.events import Event
from leveret.client.metrics import ConnectionMetrics
from leveret.client.options import Options
from leveret.client.payload import Typed
from leveret.client.topology.handle import QueueHandle
from leveret.client.transport.recovery import State
from leveret.client.url import DEFAULT_URL, Address

__all__ = ["Connection", "connect"]

T = TypeVar("T")

# Beyond the deadline of the orderly end itself: consumers and producers end before it.
CLOSE_EXTRA_S = 5.0
THREAD_END_S = 5.0
# A program that ends does not wait long for a connection that it forgot.
FORGOTTEN_S = 1.0


class Connection:
    """Use `connect`. Everything that waits on it has a deadline."""

    def __init__(self, bridge: Bridge, inner: AsyncConnection) -> None:
        self._bridge = bridge
        self._inner = inner
        self._deadline_s = inner.options.deadline_s
        # For who forgets to close it. Also called when the program ends.
        self._forgotten = weakref.finalize(self, _end_forgotten, bridge, inner)

    # ---- as it is

    @property
    def state(self) -> State:
        return self._inner.state

    @property
    def options(self) -> Options:
        return self._inner.options

    @property
    def address(self) -> Address:
        return self._inner.address

    @property
    def blocked(self) -> str | None:
        """Why the broker takes no messages at present, or None."""
        return self._inner.blocked

    @property
    def server_properties(self) -> dict[str, Any]:
        return self._inner.server_properties

    @property
    def reconnects_total(self) -> int:
        return self._inner.reconnects_total

    @property
    def busyness(self) -> int:
        """How much is done on it, to compare with others."""
        return self._bridge.do(lambda: self._inner.busyness)

    def metrics(self) -> ConnectionMetrics:
        """Everything that is counted, as it is now."""
        return self._bridge.do(self._inner.metrics)

    def events(self) -> Iterator[Event]:
        """What happens to this connection from now on, until it is closed. Waits for each event."""
        return self._bridge.iterate(self._bridge.do(self._inner.events))

    def __repr__(self) -> str:
        return f"<blocking {self._inner!r}>"

    # ---- what it is for

    def ready(self, deadline_s: float | None = None) -> None:
        """Waits until the connection is open and everything is restored."""
        self._way().call(deadline_s, self._inner.ready, deadline_s)

    def channel(self, deadline_s: float | None = None) -> Channel:
        """A channel of one's own. It does not come back when the connection is lost."""
        return Channel(self._way(), self._way().acquire(_close_channel, deadline_s, self._inner.channel, deadline_s))

    @property
    def topology(self) -> Topology:
        """What the application needs on the broker: declared, remembered, declared again after a reconnect."""
        return Topology(self._way(), self._bridge.do(lambda: self._inner.topology))

    @property
    def pool(self) -> Pool:
        """Channels to borrow."""
        return Pool(self._way(), self._bridge.do(lambda: self._inner.pool))

    def producer(
        self, exchange: str = "", routing_key: str = "", *, mandatory: bool = True, **options: Any
    ) -> Producer:
        """Something to publish with, for any number of threads. Exchange, routing key and `mandatory` are what messages
        have that say nothing else; so are properties, such as `app_id="shop"`. The options are in
        leveret.client.publishing.producer_options."""
        inner = self._bridge.do(self._inner.producer, exchange, routing_key, mandatory=mandatory, **options)
        return Producer(self._way().with_deadline(options.get("deadline_s")), inner)

    @overload
    def consumer(self, queue: str | QueueHandle, *, type: None = None, **options: Any) -> Consumer[Delivery]: ...

    @overload
    def consumer(self, queue: str | QueueHandle, *, type: builtins.type[T], **options: Any) -> Consumer[Typed[T]]: ...

    def consumer(self, queue: str | QueueHandle, *, type: Any = None, **options: Any) -> Consumer[Any]:
        """Deliveries of a queue, given by its name or as the topology's handle. With `type` bodies are decoded, from
        JSON or MessagePack. The options are in leveret.client.consuming.consumer_options."""
        inner = self._bridge.do(lambda: self._inner.consumer(queue, type=type, **options))
        way = self._way().with_deadline(options.get("deadline_s"))
        return Consumer(way, inner, auto_ack=bool(options.get("auto_ack")))

    def get(
        self, queue: str | QueueHandle, *, no_ack: bool = False, deadline_s: float | None = None
    ) -> Delivery | None:
        """One message of a queue, or None if it has none. To be settled like any other."""
        got = self._way().acquire(put_back, deadline_s, self._inner.get, queue, no_ack=no_ack, deadline_s=deadline_s)
        return None if got is None else Delivery(self._bridge, got)

    def rpc(self, **options: Any) -> Rpc:
        """Asks questions: `with connection.rpc() as rpc: reply = rpc.call(...)`."""
        return Rpc(self._way().with_deadline(options.get("deadline_s")), self._bridge.do(self._inner.rpc, **options))

    def serve(self, queue: str, handler: Callable[[Any], Any], **options: Any) -> RpcServer:
        """Answers questions with a plain function, called in threads: `with connection.serve(queue, handler)`."""
        plain = plain_handler(self._bridge, handler)
        return RpcServer(self._way(), self._bridge.do(self._inner.serve, queue, plain, **options))

    def stream(self, name: str, **options: Any) -> Stream:
        """Reads a stream: `with connection.stream(name, offset="first") as stream: for message in stream`."""
        return Stream(self._way(), self._bridge.do(self._inner.stream, name, **options))

    def super_stream(self, name: str, **options: Any) -> SuperStream:
        """Reads all partitions of a super stream as one."""
        return SuperStream(self._way(), self._bridge.do(self._inner.super_stream, name, **options))

    def _way(self) -> Way:
        return Way(self._bridge, self, self._deadline_s)

    # ---- the end

    def close(self) -> None:
        """Stops consumers and producers in an orderly way, then the connection and its thread. Closing twice does
        nothing; in a child of the process that connected it does nothing either."""
        if self._forgotten.detach() is None or self._bridge.is_foreign:
            return
        try:
            self._bridge.call(self.options.close_deadline_s + CLOSE_EXTRA_S, self._inner.close)
        finally:
            self._bridge.close(THREAD_END_S)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _close_channel(channel: Any) -> None:
    await channel.close()


async def _close_connection(connection: AsyncConnection) -> None:
    await connection.close()


def _end_forgotten(bridge: Bridge, inner: AsyncConnection) -> None:
    """Nobody holds the connection any more, or the program ends; only the latter waits, and not for long."""
    if bridge.is_foreign:
        return
    # The interpreter has ended this thread before it calls finalizers.
    is_program_over = not threading.main_thread().is_alive()
    if not is_program_over:
        warnings.warn(f"{inner!r} was not closed", ResourceWarning, stacklevel=2)
    bridge.end_soon(inner.close, FORGOTTEN_S)
    if is_program_over:
        bridge.join(FORGOTTEN_S)


def connect(
    urls: str | Sequence[str] = DEFAULT_URL, *, loop_factory: LoopFactory | None = None, **options: Any
) -> Connection:
    """A connection to the first of these brokers that answers, as leveret.client.connect makes it. `with` closes it.

    `loop_factory` makes the event loop of its thread, such as uvloop.new_event_loop."""
    # Wrong URLs and options are found before there is a thread.
    connecting = connect_async(urls, **options)

    async def open_it() -> AsyncConnection:
        return await connecting

    bridge = Bridge(loop_factory)
    try:
        # How long that takes is up to the options: hosts, attempts, pauses.
        inner = bridge.acquire(_close_connection, None, open_it)
    except BaseException:
        bridge.close(THREAD_END_S)
        raise
    return Connection(bridge, inner)
