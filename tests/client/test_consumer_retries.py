"""Failures by the plan of a Retry: they come again after its delays, and are parked after too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from leveret.client import Delivery, Reject, Requeue, RetryLater, connect
from leveret.client.topology import Queue, Retry, retry_count
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import Place, in_loop
from tests.client.waiting import until
from tests.conformance.topology import unique_name


@asynccontextmanager
async def planned(server: AmqpServer, **options: Any) -> AsyncIterator[tuple[Place, Retry]]:
    async with connect(server.url) as connection:
        name = unique_name("retried")
        retry = Retry(Queue(name), **options)
        await connection.topology.declare(retry)
        yield Place(connection, name), retry
        things = [thing for thing in retry.plan() if hasattr(thing, "name")]
        await connection.topology.delete(*things)


@pytest.mark.parametrize("delays_s", [(0.1,), (0.05, 0.1, 0.2)], ids=["one delay", "three delays"])
def test_a_failure_is_retried_and_then_parked(amqp_server: AmqpServer, delays_s: tuple[float, ...]) -> None:
    async def script() -> None:
        async with planned(amqp_server, delays_s=delays_s, max_retries=3) as (place, retry):
            await place.publish(b"bad", b"good", ids=True, content_type="text/plain", headers={"colour": "red"})
            consumer = place.connection.consumer(place.queue, retry=retry)
            seen: list[tuple[bytes, int]] = []

            async def handler(delivery: Delivery) -> None:
                seen.append((delivery.body, retry_count(delivery.headers)))
                if delivery.body == b"bad":
                    raise ValueError("it never works")

            running = asyncio.create_task(consumer.run(handler))
            await place.expect_depth(1, retry.parking_lot_name)
            await consumer.stop()
            await running
            assert [count for body, count in seen if body == b"bad"] == [0, 1, 2, 3]
            assert (b"good", 0) in seen and len(seen) == 5
            assert (consumer.failed, consumer.parked, consumer.in_hand) == (4, 1, 0)
            parked = await place.connection.get(retry.parking_lot_name or "")
            assert parked is not None
            assert (parked.body, parked.content_type, parked.message_id) == (b"bad", "text/plain", f"{place.queue}-0")
            assert parked.headers["colour"] == "red"
            assert "ValueError: it never works" in parked.headers["x-parking-reason"]
            parked.ack()
            await place.expect_depth(0)

    in_loop(script())


def test_handlers_decide(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with planned(amqp_server, delays_s=(0.1,), max_retries=1) as (place, retry):
            await place.publish(b"reject", b"requeue", b"retry", b"fail")
            consumer = place.connection.consumer(place.queue, retry=retry, on_error="requeue", requeue_pause_s=0)
            seen: list[tuple[bytes, int]] = []

            async def handler(delivery: Delivery) -> None:
                count = retry_count(delivery.headers)
                seen.append((delivery.body, count))
                if delivery.body == b"reject":
                    raise Reject("of no use")
                if delivery.redelivered or count:
                    return
                match delivery.body:
                    case b"requeue":
                        raise Requeue
                    case b"retry":
                        raise RetryLater
                    case _:
                        raise ValueError

            running = asyncio.create_task(consumer.run(handler))
            await until(lambda: len(seen) == 7)
            await consumer.stop()
            await running
            assert sorted(seen) == [
                (b"fail", 0),
                (b"fail", 0),
                (b"reject", 0),
                (b"requeue", 0),
                (b"requeue", 0),
                (b"retry", 0),
                (b"retry", 1),
            ]
            assert consumer.parked == 1
            await place.expect_depth(0)
            await place.expect_depth(1, retry.parking_lot_name)

    in_loop(script())


def test_what_does_not_decode_is_parked_at_once(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with planned(amqp_server, delays_s=(60,)) as (place, retry):
            await place.publish(b"no number", b"7", expiration="60000")
            async with place.connection.consumer(place.queue, type=int, retry=retry) as consumer:
                message = await consumer.next()
                assert message.payload == 7
                message.ack()
                assert (consumer.failed, consumer.parked, consumer.acked) == (1, 1, 2)
            parked = await place.connection.get(retry.parking_lot_name or "", no_ack=True)
            assert parked is not None
            assert (parked.body, parked.expiration) == (b"no number", None)
            assert "is no int" in parked.headers["x-parking-reason"]

    in_loop(script())


def test_without_a_parking_lot(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with planned(amqp_server, delays_s=(0.05,), max_retries=1, parking_lot=False) as (place, retry):
            await place.publish(b"x", b"y")
            consumer = place.connection.consumer(place.queue, retry=retry)

            async def handler(delivery: Delivery) -> None:
                if delivery.body == b"y":
                    raise Reject
                raise ValueError

            running = asyncio.create_task(consumer.run(handler))
            await until(lambda: consumer.rejected == 2)
            await consumer.stop()
            await running
            assert (consumer.failed, consumer.parked, consumer.acked) == (3, 0, 2)
            await place.expect_depth(0)
            await place.expect_depth(0, retry.retry_queue_names[0])

    in_loop(script())


def test_what_cannot_be_parked_is_kept(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with planned(amqp_server, max_retries=0) as (place, retry):
            parking_lot = retry.parking_lot_name or ""
            await place.delete(parking_lot)
            await place.publish(b"x")
            consumer = place.connection.consumer(place.queue, retry=retry, requeue_pause_s=0.02)

            async def handler(delivery: Delivery) -> None:
                raise ValueError

            running = asyncio.create_task(consumer.run(handler))
            await until(lambda: consumer.failed >= 2)
            assert consumer.parked == 0
            # As soon as there is one again it goes there.
            await place.connection.topology.declare(retry, force=True)
            await until(lambda: consumer.parked == 1)
            await consumer.stop()
            await running
            await place.expect_depth(0)
            await place.expect_depth(1, parking_lot)

    in_loop(script())


def test_a_lost_connection_while_it_is_parked(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with planned(amqp_server, max_retries=0) as (place, retry):
            await place.publish(b"x")
            consumer = place.connection.consumer(place.queue, retry=retry, requeue_pause_s=0)

            async def handler(delivery: Delivery) -> None:
                if not delivery.redelivered:
                    asyncio.get_running_loop().call_soon(place.break_off)
                raise ValueError

            running = asyncio.create_task(consumer.run(handler))
            await until(lambda: consumer.parked == 1)
            await consumer.stop()
            await running
            await place.expect_depth(0)
            # At least once: the broker may have taken the first copy before it lost us.
            assert await place.depth(retry.parking_lot_name) in (1, 2)
            assert consumer.stale == 1

    in_loop(script())


def test_batches_by_the_plan(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with planned(amqp_server, delays_s=(0.1,), max_retries=1) as (place, retry):
            await place.publish(*(msgspec.json.encode(number) for number in range(10)))
            consumer = place.connection.consumer(place.queue, type=int, retry=retry)
            seen: list[int] = []

            async def handler(batch: Any) -> Any:
                seen.extend(batch.payloads)
                return [message for message in batch if message.payload % 5 == 0]

            running = asyncio.create_task(consumer.run_batches(handler, size=10, wait_s=0.1))
            await place.expect_depth(2, retry.parking_lot_name)
            await consumer.stop()
            await running
            assert sorted(seen) == sorted([*range(10), 0, 5])
            assert (consumer.failed, consumer.parked) == (4, 2)
            await place.expect_depth(0)

    in_loop(script())
