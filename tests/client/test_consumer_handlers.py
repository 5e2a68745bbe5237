"""Consumers with handlers: how many at a time, and what becomes of failures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from leveret.client import Consumer, Delivery, Reject, Requeue, RetryLater
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import Place, in_loop, numbered, placed, placed_with_dead_letters
from tests.client.waiting import until


class Order(msgspec.Struct):
    number: int
    item: str = "coffee"


class Ledger:
    """What handlers saw."""

    def __init__(self, consumer: Consumer[Any], stop_after: int) -> None:
        self.seen: list[bytes] = []
        self._consumer = consumer
        self._stop_after = stop_after

    def note(self, body: bytes) -> None:
        self.seen.append(body)
        if len(self.seen) == self._stop_after:
            self._consumer.stop_soon()


@asynccontextmanager
async def noting(
    server: AmqpServer, *bodies: bytes, stop_after: int = 0, **options: Any
) -> AsyncIterator[tuple[Place, Consumer[Any], Ledger]]:
    """A queue with these messages and its consumer, which stops when as many were noted, or `stop_after`."""
    async with placed(server, *bodies) as place:
        consumer = place.connection.consumer(place.queue, **options)
        yield place, consumer, Ledger(consumer, stop_after or len(bodies))


def test_each_is_handled_and_acknowledged(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, *numbered(100)) as (place, consumer, ledger):
            now = most = 0

            async def handler(delivery: Delivery) -> None:
                nonlocal now, most
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.001)
                now -= 1
                ledger.note(delivery.body)

            await consumer.run(handler, concurrency=7)
            assert sorted(ledger.seen) == sorted(numbered(100))
            assert most == 7
            assert (consumer.acked, consumer.failed, consumer.in_hand) == (100, 0, 0)
            await place.expect_depth(0)

    in_loop(script())


def test_one_at_a_time_keeps_the_order(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, *numbered(50)) as (_, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                await asyncio.sleep(0)
                ledger.note(delivery.body)

            await consumer.run(handler, concurrency=1)
            assert ledger.seen == numbered(50)

    in_loop(script())


def test_a_failure_goes_back_into_the_queue_after_a_pause(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, b"x", stop_after=3, requeue_pause_s=0.05) as (place, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                ledger.note(delivery.body)
                if len(ledger.seen) == 2:
                    raise Requeue
                if len(ledger.seen) < 3:
                    raise ZeroDivisionError("not now")

            began = time.monotonic()
            await consumer.run(handler)
            assert time.monotonic() - began >= 0.1
            assert (consumer.failed, consumer.acked, consumer.nacked, consumer.redelivered) == (2, 1, 2, 2)
            await place.expect_depth(0)

    in_loop(script())


@pytest.mark.parametrize("how", ["on_error", "Reject"])
def test_a_failure_goes_to_the_dead_letters(amqp_server: AmqpServer, how: str) -> None:
    async def script() -> None:
        async with placed_with_dead_letters(amqp_server, b"bad", b"good") as (place, dead):
            options = {"on_error": "reject"} if how == "on_error" else {}
            consumer = place.connection.consumer(place.queue, **options)
            ledger = Ledger(consumer, 2)

            async def handler(delivery: Delivery) -> None:
                ledger.note(delivery.body)
                if delivery.body == b"bad":
                    raise Reject("never") if how == "Reject" else ValueError("never")

            await consumer.run(handler)
            assert (consumer.failed, consumer.rejected, consumer.acked, consumer.nacked) == (1, 1, 1, 1)
            await place.expect_depth(0)
            await dead.expect_depth(1)

    in_loop(script())


def test_a_handler_may_settle_itself(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, *numbered(2)) as (place, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                delivery.ack()
                ledger.note(delivery.body)
                raise ValueError("after all was done")

            await consumer.run(handler)
            assert (consumer.acked, consumer.nacked, consumer.failed) == (2, 0, 2)
            await place.expect_depth(0)

    in_loop(script())


def test_plain_functions_run_in_threads(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(8)) as place:
            consumer = place.connection.consumer(place.queue)
            loop = asyncio.get_running_loop()
            threads = set()
            meeting = threading.Barrier(4, timeout=10)
            seen = []

            def handler(delivery: Delivery) -> None:
                # Four at a time, or nobody gets past this.
                meeting.wait()
                threads.add(threading.get_ident())
                seen.append(delivery.body)
                if len(seen) == 8:
                    loop.call_soon_threadsafe(consumer.stop_soon)

            await consumer.run(handler, concurrency=4)
            assert sorted(seen) == numbered(8)
            assert len(threads) == 4 and threading.get_ident() not in threads
            assert consumer.acked == 8
            assert not any(thread.name.startswith("leveret-handler") for thread in threading.enumerate())

            await place.publish(b"in the loop")
            consumer = place.connection.consumer(place.queue)
            found = []

            def quick(delivery: Delivery) -> None:
                found.append((delivery.body, threading.get_ident()))
                consumer.stop_soon()

            await consumer.run(quick, threads=False)
            assert found == [(b"in the loop", threading.get_ident())]

    in_loop(script())


def test_typed_payloads(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed_with_dead_letters(amqp_server) as (place, dead):
            await place.publish(b'{"number": 1}')
            await place.publish(b"no JSON", b'{"number": "one"}')
            await place.publish(msgspec.msgpack.encode(Order(2, "tea")), content_type="application/msgpack")
            consumer = place.connection.consumer(place.queue, type=Order)
            orders = []

            async def handler(order: Order) -> None:
                orders.append(order)
                if len(orders) == 2:
                    consumer.stop_soon()

            await consumer.run(handler, concurrency=1)
            assert orders == [Order(1), Order(2, "tea")]
            assert (consumer.failed, consumer.rejected, consumer.acked) == (2, 2, 2)
            await dead.expect_depth(2)

            await place.publish(b"poison", b'{"number": 3}', b'{"number": 4}')
            async with place.connection.consumer(place.queue, type=Order) as one_by_one:
                message = await one_by_one.next()
                assert (message.payload, message.redelivered) == (Order(3), False)
                assert message.delivery.body == b'{"number": 3}'
                message.ack()
                with_both = []

                async def both(order: Order, delivery: Delivery) -> None:
                    with_both.append((order.number, delivery.body))
                    one_by_one.stop_soon()

                await one_by_one.run(both)
                assert with_both == [(4, b'{"number": 4}')]
            await place.expect_depth(0)
            await dead.expect_depth(3)

    in_loop(script())


def test_what_comes_too_often_is_put_aside(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed_with_dead_letters(amqp_server, b"bad", publish={"ids": True}) as (place, dead):
            consumer = place.connection.consumer(place.queue, max_deliveries=3, requeue_pause_s=0)
            seen = []

            async def handler(delivery: Delivery) -> None:
                seen.append(delivery.body)
                raise ValueError("always")

            running = asyncio.create_task(consumer.run(handler))
            await dead.expect_depth(1)
            await consumer.stop()
            await running
            assert (len(seen), consumer.failed, consumer.rejected) == (3, 3, 1)

    in_loop(script())


def test_brokers_that_count_deliveries(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        arguments = {"x_queue_type": "quorum"} if amqp_server.name == "rabbitmq" else {"x_delivery_limit": 50}
        async with placed(amqp_server, b"no id", **arguments) as place:
            consumer = place.connection.consumer(place.queue, max_deliveries=4, requeue_pause_s=0)
            seen = []

            async def handler(delivery: Delivery) -> None:
                seen.append(delivery.headers.get("x-delivery-count", 0))
                raise ValueError("always")

            running = asyncio.create_task(consumer.run(handler))
            await until(lambda: consumer.rejected == 1)
            await consumer.stop()
            await running
            assert seen == [0, 1, 2, 3]

    in_loop(script())


def test_what_a_handler_waits_for_may_be_cancelled(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, b"x", stop_after=2, requeue_pause_s=0) as (_, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                ledger.note(delivery.body)
                if len(ledger.seen) == 1:
                    future = asyncio.get_running_loop().create_future()
                    future.cancel()
                    await future

            await consumer.run(handler)
            assert (consumer.failed, consumer.acked) == (1, 1)

    in_loop(script())


def test_handlers_have_deadlines(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, b"x", stop_after=2, requeue_pause_s=0) as (_, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                ledger.note(delivery.body)
                if len(ledger.seen) == 1:
                    await asyncio.sleep(3600)

            await consumer.run(handler, handler_deadline_s=0.05)
            assert (consumer.failed, consumer.acked) == (1, 1)

    in_loop(script())


def test_a_connection_that_is_lost_under_a_handler(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, b"x", stop_after=2) as (place, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                if not ledger.seen:
                    await place.cut()
                ledger.note(delivery.body)

            await consumer.run(handler, concurrency=1)
            assert (consumer.stale, consumer.failed, consumer.acked) == (1, 0, 1)
            await place.expect_depth(0)

    in_loop(script())


def test_a_failure_of_a_lost_connection_is_only_counted(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, b"x", stop_after=2, requeue_pause_s=0) as (place, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                ledger.note(delivery.body)
                if len(ledger.seen) == 1:
                    await place.cut()
                    raise RetryLater("which is as Requeue without a plan")

            await consumer.run(handler, concurrency=1)
            assert (consumer.stale, consumer.failed, consumer.acked, consumer.nacked) == (1, 1, 1, 0)

    in_loop(script())


def test_no_ack_settles_nothing(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with noting(amqp_server, *numbered(2), no_ack=True) as (place, consumer, ledger):

            async def handler(delivery: Delivery) -> None:
                ledger.note(delivery.body)
                raise ValueError("it is gone all the same")

            await consumer.run(handler)
            assert (consumer.failed, consumer.acked, consumer.nacked) == (2, 0, 0)
            await place.expect_depth(0)

    in_loop(script())


def test_what_makes_no_sense(leveret_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(leveret_server) as place:
            consumer = place.connection.consumer(place.queue)
            with pytest.raises(TypeError, match="cannot be called"):
                await consumer.run("not a function")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="concurrency"):
                await consumer.run(print, concurrency=0)
            with pytest.raises(TypeError, match="no option speed"):
                place.connection.consumer(place.queue, speed=9)

    in_loop(script())
