"""The transactional outbox: a message leaves if, and only if, the change that it tells of was committed.

`Outbox.add` writes the message as a row, in your transaction; a `Relay` publishes the rows in order, with confirms. See
docs/client-exactly-once.md. `python -m leveret.client.outbox` is the relay as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.client.database.errors import DatabaseBusy, DatabaseUnavailable, TransactionMisused
from leveret.client.outbox.outbox import Outbox
from leveret.client.outbox.relay import Relay, RelayMetrics
from leveret.client.outbox.rows import OutboxDatabase, OutboxRow, OutboxStatus
from leveret.client.outbox.sqlite import SqliteOutbox

if TYPE_CHECKING:
    from leveret.client.outbox.postgres import PostgresOutbox

__all__ = [
    "DatabaseBusy",
    "DatabaseUnavailable",
    "Outbox",
    "OutboxDatabase",
    "OutboxRow",
    "OutboxStatus",
    "PostgresOutbox",
    "Relay",
    "RelayMetrics",
    "SqliteOutbox",
    "TransactionMisused",
]


def __getattr__(name: str) -> Any:
    # psycopg is asked for only by those who use it.
    if name == "PostgresOutbox":
        from leveret.client.outbox.postgres import PostgresOutbox

        return PostgresOutbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
