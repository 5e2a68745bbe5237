"""The outbox in SQLite. New rows are found by polling, which costs one look at an index.

The claim is a lock on a file beside the database, held through SQLite itself: the operating system drops it with the
process, so a relay that was killed leaves nothing to wait for, and no clock decides who may publish."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec

from leveret.client.database.errors import DatabaseBusy
from leveret.client.database.sqlite_thread import SqliteThread, begin, translated, undo
from leveret.client.database.table_name import TableName
from leveret.client.outbox.rows import COLUMNS, ERROR_LENGTH_MAX, OutboxRow, OutboxStatus, Settlement

__all__ = ["SqliteOutbox"]


class SqliteOutbox:
    """Published rows are deleted; with `keep_s` they stay that long, with the moment at which they were published."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "leveret_outbox",
        keep_s: float = 0.0,
        deadline_s: float = 10.0,
    ) -> None:
        self._path = os.fspath(path)
        if not self._path or self._path == ":memory:":
            raise ValueError("an outbox in memory would end with the process; give the path of a file")
        self._table = TableName.checked(table, with_schema=False)
        self._keep_s = keep_s
        self._deadline_s = deadline_s
        self._thread = SqliteThread(self._path, busy_s=deadline_s)
        # The lock, while we have it.
        self._lock: sqlite3.Connection | None = None

    async def create(self) -> None:
        await self._thread.run(self._create)

    async def claim(self) -> bool:
        return await self._thread.run(self._claim)

    async def fetch(self, count_max: int, bytes_max: int) -> list[OutboxRow]:
        return await self._thread.run(self._fetch, count_max, bytes_max)

    async def settle(self, settlement: Settlement) -> None:
        await self._thread.run(self._settle, settlement)

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)

    async def status(self) -> OutboxStatus:
        return await self._thread.run(self._status)

    async def purge(self, count_max: int) -> int:
        return await self._thread.run(self._purge, count_max) if self._keep_s else 0

    async def unpark(self, ids: Sequence[int] | None = None) -> int:
        return await self._thread.run(self._unpark, ids)

    async def release(self) -> None:
        thread, self._thread = self._thread, SqliteThread(self._path, busy_s=self._deadline_s)
        await thread.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def __aenter__(self) -> SqliteOutbox:
        await self.create()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.release()

    # ---- in the thread

    def _write(self, connection: sqlite3.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> int:
        """In one transaction; gives how many rows the last statement changed."""
        begin(connection, self._deadline_s)
        changed = 0
        try:
            for sql, parameters in statements:
                changed = connection.execute(sql, parameters).rowcount
            connection.commit()
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        finally:
            undo(connection)
        return changed

    def _read(self, connection: sqlite3.Connection, sql: str, *parameters: Any) -> list[Any]:
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def _create(self, connection: sqlite3.Connection) -> None:
        table = self._table
        columns = (
            "id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL UNIQUE, "
            "ordering_key TEXT NOT NULL DEFAULT '', exchange TEXT NOT NULL DEFAULT '', "
            "routing_key TEXT NOT NULL, body BLOB NOT NULL, "
            "headers TEXT NOT NULL DEFAULT '{}', properties TEXT NOT NULL DEFAULT '{}', "
            "mandatory INTEGER NOT NULL DEFAULT 1, created_at REAL NOT NULL DEFAULT (strftime('%s', 'now')), "
            "attempts INTEGER NOT NULL DEFAULT 0, retry_at REAL, error TEXT, parked_at REAL, published_at REAL"
        )
        waiting = "WHERE published_at IS NULL AND parked_at IS NULL"
        self._write(
            connection,
            [
                (f"CREATE TABLE IF NOT EXISTS {table.sql} ({columns})", ()),
                (f"CREATE INDEX IF NOT EXISTS {table.index('pending')} ON {table.sql} (id) {waiting}", ()),
                (
                    f"CREATE INDEX IF NOT EXISTS {table.index('retry')} ON {table.sql} (ordering_key) "
                    "WHERE retry_at IS NOT NULL",
                    (),
                ),
            ],
        )

    def _claim(self, connection: sqlite3.Connection) -> bool:
        if self._lock is None:
            try:
                lock = sqlite3.connect(
                    f"{self._path}-{self._table.name}-relay", timeout=0, isolation_level=None, check_same_thread=False
                )
            except sqlite3.Error as error:
                raise translated(error, self._path) from error
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                lock.close()
                problem = translated(error, self._path)
                if isinstance(problem, DatabaseBusy):
                    return False
                raise problem from error
            self._lock = lock
        return True

    def _fetch(self, connection: sqlite3.Connection, count_max: int, bytes_max: int) -> list[OutboxRow]:
        assert self._lock is not None, "only the relay that has the claim reads rows"
        waiting = "published_at IS NULL AND parked_at IS NULL"
        # Other programs may have written text into it: SQLite takes anything in any column.
        columns = COLUMNS.replace("body", "CAST(body AS BLOB)")
        found = self._read(
            connection,
            f"SELECT {columns} FROM (SELECT *, sum(length(body)) OVER (ORDER BY id) - length(body) AS before FROM ("
            f"SELECT * FROM {self._table.sql} WHERE {waiting} AND ordering_key NOT IN (SELECT ordering_key "
            f"FROM {self._table.sql} WHERE retry_at > ? AND {waiting}) ORDER BY id LIMIT ?)) "
            "WHERE before < ? ORDER BY id",
            time.time(),
            count_max,
            bytes_max,
        )
        return [OutboxRow(*row) for row in found]

    def _settle(self, connection: sqlite3.Connection, settlement: Settlement) -> None:
        assert self._lock is not None, "only the relay that has the claim changes rows"
        now = time.time()
        table = self._table.sql
        ids = msgspec.json.encode(settlement.published).decode()
        done = "id IN (SELECT value FROM json_each(?))"
        statements: list[tuple[str, Sequence[Any]]] = []
        if settlement.published and self._keep_s:
            statements.append((f"UPDATE {table} SET published_at = ?, error = NULL WHERE {done}", (now, ids)))
        elif settlement.published:
            statements.append((f"DELETE FROM {table} WHERE {done}", (ids,)))
        for failure in settlement.failures:
            is_parked = failure.retry_after_s is None
            retry_at = None if failure.retry_after_s is None else now + failure.retry_after_s
            statements.append(
                (
                    f"UPDATE {table} SET attempts = attempts + 1, error = ?, retry_at = ?, parked_at = ? WHERE id = ?",
                    (failure.error[:ERROR_LENGTH_MAX], retry_at, now if is_parked else None, failure.row_id),
                )
            )
        self._write(connection, statements)

    def _status(self, connection: sqlite3.Connection) -> OutboxStatus:
        pending, parked, oldest = self._read(
            connection,
            "SELECT count(*) FILTER (WHERE parked_at IS NULL), count(*) FILTER (WHERE parked_at IS NOT NULL), "
            f"min(created_at) FILTER (WHERE parked_at IS NULL) FROM {self._table.sql} WHERE published_at IS NULL",
        )[0]
        return OutboxStatus(pending, parked, 0.0 if oldest is None else max(0.0, time.time() - float(oldest)))

    def _purge(self, connection: sqlite3.Connection, count_max: int) -> int:
        table = self._table.sql
        old = f"SELECT id FROM {table} WHERE published_at <= ? ORDER BY id LIMIT ?"
        statement = f"DELETE FROM {table} WHERE id IN ({old})"
        return self._write(connection, [(statement, (time.time() - self._keep_s, count_max))])

    def _unpark(self, connection: sqlite3.Connection, ids: Sequence[int] | None) -> int:
        chosen = "" if ids is None else " AND id IN (SELECT value FROM json_each(?))"
        parameters = [] if ids is None else [msgspec.json.encode(list(ids)).decode()]
        unparked = "attempts = 0, retry_at = NULL, parked_at = NULL"
        return self._write(
            connection,
            [(f"UPDATE {self._table.sql} SET {unparked} WHERE parked_at IS NOT NULL{chosen}", parameters)],
        )
