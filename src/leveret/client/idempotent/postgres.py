"""The store of handled messages in PostgreSQL, with psycopg 3 and its async connections.

The insert of the id is what orders duplicates: PostgreSQL lets the second insert of one key wait until the first
transaction has ended. Moments are the server's, so that workers with different clocks agree."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from leveret.client.database.errors import DatabaseBusy, DatabaseUnavailable
from leveret.client.database.postgres_connections import Connection, PostgresConnections, PostgresSource, unavailable
from leveret.client.database.table_name import TableName
from leveret.client.idempotent.store import TTL_S, Work
from leveret.client.idempotent.table_store import TableStore

try:
    import psycopg
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("PostgreSQL needs psycopg 3: pip install 'psycopg[binary]'", name="psycopg") from missing

__all__ = ["PostgresStore", "PostgresWork"]

# Serialises workers that create the same tables at the same moment; any fixed number does.
CREATE_LOCK = 0x1E7E_4E70


class PostgresWork(Work[Connection]):
    """`connection` is a psycopg AsyncConnection; psycopg refuses commit() and rollback() on it inside the block."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Gives await function(connection, *arguments). The function is a coroutine function."""
        if not inspect.iscoroutinefunction(function):
            raise TypeError("run() takes an async function here, because the connection is psycopg's async one")
        return await function(self.connection, *arguments)


class PostgresStore(TableStore[PostgresWork]):
    """`source` is a DSN, for which up to `connections` are kept, a psycopg_pool.AsyncConnectionPool, or one
    AsyncConnection. After every `purge_every` messages up to `purge_batch` old ids are forgotten."""

    runs_plain_functions = False
    purge_errors = (psycopg.Error, DatabaseUnavailable)

    def __init__(
        self,
        source: PostgresSource,
        *,
        ttl_s: float = TTL_S,
        table: str = "leveret_handled",
        deadline_s: float = 10.0,
        connections: int = 4,
        purge_every: int = 500,
        purge_batch: int = 1000,
    ) -> None:
        super().__init__(TableName.checked(table), ttl_s, deadline_s, purge_every, purge_batch)
        self._connections = PostgresConnections(
            source, count_max=connections, application_name="leveret-idempotent-consumer"
        )

    async def create(self) -> None:
        async with self._connections.borrow(self._deadline_s) as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATE_LOCK,))
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table.sql} (consumer TEXT NOT NULL, message_id TEXT NOT NULL, "
                "handled_at TIMESTAMPTZ NOT NULL, result TEXT, PRIMARY KEY (consumer, message_id))"
            )
            # Asked first, because a change of a table is for its owner alone, even one that changes nothing.
            cursor = await connection.execute(
                "SELECT 1 FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'result' AND NOT attisdropped",
                (self._table.sql,),
            )
            if await cursor.fetchone() is None:
                # Made before results were kept.
                await connection.execute(f"ALTER TABLE {self._table.sql} ADD COLUMN result TEXT")
            await connection.execute(
                f"CREATE INDEX IF NOT EXISTS {self._table.index('by_age')} ON {self._table.sql} (handled_at)"
            )

    @asynccontextmanager
    async def _transaction(self, message_id: str, consumer: str, deadline_s: float) -> AsyncIterator[PostgresWork]:
        work = PostgresWork(None)
        async with self._connections.borrow(deadline_s) as connection:
            with translating(connection, lambda: work.is_new):
                async with connection.transaction():
                    if await self._insert(connection, message_id, consumer, deadline_s):
                        work = PostgresWork(connection)
                    else:
                        work = PostgresWork(None, await self._stored(connection, message_id, consumer))
                    yield work
                    if work.is_new and work.stored is not None:
                        await connection.execute(
                            f"UPDATE {self._table.sql} SET result = %s WHERE consumer = %s AND message_id = %s",
                            (work.stored, consumer, message_id),
                        )
            if work.is_new:
                await self._committed(partial(self._purge, connection))

    async def _purge_some(self) -> int:
        async with self._connections.borrow(self._deadline_s) as connection:
            return await self._purge(connection)

    async def close(self) -> None:
        """Closes the connections that the store made itself."""
        await self._connections.close()

    async def _insert(self, connection: Connection, message_id: str, consumer: str, deadline_s: float) -> bool:
        """Whether the id is new. Waits for another transaction that is about to write the same one."""
        try:
            async with asyncio.timeout(deadline_s):
                # An id past its time counts as forgotten, whether it was purged yet or not.
                cursor = await connection.execute(
                    f"INSERT INTO {self._table.sql} AS seen (consumer, message_id, handled_at) "
                    "VALUES (%s, %s, clock_timestamp()) "
                    "ON CONFLICT (consumer, message_id) DO UPDATE SET handled_at = excluded.handled_at, result = NULL "
                    "WHERE seen.handled_at <= clock_timestamp() - %s * interval '1 second'",
                    (consumer, message_id, self._ttl_s),
                )
        except TimeoutError as error:
            raise DatabaseBusy(
                f"another worker was at message {message_id!r} of {consumer!r} for {deadline_s} s"
            ) from error
        return cursor.rowcount == 1

    async def _stored(self, connection: Connection, message_id: str, consumer: str) -> str | None:
        """The result of a message that was handled; None as well if it was purged in this very moment."""
        cursor = await connection.execute(
            f"SELECT result FROM {self._table.sql} WHERE consumer = %s AND message_id = %s", (consumer, message_id)
        )
        row = await cursor.fetchone()
        return None if row is None else row[0]

    async def _purge(self, connection: Connection) -> int:
        try:
            async with asyncio.timeout(self._deadline_s), connection.transaction():
                # Rows that somebody is about to use again, or to purge himself, are left alone.
                cursor = await connection.execute(
                    f"DELETE FROM {self._table.sql} WHERE (consumer, message_id) IN (SELECT consumer, message_id "
                    f"FROM {self._table.sql} WHERE handled_at <= clock_timestamp() - %s * interval '1 second' "
                    "ORDER BY handled_at LIMIT %s FOR UPDATE SKIP LOCKED)",
                    (self._ttl_s, self._purge_batch),
                )
        except TimeoutError as error:
            raise DatabaseBusy(f"the purge of old message ids took more than {self._deadline_s} s") from error
        return cursor.rowcount


@contextmanager
def translating(connection: Connection, is_in_block: Callable[[], bool]) -> Iterator[None]:
    """DatabaseUnavailable for what the server or the line did. An error of the block's own statement, on a connection
    that lives, is left as it is."""
    try:
        yield
    except psycopg.OperationalError as error:
        if is_in_block() and not connection.closed:
            raise
        raise unavailable(error) from error
