"""Reading streams: from any place, on from there after a lost connection, offsets kept in every kind of store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leveret.client import (
    ChannelClosed,
    ClientError,
    Connection,
    OffsetStore,
    QueueOffsetStore,
    SqliteOffsetStore,
    Stream,
    StreamMessage,
)
from tests.client.amqp_server import AmqpServer
from tests.client.lasting import cut, cut_and_restored, delete_queue, new_name, new_queue, new_stream, publish, run_on


async def filled(connection: Connection, count: int, first: int = 0, name: str | None = None) -> str:
    stream = name or await new_stream(connection)
    await publish(connection, "", ((stream, str(n).encode()) for n in range(first, first + count)))
    return stream


async def read(stream: Stream, count: int) -> list[int]:
    """The offsets of so many messages, whose bodies say the same."""
    found = []
    async with asyncio.timeout(30):
        async for message in stream:
            assert int(message.body) == message.offset
            found.append(message.offset)
            if len(found) == count:
                return found
    raise AssertionError(f"only {found}")


@pytest.mark.parametrize(
    ("offset", "first"), [("first", 0), (7, 7), ("1h", 0), (datetime.now(UTC) - timedelta(hours=1), 0)]
)
def test_from_a_place(amqp_server: AmqpServer, offset: Any, first: int) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 20)
        async with connection.stream(name, offset=offset) as stream:
            assert await read(stream, 20 - first) == list(range(first, 20))
            assert stream.offset == 19

    run_on(amqp_server, script)


def test_from_the_last(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 20)
        async with connection.stream(name, offset="last") as stream:
            found = [(await anext(stream)).offset]
            while found[-1] < 19:
                found.append((await anext(stream)).offset)
            # RabbitMQ begins with the bunch in which the last one is.
            assert found == list(range(found[0], 20))
            assert len(found) == 1 or amqp_server.name == "rabbitmq"

    run_on(amqp_server, script)


def test_what_comes_from_now_on(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 20)
        async with connection.stream(name) as stream:
            await filled(connection, 5, first=20, name=name)
            assert await read(stream, 5) == list(range(20, 25))

    run_on(amqp_server, script)


@pytest.mark.parametrize("there", [0, 20])
def test_no_gap_if_the_connection_is_lost_before_the_first_message(amqp_server: AmqpServer, there: int) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, there)
        async with connection.stream(name, offset="next") as stream:
            other = await connection.channel()
            assert other.is_open
            # Messages come while the stream's own channel is gone.
            feed = stream._feed
            feed.is_started = False
            await cut_and_restored(connection)
            await filled(connection, 5, first=there, name=name)
            feed.is_started = True
            await cut_and_restored(connection)
            assert await read(stream, 5) == list(range(there, there + 5))

    run_on(amqp_server, script)


def test_many_messages_and_a_small_window(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 3000)
        for prefetch in (1, 10, 4000):
            async with connection.stream(name, offset=2000, prefetch=prefetch) as stream:
                assert await read(stream, 1000) == list(range(2000, 3000))

    run_on(amqp_server, script)


def test_on_without_gap_or_duplicate_after_lost_connections(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 1000)
        async with connection.stream(name, offset="first", prefetch=50) as stream:
            found = []
            async for message in stream:
                found.append(message.offset)
                if len(found) % 150 == 0:
                    cut(connection)
                    await asyncio.sleep(0.02)
                if len(found) == 1000:
                    break
            assert found == list(range(1000))
            assert connection.reconnects_total >= 4

    run_on(amqp_server, script)


# ---- stores


@asynccontextmanager
async def stored(
    kind: str, connection: Connection, path: Path, count: int, **options: Any
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """A stream with so many messages, and the options of a consumer that keeps its offsets in such a store."""
    name = await filled(connection, count)
    options = {"offset": "first", "consumer": "c", **options}
    if kind == "broker":
        yield name, {**options, "store": None}
        return
    store = SqliteOffsetStore(path / "offsets.db") if kind == "sqlite" else QueueOffsetStore(connection)
    try:
        yield name, {**options, "store": store}
    finally:
        await store.close()


def test_a_queue_that_is_no_stream_keeps_its_messages(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        await publish(connection, "", [(queue, b"0"), (queue, b"1")])
        with pytest.raises(ClientError, match="x-stream-offset"):
            async with connection.stream(queue, offset="next"):
                pass
        for body in (b"0", b"1"):
            delivery = await connection.get(queue)
            assert delivery is not None
            assert (delivery.body, delivery.redelivered) == (body, False)
            delivery.ack()

    run_on(amqp_server, script)


@pytest.fixture(params=["sqlite", "queue", "broker"])
def kind(request: pytest.FixtureRequest, amqp_server: AmqpServer) -> str:
    if request.param == "broker" and amqp_server.name != "leveret":
        pytest.skip("only Leveret stores offsets of AMQP consumers")
    return str(request.param)


def test_a_named_consumer_goes_on_where_it_was(amqp_server: AmqpServer, kind: str, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        async with stored(kind, connection, tmp_path, 30, offset="stored", consumer="ledger") as (name, options):
            async with connection.stream(name, **options) as stream:
                assert await read(stream, 10) == list(range(10))
            async with connection.stream(name, **options) as stream:
                assert await read(stream, 10) == list(range(10, 20))
                assert stream.counters.stored_total == 0
            with pytest.raises(LookupError):
                async with connection.stream(name, **options) as stream:
                    assert await read(stream, 5) == list(range(20, 25))
                    raise LookupError
            # The one in hand when it failed comes again; another consumer is somewhere else.
            async with connection.stream(name, **options) as stream:
                assert await read(stream, 6) == list(range(24, 30))
            async with connection.stream(name, **{**options, "consumer": "other"}) as stream:
                assert await read(stream, 30) == list(range(30))

    run_on(amqp_server, script)


def test_stored_every_so_many(amqp_server: AmqpServer, kind: str, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        async with stored(kind, connection, tmp_path, 50, store_every=10) as (name, options):
            stream = await connection.stream(name, **options)
            assert await read(stream, 35) == list(range(35))
            await asyncio.sleep(0.5)
            # As if the process had ended here: nothing is stored at the end.
            await stream.close(store=False)
            async with connection.stream(name, **options) as stream:
                first = (await anext(stream)).offset
                assert 10 <= first <= 35

    run_on(amqp_server, script)


def test_stored_after_a_while(amqp_server: AmqpServer, kind: str, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        async with stored(kind, connection, tmp_path, 9, store_every_s=0.1) as (name, options):
            stream = await connection.stream(name, **options)
            await read(stream, 9)
            # Nothing more comes, but eight are done with.
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.6)
            waiting.cancel()
            await asyncio.wait((waiting,))
            await stream.close(store=False)
            await filled(connection, 1, first=9, name=name)
            async with connection.stream(name, **options) as stream:
                assert (await anext(stream)).offset == 9

    run_on(amqp_server, script)


def test_stored_only_when_told(amqp_server: AmqpServer, kind: str, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        async with stored(kind, connection, tmp_path, 40, store_every=0) as (name, options):
            async with connection.stream(name, **options) as stream:
                await read(stream, 10)
                await stream.store_offset()
                await read(stream, 10)
            async with connection.stream(name, **options) as stream:
                assert await read(stream, 10) == list(range(10, 20))
                # Told after a lost connection, too.
                await cut_and_restored(connection)
                await stream.store_offset()
                await read(stream, 5)
            async with connection.stream(name, **options) as stream:
                assert await read(stream, 5) == list(range(20, 25))

    run_on(amqp_server, script)


def test_one_who_never_stores_is_told(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        if amqp_server.name != "leveret":
            name = await filled(connection, 1)
            with pytest.raises(ClientError, match="give a store"):
                await connection.stream(name, consumer="c")
            with pytest.raises(ClientError, match="filters"):
                await connection.stream(name, filter="a")
            return
        name = await filled(connection, 20)
        async with connection.stream(name, offset="first", consumer="c", store_every=0, prefetch=10) as stream:
            with pytest.raises(ClientError, match="store_offset"):
                await read(stream, 20)
            await stream.store_offset()
            assert await read(stream, 10) == list(range(10, 20))

    run_on(amqp_server, script)


def test_a_store_that_fails_now_and_then(amqp_server: AmqpServer) -> None:
    class Moody:
        def __init__(self) -> None:
            self.saved: list[int] = []
            self.failures = 0

        async def load(self, stream: str, consumer: str) -> int | None:
            return None

        async def save(self, stream: str, consumer: str, offset: int) -> None:
            if not self.failures:
                self.failures += 1
                raise OSError("the disk is full")
            self.saved.append(offset)

    async def script(connection: Connection) -> None:
        name = await filled(connection, 20)
        moody = Moody()
        store: OffsetStore = moody
        async with connection.stream(name, offset="first", consumer="c", store=store, store_every=10) as stream:
            await read(stream, 15)
            await asyncio.sleep(0.05)
            assert stream.counters.store_failures_total == 1
        assert moody.saved == [14]

    run_on(amqp_server, script)


def test_results_and_offset_in_one_transaction(amqp_server: AmqpServer, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 10)
        store = SqliteOffsetStore(tmp_path / "own.db", table="places")
        database = sqlite3.connect(tmp_path / "own.db", isolation_level=None)
        store.create(database)
        database.execute("CREATE TABLE results (number INTEGER)")
        for until in (4, 9):
            async with connection.stream(name, offset="first", consumer="c", store=store, store_every=0) as stream:
                async for message in stream:
                    database.execute("BEGIN")
                    database.execute("INSERT INTO results VALUES (?)", (message.offset,))
                    store.write(database, name, "c", message.offset)
                    database.execute("COMMIT")
                    if message.offset == until:
                        break
        assert [row[0] for row in database.execute("SELECT number FROM results")] == list(range(10))
        database.close()
        await store.delete(name, "c")
        assert await store.load(name, "c") is None
        await store.close()

    run_on(amqp_server, script)


def test_the_queue_store_survives_lost_connections_and_keeps_one_message(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        store = QueueOffsetStore(connection, prefix=new_name("offsets"))
        assert await store.load("s", "c") is None
        for offset in (1, 2, 300):
            await store.save("s", "c", offset)
            await cut_and_restored(connection)
        assert [await store.load("s", "c") for _ in range(3)] == [300, 300, 300]
        await store.save("s", "c", 301)
        assert await QueueOffsetStore(connection, prefix=store._prefix).load("s", "c") == 301
        await store.delete("s", "c")
        assert await store.load("s", "c") is None
        await store.delete("s", "c")
        await store.close()

    run_on(amqp_server, script)


# ---- the rest


def test_what_a_message_has(amqp_server: AmqpServer) -> None:
    class Order(msgspec.Struct):
        number: int

    async def script(connection: Connection) -> None:
        name = await new_stream(connection)
        await publish(connection, "", [(name, b'{"number": 7}')], message_id="m", headers={"a": 1})
        async with connection.stream(name, offset="first", type=Order) as stream:
            message: StreamMessage = await anext(stream)
            assert (message.stream, message.offset, message.message_id) == (name, 0, "m")
            assert (message.headers["a"], message.routing_key) == (1, name)
            assert message.payload == Order(7)
        async with connection.stream(name, offset="first") as stream:
            with pytest.raises(TypeError, match="without a type"):
                _ = (await anext(stream)).payload

    run_on(amqp_server, script)


def test_filters(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await new_stream(connection)
        for country in ("de", "fr", "de"):
            await publish(connection, "", [(name, country.encode())], headers={"x-stream-filter-value": country})
        async with connection.stream(name, offset="first", filter=["de"]) as stream:
            assert [(await anext(stream)).offset for _ in range(2)] == [0, 2]

    if amqp_server.name != "leveret":
        pytest.skip("RabbitMQ has this over the stream protocol only, and later than 3.10")
    run_on(amqp_server, script)


def test_of_single_active_readers_another_takes_over(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 10)
        options: dict[str, Any] = {"offset": "first", "consumer": "g", "single_active": True, "store_every_s": 0.1}
        first = await connection.stream(name, **options)
        second = await connection.stream(name, **options)
        assert await read(first, 10) == list(range(10))
        waiting = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await first.close()
        await filled(connection, 1, first=10, name=name)
        assert (await waiting).offset == 10
        await second.close()

    if amqp_server.name != "leveret":
        pytest.skip("RabbitMQ has this over the stream protocol only, and later than 3.10")
    run_on(amqp_server, script)


def test_a_stream_that_is_deleted_ends_its_readers(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 1)
        async with connection.stream(name, offset="first") as stream:
            stream._feed._patience_s = 0.5
            await anext(stream)
            await delete_queue(connection, name)
            with pytest.raises(ChannelClosed):
                await anext(stream)
        with pytest.raises(ChannelClosed):
            await connection.stream(name, offset="first")

    run_on(amqp_server, script)


def test_a_queue_is_no_stream(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        await publish(connection, "", [(queue, b"x")])
        with pytest.raises(ChannelClosed, match="406"):
            await connection.stream(queue, offset="first")

    run_on(amqp_server, script)


def test_closing_ends_the_iteration(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection, 2)
        stream = await connection.stream(name, offset="first")
        closing: asyncio.Task[None] | None = None
        found = []
        async for message in stream:
            found.append(message.offset)
            if message.offset == 1:
                closing = asyncio.create_task(stream.close())
        assert found == [0, 1] and closing is not None
        await closing

    run_on(amqp_server, script)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"offset": "middle"}, "offset is 'middle'"),
        ({"offset": -1}, "must not be below 0"),
        ({"offset": datetime(2026, 1, 1)}, "time zone"),
        ({"prefetch": 0}, "prefetch"),
        ({"offset": "stored"}, "consumer's name"),
        ({"single_active": True}, "consumer's name"),
        ({"store_every": -1}, "store_every"),
    ],
)
def test_refused_before_anything_is_sent(amqp_server: AmqpServer, options: dict[str, Any], text: str) -> None:
    async def script(connection: Connection) -> None:
        with pytest.raises(ValueError, match=text):
            connection.stream("any", **options)
        with pytest.raises(TypeError, match="offset"):
            connection.stream("any", offset=True)

    run_on(amqp_server, script)
