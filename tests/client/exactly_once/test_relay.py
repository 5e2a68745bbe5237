"""The relay against a real broker: order, refusals, claims, stops, and a database or a broker that goes away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from leveret.client import connect
from leveret.client.outbox import Outbox, Relay
from leveret.testing import Broker
from tests.client.exactly_once.postgres_server import PostgresServer
from tests.client.exactly_once.queues import bodies, declare, depth, take_all
from tests.client.exactly_once.scene import Database
from tests.client.topology_scene import Scene
from tests.client.waiting import until, until_off_loop


@asynccontextmanager
async def relaying(database: Database, broker: Broker | Scene, **options: Any) -> AsyncIterator[Relay]:
    options = {"poll_s": 0.1, "retry_s": 0.05, "retry_max_s": 0.2, **options}
    outbox = database.outbox(**{name: options.pop(name) for name in ("keep_s", "table") if name in options})
    await outbox.create()
    async with connect(broker.url) as connection, Relay(outbox, connection.producer(), **options) as relay:
        yield relay


async def create(database: Database) -> None:
    outbox = database.outbox()
    await outbox.create()
    await outbox.release()


def is_empty(database: Database) -> bool:
    return bool(database.execute("SELECT count(*) FROM leveret_outbox") == [(0,)])


def test_rows_arrive_in_order_as_they_were_written(database: Database, scene: Scene) -> None:
    declare(scene.url, "orders")

    async def story() -> None:
        await create(database)
        database.add(*[("a", number) for number in range(30)], headers={"n": 1}, priority=2, type="order")
        async with relaying(database, scene, batch=10) as relay:
            await until_off_loop(lambda: is_empty(database))
            database.add(*[("a", number) for number in range(30, 40)])
            await until_off_loop(lambda: is_empty(database))
        assert (relay.metrics.published, relay.metrics.failed, relay.metrics.is_active) == (40, 0, False)

    asyncio.run(story())
    taken = take_all(scene.url, "orders")
    assert [body.decode() for _, body in taken] == [f"a {number}" for number in range(40)]
    properties = taken[0][0]
    assert (properties.headers, properties.priority, properties.type, properties.delivery_mode) == (
        {"n": 1},
        2,
        "order",
        2,
    )
    assert len({properties.message_id for properties, _ in taken}) == 40


def test_a_poison_row_blocks_only_its_own_key_and_is_parked(database: Database, scene: Scene) -> None:
    declare(scene.url, "orders")

    async def story() -> None:
        await create(database)
        database.add(("a", 1), routing_key="nowhere")
        database.add(("a", 2), ("b", 1))
        async with relaying(database, scene, attempts_max=4, retry_s=0.2, retry_max_s=0.3) as relay:
            await until(lambda: relay.metrics.published == 1)
            assert bodies(scene.url, "orders") == ["b 1"]
            database.add(("b", 2))
            await until(lambda: relay.metrics.published == 2)
            assert bodies(scene.url, "orders") == ["b 2"]
            await until(lambda: relay.metrics.parked == 1)
            await until(lambda: relay.metrics.published == 3)
        assert bodies(scene.url, "orders") == ["a 2"]
        assert relay.metrics.failed == 4
        attempts, error = database.execute("SELECT attempts, error FROM leveret_outbox WHERE parked_at IS NOT NULL")[0]
        assert attempts == 4 and error.startswith("Unroutable: ") and "'nowhere'" in error
        await unparked(database, scene)

    asyncio.run(story())


async def unparked(database: Database, broker: Scene) -> None:
    """Once its queue exists, a parked row can go."""
    declare(broker.url, "nowhere")
    outbox = database.outbox()
    status = await outbox.status()
    assert (status.pending, status.parked) == (0, 1)
    assert [await outbox.unpark([-1]), await outbox.unpark(), await outbox.unpark()] == [0, 1, 0]
    assert (await outbox.status()).oldest_age_s > 0
    await outbox.release()
    async with relaying(database, broker):
        await until_off_loop(lambda: is_empty(database))
    assert bodies(broker.url, "nowhere") == ["a 1"]


def test_a_full_queue_and_a_missing_exchange_are_refusals(database: Database, scene: Scene) -> None:
    declare(scene.url, "full", max_length=0, overflow="reject-publish")
    declare(scene.url, "orders")

    async def story() -> None:
        await create(database)
        database.add(("full", 1), routing_key="full")
        database.add(("missing", 1), exchange="missing")
        database.add(*[("good", number) for number in range(5)])
        async with relaying(database, scene, attempts_max=3) as relay:
            await until(lambda: relay.metrics.parked == 2 and relay.metrics.published == 5)
        assert bodies(scene.url, "orders") == [f"good {number}" for number in range(5)]
        errors = database.execute("SELECT ordering_key, error FROM leveret_outbox ORDER BY ordering_key")
        assert [(key, error.split(":")[0]) for key, error in errors] == [
            ("full", "Refused"),
            ("missing", "ChannelClosed"),
        ]

    asyncio.run(story())


def test_a_row_that_another_program_wrote_badly_is_parked(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders")

    async def scene() -> None:
        await create(database)
        database.execute(
            "INSERT INTO leveret_outbox (message_id, routing_key, body, headers) VALUES ('m1', 'orders', 'x', '[1]')"
        )
        database.execute("INSERT INTO leveret_outbox (message_id, routing_key, body) VALUES ('m2', 'orders', 'plain')")
        async with relaying(database, broker) as relay:
            await until(lambda: relay.metrics.published == 1)
        assert bodies(broker.url, "orders") == ["plain"]
        assert relay.metrics.parked == 1
        assert database.execute("SELECT message_id, attempts FROM leveret_outbox") == [("m1", 1)]

    asyncio.run(scene())


def test_of_two_relays_one_stands_by(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders")

    async def scene() -> None:
        async with relaying(database, broker) as second:
            await until(lambda: second.metrics.is_active)
            async with relaying(database, broker) as first:
                database.add(*[("a", number) for number in range(20)])
                await until_off_loop(lambda: is_empty(database))
                # The rows are gone before they are counted.
                await until(lambda: second.metrics.published == 20)
                assert first.metrics.published == 0
                assert not first.metrics.is_active
                second.stop()
                await until(lambda: first.metrics.is_active)
                database.add(*[("a", number) for number in range(20, 40)])
                await until_off_loop(lambda: is_empty(database))
                await until(lambda: first.metrics.published == 20)

    asyncio.run(scene())
    assert bodies(broker.url, "orders") == [f"a {number}" for number in range(40)]


def test_published_rows_may_be_kept_for_a_while(
    database: Database, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.client.outbox.relay.MEASURE_S", 0.1)
    declare(broker.url, "orders")

    async def scene() -> None:
        await create(database)
        database.add(("a", 1), ("a", 2))
        kept = "SELECT count(*) FROM leveret_outbox WHERE published_at IS NOT NULL"
        async with relaying(database, broker, keep_s=1.0) as relay:
            await until(lambda: relay.metrics.published == 2)
            assert database.execute(kept) == [(2,)]
            await until_off_loop(lambda: is_empty(database))
        assert relay.metrics.published == 2

    asyncio.run(scene())
    assert bodies(broker.url, "orders") == ["a 1", "a 2"]


def test_a_stop_settles_what_is_in_hand(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders")

    async def scene() -> None:
        await create(database)
        database.add(*[("a", number) for number in range(2000)])
        async with relaying(database, broker, batch=2000):
            await until_off_loop(lambda: depth(broker.url, "orders") > 0)

    asyncio.run(scene())
    sent = bodies(broker.url, "orders")
    left = database.execute("SELECT count(*) FROM leveret_outbox")[0][0]
    assert 0 < len(sent) < 2000 and len(sent) + left == 2000
    assert sent == [f"a {number}" for number in range(len(sent))]


def test_a_stop_does_not_wait_for_a_broker_that_does_not_answer(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders")

    async def scene() -> None:
        async with relaying(database, broker, stop_deadline_s=0.2) as relay:
            database.add(("a", 1))
            await until(lambda: relay.metrics.published == 1)
            await asyncio.to_thread(broker.raise_alarm, "memory")
            database.add(("a", 2))
            await asyncio.sleep(0.3)
            began = time.monotonic()
        assert time.monotonic() - began < 10
        assert relay.metrics.published == 1
        await asyncio.to_thread(broker.clear_alarm, "memory")
        async with relaying(database, broker):
            await until_off_loop(lambda: is_empty(database))

    asyncio.run(scene())
    assert list(dict.fromkeys(bodies(broker.url, "orders"))) == ["a 1", "a 2"]


def test_a_broker_that_goes_away_costs_no_attempts(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders")

    async def scene() -> None:
        await create(database)
        async with relaying(database, broker, publish_deadline_s=5) as relay:
            await until(lambda: relay.metrics.is_active)
            for number in range(60):
                database.add(("a", number))
                if number % 20 == 10:
                    await asyncio.to_thread(broker.close_connections)
                await asyncio.sleep(0.005)
            await until_off_loop(lambda: is_empty(database))
        assert (relay.metrics.failed, relay.metrics.parked) == (0, 0)

    asyncio.run(scene())
    # A message may come twice, with the same id; the first of each are in order.
    first = list(dict.fromkeys(bodies(broker.url, "orders")))
    assert first == [f"a {number}" for number in range(60)]


def test_large_rows_are_fetched_in_small_batches(database: Database, broker: Broker) -> None:
    async def scene() -> None:
        await create(database)
        database.add(*[("a", number) for number in range(6)])
        outbox = database.outbox()
        assert await outbox.claim()
        assert [len(await outbox.fetch(100, size)) for size in (1, 3, 4, 1000)] == [1, 1, 2, 6]
        assert len(await outbox.fetch(4, 1000)) == 4
        await outbox.release()

    asyncio.run(scene())


def test_duplicates_are_dropped_by_the_brokers_deduplication(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders", message_deduplication=True)

    async def scene() -> None:
        await create(database)
        for _ in range(2):
            # As a relay that was killed between the confirm and the mark would send it again.
            database.add(("a", 1), message_id="m1")
            async with relaying(database, broker):
                await until_off_loop(lambda: is_empty(database))

    asyncio.run(scene())
    assert bodies(broker.url, "orders") == ["a 1"]


# ---- PostgreSQL alone


def test_a_notification_wakes_the_relay(postgres: PostgresServer, broker: Broker) -> None:
    database = Database("postgres", postgres.new_schema())
    declare(broker.url, "orders")
    # As long as names can be: together they are longer than the name of a channel.
    schema, table = "s" * 48, "t" * 48
    database.execute(f"CREATE SCHEMA {schema}")

    async def scene() -> None:
        async with relaying(database, broker, poll_s=15, table=f"{schema}.{table}") as relay:
            await until(lambda: relay.metrics.is_active)
            for number in range(3):
                began = time.monotonic()
                with psycopg.connect(database.place) as connection:
                    Outbox(f"{schema}.{table}").add(connection, f"a {number}", routing_key="orders")
                await until(lambda: relay.metrics.published == number + 1)  # noqa: B023 - it is waited for right here
                assert time.monotonic() - began < 5

    asyncio.run(scene())


def test_a_database_that_is_down_and_comes_back(postgres: PostgresServer, broker: Broker) -> None:
    database = Database("postgres", postgres.new_schema())
    declare(broker.url, "orders")

    async def scene() -> None:
        async with relaying(database, broker) as relay:
            database.add(("a", 1))
            await until_off_loop(lambda: is_empty(database))
            await asyncio.to_thread(postgres.stop)
            await until(lambda: relay.metrics.interruptions >= 2)
            await asyncio.to_thread(postgres.start)
            database.add(("a", 2))
            await until_off_loop(lambda: is_empty(database))

    asyncio.run(scene())
    assert bodies(broker.url, "orders") == ["a 1", "a 2"]


def test_a_relay_that_lost_its_session_settles_nothing(postgres: PostgresServer, broker: Broker) -> None:
    """Its rows belong to the next relay by then."""
    database = Database("postgres", postgres.new_schema())
    declare(broker.url, "orders")

    async def scene() -> None:
        async with relaying(database, broker) as first:
            await until(lambda: first.metrics.is_active)
            async with relaying(database, broker) as second:
                database.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
                    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                )
                database.add(*[("a", number) for number in range(20)])
                await until_off_loop(lambda: is_empty(database))
                await until(lambda: first.metrics.published + second.metrics.published == 20)

    asyncio.run(scene())
    assert list(dict.fromkeys(bodies(broker.url, "orders"))) == [f"a {number}" for number in range(20)]
    assert depth(broker.url, "orders") == 0
