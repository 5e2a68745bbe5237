"""rstream against a broker of the test's own: clients that are closed afterwards, and what consumers have received."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer

DEADLINE_S = 30.0
FIRST = ConsumerOffsetSpecification(OffsetType.FIRST, None)


def within_deadline(scenario: Coroutine[Any, Any, None]) -> None:
    async def run() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await scenario

    # rstream does not close the sockets of connections that were lost or refused.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(run())
        gc.collect()


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens in rstream or in the broker's thread
        await asyncio.sleep(0.02)


def address(broker: Any) -> dict[str, Any]:
    return {"host": broker.host, "port": broker.stream_port, "username": "guest", "password": "guest"}


@asynccontextmanager
async def opened(kind: Callable[..., Any], broker: Any, **options: Any) -> AsyncIterator[Any]:
    """A client of rstream of this class."""
    client = kind(**address(broker), **options)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def both(broker: Any, stream: str) -> AsyncIterator[tuple[Producer, Consumer]]:
    """A producer and a consumer, and a new stream for them."""
    async with opened(Producer, broker) as producer, opened(Consumer, broker) as consumer:
        await producer.create_stream(stream)
        yield producer, consumer


class Received:
    """A callback for consumers that remembers what came."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.offsets: list[int] = []
        self.streams: list[str] = []

    def __call__(self, message: Any, context: Any) -> None:
        self.messages.append(message)
        self.offsets.append(context.offset)
        self.streams.append(context.stream)

    async def count(self, count: int) -> list[Any]:
        await eventually(lambda: len(self.messages) >= count)
        # Nothing more than that.
        await asyncio.sleep(0.05)
        assert len(self.messages) == count
        return self.messages


async def read(consumer: Consumer, stream: str, offset: ConsumerOffsetSpecification = FIRST, **more: Any) -> Received:
    received = Received()
    await consumer.subscribe(stream, callback=received, offset_specification=offset, **more)
    return received
