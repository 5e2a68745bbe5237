"""One SQLite connection and the one thread that works with it.

SQLite has one writer at a time, so a second connection would only wait for the first. The driver blocks, so it runs
beside the loop; calls are done one after another, in the order in which they were handed over, also when their caller
was cancelled: a rollback never overtakes the statement that it is to undo."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from leveret.client.database.errors import DatabaseBusy, DatabaseUnavailable, TransactionMisused
from leveret.client.errors import ClientClosed

__all__ = ["SqliteSource", "SqliteThread"]

SqliteSource = str | os.PathLike[str] | sqlite3.Connection

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# What another try, or another file, may mend; anything else is a mistake in a statement.
WORLD_CODES = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


class SqliteThread:
    """A path is opened at the first call and closed with this. A connection of yours stays yours: it must have been
    opened with check_same_thread=False, and nobody else may use it meanwhile."""

    def __init__(self, source: SqliteSource, *, busy_s: float = 5.0) -> None:
        self.path = "" if isinstance(source, sqlite3.Connection) else os.fspath(source)
        self._connection: sqlite3.Connection | None = None
        if isinstance(source, sqlite3.Connection):
            if getattr(source, "autocommit", -1) is False:
                raise TransactionMisused("a sqlite3 connection with autocommit=False is always in a transaction")
            self._connection = source
        self._is_ours = self._connection is None
        self._busy_s = busy_s
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leveret-sqlite")
        self._is_closed = False

    async def run(self, function: Callable[[sqlite3.Connection, *Ts], T], *arguments: *Ts) -> T:
        """function(connection, *arguments) in the thread. Handed over is done: a caller that is cancelled does not stop
        it."""
        if self._is_closed:
            raise ClientClosed(f"the SQLite database {self.path!r} was closed here")
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._executor, self._call, function, *arguments))

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._executor, self._close))
        self._executor.shutdown(wait=False)

    # ---- in the thread

    def _call(self, function: Callable[[sqlite3.Connection, *Ts], T], *arguments: *Ts) -> T:
        if self._connection is None:
            self._connection = self._opened()
        return function(self._connection, *arguments)

    def _opened(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self.path, timeout=self._busy_s, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # The message is acknowledged after the commit, so the commit must outlive a power cut.
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            connection.close()
            raise translated(error, self.path) from error
        return connection

    def _close(self) -> None:
        if self._connection is not None and self._is_ours:
            self._connection.close()
        self._connection = None


def begin(connection: sqlite3.Connection, busy_s: float) -> None:
    """Takes the write lock at once: nothing in the transaction can then fail for want of it."""
    if connection.in_transaction:
        raise TransactionMisused("the SQLite connection is in a transaction already; commit it first")
    try:
        connection.execute(f"PRAGMA busy_timeout = {max(0, round(busy_s * 1000))}")
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise translated(error) from error


def undo(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.rollback()


def translated(error: sqlite3.Error, path: str = "") -> Exception:
    """DatabaseBusy or DatabaseUnavailable, where that is what it is; else the error itself."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    where = f" {path!r}" if path else ""
    if code in BUSY_CODES:
        return DatabaseBusy(f"the SQLite database{where} is locked by another writer: {error}")
    if code in WORLD_CODES:
        return DatabaseUnavailable(f"the SQLite database{where} cannot be used: {error}")
    return error
