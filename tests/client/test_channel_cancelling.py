"""Whoever waits for a channel's answer may be cancelled at any moment: nothing is left of what he wanted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leveret.client import ClientClosed, connect
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.wire.basic_methods import BasicQos
from leveret.wire.queue_methods import QueueDeclare
from tests.client.amqp_server import AmqpServer
from tests.client.channel_scene import has_count, message, queue_of
from tests.client.life_scene import BOTH_LOOPS, LoopFactory, play
from tests.client.proxy import Proxy
from tests.client.waiting import until


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


@BOTH_LOOPS
def test_a_cancelled_question_keeps_the_order_of_the_answers(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection, queue_of(connection, b"1") as one, queue_of(connection) as none:
            channel = await connection.channel()
            proxy.freeze()
            first = asyncio.create_task(channel.call(QueueDeclare(one, passive=True)))
            second = asyncio.create_task(channel.call(QueueDeclare(none, passive=True)))
            await asyncio.sleep(0.05)
            await cancelled(first)
            proxy.thaw()
            assert (await second).queue == none
            assert (await channel.call(QueueDeclare(one, passive=True))).queue == one
            assert channel.is_open

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_cancelled_open_gives_its_number_back(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url, channel_max=3) as connection:
            link = await connection.ready()
            for steps in range(12):
                task = asyncio.create_task(connection.channel())
                for _ in range(steps):
                    await asyncio.sleep(0)
                await cancelled(task)
                if not task.cancelled():  # on a busy machine the broker may answer within these steps
                    await task.result().close()
                await until(lambda: link.channel_count == 0, "the number is free")
            proxy.freeze()
            tasks = [asyncio.create_task(connection.channel()) for _ in range(3)]
            await asyncio.sleep(0.05)
            for task in tasks:
                await cancelled(task)
            proxy.thaw()
            await until(lambda: link.channel_count == 0, "all numbers are free")
            channels = [await connection.channel() for _ in range(3)]
            for channel in channels:
                await channel.prefetch(1)
            assert connection.reconnects_total == 0

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_cancelled_close_is_a_close(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel = await connection.channel()
            proxy.freeze()
            closing = asyncio.create_task(channel.close())
            await asyncio.sleep(0.05)
            with pytest.raises(ClientClosed, match="being closed"):
                channel.send(BasicQos())
            await channel.close()
            await cancelled(closing)
            assert isinstance(channel.closed_by, ClientClosed)
            proxy.thaw()
            await until(lambda: channel.link.free_number() == channel.number, "the number is free")
            await (await connection.channel()).prefetch(1)

    play(scene(), loop_factory)


@pytest.mark.parametrize("moment", ["at once", "when it is asked", "while it is on its way", "when it is answered"])
def test_a_cancelled_get_gives_its_message_back(
    amqp_server: AmqpServer, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection, queue_of(connection, b"only") as queue:
            channel = await connection.channel()
            task = asyncio.create_task(channel.get(queue))
            if moment == "when it is answered":
                # In the very turn of the loop in which the answer comes, before whoever waits for it can run.
                answer = channel._answer
                monkeypatch.setattr(channel, "_answer", lambda given: (answer(given), task.cancel()))
                await asyncio.wait([task])
                monkeypatch.undo()
            else:
                for _ in range(["at once", "when it is asked", "while it is on its way"].index(moment)):
                    await asyncio.sleep(0)
                await cancelled(task)
            assert task.cancelled()
            await has_count(connection, queue, 1)
            assert channel.is_open

    play(scene())


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_cancelled_consume_leaves_no_consumer(proxy: Proxy, no_ack: bool) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection, queue_of(connection, b"1", b"2", b"3") as queue:
            channel = await connection.channel()
            delivery_buffer = DeliveryBuffer(b"mine")
            proxy.freeze()
            task = asyncio.create_task(channel.consume(queue, delivery_buffer, no_ack=no_ack))
            await asyncio.sleep(0.05)
            await cancelled(task)
            proxy.thaw()
            await until(lambda: not channel.codec.delivery_buffers, "the consumer is cancelled")
            await has_count(connection, queue, 0 if no_ack else 3)
            assert channel.is_open
            answer = await channel.call(QueueDeclare(queue, passive=True))
            assert answer.consumer_count == 0

    play(scene())


def test_a_cancelled_cancel_takes_what_still_comes(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection, queue_of(connection) as queue:
            channel, sender = await connection.channel(), await connection.channel()
            delivery_buffer = DeliveryBuffer(b"mine")
            await channel.consume(queue, delivery_buffer)
            proxy.freeze()
            task = asyncio.create_task(channel.cancel(delivery_buffer))
            sender.codec.publish(message(queue))
            await asyncio.sleep(0.05)
            await cancelled(task)
            assert channel.codec.delivery_buffers == {b"mine": delivery_buffer}
            proxy.thaw()
            await until(lambda: not channel.codec.delivery_buffers, "the consumer is cancelled")
            for delivery in delivery_buffer.items:
                delivery.nack()
            await has_count(connection, queue, 1)

    play(scene())
