"""leveret.client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from benchmarks.client.work import QUEUE, Task
from leveret.client import Message, connect

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def mode(task: Task) -> int:
    return 2 if task.persistent else 1


def publish(task: Task) -> list[float]:
    async def main() -> list[float]:
        async with connect(task.url) as connection, connection.producer(delivery_mode=mode(task)) as producer:
            left = iter(range(task.messages))
            times: list[float] = []

            async def one_after_another() -> None:
                for _ in left:
                    begun = time.perf_counter()
                    await producer.publish(task.body, routing_key=QUEUE)
                    times.append(time.perf_counter() - begun)

            await asyncio.gather(*(one_after_another() for _ in range(task.concurrency)))
            return times

    return run(main())


def consume(task: Task) -> float:
    async def main() -> float:
        async with connect(task.url) as connection:
            count, begun = 0, 0.0
            async with connection.consumer(QUEUE, prefetch=task.prefetch) as consumer:
                async for delivery in consumer:
                    if count == 0:
                        begun = time.perf_counter()
                    count += 1
                    delivery.ack()
                    if count == task.messages:
                        break
                return time.perf_counter() - begun

    return run(main())


def batch(task: Task) -> float:
    async def main() -> float:
        async with connect(task.url) as connection, connection.producer(delivery_mode=mode(task)) as producer:
            messages = [Message(task.body, routing_key=QUEUE) for _ in range(task.messages)]
            begun = time.perf_counter()
            await producer.publish_batch(messages)
            return time.perf_counter() - begun

    return run(main())


def round_trip(task: Task) -> list[float]:
    async def main() -> list[float]:
        async with connect(task.url) as connection, connection.producer(delivery_mode=mode(task)) as producer:
            times: list[float] = []
            async with connection.consumer(QUEUE, prefetch=task.prefetch) as consumer:
                deliveries = aiter(consumer)
                for _ in range(task.messages):
                    begun = time.perf_counter()
                    publishing = await producer.submit(task.body, routing_key=QUEUE)
                    (await anext(deliveries)).ack()
                    times.append(time.perf_counter() - begun)
                    await publishing
            return times

    return run(main())
