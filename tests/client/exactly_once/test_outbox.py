"""Writing into the outbox: in the user's transaction, on both databases, with every kind of connection."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import pytest

from leveret.client.outbox import Outbox, SqliteOutbox, TransactionMisused
from tests.client.exactly_once.postgres_server import PostgresServer
from tests.client.exactly_once.scene import Database

COLUMNS = "message_id, ordering_key, exchange, routing_key, body, headers, properties, mandatory, attempts"


class Order(msgspec.Struct):
    number: int


@pytest.fixture(autouse=True)
def _table(request: pytest.FixtureRequest) -> None:
    if "database" in request.fixturenames:
        asyncio.run(created(request.getfixturevalue("database")))


async def created(database: Database) -> None:
    outbox = database.outbox()
    await outbox.create()
    await outbox.create()
    await outbox.release()


def rows(database: Database) -> list[dict[str, Any]]:
    names = COLUMNS.split(", ")
    found = [
        dict(zip(names, row, strict=True))
        for row in database.execute(f"SELECT {COLUMNS} FROM leveret_outbox ORDER BY id")
    ]
    for row in found:
        row["body"] = bytes(row["body"])
        for name in ("headers", "properties"):
            row[name] = msgspec.json.decode(row[name]) if isinstance(row[name], str) else row[name]
    return found


def test_a_row_has_what_the_message_needs(database: Database) -> None:
    with closing(database.connect()) as connection:
        given = Outbox().add(
            connection, "two coffees", exchange="shop", routing_key="orders", ordering_key="table 7", message_id="m1",
            headers={"waiter": "Ann", "seats": [1, 2], "guest": {"vip": True, "name": None}}, mandatory=False,
            priority=3, content_type="text/plain", expiration="60000", timestamp=1_700_000_000,
        )  # fmt: skip
        connection.commit()
    assert given == "m1"
    assert rows(database) == [
        {
            "message_id": "m1",
            "ordering_key": "table 7",
            "exchange": "shop",
            "routing_key": "orders",
            "body": b"two coffees",
            "headers": {"waiter": "Ann", "seats": [1, 2], "guest": {"vip": True, "name": None}},
            "properties": {
                "priority": 3,
                "content_type": "text/plain",
                "expiration": "60000",
                "timestamp": 1_700_000_000,
            },
            "mandatory": False,
            "attempts": 0,
        }
    ]


def test_ids_are_made_where_none_is_given(database: Database) -> None:
    with closing(database.connect()) as connection:
        given = [Outbox().add(connection, Order(number), routing_key="orders") for number in (1, 2)]
        connection.commit()
    found = rows(database)
    assert [row["message_id"] for row in found] == given and len(set(given)) == 2
    assert [row["body"] for row in found] == [b'{"number":1}', b'{"number":2}']
    assert found[0]["properties"] == {"content_type": "application/json"}


def test_a_rollback_takes_the_message_along(database: Database) -> None:
    with closing(database.connect()) as connection:
        connection.execute("INSERT INTO effects (key, number) VALUES ('a', 1)")
        Outbox().add(connection, b"x", routing_key="orders")
        connection.rollback()
    assert (rows(database), database.effects()) == ([], [])


def test_the_same_id_twice_is_refused(database: Database) -> None:
    with closing(database.connect()) as connection:
        Outbox().add(connection, b"x", routing_key="orders", message_id="m1")
        with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
            Outbox().add(connection, b"x", routing_key="orders", message_id="m1")


@pytest.mark.parametrize(
    ("problem", "arguments"),
    [
        (TypeError, {"body": 17}),
        (TypeError, {"body": None}),
        (ValueError, {"routing_key": "k" * 256}),
        (ValueError, {"routing_key": "é" * 128}),
        (ValueError, {"routing_key": "a\0b"}),
        (TypeError, {"routing_key": 1}),
        (ValueError, {"exchange": "e" * 256}),
        (ValueError, {"message_id": ""}),
        (ValueError, {"message_id": "m" * 256}),
        (TypeError, {"headers": {"picture": b"\x00"}}),
        (TypeError, {"headers": {"who": object()}}),
        (TypeError, {"headers": {1: "x"}}),
        (TypeError, {"headers": {"pair": (1, 2)}}),
        (ValueError, {"headers": {"h" * 256: 1}}),
        (TypeError, {"colour": "red"}),
        (TypeError, {"priority": "3"}),
        (TypeError, {"priority": True}),
        (ValueError, {"priority": 256}),
        (ValueError, {"priority": -1}),
        (TypeError, {"expiration": 1000}),
        (ValueError, {"type": "t" * 256}),
    ],
)
def test_what_no_broker_would_take_is_refused_at_once(problem: type[Exception], arguments: dict[str, Any]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(problem):
        Outbox().add(connection, **{"body": b"x", "routing_key": "orders", **arguments})


def test_adding_outside_a_transaction_is_refused(database: Database) -> None:
    connection: Any
    if database.kind == "sqlite":
        connection = sqlite3.connect(database.place, isolation_level=None)
    else:
        connection = psycopg.connect(database.place, autocommit=True)
    with closing(connection), pytest.raises(TransactionMisused, match="transaction of your change"):
        Outbox().add(connection, b"x", routing_key="orders")


def test_an_async_connection(postgres: PostgresServer) -> None:
    database = Database("postgres", postgres.new_schema())

    async def scene() -> None:
        await created(database)
        async with await psycopg.AsyncConnection.connect(database.place, autocommit=True) as connection:
            with pytest.raises(TransactionMisused):
                await Outbox().add_async(connection, b"x", routing_key="orders")
            async with connection.transaction():
                assert await Outbox().add_async(connection, b"x", routing_key="orders", message_id="m1") == "m1"
                await Outbox(notify=False).add_async(connection, b"x", routing_key="orders", message_id="m2")
            with pytest.raises(TypeError, match="add_async"):
                Outbox().add(connection, b"x", routing_key="orders")  # type: ignore[arg-type]

    asyncio.run(scene())
    assert [row["message_id"] for row in rows(database)] == ["m1", "m2"]


def test_the_wrong_kind_of_connection_is_named() -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(TypeError, match=r"there is add\(\)"):
        asyncio.run(Outbox().add_async(connection, b"x", routing_key="orders"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a sqlite3 or psycopg"):
        Outbox().add(object(), b"x", routing_key="orders")  # type: ignore[arg-type]


@pytest.mark.parametrize("table", ["outbox; --", "", 'x"y'])
def test_what_is_no_name_of_a_table_is_refused(table: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        Outbox(table)


def test_an_outbox_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="would end with the process"):
        SqliteOutbox(":memory:")
