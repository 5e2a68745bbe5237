"""Writing a message into the outbox, in a transaction of the user's own.

Never commits and never publishes: the message exists if and when the user's change does."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from leveret.client.database.errors import TransactionMisused
from leveret.client.database.table_name import TableName
from leveret.core.codec.names import NAME_OCTETS_MAX

if TYPE_CHECKING:
    import psycopg

__all__ = ["Outbox"]

# What AMQP calls a short string holds this many octets.
PROPERTIES: dict[str, type[str] | type[int]] = {
    "app_id": str,
    "content_encoding": str,
    "content_type": str,
    "correlation_id": str,
    "delivery_mode": int,
    "expiration": str,
    "priority": int,
    "reply_to": str,
    "timestamp": int,
    "type": str,
    "user_id": str,
}
COLUMNS = "(message_id, ordering_key, exchange, routing_key, body, headers, properties, mandatory"


class Outbox:
    """Rows go into `table`. On PostgreSQL the relay is woken by a notification, unless `notify` is False."""

    def __init__(self, table: str = "leveret_outbox", *, notify: bool = True) -> None:
        self._table = TableName.checked(table)
        insert = f"INSERT INTO {self._table.sql} {COLUMNS}"
        self._sqlite_insert = f"{insert}, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        insert = f"{insert}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        self._postgres_insert = insert
        if notify:
            # One statement for both. PostgreSQL sends the notification with the commit, once per transaction.
            self._postgres_insert = (
                f"WITH added AS ({insert} RETURNING id) SELECT pg_notify('{self._table.channel}', '') FROM added"
            )

    def add(
        self,
        connection: sqlite3.Connection | psycopg.Connection[Any],
        body: bytes | str | msgspec.Struct,
        *,
        routing_key: str,
        exchange: str = "",
        ordering_key: str = "",
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        mandatory: bool = True,
        **properties: Any,
    ) -> str:
        """Writes the message into the transaction that is open on this connection, and gives its message id.

        Messages with one `ordering_key` are published in the order in which they were added; without one that is the
        order of the whole outbox. A message id that is in the table already is refused by the database."""
        values = row_values(body, exchange, routing_key, ordering_key, headers, message_id, mandatory, properties)
        if isinstance(connection, sqlite3.Connection):
            checked_sqlite_transaction(connection)
            connection.execute(self._sqlite_insert, (*values, time.time()))
        else:
            if not callable(getattr(connection, "cursor", None)) or hasattr(connection, "__aenter__"):
                raise TypeError(
                    "add() takes a sqlite3 or psycopg Connection; for psycopg's AsyncConnection await add_async()"
                )
            checked_postgres_transaction(connection)
            connection.execute(self._postgres_insert, values)
        return str(values[0])

    async def add_async(
        self,
        connection: psycopg.AsyncConnection[Any],
        body: bytes | str | msgspec.Struct,
        *,
        routing_key: str,
        exchange: str = "",
        ordering_key: str = "",
        headers: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        mandatory: bool = True,
        **properties: Any,
    ) -> str:
        """`add` for psycopg's AsyncConnection."""
        values = row_values(body, exchange, routing_key, ordering_key, headers, message_id, mandatory, properties)
        if not hasattr(connection, "__aenter__"):
            raise TypeError("add_async() takes psycopg's AsyncConnection; for other connections there is add()")
        checked_postgres_transaction(connection)
        await connection.execute(self._postgres_insert, values)
        return str(values[0])


def row_values(
    body: bytes | str | msgspec.Struct,
    exchange: str,
    routing_key: str,
    ordering_key: str,
    headers: Mapping[str, Any] | None,
    message_id: str | None,
    mandatory: bool,
    properties: dict[str, Any],
) -> tuple[Any, ...]:
    """The row's columns, checked: what the broker could never take is refused here, where the mistake was made."""
    if isinstance(body, str):
        body = body.encode()
    elif isinstance(body, msgspec.Struct):
        body = msgspec.json.encode(body)
        properties = {"content_type": "application/json", **properties}
    elif not isinstance(body, bytes):
        raise TypeError(f"the body of a message is bytes, str or a msgspec.Struct, not {type(body).__name__}")
    message_id = str(uuid.uuid4()) if message_id is None else message_id
    if not message_id:
        raise ValueError("a message id has at least one character")
    names = {"message id": message_id, "exchange": exchange, "routing key": routing_key, "ordering key": ordering_key}
    for what, text in names.items():
        checked_short(what, text)
    for name, value in properties.items():
        checked_property(name, value)
    encoded_properties = msgspec.json.encode(properties).decode()
    encoded_headers = encoded(headers)
    return (message_id, ordering_key, exchange, routing_key, body, encoded_headers, encoded_properties, bool(mandatory))


def checked_short(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"the {what} is a str, not {type(text).__name__}")
    if len(text.encode()) > NAME_OCTETS_MAX or "\0" in text:
        raise ValueError(f"the {what} {text[:40]!r}... has more than {NAME_OCTETS_MAX} octets, or a NUL")


def checked_property(name: str, value: Any) -> None:
    kind = PROPERTIES.get(name)
    if kind is None:
        raise TypeError(f"there is no property {name!r} of messages; there are {', '.join(PROPERTIES)}")
    if type(value) is not kind:
        raise TypeError(f"the property {name} is of type {kind.__name__}, not {type(value).__name__}")
    if isinstance(value, str):
        checked_short(name, value)
    elif not 0 <= value <= (2**63 if name == "timestamp" else 255):
        raise ValueError(f"the property {name} cannot be {value}")


def encoded(headers: Mapping[str, Any] | None) -> str:
    """As JSON, which people can read in the table and other languages can write. The rest is refused."""
    if not headers:
        return "{}"
    text = msgspec.json.encode(dict(headers), enc_hook=refused_header).decode()
    if msgspec.json.decode(text) != headers:
        raise TypeError("headers in the outbox are made of str, int, float, bool, None, list and dict with str keys")
    for name in headers:
        checked_short("name of a header", name)
    return text


def refused_header(value: Any) -> Any:
    raise TypeError(f"a header of type {type(value).__name__} cannot be kept in the outbox: JSON has no word for it")


def checked_sqlite_transaction(connection: sqlite3.Connection) -> None:
    # With an isolation_level, sqlite3 begins a transaction by itself before the insert; not so with autocommit.
    begins_itself = connection.isolation_level is not None and getattr(connection, "autocommit", -1) is not True
    if not begins_itself and not connection.in_transaction:
        raise TransactionMisused("add() belongs in the transaction of your change: BEGIN first, or the two may part")


def checked_postgres_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    # 0 is PQTRANS_IDLE: with autocommit the row would be committed alone.
    if connection.autocommit and connection.info.transaction_status == 0:
        raise TransactionMisused(
            "add() belongs in the transaction of your change: use connection.transaction(), or the two may part"
        )
