"""What the tests of channels share: messages, queues that go with the test, and how many messages they hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from leveret.client import Connection
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk, QueueDelete
from tests.client.waiting import until
from tests.conformance.topology import unique_name


def message(queue: str, body: bytes = b"x", exchange: str = "") -> Outgoing:
    return Outgoing(make_address(exchange, queue), b"\x00\x00", body, b"", 0)


@asynccontextmanager
async def queue_of(connection: Connection, *bodies: bytes) -> AsyncIterator[str]:
    """A queue with these messages, gone afterwards."""
    queue = unique_name("q")
    channel = await connection.channel()
    await channel.call(QueueDeclare(queue))
    await channel.confirm()
    for body in bodies:
        channel.codec.publish(message(queue, body))
    await until(lambda: not channel.codec.unconfirmed, "all are confirmed")
    try:
        yield queue
    finally:
        await channel.call(QueueDelete(queue))
        await channel.close()


async def count_of(connection: Connection, queue: str) -> int:
    channel = await connection.channel()
    answer: QueueDeclareOk = await channel.call(QueueDeclare(queue, passive=True))
    await channel.close()
    return answer.message_count


async def has_count(connection: Connection, queue: str, count: int) -> None:
    for _ in range(200):
        if await count_of(connection, queue) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{queue} has {await count_of(connection, queue)} messages, not {count}")
