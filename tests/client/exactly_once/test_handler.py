"""idempotent(): deliveries of a real broker, settled after the commit."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from leveret.client import Channel, Delivery, Reject, Requeue, connect
from leveret.client.idempotent import (
    Handled,
    MissingMessageId,
    Outcome,
    PostgresStore,
    SqliteStore,
    StoreMetrics,
    Work,
    idempotent,
)
from leveret.testing import Broker
from tests.client.exactly_once.queues import bodies, declare, publish
from tests.client.exactly_once.scene import Database, write_effect
from tests.client.topology_scene import Scene
from tests.client.waiting import until


@asynccontextmanager
async def consuming(broker: Broker | Scene) -> AsyncIterator[Channel]:
    async with connect(broker.url) as connection:
        yield await connection.channel()


async def taken(channel: Channel) -> Delivery:
    delivery = await channel.get("orders")
    assert delivery is not None
    return delivery


async def leave(channel: Channel) -> None:
    """Acks are written at the end of the loop's turn; an answer from the broker says that they have arrived."""
    while await channel.get("orders", no_ack=True) is not None:
        pass


def test_acked_after_the_commit_and_duplicates_too(database: Database, scene: Scene) -> None:
    declare(scene.url, "orders")
    for number in (1, 1, 2):
        publish(scene.url, "orders", f"order {number}", message_id=f"m{number}")

    async def story() -> list[Outcome]:
        async with database.store() as store, consuming(scene) as channel:

            @idempotent(store, consumer="billing")
            async def bill(delivery: Delivery, work: Any) -> None:
                await write_effect(work, delivery.body.decode(), 1)

            outcomes = [await bill(await taken(channel)) for _ in range(3)]
            await leave(channel)
            return outcomes

    assert asyncio.run(story()) == [Outcome.HANDLED, Outcome.DUPLICATE, Outcome.HANDLED]
    assert database.effects() == [("order 1", 1), ("order 2", 1)]
    assert bodies(scene.url, "orders") == []


def test_what_fails_goes_back_and_leaves_no_trace(database: Database, scene: Scene) -> None:
    declare(scene.url, "orders")
    publish(scene.url, "orders", "order 1", message_id="m1")

    async def story() -> list[Outcome]:
        async with database.store() as store, consuming(scene) as channel:
            failures = iter([RuntimeError("no stock"), None])

            @idempotent(store, consumer="billing", retry_pause_s=0.01)
            async def bill(delivery: Delivery, work: Any) -> None:
                await write_effect(work, "order", 1)
                if failure := next(failures):
                    raise failure

            outcomes = [await bill(await taken(channel))]
            again = await taken(channel)
            assert again.redelivered
            return [*outcomes, await bill(again)]

    assert asyncio.run(story()) == [Outcome.FAILED, Outcome.HANDLED]
    assert database.effects() == [("order", 1)]


def test_with_requeue_off_it_is_dead_lettered(tmp_path: Path, broker: Broker) -> None:
    declare(broker.url, "dead")
    declare(broker.url, "orders", dead_letter_exchange="", dead_letter_routing_key="dead")
    publish(broker.url, "orders", "order 1", message_id="m1")
    publish(broker.url, "orders", "order 2")

    async def scene() -> list[Outcome]:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing", requeue=False)
            async def bill(delivery: Delivery, work: Any) -> None:
                raise RuntimeError("no stock")

            outcomes = [await bill(await taken(channel)), await bill(await taken(channel))]
            await leave(channel)
            return outcomes

    # The second has no id: it never will have one.
    assert asyncio.run(scene()) == [Outcome.FAILED, Outcome.REFUSED]
    assert bodies(broker.url, "dead") == ["order 1", "order 2"]


@pytest.mark.parametrize("requeue", [True, False])
def test_what_fails_for_good_is_dead_lettered_at_once(tmp_path: Path, broker: Broker, requeue: bool) -> None:
    declare(broker.url, "dead")
    declare(broker.url, "orders", dead_letter_exchange="", dead_letter_routing_key="dead")
    errors = {"rejected": Reject("no cheques"), "permanent": KeyError("customer"), "again": Requeue("not now")}
    for name in errors:
        publish(broker.url, "orders", name, message_id=name)

    async def scene() -> list[Outcome]:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing", requeue=requeue, retry_pause_s=0.01, permanent=(LookupError,))
            async def bill(delivery: Delivery, work: Any) -> None:
                raise errors[delivery.body.decode()]

            outcomes = [await bill(await taken(channel)) for _ in range(3)]
            # Only this one comes again.
            again = await taken(channel)
            assert (again.body, again.redelivered) == (b"again", True)
            again.ack()
            assert await channel.get("orders") is None
            assert store.metrics.rolled_back == 3 and store.metrics.new == 0
            return outcomes

    assert asyncio.run(scene()) == [Outcome.REJECTED, Outcome.REJECTED, Outcome.FAILED]
    assert bodies(broker.url, "dead") == ["rejected", "permanent"]


def test_a_consumer_that_settles_itself_hears_reject_for_permanent_errors(tmp_path: Path, broker: Broker) -> None:
    declare(broker.url, "orders")
    publish(broker.url, "orders", "order 1", message_id="m1")

    async def scene() -> None:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing", settle=False, permanent=(LookupError,))
            async def bill(delivery: Delivery, work: Any) -> None:
                raise KeyError("customer")

            with pytest.raises(Reject, match="customer"):
                await bill(await taken(channel))

    asyncio.run(scene())


def test_a_duplicate_gives_the_result_of_the_first(database: Database, scene: Scene) -> None:
    declare(scene.url, "orders")
    for _ in range(3):
        publish(scene.url, "orders", "order 1", message_id="m1")
    receipt = {"receipt": 7, "for": "caf\xe9 \x00 \U0001f600", "parts": [1.5, None, True]}

    async def story() -> list[Handled]:
        async with database.store() as store, consuming(scene) as channel:
            failures = iter([RuntimeError("no stock"), None])

            @idempotent(store, consumer="billing", results=True, retry_pause_s=0.01)
            async def bill(delivery: Delivery, work: Any) -> dict[str, Any]:
                if failure := next(failures):
                    raise failure
                return receipt

            return [await bill(await taken(channel)) for _ in range(4)]

    failed, handled, *duplicates = asyncio.run(story())
    assert failed == (Outcome.FAILED, None)
    assert handled == (Outcome.HANDLED, receipt)
    assert duplicates == [(Outcome.DUPLICATE, receipt)] * 2


def test_a_result_that_cannot_be_stored_undoes_the_work(database: Database, scene: Scene) -> None:
    declare(scene.url, "orders")
    publish(scene.url, "orders", "order 1", message_id="m1")

    async def story() -> Handled:
        async with database.store() as store, consuming(scene) as channel:

            @idempotent(store, consumer="billing", results=True, requeue=False)
            async def bill(delivery: Delivery, work: Any) -> object:
                await write_effect(work, "order", 1)
                return object()

            return await bill(await taken(channel))

    assert asyncio.run(story()) == (Outcome.FAILED, None)
    assert database.effects() == []


def test_a_key_function_finds_the_id_elsewhere(tmp_path: Path, broker: Broker) -> None:
    declare(broker.url, "orders")
    for headers in ({"order": "7"}, {"order": "7"}, {}, {"order": 7}):
        publish(broker.url, "orders", "order", headers=headers)

    async def scene() -> list[Outcome]:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing", key=lambda delivery: delivery.headers["order"])
            async def bill(delivery: Delivery, work: Any) -> None:
                assert work.is_new

            return [await bill(await taken(channel)) for _ in range(4)]

    assert asyncio.run(scene()) == [Outcome.HANDLED, Outcome.DUPLICATE, Outcome.REFUSED, Outcome.REFUSED]


def test_a_plain_function_works_in_the_thread_of_sqlite(tmp_path: Path, broker: Broker) -> None:
    declare(broker.url, "orders")
    publish(broker.url, "orders", "order 1", message_id="m1")

    async def scene() -> list[Any]:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing")
            def bill(delivery: Delivery, work: Any) -> None:
                assert isinstance(work.connection, sqlite3.Connection)
                work.connection.execute("CREATE TABLE bills AS SELECT ? AS text", (delivery.body.decode(),))
                with pytest.raises(RuntimeError):
                    asyncio.get_running_loop()

            assert await bill(await taken(channel)) is Outcome.HANDLED
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            found = connection.execute("SELECT text FROM bills").fetchall()
        connection.close()
        return found

    assert asyncio.run(scene()) == [("order 1",)]


def test_a_channel_that_went_away_means_another_delivery(database: Database, broker: Broker) -> None:
    declare(broker.url, "orders")
    publish(broker.url, "orders", "order 1", message_id="m1")

    async def scene() -> list[Outcome]:
        async with database.store() as store, connect(broker.url) as connection:

            @idempotent(store, consumer="billing")
            async def bill(delivery: Delivery, work: Any) -> None:
                await write_effect(work, "order", 1)
                await channel.close()

            channel = await connection.channel()
            outcomes = [await bill(await taken(channel))]
            channel = await connection.channel()
            return [*outcomes, await bill(await taken(channel))]

    assert asyncio.run(scene()) == [Outcome.HANDLED, Outcome.DUPLICATE]
    assert database.effects() == [("order", 1)]


def test_a_cancelled_handler_gives_the_message_back(tmp_path: Path, broker: Broker) -> None:
    declare(broker.url, "orders")
    publish(broker.url, "orders", "order 1", message_id="m1")

    async def scene() -> None:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing")
            async def bill(delivery: Delivery, work: Any) -> None:
                await asyncio.sleep(60)

            task = asyncio.ensure_future(bill(await taken(channel)))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert (await taken(channel)).redelivered

    asyncio.run(scene())


def test_the_consumer_may_settle_by_rules_of_its_own(tmp_path: Path, broker: Broker) -> None:
    declare(broker.url, "orders")
    for message_id in ("m1", "m2", None):
        publish(broker.url, "orders", "order", message_id=message_id)

    async def scene() -> None:
        async with SqliteStore(tmp_path / "shop.db") as store, consuming(broker) as channel:

            @idempotent(store, consumer="billing", settle=False)
            async def bill(delivery: Delivery, work: Any) -> None:
                if delivery.message_id == "m2":
                    raise RuntimeError("no stock")

            first, second, third = [await taken(channel) for _ in range(3)]
            assert [await bill(first), await bill(first)] == [Outcome.HANDLED, Outcome.DUPLICATE]
            with pytest.raises(RuntimeError, match="no stock"):
                await bill(second)
            with pytest.raises(MissingMessageId, match="key= function"):
                await bill(third)
            assert [first.is_settled, second.is_settled, third.is_settled] == [False, False, False]

    asyncio.run(scene())


@pytest.mark.parametrize("settle", [True, False])
def test_a_consumer_runs_it_with_either_settling(database: Database, broker: Broker, settle: bool) -> None:
    declare(broker.url, "orders")
    for number in (1, 1, 2, 3, 2):
        publish(broker.url, "orders", str(number), message_id=f"m{number}")

    async def scene() -> None:
        failures = {"2": 2}
        async with database.store() as store, connect(broker.url) as connection:

            @idempotent(store, consumer="billing", retry_pause_s=0.01, settle=settle)
            async def bill(delivery: Delivery, work: Any) -> None:
                text = delivery.body.decode()
                await write_effect(work, "order", int(text))
                if failures.get(text):
                    failures[text] -= 1
                    raise RuntimeError("no stock")

            consumer = connection.consumer("orders", on_error="requeue")
            running = asyncio.create_task(consumer.run(bill, concurrency=3))
            await until(lambda: store.metrics.new + store.metrics.duplicates == 5)
            await consumer.stop()
            await running
            assert (store.metrics.new, store.metrics.duplicates, store.metrics.rolled_back) == (3, 2, 2)

    asyncio.run(scene())
    assert sorted(number for _, number in database.effects()) == [1, 2, 3]
    assert bodies(broker.url, "orders") == []


def test_a_store_of_ones_own(broker: Broker) -> None:
    """The contract is all that idempotent() asks for; this one keeps ids in memory."""

    class MemoryWork(Work[set[str]]):
        async def run(self, function: Any, *arguments: Any) -> Any:
            return function(self.connection, *arguments)

    class MemoryStore:
        runs_plain_functions = True
        metrics = StoreMetrics()

        def __init__(self) -> None:
            self.ids: set[str] = set()

        async def create(self) -> None: ...

        @asynccontextmanager
        async def once(
            self, message_id: str, *, consumer: str, deadline_s: float | None = None
        ) -> AsyncIterator[MemoryWork]:
            yield MemoryWork(None if message_id in self.ids else self.ids)
            self.ids.add(message_id)

        async def purge(self) -> int:
            return 0

        async def close(self) -> None: ...

    declare(broker.url, "orders")
    for message_id in ("m1", "m2", "m1"):
        publish(broker.url, "orders", "order", message_id=message_id)

    async def scene() -> list[Outcome]:
        async with consuming(broker) as channel:

            @idempotent(MemoryStore(), consumer="billing")
            def bill(delivery: Delivery, work: Any) -> None:
                assert delivery.message_id not in work.connection

            return [await bill(await taken(channel)) for _ in range(3)]

    assert asyncio.run(scene()) == [Outcome.HANDLED, Outcome.HANDLED, Outcome.DUPLICATE]


def test_what_cannot_work_is_refused_before_the_first_message(tmp_path: Path) -> None:
    async def scene() -> None:
        store = SqliteStore(tmp_path / "shop.db")
        with pytest.raises(ValueError, match="name of a consumer"):
            idempotent(store, consumer="")
        await store.close()
        with pytest.raises(TypeError, match="async def"):
            idempotent(PostgresStore("host=nowhere"), consumer="billing")(lambda delivery, work: None)

    asyncio.run(scene())
