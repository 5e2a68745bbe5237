"""The pool of connections for threads. Each connection has a thread of its own, as any that is blocking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from leveret.client.blocking.connection import Connection, connect
from leveret.client.blocking.pool import PooledChannel
from leveret.client.errors import ClientClosed
from leveret.client.transport.recovery import State
from leveret.client.url import DEFAULT_URL

if TYPE_CHECKING:
    from leveret.client.blocking.consumer import Consumer
    from leveret.client.blocking.producer import Producer
    from leveret.client.topology.handle import QueueHandle

__all__ = ["ConnectionPool"]


class ConnectionPool:
    """`with ConnectionPool("amqp://localhost", connections=4) as pool`. The options are those of `connect`; the pools
    of channels are filled at the start, unless fill_pool=False. With a `name` each connection has a number behind
    it."""

    def __init__(self, urls: str | Sequence[str] = DEFAULT_URL, *, connections: int = 2, **options: Any) -> None:
        if connections < 1:
            raise ValueError(f"connections is {connections}, and must be at least 1")
        self._urls = urls
        self._count = connections
        self._options = options
        self._connections: tuple[Connection, ...] = ()
        self._is_closed = False

    @property
    def connections(self) -> tuple[Connection, ...]:
        """All of them, lost ones too; none before the pool is opened."""
        return self._connections

    def open(self) -> ConnectionPool:
        """Opens all connections. Raises what keeps one of them from being opened, and then leaves none open."""
        if self._connections or self._is_closed:
            raise ClientClosed("a pool of connections is opened once")
        with ExitStack() as opened:
            made = [opened.enter_context(self._connect(number)) for number in range(1, self._count + 1)]
            opened.pop_all()
        self._connections = tuple(made)
        return self

    def _connect(self, number: int) -> Connection:
        given = {"fill_pool": True, **self._options}
        if given.get("name"):
            given["name"] = f"{given['name']}-{number}"
        return connect(self._urls, **given)

    def connection(self) -> Connection:
        """The least busy connection that is open, or, if none is, the least busy that may come back. It is shared: do
        not close it."""
        if self._is_closed or not self._connections:
            raise ClientClosed("the pool of connections is closed" if self._is_closed else "the pool is not opened yet")
        return min(self._connections, key=_order)

    @contextmanager
    def borrow(
        self, deadline_s: float | None = None, confirm_deadline_s: float | None = None
    ) -> Iterator[PooledChannel]:
        """A channel of the least busy connection for oneself, as Pool.borrow."""
        with self.connection().pool.borrow(deadline_s, confirm_deadline_s) as channel:
            yield channel

    def producer(self, exchange: str = "", routing_key: str = "", **options: Any) -> Producer:
        """A producer on the least busy connection, as Connection.producer."""
        return self.connection().producer(exchange, routing_key, **options)

    def consumer(self, queue: str | QueueHandle, **options: Any) -> Consumer[Any]:
        """A consumer on the least busy connection, as Connection.consumer."""
        return self.connection().consumer(queue, **options)

    def close(self) -> None:
        """Closes all connections. Closing twice does nothing."""
        self._is_closed = True
        with ExitStack() as closing:
            for one in self._connections:
                closing.callback(one.close)

    def __enter__(self) -> ConnectionPool:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _order(connection: Connection) -> tuple[bool, bool, int]:
    """Those that are closed for good are the last, those that are lost before them."""
    state = connection.state
    return state is State.CLOSED, state is not State.OPEN, 0 if state is State.CLOSED else connection.busyness
