"""Consumers by the batch: when a batch is full, and that settling one touches no other."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from leveret.client import Batch, Delivery, StaleDelivery
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import bodies, in_loop, numbered, placed, placed_with_dead_letters, taken
from tests.client.waiting import until


def test_batches_by_size_and_by_time(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(25)) as place:
            async with place.connection.consumer(place.queue) as consumer:
                sizes: list[int] = []
                found: list[bytes] = []
                began = time.monotonic()
                async for batch in consumer.batches(size=10, wait_s=0.3):
                    sizes.append(len(batch))
                    found += batch.payloads
                    batch.ack()
                    if len(sizes) == 3:
                        break
                assert sizes == [10, 10, 5]
                assert found == numbered(25)
                assert time.monotonic() - began >= 0.3
                assert (consumer.acked, consumer.in_hand) == (25, 0)
            await place.expect_depth(0)

    in_loop(script())


def test_failures_do_not_touch_the_others(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed_with_dead_letters(amqp_server, *numbered(10)) as (place, dead):
            async with place.connection.consumer(place.queue) as consumer:
                batch = (await taken(consumer.batches(size=10), 1))[0]
                batch.failed(batch.deliveries[0])
                batch.failed(batch.deliveries[4])
                batch.failed(batch.deliveries[9], requeue=True)
                batch.ack()
                assert (consumer.acked, consumer.nacked) == (7, 3)
                again = await consumer.next()
                assert again.body == b"9"
                again.ack()
            await place.expect_depth(0)
            await dead.expect_depth(2)

    in_loop(script())


def test_a_later_batch_may_be_done_first(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with (
            placed(amqp_server, *numbered(30)) as place,
            place.connection.consumer(place.queue, prefetch=30) as consumer,
        ):
            first, second, third = await taken(consumer.batches(size=10), 3)
            second.ack()
            assert consumer.acked == 10
            third.nack()
            assert (consumer.acked, consumer.nacked) == (10, 10)
            await asyncio.sleep(0.1)
            await place.cut()
            assert first.is_stale
            with pytest.raises(StaleDelivery):
                first.ack()
            # Neither the first nor what was returned was settled with the others.
            rest = await taken(aiter(consumer), 20)
            assert sorted(bodies(rest), key=int) == [*numbered(10), *numbered(30)[20:]]

    in_loop(script())


def test_a_batch_is_of_one_channel(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(5)) as place:
            async with place.connection.consumer(place.queue) as consumer:
                gathering = asyncio.create_task(taken(consumer.batches(size=10, wait_s=1.0), 1))
                await until(lambda: consumer.in_hand == 5)
                await place.cut()
                [batch] = await gathering
                assert sorted(bodies(batch)) == numbered(5)
                assert not batch.is_stale
                batch.ack()
            await place.expect_depth(0)

    in_loop(script())


def test_what_was_gathered_when_it_ends_goes_back(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(5)) as place:
            async with place.connection.consumer(place.queue) as consumer:
                gathering = asyncio.create_task(taken(consumer.batches(size=10, wait_s=60), 1))
                await until(lambda: consumer.in_hand == 5)
                await asyncio.wait_for(consumer.stop(), 50)
                assert await gathering == []
            await place.expect_depth(5)

    in_loop(script())


def test_who_does_not_wait_for_a_batch_keeps_nothing(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(5)) as place:
            async with place.connection.consumer(place.queue) as consumer:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await anext(aiter(consumer.batches(size=10, wait_s=60)))
                assert (consumer.in_hand, consumer.waiting, consumer.delivered) == (0, 5, 0)
                assert bodies(await taken(aiter(consumer), 5, ack=True)) == numbered(5)
            await place.expect_depth(0)

    in_loop(script())


def test_a_handler_of_batches(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(40)) as place:
            consumer = place.connection.consumer(place.queue, prefetch=100, requeue_pause_s=0)
            done: list[bytes] = []
            failed: set[bytes] = set()

            async def handler(batch: Batch[Delivery]) -> list[Delivery] | None:
                fresh = [delivery for delivery in batch if delivery.body not in failed]
                if b"11" in bodies(fresh):
                    failed.update(bodies(fresh))
                    raise ValueError("the whole batch")
                bad = [delivery for delivery in fresh if delivery.body.endswith(b"7")]
                failed.update(bodies(bad))
                done.extend(delivery.body for delivery in batch if delivery not in bad)
                if len(done) == 40:
                    consumer.stop_soon()
                return bad or None

            await consumer.run_batches(handler, size=10, wait_s=0.1)
            assert sorted(done, key=int) == numbered(40)
            assert (consumer.acked, consumer.failed) == (40, len(failed))
            await place.expect_depth(0)

    in_loop(script())


def test_plain_handlers_and_lost_connections(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(10)) as place:
            consumer = place.connection.consumer(place.queue)
            loop = asyncio.get_running_loop()
            seen: list[int] = []

            def handler(batch: Any) -> None:
                seen.append(len(batch))
                if len(seen) == 1:
                    asyncio.run_coroutine_threadsafe(place.cut(), loop).result(10)
                else:
                    loop.call_soon_threadsafe(consumer.stop_soon)

            await consumer.run_batches(handler, size=10, wait_s=0.2)
            assert seen == [10, 10]
            assert (consumer.stale, consumer.acked) == (10, 10)
            await place.expect_depth(0)

    in_loop(script())


def test_no_ack_has_batches_too(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(10)) as place:
            async with place.connection.consumer(place.queue, no_ack=True, prefetch=1) as consumer:
                [batch] = await taken(consumer.batches(size=10), 1)
                batch.ack()
                assert (len(batch), consumer.acked) == (10, 0)
            await place.expect_depth(0)

    in_loop(script())


def test_batches_that_never_fill(leveret_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(leveret_server) as place, place.connection.consumer(place.queue, prefetch=10) as consumer:
            with pytest.raises(ValueError, match="prefetch=10"):
                consumer.batches(size=11)
            with pytest.raises(ValueError, match="makes no sense"):
                consumer.batches(size=0)
            with pytest.raises(ValueError, match="prefetch=10"):
                await consumer.run_batches(print, size=11)

    in_loop(script())
