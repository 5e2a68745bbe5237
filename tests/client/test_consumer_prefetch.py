"""How many messages are with a consumer: by default, by its work, and by their size."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client import Consumer, Delivery
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import Place, in_loop, placed
from tests.client.waiting import until


async def ready(place: Place) -> int:
    """Messages that wait at the broker."""
    return (await place.connection.topology.counts(place.queue)).message_count


async def filled(place: Place, count: int, body: bytes = b"x") -> None:
    await place.connection.producer(routing_key=place.queue).publish_batch([body] * count)


async def held_by(place: Place, consumer: Consumer[Delivery], count: int, expected: int) -> None:
    """Of so many messages, this many are with the consumer, and no more come: what waits at the broker says so."""
    await until(lambda: consumer.waiting + consumer.in_hand == expected)
    assert await ready(place) == count - expected


def test_ten_unless_it_says_otherwise(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with placed(amqp_server) as place:
            await filled(place, 30)
            async with place.connection.consumer(place.queue) as consumer:
                await held_by(place, consumer, 30, 10)
            async with place.connection.consumer(place.queue, prefetch=20) as consumer:
                await held_by(place, consumer, 30, 20)

    in_loop(scene())


@pytest.mark.parametrize(
    ("prefetch", "expected"), [(None, 15), (12, 12), (20, 20)], ids=["of the work", "fewer", "more"]
)
def test_as_many_as_are_worked_on(leveret_server: AmqpServer, prefetch: int | None, expected: int) -> None:
    async def scene() -> None:
        async with placed(leveret_server) as place:
            await filled(place, 30)
            consumer = place.connection.consumer(place.queue, prefetch=prefetch)
            go_on = asyncio.Event()

            async def work(_: Delivery) -> None:
                await go_on.wait()

            running = asyncio.create_task(consumer.run(work, concurrency=15))
            await held_by(place, consumer, 30, expected)
            consumer.stop_soon()
            go_on.set()
            await running

    in_loop(scene())


def test_batches_are_as_large_as_the_prefetch(leveret_server: AmqpServer) -> None:
    async def scene() -> None:
        async with placed(leveret_server) as place:
            await filled(place, 60)
            async with place.connection.consumer(place.queue) as consumer:
                batch = await anext(consumer.batches())
                assert len(batch) == 10
                batch.ack()
                with pytest.raises(ValueError, match="prefetch=10"):
                    consumer.batches(11)
            async with place.connection.consumer(place.queue, prefetch=15) as consumer:
                batch = await anext(consumer.batches())
                assert len(batch) == 15
                batch.ack()
            consumer, sizes = place.connection.consumer(place.queue), []

            async def work(batch: list[Delivery]) -> None:
                sizes.append(len(batch))
                consumer.stop_soon()

            await consumer.run_batches(work, size=30)
            assert sizes == [30]

    in_loop(scene())


def test_so_many_bytes(leveret_server: AmqpServer) -> None:
    async def scene() -> None:
        async with placed(leveret_server) as place:
            await filled(place, 8, bytes(1000))
            async with place.connection.consumer(place.queue, prefetch_size=2500) as consumer:
                # A third one, because there are fewer bytes before it.
                await held_by(place, consumer, 8, 3)
                (await consumer.next()).ack()
                await until(lambda: consumer.acked == 1)
                await held_by(place, consumer, 7, 3)
            async with place.connection.consumer(place.queue, prefetch=2, prefetch_size=2500) as consumer:
                await held_by(place, consumer, 7, 2)

    in_loop(scene())
