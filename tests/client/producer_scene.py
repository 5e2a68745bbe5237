"""What the tests of producers and of the pool share: connections, queues, a proxy in between, and what arrived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import uvloop

from leveret.client import Connection, Delivery, Message, connect, events
from leveret.client.publishing.message_encoder import MessageEncoder
from leveret.core.client.outgoing import Outgoing
from leveret.wire.exchange_methods import ExchangeDeclare
from leveret.wire.queue_methods import QueueBind, QueueDeclare, QueueDeclareOk
from tests.client.proxy import Proxy
from tests.client.topology_scene import Scene

WAIT_S = 240.0
# Reconnects at once: the tests have no time.
QUICK = {"backoff_min_s": 0.01, "backoff_max_s": 0.05}


def run(scene: Scene, script: Callable[[Connection], Awaitable[None]], **options: Any) -> None:
    """Runs the script on a connection with a queue "q", and sees that nothing is left of it."""

    async def whole() -> None:
        async with asyncio.timeout(WAIT_S):
            async with connect(scene.url, **{**QUICK, **options}) as connection:
                await declare(connection, "q")
                await script(connection)
            await expect_nothing_left()

    asyncio.run(whole())


def run_proxied(
    scene: Scene, script: Callable[[Connection, Proxy], Awaitable[None]], on_uvloop: bool = False, **options: Any
) -> None:
    """The same through a proxy."""

    async def whole() -> None:
        with Proxy((scene.server.host, scene.server.port)) as proxy:
            async with asyncio.timeout(WAIT_S):
                url = proxy.url + quote(scene.virtual_host, safe="")
                async with connect(url, **{**QUICK, **options}) as connection:
                    await declare(connection, "q")
                    await script(connection, proxy)
                    proxy.disarm()
                    proxy.thaw()
                await expect_nothing_left()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if on_uvloop else None) as runner:
        runner.run(whole())


async def expect_nothing_left() -> None:
    # Transports close in the next turn.
    await asyncio.sleep(0.01)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


def made(bodies: Iterable[bytes], **given: str) -> list[Outgoing]:
    """Messages as publish_made takes them, to the queue "q"."""
    encoder = MessageEncoder()
    return [encoder.make_from(Message(body, **{"routing_key": "q", **given})) for body in bodies]  # type: ignore[arg-type]


async def declare(connection: Connection, queue: str, **arguments: Any) -> None:
    """Argument names have underscores for the dashes."""
    channel = await connection.channel()
    known = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    await channel.call(QueueDeclare(queue, durable=True, arguments=known))
    await channel.close()


async def declare_exchange(connection: Connection, exchange: str, queue: str | None = None) -> None:
    channel = await connection.channel()
    await channel.call(ExchangeDeclare(exchange, "topic", durable=True))
    if queue is not None:
        await channel.call(QueueBind(queue, exchange, "#"))
    await channel.close()


async def count(connection: Connection, queue: str = "q") -> int:
    channel = await connection.channel()
    answer = await channel.call(QueueDeclare(queue, passive=True))
    await channel.close()
    assert isinstance(answer, QueueDeclareOk)
    return answer.message_count


async def take_all(connection: Connection, queue: str = "q") -> list[Delivery]:
    """Everything that is in the queue, which is empty then."""
    channel = await connection.channel()
    found = []
    while (delivery := await channel.get(queue, no_ack=True)) is not None:
        found.append(delivery)
    await channel.close()
    return found


async def bodies(connection: Connection, queue: str = "q") -> list[bytes]:
    return [delivery.body for delivery in await take_all(connection, queue)]


@asynccontextmanager
async def restored(connection: Connection) -> AsyncIterator[None]:
    """Whatever happens in this block makes the connection come back: waits for that at its end."""
    heard = connection.events()
    yield
    async for event in heard:
        if isinstance(event, events.Restored):
            return
