"""aio-pika, with its robust connection, which is what its documentation advises."""

from __future__ import annotations

import asyncio
import time

import aio_pika

from benchmarks.client.leveret_worker import mode, run
from benchmarks.client.work import QUEUE, Task


def message(task: Task) -> aio_pika.Message:
    return aio_pika.Message(task.body, delivery_mode=mode(task))


def publish(task: Task) -> list[float]:
    async def main() -> list[float]:
        connection = await aio_pika.connect_robust(task.url)
        async with connection:
            exchange = (await connection.channel(publisher_confirms=True)).default_exchange
            left = iter(range(task.messages))
            times: list[float] = []

            async def one_after_another() -> None:
                for _ in left:
                    begun = time.perf_counter()
                    await exchange.publish(message(task), routing_key=QUEUE)
                    times.append(time.perf_counter() - begun)

            await asyncio.gather(*(one_after_another() for _ in range(task.concurrency)))
            return times

    return run(main())


def consume(task: Task) -> float:
    async def main() -> float:
        connection = await aio_pika.connect_robust(task.url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=task.prefetch)
            queue = await channel.get_queue(QUEUE)
            count, begun = 0, 0.0
            async with queue.iterator() as deliveries:
                async for delivery in deliveries:
                    if count == 0:
                        begun = time.perf_counter()
                    count += 1
                    await delivery.ack()
                    if count == task.messages:
                        break
                return time.perf_counter() - begun

    return run(main())


def batch(task: Task) -> float:
    async def main() -> float:
        connection = await aio_pika.connect_robust(task.url)
        async with connection:
            exchange = (await connection.channel(publisher_confirms=True)).default_exchange
            begun = time.perf_counter()
            for start in range(0, task.messages, task.concurrency):
                count = min(task.concurrency, task.messages - start)
                await asyncio.gather(*(exchange.publish(message(task), routing_key=QUEUE) for _ in range(count)))
            return time.perf_counter() - begun

    return run(main())


def round_trip(task: Task) -> list[float]:
    async def main() -> list[float]:
        connection = await aio_pika.connect_robust(task.url)
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            await channel.set_qos(prefetch_count=task.prefetch)
            queue = await channel.get_queue(QUEUE)
            times: list[float] = []
            async with queue.iterator() as deliveries:
                for _ in range(task.messages):
                    begun = time.perf_counter()
                    publishing = asyncio.ensure_future(
                        channel.default_exchange.publish(message(task), routing_key=QUEUE)
                    )
                    await (await anext(deliveries)).ack()
                    times.append(time.perf_counter() - begun)
                    await publishing
            return times

    return run(main())
