"""The idempotent consumer: a message that comes twice changes your database once.

`SqliteStore` and `PostgresStore` write the message id in the transaction of your own change; `idempotent(store, ...)`
makes a handler of it that acknowledges after the commit. See docs/client-exactly-once.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.client.database.errors import AlreadyHandled, DatabaseBusy, DatabaseUnavailable, TransactionMisused
from leveret.client.idempotent.handler import Handled, MissingMessageId, Outcome, idempotent
from leveret.client.idempotent.sqlite import SqliteStore
from leveret.client.idempotent.store import IdempotentStore, StoreMetrics, Work

if TYPE_CHECKING:
    from leveret.client.idempotent.postgres import PostgresStore

__all__ = [
    "AlreadyHandled",
    "DatabaseBusy",
    "DatabaseUnavailable",
    "Handled",
    "IdempotentStore",
    "MissingMessageId",
    "Outcome",
    "PostgresStore",
    "SqliteStore",
    "StoreMetrics",
    "TransactionMisused",
    "Work",
    "idempotent",
]


def __getattr__(name: str) -> Any:
    # psycopg is asked for only by those who use it.
    if name == "PostgresStore":
        from leveret.client.idempotent.postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
