"""Several connections to one broker or cluster, opened at the start and used side by side.

One connection is one TCP stream and one turn at the broker: what it carries waits for each other. A pool spreads
producers, consumers and borrowed channels over its connections, the least busy first. Each connection has its own pool
of channels and comes back by itself; one that is lost is passed over until it does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from leveret.client.connection import Connection, connect
from leveret.client.errors import ClientClosed
from leveret.client.publishing.pooled_channel import Borrowing
from leveret.client.transport.recovery import State
from leveret.client.url import DEFAULT_URL

if TYPE_CHECKING:
    from leveret.client.consuming.consumer import Consumer
    from leveret.client.publishing.producer import Producer
    from leveret.client.topology.handle import QueueHandle

__all__ = ["ConnectionPool"]


class ConnectionPool:
    """`async with ConnectionPool("amqp://localhost", connections=4) as pool`. The options are those of `connect`; the
    pools of channels are filled at the start, unless fill_pool=False. With a `name` each connection has a number behind
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

    async def open(self) -> ConnectionPool:
        """Opens all connections at once. Raises what keeps one of them from being opened, and then leaves none open."""
        if self._connections or self._is_closed:
            raise ClientClosed("a pool of connections is opened once")
        opening = [asyncio.ensure_future(self._connect(number)) for number in range(1, self._count + 1)]
        try:
            self._connections = tuple(await asyncio.gather(*opening))
        except BaseException:
            for one in opening:
                one.cancel()
            done = await asyncio.gather(*opening, return_exceptions=True)
            await asyncio.gather(*(one.close() for one in done if isinstance(one, Connection)))
            self._is_closed = True
            raise
        return self

    async def _connect(self, number: int) -> Connection:
        given = {"fill_pool": True, **self._options}
        if given.get("name"):
            given["name"] = f"{given['name']}-{number}"
        return await connect(self._urls, **given)

    def connection(self) -> Connection:
        """The least busy connection that is open, or, if none is, the least busy that may come back. It is shared: do
        not close it."""
        if self._is_closed or not self._connections:
            raise ClientClosed("the pool of connections is closed" if self._is_closed else "the pool is not opened yet")
        return min(self._connections, key=_order)

    def borrow(self, deadline_s: float | None = None, confirm_deadline_s: float | None = None) -> Borrowing:
        """A channel of the least busy connection for oneself, as Pool.borrow."""
        return self.connection().pool.borrow(deadline_s, confirm_deadline_s)

    def producer(self, exchange: str = "", routing_key: str = "", **options: Any) -> Producer:
        """A producer on the least busy connection, as Connection.producer."""
        return self.connection().producer(exchange, routing_key, **options)

    def consumer(self, queue: str | QueueHandle, **options: Any) -> Consumer[Any]:
        """A consumer on the least busy connection, as Connection.consumer."""
        return self.connection().consumer(queue, **options)

    async def close(self) -> None:
        """Closes all connections. Closing twice does nothing."""
        self._is_closed = True
        await asyncio.gather(*(one.close() for one in self._connections))

    async def __aenter__(self) -> ConnectionPool:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _order(connection: Connection) -> tuple[bool, bool, int]:
    """Those that are closed for good are the last, those that are lost before them."""
    return connection.state is State.CLOSED, connection.state is not State.OPEN, connection.busyness
