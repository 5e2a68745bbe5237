"""Connections to PostgreSQL, lent one at a time to whoever has a transaction to do.

From a DSN it keeps a few of its own, made when they are needed; a psycopg pool is asked instead, and a single
connection is lent to one after another. Never ends a transaction: that is the borrower's."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeAlias

from leveret.client.database.errors import DatabaseBusy, DatabaseUnavailable, TransactionMisused
from leveret.client.errors import ClientClosed

try:
    import psycopg
    from psycopg import AsyncConnection
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import TransactionStatus
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("PostgreSQL needs psycopg 3: pip install 'psycopg[binary]'", name="psycopg") from missing

__all__ = ["Connection", "ConnectionPool", "PostgresConnections", "PostgresSource", "connected", "unavailable"]

# Rows are what the user's own row factory makes of them.
Connection: TypeAlias = AsyncConnection[Any]


class ConnectionPool(Protocol):
    """What is asked of a pool; psycopg_pool.AsyncConnectionPool is one."""

    def connection(self, timeout: float | None = None) -> AbstractAsyncContextManager[Connection]: ...


PostgresSource: TypeAlias = str | Connection | ConnectionPool

CONNECT_DEADLINE_S = 10
# A server that vanished without a word is noticed in about half a minute, unless the DSN says otherwise.
KEEPALIVES = {
    "connect_timeout": CONNECT_DEADLINE_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


async def connected(dsn: str, application_name: str) -> Connection:
    """A connection in autocommit mode: a transaction is begun by name, never by accident."""
    try:
        settings: dict[str, Any] = {**KEEPALIVES, "application_name": application_name, **conninfo_to_dict(dsn)}
        async with asyncio.timeout(2 * CONNECT_DEADLINE_S):
            return await AsyncConnection.connect(make_conninfo(**settings), autocommit=True)
    except (psycopg.OperationalError, TimeoutError) as error:
        raise unavailable(error) from error


def unavailable(error: BaseException) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"PostgreSQL cannot be reached: {str(error).strip() or type(error).__name__}")


class PostgresConnections:
    def __init__(self, source: PostgresSource, *, count_max: int = 4, application_name: str = "leveret") -> None:
        if count_max < 1:
            raise ValueError(f"at least one connection is needed, not {count_max}")
        self._source = source
        self._application_name = application_name
        # Of a DSN: those that nobody has borrowed, the last used one at the end.
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(1 if isinstance(source, AsyncConnection) else count_max)
        self._is_closed = False

    @asynccontextmanager
    async def borrow(self, deadline_s: float) -> AsyncIterator[Connection]:
        """A connection outside any transaction; waits at most `deadline_s` for one to be free."""
        if self._is_closed:
            raise ClientClosed("these connections to PostgreSQL were closed here")
        if not isinstance(self._source, str | AsyncConnection):
            async with AsyncExitStack() as stack:
                try:
                    connection = await stack.enter_async_context(self._source.connection(timeout=deadline_s))
                except psycopg.OperationalError as error:
                    raise unavailable(error) from error
                yield checked_idle(connection)
            return
        try:
            async with asyncio.timeout(deadline_s):
                await self._room.acquire()
        except TimeoutError as error:
            raise DatabaseBusy(f"all connections to PostgreSQL were in use for {deadline_s} s") from error
        try:
            if isinstance(self._source, AsyncConnection):
                yield checked_idle(self._source)
            else:
                async with self._own(self._source) as connection:
                    yield connection
        finally:
            self._room.release()

    @asynccontextmanager
    async def _own(self, dsn: str) -> AsyncIterator[Connection]:
        connection = await self._live() or await connected(dsn, self._application_name)
        try:
            yield connection
        finally:
            # After an error in an unlucky moment the state may be anything; only a quiet connection is used again.
            if not self._is_closed and is_quiet(connection):
                self._idle.append(connection)
            else:
                await connection.close()

    async def _live(self) -> Connection | None:
        """An idle connection on which the server has not hung up. One that it left says so by being readable."""
        while self._idle:
            connection = self._idle.pop()
            if is_quiet(connection) and not is_readable(connection):
                return connection
            await connection.close()
        return None

    async def close(self) -> None:
        """Closes its own connections; those that are lent, when they come back. Never those of the user."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()


def checked_idle(connection: Connection) -> Connection:
    if connection.closed:
        raise DatabaseUnavailable("the connection to PostgreSQL is closed")
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise TransactionMisused("the PostgreSQL connection is in a transaction already; commit it first")
    return connection


def is_quiet(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


def is_readable(connection: Connection) -> bool:
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
