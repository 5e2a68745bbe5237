"""Stores of handled messages: one transaction for the id and the change, on both databases."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import Any

import psycopg
import pytest

from leveret.client.errors import ClientClosed
from leveret.client.idempotent import (
    AlreadyHandled,
    DatabaseBusy,
    DatabaseUnavailable,
    PostgresStore,
    SqliteStore,
    TransactionMisused,
)
from leveret.client.idempotent.store import RESULT_LENGTH_MAX
from tests.client.exactly_once.postgres_server import PostgresServer
from tests.client.exactly_once.scene import Database, spawned, write_effect


async def handle(store: Any, message_id: str, number: int = 1, consumer: str = "billing") -> bool:
    async with store.once(message_id, consumer=consumer) as work:
        if work.is_new:
            await write_effect(work, message_id, number)
        return bool(work.is_new)


def test_a_message_has_its_effect_once(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as store:
            assert [await handle(store, "m1"), await handle(store, "m1"), await handle(store, "m2")] == [
                True,
                False,
                True,
            ]
            # Another consumer of the same message has a memory of its own.
            assert await handle(store, "m1", consumer="shipping")
            assert (store.metrics.new, store.metrics.duplicates) == (3, 1)
        async with database.store() as store:
            assert not await handle(store, "m2")

    asyncio.run(scene())
    assert database.effects() == [("m1", 1), ("m2", 1), ("m1", 1)]


def test_nothing_is_kept_of_a_block_that_raises(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as store:
            with pytest.raises(RuntimeError, match="no stock"):
                async with store.once("m1", consumer="billing") as work:
                    await write_effect(work, "m1", 1)
                    raise RuntimeError("no stock")
            assert store.metrics.rolled_back == 1
            assert database.effects() == []
            assert await handle(store, "m1", 2)

    asyncio.run(scene())
    assert database.effects() == [("m1", 2)]


def test_a_cancelled_block_is_undone(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as store:
            reached = asyncio.Event()

            async def stuck() -> None:
                async with store.once("m1", consumer="billing") as work:
                    await write_effect(work, "m1", 1)
                    reached.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(stuck())
            await reached.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert await handle(store, "m1", 2)

    asyncio.run(scene())
    assert database.effects() == [("m1", 2)]


def test_a_duplicate_waits_for_the_first(database: Database) -> None:
    async def scene() -> None:
        # Two stores are two processes as far as the database can tell.
        async with database.store() as first, database.store() as second:
            async with first.once("m1", consumer="billing") as work:
                await write_effect(work, "m1", 1)
                duplicate = asyncio.create_task(handle(second, "m1", 2))
                await asyncio.sleep(0.2)
                assert not duplicate.done()
            assert await duplicate is False

    asyncio.run(scene())
    assert database.effects() == [("m1", 1)]


def test_a_duplicate_takes_over_when_the_first_fails(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as first, database.store() as second:
            with pytest.raises(RuntimeError):
                async with first.once("m1", consumer="billing") as work:
                    await write_effect(work, "m1", 1)
                    duplicate = asyncio.create_task(handle(second, "m1", 2))
                    await asyncio.sleep(0.1)
                    raise RuntimeError("no stock")
            assert await duplicate is True

    asyncio.run(scene())
    assert database.effects() == [("m1", 2)]


def test_whoever_waits_too_long_is_told_to_come_back(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as first, database.store() as second:
            async with first.once("m1", consumer="billing") as work:
                await write_effect(work, "m1", 1)
                began = time.monotonic()
                with pytest.raises(DatabaseBusy):
                    async with second.once("m1", consumer="billing", deadline_s=0.2):
                        pytest.fail("the block of a message that another worker has must not run")
                assert 0.15 < time.monotonic() - began < 5
                assert second.metrics.busy == 1
            assert await handle(second, "m1") is False

    asyncio.run(scene())


def test_messages_of_one_store_side_by_side(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as store:
            new = await asyncio.gather(*(handle(store, f"m{number % 20}", number) for number in range(60)))
            assert sum(new) == 20

    asyncio.run(scene())
    assert sorted(key for key, _ in database.effects()) == sorted(f"m{number}" for number in range(20))


def test_the_same_messages_in_two_processes(database: Database) -> None:
    asyncio.run(created(database))
    workers = [spawned("tests.client.exactly_once.duplicate_worker", database.kind, database.place) for _ in range(2)]
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    assert sorted(number for _, number in database.effects()) == list(range(100))
    counts = [[int(word) for word in output.split()] for output in outputs]
    assert sum(new for new, _ in counts) == 100 and sum(duplicates for _, duplicates in counts) == 100


async def created(database: Database) -> None:
    async with database.store():
        pass


def test_an_id_is_forgotten_after_its_time(database: Database) -> None:
    async def scene() -> None:
        async with database.store(ttl_s=0.3) as store:
            assert await handle(store, "m1")
            assert not await handle(store, "m1")
            await asyncio.sleep(0.35)
            # Counts as forgotten although nobody has purged it.
            assert await handle(store, "m1")
            assert not await handle(store, "m1")

    asyncio.run(scene())
    assert len(database.effects()) == 2


def test_old_ids_are_purged_in_batches(database: Database) -> None:
    async def scene() -> None:
        async with database.store(ttl_s=0.3, purge_every=10, purge_batch=10) as store:
            for number in range(35):
                await handle(store, f"m{number}")
            await asyncio.sleep(0.35)
            assert await handle(store, "new")
            # On a slow machine the first ones were old, and purged, before the last ones came.
            assert 0 < await store.purge() <= 35
            assert store.metrics.purged == 35
            assert await store.purge() == 0

    asyncio.run(scene())
    assert database.execute("SELECT message_id FROM leveret_handled") == [("new",)]


def test_writing_purges_now_and_then(database: Database) -> None:
    async def scene() -> None:
        async with database.store(ttl_s=0.2, purge_every=10, purge_batch=30) as store:
            for number in range(9):
                await handle(store, f"m{number}")
            await asyncio.sleep(0.25)
            assert store.metrics.purged == 0
            await handle(store, "m9")
            assert store.metrics.purged == 9

    asyncio.run(scene())


def test_a_duplicate_has_no_transaction(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as store:
            async with store.once("m1", consumer="billing") as first:
                assert first.connection is not None
            with pytest.raises(TransactionMisused, match="has ended"):
                _ = first.connection
            async with store.once("m1", consumer="billing") as second:
                with pytest.raises(AlreadyHandled, match=r"work\.is_new"):
                    _ = second.connection

    asyncio.run(scene())


def test_a_block_that_commits_by_itself_is_caught(database: Database) -> None:
    async def scene() -> None:
        async with database.store() as store:
            with pytest.raises((TransactionMisused, psycopg.ProgrammingError)):
                async with store.once("m1", consumer="billing") as work:
                    if database.kind == "sqlite":
                        # It commits what is open, quietly.
                        work.connection.executescript("SELECT 1;")
                    else:
                        await work.connection.commit()
            assert await handle(store, "m2")

    asyncio.run(scene())


def test_a_result_is_kept_as_long_as_the_id(database: Database) -> None:
    async def scene() -> None:
        async with database.store(ttl_s=3600) as store:
            for number in (1, 2):
                async with store.once("m1", consumer="billing") as work:
                    assert work.is_new == (number == 1)
                    if work.is_new:
                        work.result = {"receipt": number}
                        with pytest.raises(ValueError, match="characters of JSON"):
                            work.result = "x" * RESULT_LENGTH_MAX
                        with pytest.raises(TypeError):
                            work.result = object()
                    else:
                        with pytest.raises(AlreadyHandled):
                            work.result = "another"
                    assert work.result == {"receipt": 1}
            with pytest.raises(TransactionMisused):
                async with store.once("m2", consumer="billing") as work:
                    pass
                work.result = "late"
            async with store.once("m2", consumer="billing") as work:
                assert not work.is_new and work.result is None
            long_ago = {"sqlite": "0", "postgres": "to_timestamp(0)"}[database.kind]
            database.execute(f"UPDATE leveret_handled SET handled_at = {long_ago}")
            async with store.once("m1", consumer="billing") as work:
                # Forgotten with its id.
                assert work.is_new and work.result is None

    asyncio.run(scene())


def test_a_table_that_was_made_without_results_gets_them(database: Database) -> None:
    moment = {"sqlite": "REAL", "postgres": "TIMESTAMPTZ"}[database.kind]
    database.execute(
        "CREATE TABLE leveret_handled (consumer TEXT NOT NULL, message_id TEXT NOT NULL, "
        f"handled_at {moment} NOT NULL, PRIMARY KEY (consumer, message_id))"
    )

    async def scene() -> list[Any]:
        found = []
        for _ in range(2):
            async with database.store() as store, store.once("m1", consumer="billing") as work:
                if work.is_new:
                    work.result = 5
                found.append(work.result)
        return found

    assert asyncio.run(scene()) == [5, 5]


def test_creating_again_changes_nothing(database: Database) -> None:
    async def scene() -> None:
        stores = [database.store() for _ in range(5)]
        await asyncio.gather(*(store.create() for store in stores))
        assert await handle(stores[0], "m1")
        await asyncio.gather(*(store.create() for store in stores))
        assert not await handle(stores[1], "m1")
        for store in stores:
            await store.close()
        with pytest.raises(ClientClosed):
            await handle(stores[0], "m1")

    asyncio.run(scene())


@pytest.mark.parametrize("table", ["handled; DROP TABLE effects", 'a"b', "", "1st", "a" * 49, "a.b.c", "é"])
def test_what_is_no_name_of_a_table_is_refused(database: Database, table: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be the name|has a schema"):
        database.store(table=table)


def test_tables_have_names_of_their_own(database: Database) -> None:
    async def scene() -> None:
        # A word of SQL is a name like any other.
        async with database.store(table="order") as one, database.store(table="other") as two:
            assert await handle(one, "m1")
            assert await handle(two, "m1")

    asyncio.run(scene())


@pytest.mark.parametrize("message_id", ["", "a\0b", "x" * 1001])
def test_what_cannot_be_an_id_is_refused(database: Database, message_id: str) -> None:
    async def scene() -> None:
        async with database.store() as store:
            with pytest.raises(ValueError, match="cannot be a message id"):
                await handle(store, message_id)
            with pytest.raises(TypeError):
                await handle(store, 17)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="name of a consumer"):
                await handle(store, "m1", consumer="")

    asyncio.run(scene())


@pytest.mark.parametrize("options", [{"ttl_s": 0}, {"purge_every": 0}, {"purge_every": 100, "purge_batch": 10}])
def test_limits_that_make_no_sense_are_refused(database: Database, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"time to live|keep up"):
        database.store(**options)


# ---- SQLite alone


def test_a_connection_of_the_users_own(tmp_path: Any) -> None:
    async def scene(connection: sqlite3.Connection) -> None:
        store = SqliteStore(connection)
        await store.create()
        async with store.once("m1", consumer="billing") as work:
            assert work.connection is connection
            work.connection.execute("INSERT INTO effects VALUES (1)")
        connection.execute("INSERT INTO effects VALUES (2)")
        with pytest.raises(TransactionMisused, match="in a transaction already"):
            async with store.once("m2", consumer="billing"):
                pytest.fail("two transactions cannot be one")
        # What the user had in hand is still his.
        connection.commit()
        await store.close()
        assert connection.execute("SELECT * FROM effects").fetchall() == [(1,), (2,)]

    with closing(sqlite3.connect(tmp_path / "shop.db", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE effects (number INTEGER)")
        asyncio.run(scene(connection))


def test_a_sqlite_file_that_cannot_be_opened(tmp_path: Any) -> None:
    async def scene() -> None:
        store = SqliteStore(tmp_path / "missing" / "shop.db")
        with pytest.raises(DatabaseUnavailable, match=r"shop\.db"):
            await store.create()
        (tmp_path / "missing").mkdir()
        await store.create()
        async with store.once("m1", consumer="billing") as work:
            assert work.is_new
        await store.close()

    asyncio.run(scene())


def test_sync_work_is_done_off_the_loop(tmp_path: Any) -> None:
    async def scene() -> None:
        async with SqliteStore(tmp_path / "shop.db") as store, store.once("m1", consumer="billing") as work:
            ticks = 0
            task = asyncio.create_task(work.run(lambda connection, pause_s: time.sleep(pause_s), 0.3))
            while not task.done():
                await asyncio.sleep(0.01)
                ticks += 1
            assert ticks > 5

            async def coroutine(connection: Any) -> None: ...

            with pytest.raises(TypeError, match="plain function"):
                await work.run(coroutine)

    asyncio.run(scene())


# ---- PostgreSQL alone


def test_a_connection_and_a_pool_of_the_users_own(postgres: PostgresServer) -> None:
    class Pool:
        """The least that a pool is."""

        def connection(self, timeout: float | None = None) -> Any:
            return lent

    async def scene() -> None:
        nonlocal lent
        dsn = postgres.new_schema()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            store = PostgresStore(connection)
            await store.create()
            async with store.once("m1", consumer="billing") as work:
                assert work.connection is connection
            async with connection.transaction():
                with pytest.raises(TransactionMisused, match="in a transaction already"):
                    async with store.once("m2", consumer="billing"):
                        pytest.fail("two transactions cannot be one")
            await store.close()
            assert not connection.closed
        lent = await psycopg.AsyncConnection.connect(dsn)
        pooled = PostgresStore(Pool())
        async with pooled.once("m1", consumer="billing") as work:
            assert not work.is_new

    lent: Any = None
    asyncio.run(scene())


def test_a_server_that_is_down_and_comes_back(postgres: PostgresServer) -> None:
    database = Database("postgres", postgres.new_schema())

    async def scene() -> None:
        async with PostgresStore(database.place, deadline_s=2) as store:
            assert await is_new(store, "m1")
            with pytest.raises(DatabaseUnavailable):
                async with store.once("m2", consumer="billing") as work:
                    await asyncio.to_thread(postgres.stop)
                    await work.connection.execute("SELECT 1")
            with pytest.raises(DatabaseUnavailable):
                await is_new(store, "m2")
            await asyncio.to_thread(postgres.start)
            assert await is_new(store, "m2")
            # A restart behind the back of idle connections is not noticed by the user at all.
            await asyncio.to_thread(postgres.stop)
            await asyncio.to_thread(postgres.start)
            assert not await is_new(store, "m1")

    async def is_new(store: PostgresStore, message_id: str) -> bool:
        async with store.once(message_id, consumer="billing") as work:
            return work.is_new

    asyncio.run(scene())


def test_a_schema_may_stand_before_the_table(postgres: PostgresServer) -> None:
    database = Database("postgres", postgres.new_schema())
    database.execute("CREATE SCHEMA sales")

    async def scene() -> None:
        store = PostgresStore(database.place, table="sales.handled")
        async with store, store.once("m1", consumer="billing") as work:
            with pytest.raises(TypeError, match="async function"):
                await work.run(lambda connection: None)

    asyncio.run(scene())
    assert database.execute("SELECT message_id FROM sales.handled") == [("m1",)]
