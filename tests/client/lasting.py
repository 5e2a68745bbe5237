"""A connection of a test's own, broken on purpose, and nothing left behind at the end."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from leveret.client import Connection, connect
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.core.codec.properties import encode_properties
from leveret.wire.exchange_methods import ExchangeDeclare
from leveret.wire.queue_methods import QueueDeclare, QueueDelete
from tests.client.amqp_server import AmqpServer
from tests.client.waiting import until

WAIT_S = 60.0


def new_name(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:12]}"


def run_on(
    server: AmqpServer,
    script: Callable[[Connection], Awaitable[None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    **options: Any,
) -> None:
    """Runs the script on a connection; afterwards no task of the library may be left."""

    async def whole() -> None:
        async with asyncio.timeout(WAIT_S):
            async with connect(server.url, **options) as connection:
                await script(connection)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, left

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(whole())


async def new_queue(connection: Connection, **options: Any) -> str:
    name = new_name("client")
    channel = await connection.channel()
    arguments = options.pop("arguments", {})
    await channel.call(QueueDeclare(name, durable=True, arguments=arguments, **options))
    await channel.close()
    return name


async def new_stream(connection: Connection) -> str:
    return await new_queue(connection, arguments={"x-queue-type": "stream"})


async def publish(connection: Connection, exchange: str, messages: Iterable[tuple[str, bytes]], **fields: Any) -> None:
    """(routing key, body) of each; returns when all are confirmed."""
    channel = await connection.channel()
    await channel.confirm()
    raw = encode_properties(**fields)
    for key, body in messages:
        channel.codec.publish(Outgoing(make_address(exchange, key), raw, body, b"", 0))
    await until(lambda: not channel.codec.unconfirmed, "all are confirmed", WAIT_S)
    await channel.close()


async def new_exchange(connection: Connection, kind: str = "direct") -> str:
    name = new_name("client")
    channel = await connection.channel()
    await channel.call(ExchangeDeclare(name, kind, durable=True))
    await channel.close()
    return name


async def delete_queue(connection: Connection, name: str) -> None:
    channel = await connection.channel()
    await channel.call(QueueDelete(name))
    await channel.close()


def cut(connection: Connection) -> None:
    """The TCP connection breaks."""
    link = connection._link
    assert link is not None and link._transport is not None
    link._transport.abort()


async def cut_and_restored(connection: Connection) -> None:
    before = connection.reconnects_total
    cut(connection)
    async with asyncio.timeout(WAIT_S):
        await until(lambda: connection.reconnects_total > before, "it is restored", WAIT_S)
        await connection.ready()
