"""The store of handled messages in SQLite, with the sqlite3 of the standard library.

One connection, one transaction at a time: SQLite has one writer. The write lock is taken with BEGIN IMMEDIATE before
the id is looked at, so a duplicate in another process waits until the first is committed or undone."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from leveret.client.database.errors import DatabaseBusy, TransactionMisused
from leveret.client.database.sqlite_thread import SqliteSource, SqliteThread, begin, translated, undo
from leveret.client.database.table_name import TableName
from leveret.client.idempotent.store import TTL_S, Work
from leveret.client.idempotent.table_store import TableStore

__all__ = ["SqliteStore", "SqliteWork"]


class SqliteWork(Work[sqlite3.Connection]):
    """`connection` is a plain sqlite3 connection. Short statements may be executed right there, because the lock is
    held and nothing can block but the disk; `run` takes longer ones off the loop."""

    def __init__(self, connection: sqlite3.Connection | None, stored: str | None, thread: SqliteThread) -> None:
        super().__init__(connection, stored)
        self._thread = thread

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Gives function(connection, *arguments), called in the store's thread. The function is a plain one."""
        if inspect.iscoroutinefunction(function):
            raise TypeError("run() takes a plain function here, which it calls in a thread; await a coroutine yourself")
        connection = self.connection
        return await self._thread.run(lambda _: function(connection, *arguments))


class SqliteStore(TableStore[SqliteWork]):
    """`source` is a path, or a sqlite3 connection opened with check_same_thread=False that nobody else uses meanwhile.
    After every `purge_every` messages up to `purge_batch` old ids are forgotten."""

    runs_plain_functions = True

    def __init__(
        self,
        source: SqliteSource,
        *,
        ttl_s: float = TTL_S,
        table: str = "leveret_handled",
        deadline_s: float = 10.0,
        purge_every: int = 500,
        purge_batch: int = 1000,
    ) -> None:
        super().__init__(TableName.checked(table, with_schema=False), ttl_s, deadline_s, purge_every, purge_batch)
        self._thread = SqliteThread(source, busy_s=deadline_s)
        # Held from before BEGIN until after COMMIT or ROLLBACK: there is one connection.
        self._turn = asyncio.Lock()
        # Whether a transaction of ours is open; a connection of the user's may be in one of his. The thread's alone.
        self._is_begun = False

    async def create(self) -> None:
        await self._thread.run(self._create)

    @asynccontextmanager
    async def _transaction(self, message_id: str, consumer: str, deadline_s: float) -> AsyncIterator[SqliteWork]:
        async with self._own_turn(deadline_s) as left_s:
            try:
                found = await self._thread.run(self._begin, message_id, consumer, left_s)
                work = SqliteWork(*found, self._thread)
                yield work
                if work.is_new:
                    await self._thread.run(self._commit, message_id, consumer, work.stored)
                    await self._committed(lambda: self._thread.run(self._purge, self._deadline_s))
            finally:
                # Nothing is left of it after a commit. Not skipped by a cancellation either: the thread is in order.
                await self._thread.run(self._undo)

    async def _purge_some(self) -> int:
        async with self._own_turn(self._deadline_s) as left_s:
            return await self._thread.run(self._purge, left_s)

    async def close(self) -> None:
        """Waits for the message in hand, at most its deadline, then closes the database if the store opened it."""
        with contextlib.suppress(DatabaseBusy), self._counting_busy():
            async with self._own_turn(self._deadline_s):
                pass
        await self._thread.close()

    @asynccontextmanager
    async def _own_turn(self, deadline_s: float) -> AsyncIterator[float]:
        """Waits until no other message of this store is in a transaction; gives what is left of the deadline."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(deadline_s):
                await self._turn.acquire()
        except TimeoutError as error:
            raise DatabaseBusy(f"another message of this store was in its transaction for {deadline_s} s") from error
        try:
            yield max(0.0, deadline_s - (time.monotonic() - began))
        finally:
            self._turn.release()

    # ---- in the thread

    def _create(self, connection: sqlite3.Connection) -> None:
        begin(connection, self._deadline_s)
        try:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table.sql} (consumer TEXT NOT NULL, message_id TEXT NOT NULL, "
                "handled_at REAL NOT NULL, result TEXT, PRIMARY KEY (consumer, message_id)) WITHOUT ROWID"
            )
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", (self._table.plain,)).fetchall()
            if ("result",) not in columns:
                # Made before results were kept.
                connection.execute(f"ALTER TABLE {self._table.sql} ADD COLUMN result TEXT")
            connection.execute(
                f"CREATE INDEX IF NOT EXISTS {self._table.index('by_age')} ON {self._table.sql} (handled_at)"
            )
            connection.commit()
        finally:
            undo(connection)

    def _begin(
        self, connection: sqlite3.Connection, message_id: str, consumer: str, busy_s: float
    ) -> tuple[sqlite3.Connection | None, str | None]:
        """The connection in an open transaction that holds the id; None if the id was there, and what was stored."""
        begin(connection, busy_s)
        self._is_begun = True
        now = time.time()
        # An id past its time counts as forgotten, whether it was purged yet or not.
        cursor = connection.execute(
            f"INSERT INTO {self._table.sql} AS seen (consumer, message_id, handled_at) VALUES (?, ?, ?) "
            "ON CONFLICT (consumer, message_id) DO UPDATE SET handled_at = excluded.handled_at, result = NULL "
            "WHERE seen.handled_at <= ?",
            (consumer, message_id, now, now - self._ttl_s),
        )
        if cursor.rowcount == 1:
            return connection, None
        (stored,) = connection.execute(
            f"SELECT result FROM {self._table.sql} WHERE consumer = ? AND message_id = ?", (consumer, message_id)
        ).fetchone()
        return None, stored

    def _commit(self, connection: sqlite3.Connection, message_id: str, consumer: str, stored: str | None) -> None:
        if not connection.in_transaction:
            raise TransactionMisused(
                "the block ended its transaction itself (commit(), rollback() and executescript() do); "
                "what it did is not tied to the message id"
            )
        try:
            if stored is not None:
                connection.execute(
                    f"UPDATE {self._table.sql} SET result = ? WHERE consumer = ? AND message_id = ?",
                    (stored, consumer, message_id),
                )
            connection.commit()
        except sqlite3.Error as error:
            raise translated(error) from error

    def _undo(self, connection: sqlite3.Connection) -> None:
        if self._is_begun:
            self._is_begun = False
            undo(connection)

    def _purge(self, connection: sqlite3.Connection, busy_s: float) -> int:
        begin(connection, busy_s)
        try:
            cursor = connection.execute(
                f"DELETE FROM {self._table.sql} WHERE (consumer, message_id) IN (SELECT consumer, message_id "
                f"FROM {self._table.sql} WHERE handled_at <= ? ORDER BY handled_at LIMIT ?)",
                (time.time() - self._ttl_s, self._purge_batch),
            )
            connection.commit()
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            undo(connection)
        return cursor.rowcount
