"""Consumers one by one: how deliveries come, are settled, come again, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from leveret.client import (
    AlreadySettled,
    ChannelClosed,
    ClientClosed,
    ConsumerCancelled,
    DeadlineExceeded,
    StaleDelivery,
    connect,
)
from leveret.client.topology import Queue
from leveret.testing import Broker
from leveret.wire.basic_methods import BasicAck
from leveret.wire.queue_methods import QueueDeclare
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import bodies, in_loop, numbered, placed, taken
from tests.client.waiting import until
from tests.conformance.topology import unique_name


@pytest.mark.parametrize("fast", [False, True], ids=["asyncio", "uvloop"])
def test_deliveries_come_in_order_and_are_gone_when_acknowledged(amqp_server: AmqpServer, fast: bool) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(250)) as place:
            async with place.connection.consumer(place.queue, prefetch=20) as consumer:
                found = []
                async for delivery in consumer:
                    found.append(delivery.body)
                    assert consumer.in_hand == 1 and consumer.in_hand + consumer.waiting <= 20
                    delivery.ack()
                    if len(found) == 250:
                        break
                assert found == numbered(250)
                assert (consumer.delivered, consumer.acked, consumer.redelivered, consumer.in_hand) == (250, 250, 0, 0)
            await place.expect_depth(0)

    in_loop(script(), fast=fast)


def test_what_is_not_settled_comes_again(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(5)) as place:
            async with place.connection.consumer(place.queue) as consumer:
                first, second = await taken(aiter(consumer), 2)
                assert not first.redelivered
                second.ack()
            await place.expect_depth(4)
            async with place.connection.consumer(place.queue) as consumer:
                again = await taken(aiter(consumer), 4)
                assert bodies(again) == [b"0", b"2", b"3", b"4"]
                assert again[0].redelivered and consumer.redelivered >= 1
                again[-1].ack(multiple=True)
                assert (consumer.acked, consumer.in_hand) == (4, 0)
                assert all(delivery.is_settled for delivery in again)
                with pytest.raises(AlreadySettled):
                    again[0].ack()
            await place.expect_depth(0)

    in_loop(script())


def test_returned_and_rejected(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"a", b"b") as place:
            async with place.connection.consumer(place.queue, prefetch=1) as consumer:
                first = await consumer.next()
                first.nack()
                again = await consumer.next()
                assert (again.body, again.redelivered) == (b"a", True)
                again.reject()
                last = await consumer.next()
                assert last.body == b"b"
                last.nack(requeue=False)
                assert (consumer.acked, consumer.nacked) == (0, 3)
            await place.expect_depth(0)

    in_loop(script())


def test_auto_ack_is_when_the_loop_comes_back(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(4)) as place:
            async with place.connection.consumer(place.queue, auto_ack=True) as consumer:
                seen = 0
                async for delivery in consumer:
                    assert not delivery.is_settled and consumer.acked == seen
                    seen += 1
                    if delivery.body == b"1":
                        delivery.ack()  # By hand is no mistake.
                    if seen == 3:
                        break
            # The one that left with break is there, and the one that did not come.
            await place.expect_depth(2)
            async with place.connection.consumer(place.queue, auto_ack=True) as consumer:
                async for delivery in consumer:
                    if delivery.body == b"3":
                        consumer.stop_soon()
            await place.expect_depth(0)

    in_loop(script())


def test_without_acknowledgements(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(3)) as place:
            async with place.connection.consumer(place.queue, no_ack=True) as consumer:
                found = await taken(aiter(consumer), 3)
                assert bodies(found) == numbered(3)
                assert consumer.in_hand == 0
                with pytest.raises(AlreadySettled):
                    found[0].ack()
            await place.expect_depth(0)

    in_loop(script())


def test_a_queue_that_is_not_there(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with connect(amqp_server.url) as connection:
            consumer = connection.consumer("no such queue")
            with pytest.raises(ChannelClosed) as caught:
                async with consumer:
                    pass
            assert (caught.value.code, caught.value.method) == (404, "basic.consume")
            with pytest.raises(RuntimeError, match="not started"):
                aiter(consumer)

    in_loop(script())


def test_a_queue_that_is_deleted_ends_the_consumer_if_it_is_to(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with (
            placed(amqp_server) as place,
            place.connection.consumer(place.queue, on_cancel="raise") as consumer,
        ):
            waiting = asyncio.create_task(taken(aiter(consumer), 1))
            await asyncio.sleep(0)
            await place.delete(place.queue)
            with pytest.raises(ConsumerCancelled, match=place.queue) as caught:
                await waiting
            assert caught.value.queue == place.queue
            with pytest.raises(ConsumerCancelled):
                await consumer.next()

    in_loop(script())


def test_a_queue_that_comes_back_is_consumed_from_again(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"before") as place:
            async with place.connection.consumer(place.queue) as consumer:
                old = await consumer.next()
                await place.delete(place.queue)
                await asyncio.sleep(0.2)
                await place.declare(place.queue)
                await place.publish(b"after")
                new = await consumer.next(10)
                assert new.body == b"after"
                new.ack()
                assert consumer.resubscribed == 1
                # It is gone with its queue. Its channel may or may not be.
                with contextlib.suppress(StaleDelivery):
                    old.ack()
                await place.publish(b"last")
                (await consumer.next(10)).ack()
            await place.expect_depth(0)

    in_loop(script())


def test_a_queue_that_stays_away(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with (
            placed(amqp_server) as place,
            place.connection.consumer(place.queue, retry_for_s=0.3) as consumer,
        ):
            await place.delete(place.queue)
            with pytest.raises(ConsumerCancelled, match="404"):
                await consumer.next(10)

    in_loop(script())


def test_a_lost_connection(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(10)) as place:
            async with place.connection.consumer(place.queue, prefetch=5) as consumer:
                done, in_hand = await taken(aiter(consumer), 2)
                done.ack()
                await asyncio.sleep(0.1)
                await place.cut()
                assert in_hand.is_stale and consumer.in_hand == 0
                with pytest.raises(StaleDelivery):
                    in_hand.ack()
                rest = await taken(aiter(consumer), 9, ack=True)
                # What came over the old connection and had not been taken is not handed out twice.
                assert sorted(bodies(rest)) == numbered(10)[1:]
                assert (consumer.delivered, consumer.acked, consumer.resubscribed) == (11, 10, 1)
            await place.expect_depth(0)

    in_loop(script())


def test_a_channel_that_the_broker_closes(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x") as place:
            async with place.connection.consumer(place.queue) as consumer:
                first = await consumer.next()
                channel = consumer._subscription._channel
                assert channel is not None
                channel.send(BasicAck(delivery_tag=99))
                again = await consumer.next()
                assert again.redelivered and first.is_stale
                again.ack()
                assert consumer.acked == 1
            await place.expect_depth(0)

    in_loop(script())


def test_an_exclusive_consumer(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place:
            async with place.connection.consumer(place.queue, exclusive=True, tag="only"):
                with pytest.raises(ChannelClosed) as caught:
                    await place.connection.consumer(place.queue).start()
                assert caught.value.code == 403
                await place.cut()
                with pytest.raises(ChannelClosed):
                    await place.connection.consumer(place.queue).start()
            async with place.connection.consumer(place.queue):
                pass

    in_loop(script())


def test_waiting_has_a_deadline(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place, place.connection.consumer(place.queue) as consumer:
            with pytest.raises(DeadlineExceeded, match="no message"):
                await consumer.next(0.05)
            await place.publish(b"late")
            assert (await consumer.next(10)).body == b"late"

    in_loop(script())


def test_loops_share_what_comes(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place, place.connection.consumer(place.queue, prefetch=20) as consumer:
            loops = [asyncio.create_task(taken(aiter(consumer), 5)) for _ in range(3)]
            given_up = asyncio.create_task(consumer.next())
            await asyncio.sleep(0.01)
            given_up.cancel()
            await place.publish(*numbered(15))
            found = [delivery for loop in loops for delivery in await loop]
            assert sorted(bodies(found)) == sorted(numbered(15))

    in_loop(script())


def test_stop_waits_for_what_is_in_hand(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(5)) as place:
            async with place.connection.consumer(place.queue) as consumer:

                async def work() -> list[bytes]:
                    found = []
                    async for delivery in consumer:
                        await asyncio.sleep(0.2)
                        delivery.ack()
                        found.append(delivery.body)
                    return found

                working = asyncio.create_task(work())
                await until(lambda: consumer.in_hand == 1)
                await consumer.stop()
                assert await working == [b"0"]
                assert consumer.acked == 1
                with pytest.raises(ClientClosed):
                    await consumer.next()
            await place.expect_depth(4)
            with pytest.raises(ClientClosed):
                await consumer.start()

    in_loop(script())


def test_stop_has_a_deadline(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"kept") as place:
            async with place.connection.consumer(place.queue) as consumer:
                kept = await consumer.next()
                await asyncio.wait_for(consumer.stop(deadline_s=0.1), 60)
                with pytest.raises(StaleDelivery):
                    kept.ack()
            await place.expect_depth(1)

    in_loop(script())


def test_a_connection_that_is_closed_ends_its_loops(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place, connect(amqp_server.url) as connection:
            consumer = connection.consumer(place.queue)
            await consumer.start()
            waiting = asyncio.create_task(taken(aiter(consumer), 1))
            await asyncio.sleep(0.05)
            await connection.close()
            with pytest.raises(ClientClosed):
                await waiting
            with pytest.raises(ClientClosed):
                connection.consumer(place.queue)

    in_loop(script())


def test_a_connection_that_is_given_up_ends_its_loops() -> None:
    async def script(broker: Broker) -> None:
        async with connect(broker.url, give_up_after_s=0.2, backoff_max_s=0.1) as connection:
            channel = await connection.channel()
            await channel.call(QueueDeclare("q"))
            async with connection.consumer("q") as consumer:
                waiting = asyncio.create_task(taken(aiter(consumer), 1))
                await asyncio.sleep(0.05)
                await asyncio.to_thread(broker.stop)
                with pytest.raises(ClientClosed, match="given up"):
                    await waiting

    with Broker() as broker:
        in_loop(script(broker))


@pytest.mark.parametrize("options", [{"no_ack": True}, {"prefetch": 0}], ids=["no_ack", "no prefetch"])
@pytest.mark.parametrize("limit", [{"waiting_max": 200}, {"waiting_bytes_max": 200_000}], ids=["messages", "bytes"])
def test_what_nobody_takes_does_not_fill_the_memory(
    amqp_server: AmqpServer, options: dict[str, Any], limit: dict[str, Any]
) -> None:
    async def script() -> None:
        # Far more than all buffers between the two hold.
        count, body = 20_000, bytes(1000)
        async with placed(amqp_server) as place, connect(amqp_server.url) as other:
            async with other.consumer(place.queue, **options, **limit) as consumer:
                await place.publish(*(body for _ in range(count)))
                await until(lambda: consumer.is_holding)
                await asyncio.sleep(0.2)
                # One chunk of the socket may come on top.
                assert consumer.waiting < 200 + 300
                found = 0
                async for delivery in consumer:
                    found += 1
                    if not delivery.is_settled:
                        delivery.ack()
                    if found == count:
                        break
                assert not consumer.is_holding and consumer.waiting == 0
            await place.expect_depth(0)

    in_loop(script(), fast=True)


def test_a_consumer_that_holds_can_be_stopped(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place, connect(amqp_server.url) as other:
            async with other.consumer(place.queue, prefetch=0, waiting_max=10) as consumer:
                await place.publish(*(bytes(1000) for _ in range(5000)))
                await until(lambda: consumer.is_holding)
                (await consumer.next()).ack()
                await asyncio.wait_for(consumer.stop(), 10)
            await place.expect_depth(4999)

    in_loop(script(), fast=True)


def test_a_queue_that_the_broker_named(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place:
            handle = await place.connection.topology.declare_queue(Queue(exclusive=True))
            async with place.connection.consumer(handle) as consumer:
                name = consumer.queue
                await place.cut()
                assert consumer.queue == handle.name != name
                await place.publish(b"x", queue=handle.name)
                assert (await consumer.next()).body == b"x"
            # Who wrote the name down finds it, too.
            async with place.connection.consumer(name) as consumer:
                assert (await consumer.next()).body == b"x"

    in_loop(script())


def test_a_queue_that_goes_with_its_last_consumer(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server) as place:
            topology = place.connection.topology
            handle = await topology.declare_queue(Queue(unique_name("passing"), auto_delete=True))
            async with place.connection.consumer(handle) as consumer:
                await place.cut()
                await place.publish(b"x", queue=handle.name)
                assert (await consumer.next()).body == b"x"
                assert topology.queues == [handle]
            assert topology.queues == []
            assert not await topology.exists(handle)

    in_loop(script())
