"""How consumers with handlers end: in good order, at a deadline, by a signal, by a handler, with their connection."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from leveret.client import ClientClosed, Delivery, connect
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import in_loop, numbered, placed
from tests.client.waiting import until


def test_the_end_in_good_order(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(20)) as place:
            async with place.connection.consumer(place.queue, prefetch=10) as consumer:
                begun, done = [], []

                async def handler(delivery: Delivery) -> None:
                    begun.append(delivery.body)
                    await asyncio.sleep(0.2)
                    done.append(delivery.body)

                running = asyncio.create_task(consumer.run(handler, concurrency=3))
                await until(lambda: len(begun) == 3)
                await consumer.stop()
                await running
                assert begun == done == numbered(3)
                assert consumer.acked == 3
            await place.expect_depth(17)

    in_loop(script())


def test_the_end_has_a_deadline(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"long") as place:
            consumer = place.connection.consumer(place.queue)
            began = asyncio.Event()

            async def handler(delivery: Delivery) -> None:
                began.set()
                await asyncio.sleep(3600)

            running = asyncio.create_task(consumer.run(handler))
            await began.wait()
            await asyncio.wait_for(consumer.stop(deadline_s=0.1), 60)
            await running
            assert (consumer.acked, consumer.failed) == (0, 0)
            await place.expect_depth(1)

    in_loop(script())


def test_leaving_ends_what_runs(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x") as place:
            done = []
            async with place.connection.consumer(place.queue) as consumer:

                async def handler(delivery: Delivery) -> None:
                    await asyncio.sleep(0.1)
                    done.append(delivery.body)

                running = asyncio.create_task(consumer.run(handler))
                await until(lambda: consumer.in_hand == 1)
            await running
            assert done == [b"x"]
            await place.expect_depth(0)

    in_loop(script())


def test_a_handler_can_end_it(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x", b"y") as place:
            consumer = place.connection.consumer(place.queue)

            async def handler(delivery: Delivery) -> None:
                await consumer.stop()

            await asyncio.wait_for(consumer.run(handler, concurrency=1), 60)
            assert consumer.acked == 1
            await place.expect_depth(1)

    in_loop(script())


def test_a_signal_can_end_it(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(3)) as place:
            consumer = place.connection.consumer(place.queue)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop_soon)
            done = []

            async def handler(delivery: Delivery) -> None:
                if delivery.body == b"1":
                    os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.05)
                done.append(delivery.body)

            try:
                await consumer.run(handler, concurrency=1)
            finally:
                asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            assert done == numbered(2)
            await place.expect_depth(1)

    in_loop(script())


def test_a_run_that_is_cancelled_puts_back_what_it_had(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x") as place:
            async with place.connection.consumer(place.queue, requeue_pause_s=60) as consumer:
                began = asyncio.Event()

                async def handler(delivery: Delivery) -> None:
                    began.set()
                    if not delivery.redelivered:
                        await asyncio.sleep(3600)
                    raise ValueError("then it pauses")

                for _ in range(2):
                    began.clear()
                    running = asyncio.create_task(consumer.run(handler))
                    await began.wait()
                    await asyncio.sleep(0.01)
                    running.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await running
                # It is still a consumer: others may go on.
                again = await consumer.next()
                assert again.redelivered
                again.ack()
            await place.expect_depth(0)

    in_loop(script())


def test_a_connection_that_is_closed_lets_handlers_finish(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(3)) as place:
            connection = await connect(amqp_server.url)
            consumer = connection.consumer(place.queue)
            done = []

            async def handler(delivery: Delivery) -> None:
                await asyncio.sleep(0.1)
                done.append(delivery.body)

            running = asyncio.create_task(consumer.run(handler, concurrency=1))
            await until(lambda: consumer.in_hand == 1)
            await connection.close()
            with pytest.raises(ClientClosed):
                await running
            assert done == [b"0"]
            await place.expect_depth(2)

    in_loop(script())
