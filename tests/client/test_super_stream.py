"""Super streams: made, written by key and read as one, on both brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from leveret.client import (
    ChannelClosed,
    Connection,
    NoPartitions,
    SqliteOffsetStore,
    SuperStream,
    declare_super_stream,
    partition_key,
)
from leveret.wire.queue_methods import QueueBind, QueueDeclare, QueueDelete
from tests.client.amqp_server import AmqpServer
from tests.client.lasting import cut_and_restored, new_name, publish, run_on
from tests.client.waiting import until

CUSTOMERS = [f"customer-{number}" for number in range(20)]


async def filled(connection: Connection, rounds: int = 5, partitions: int = 3) -> str:
    """Each customer's messages are numbered."""
    name = new_name("super")
    await declare_super_stream(connection, name, partitions)
    # Again does nothing.
    assert await declare_super_stream(connection, name, partitions) == [f"{name}-{n}" for n in range(partitions)]
    keys = {customer: partition_key(customer, partitions) for customer in CUSTOMERS}
    messages = [(keys[c], f"{c} {number}".encode()) for number in range(rounds) for c in CUSTOMERS]
    await publish(connection, name, messages)
    return name


async def read(stream: SuperStream, count: int) -> list[Any]:
    found = []
    async with asyncio.timeout(30):
        async for message in stream:
            found.append(message)
            if len(found) == count:
                return found
    raise AssertionError(f"only {len(found)}")


def check_order(found: list[Any], rounds: int = 5) -> None:
    """Everything came once, and what one customer did is in its order and in one partition."""
    by_customer: dict[str, list[int]] = {}
    partitions: dict[str, set[str]] = {}
    for message in found:
        customer, number = message.body.decode().split()
        by_customer.setdefault(customer, []).append(int(number))
        partitions.setdefault(customer, set()).add(message.stream)
    assert by_customer == {customer: list(range(rounds)) for customer in CUSTOMERS}
    assert all(len(names) == 1 for names in partitions.values())
    assert len(set.union(*partitions.values())) == 3


def known_partitions(server: AmqpServer) -> int | None:
    """RabbitMQ cannot be asked for them over AMQP."""
    return None if server.name == "leveret" else 3


@pytest.mark.parametrize("partitions", [None, 3, "names"])
def test_read_as_one(amqp_server: AmqpServer, partitions: Any) -> None:
    if partitions is None:
        partitions = known_partitions(amqp_server)

    async def script(connection: Connection) -> None:
        name = await filled(connection)
        given = [f"{name}-{n}" for n in range(3)] if partitions == "names" else partitions
        async with connection.super_stream(name, offset="first", partitions=given, prefetch=10) as stream:
            check_order(await read(stream, 100))
            assert len(stream.offsets) == 3
            assert sum(offset + 1 for offset in stream.offsets.values()) == 100

    run_on(amqp_server, script)


def test_each_partition_goes_on_where_it_was(amqp_server: AmqpServer, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection)
        store = SqliteOffsetStore(tmp_path / "offsets.db")
        options: dict[str, Any] = {"offset": "first", "consumer": "c", "store": store}
        options["partitions"] = known_partitions(amqp_server)
        async with connection.super_stream(name, **options) as stream:
            found = await read(stream, 41)
        async with connection.super_stream(name, **options) as stream:
            found += await read(stream, 30)
            await cut_and_restored(connection)
            await stream.store_offset()
            found += await read(stream, 29)
        check_order(found)
        await store.close()

    run_on(amqp_server, script)


def test_what_was_in_hand_when_it_failed_comes_again(amqp_server: AmqpServer, tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection)
        store = SqliteOffsetStore(tmp_path / "offsets.db")
        options: dict[str, Any] = {"offset": "first", "consumer": "c", "store": store}
        options["partitions"] = known_partitions(amqp_server)
        with pytest.raises(LookupError):
            async with connection.super_stream(name, **options) as stream:
                found = await read(stream, 50)
                raise LookupError
        async with connection.super_stream(name, **options) as stream:
            again = await read(stream, 51)
        assert found[-1].body in {message.body for message in again}
        check_order(found[:-1] + again)
        await store.close()

    run_on(amqp_server, script)


def test_readers_share_the_partitions_out(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        name = await filled(connection)
        options: dict[str, Any] = {"offset": "first", "consumer": "group", "single_active": True}
        found: list[Any] = []

        async def follow(stream: SuperStream) -> None:
            async for message in stream:
                found.append(message)

        async with connection.super_stream(name, **options) as one, connection.super_stream(name, **options) as two:
            tasks = [asyncio.create_task(follow(one)), asyncio.create_task(follow(two))]
            await until(lambda: len(found) >= 100, "all messages")
            await one.close()
            await two.close()
            await asyncio.gather(*tasks)
            # Each message once, although the turn of a partition passed from one to the other.
            check_order(sorted(found, key=lambda message: (message.stream, message.offset)))

    if amqp_server.name != "leveret":
        pytest.skip("RabbitMQ has this over the stream protocol only, and later than 3.10")
    run_on(amqp_server, script)


def test_what_is_not_there(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        with pytest.raises(NoPartitions, match=r"no super stream|name them, all of them"):
            await connection.super_stream(new_name("missing"))
        with pytest.raises(ChannelClosed):
            await connection.super_stream(new_name("missing"), partitions=2)
        with pytest.raises(ValueError, match="partitions"):
            await connection.super_stream("x", partitions=0)
        with pytest.raises(ValueError, match="partitions"):
            await connection.super_stream("x", partitions="x-0")
        with pytest.raises(ValueError, match="partitions"):
            await declare_super_stream(connection, "x", 0)

    run_on(amqp_server, script)


def test_partitions_are_those_that_the_broker_names(amqp_server: AmqpServer) -> None:
    """Whatever their names are, and also behind one that was deleted."""

    async def script(connection: Connection) -> None:
        name = await filled(connection)
        if amqp_server.name != "leveret":
            with pytest.raises(NoPartitions, match=f"partitions of the super stream '{name}': name them, all of them"):
                await connection.super_stream(name, offset="first")
            return
        channel = await connection.channel()
        await channel.call(QueueDelete(f"{name}-1"))
        await channel.call(QueueDeclare(f"{name}.extra", durable=True, arguments={"x-queue-type": "stream"}))
        await channel.call(QueueBind(f"{name}.extra", name, "extra", arguments={}))
        await publish(connection, name, [("extra", b"extra 0")])
        async with connection.super_stream(name, offset="first") as stream:
            assert [one.name for one in stream.streams] == [f"{name}-0", f"{name}-2", f"{name}.extra"]
            gone = sum(partition_key(customer, 3) == "1" for customer in CUSTOMERS)
            assert gone > 0
            found = await read(stream, 5 * (len(CUSTOMERS) - gone) + 1)
            assert any(message.body == b"extra 0" for message in found)
        with pytest.raises(NoPartitions, match="has no partitions: no stream is bound"):
            await connection.super_stream("amq.fanout")

    run_on(amqp_server, script)


def test_keys_go_where_other_clients_send_them() -> None:
    # What RabbitMQ's own stream clients choose; Leveret's exchange is tested by the same.
    keys: list[str | bytes] = ["hello7", "hello8", b"hello9", "hello10", "hello88"]
    assert [partition_key(key, 3) for key in keys] == ["0", "1", "0", "2", "1"]
    with pytest.raises(ValueError, match="partitions"):
        partition_key("a", 0)
