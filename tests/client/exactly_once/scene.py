"""The database of a test, SQLite or PostgreSQL, and what the tests do with either in the same words.

The business of these tests is a table of effects: one row for each time that a message had one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from leveret.client.idempotent import PostgresStore, SqliteStore, Work
from leveret.client.outbox import Outbox, PostgresOutbox, SqliteOutbox

ROOT = Path(__file__).parents[3]
EFFECTS = {
    "sqlite": "CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, number INTEGER)",
    "postgres": "CREATE TABLE IF NOT EXISTS effects (id BIGSERIAL PRIMARY KEY, key TEXT, number INTEGER)",
}
INSERT_EFFECT = "INSERT INTO effects (key, number) VALUES ({0}, {0})"


@dataclass(frozen=True)
class Database:
    # "sqlite" or "postgres".
    kind: str
    # A path, or a DSN.
    place: str

    @property
    def url(self) -> str:
        """As a relay process wants it."""
        return f"sqlite:{self.place}" if self.kind == "sqlite" else self.place

    def connect(self) -> sqlite3.Connection | psycopg.Connection[Any]:
        if self.kind == "sqlite":
            connection = sqlite3.connect(self.place, timeout=30)
            connection.execute("PRAGMA journal_mode = WAL")
            return connection
        return psycopg.connect(self.place)

    def execute(self, sql: str) -> list[Any]:
        """One statement, committed; gives its rows if it has any."""
        with closing(self.connect()) as connection:
            cursor = connection.execute(sql)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
        return rows

    def store(self, **options: Any) -> SqliteStore | PostgresStore:
        return SqliteStore(self.place, **options) if self.kind == "sqlite" else PostgresStore(self.place, **options)

    def outbox(self, **options: Any) -> SqliteOutbox | PostgresOutbox:
        return SqliteOutbox(self.place, **options) if self.kind == "sqlite" else PostgresOutbox(self.place, **options)

    def effects(self) -> list[tuple[str, int]]:
        return [(key, number) for key, number in self.execute("SELECT key, number FROM effects ORDER BY id")]

    def add(self, *messages: tuple[str, int], routing_key: str = "orders", **options: Any) -> None:
        """(key, number) as rows of the outbox, committed together."""
        outbox = Outbox()
        with closing(self.connect()) as connection:
            for key, number in messages:
                outbox.add(connection, f"{key} {number}", routing_key=routing_key, ordering_key=key, **options)
            connection.commit()


async def write_effect(work: Work[Any], key: str, number: int) -> None:
    if isinstance(work.connection, sqlite3.Connection):
        await work.run(lambda connection: connection.execute(INSERT_EFFECT.format("?"), (key, number)))
    else:
        await work.connection.execute(INSERT_EFFECT.format("%s"), (key, number))


def spawned(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of the tests, which may be killed at any moment."""
    command = [sys.executable, "-W", "error", "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
