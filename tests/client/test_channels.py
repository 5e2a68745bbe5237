"""Channels: what ends one and not the connection, questions with deadlines, and that cancelling leaves nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from leveret.client import (
    Channel,
    ChannelClosed,
    ClientClosed,
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    StaleDelivery,
    State,
    connect,
)
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.wire.basic_methods import BasicQos
from leveret.wire.channel_methods import ChannelClose
from leveret.wire.exchange_methods import ExchangeDeclare
from leveret.wire.queue_methods import QueueDeclare, QueueDelete, QueuePurge
from tests.client.amqp_server import AmqpServer
from tests.client.channel_scene import has_count, message, queue_of
from tests.client.life_scene import BOTH_LOOPS, LoopFactory, play
from tests.client.proxy import DROP_FRAME, HALF_OPEN, Proxy, Step
from tests.client.waiting import until
from tests.conformance.topology import unique_name
from tests.http_client import name

# ---- what ends a channel


@BOTH_LOOPS
def test_an_error_ends_one_channel_and_nothing_else(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection, queue_of(connection) as queue:
            witness = await connection.channel()
            cases: list[tuple[int, str, Callable[[Channel], Awaitable[object]]]] = [
                (404, "queue.declare", lambda channel: channel.call(QueueDeclare("no-such-queue", passive=True))),
                (404, "queue.purge", lambda channel: channel.call(QueuePurge("no-such-queue"))),
                (406, "queue.declare", lambda channel: channel.call(QueueDeclare(queue, durable=True))),
                (403, "exchange.declare", lambda channel: channel.call(ExchangeDeclare("amq.mine", "direct"))),
                (404, "basic.consume", lambda channel: channel.consume("no-such-queue", DeliveryBuffer(b"t"))),
                (404, "basic.get", lambda channel: channel.get("no-such-queue")),
            ]
            for code, method, ask in cases:
                channel = await connection.channel()
                reasons: list[ClientError] = []
                channel.on_end(reasons.append)
                with pytest.raises(ChannelClosed) as caught:
                    await ask(channel)
                assert (caught.value.code, caught.value.method) == (code, method)
                assert str(code) in str(caught.value)
                assert reasons == [caught.value]
                assert channel.closed_by is caught.value
                with pytest.raises(ChannelClosed):
                    await channel.call(QueueDeclare(queue, passive=True))
                with pytest.raises(ChannelClosed):
                    channel.send(BasicQos())
                channel.on_end(reasons.append)
                assert reasons == [caught.value] * 2, "who comes late is told at once"
                await channel.close()
            assert witness.is_open
            assert connection.state is State.OPEN
            assert connection.reconnects_total == 0

    play(scene(), loop_factory)


def test_no_permission_ends_the_channel(amqp_server: AmqpServer) -> None:
    user = unique_name("reader")
    api = amqp_server.api
    api.ask("PUT", f"/users/{name(user)}", {"password": "pw", "tags": ""})
    api.ask("PUT", f"/permissions/%2F/{name(user)}", {"configure": "^$", "write": "^$", "read": ".*"})

    async def scene() -> None:
        url = f"amqp://{user}:pw@{amqp_server.host}:{amqp_server.port}/"
        async with connect(url) as connection:
            channel = await connection.channel()
            with pytest.raises(ChannelClosed, match=r"queue\.declare: 403 ACCESS_REFUSED"):
                await channel.call(QueueDeclare("mine"))
            assert (await connection.channel()).number == channel.number

    try:
        play(scene())
    finally:
        api.ask("DELETE", f"/users/{name(user)}")


def test_an_error_that_nobody_asked_for_is_told_to_all_who_wait(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection:
            channel = await connection.channel()
            await channel.confirm()
            channel.codec.publish(message("k", exchange="no-such-exchange"))
            answers = await asyncio.gather(
                *(channel.call(QueueDeclare("no-such-queue", passive=True)) for _ in range(3)), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [ChannelClosed] * 3
            assert channel.closed_by is not None
            assert "basic.publish: 404" in str(channel.closed_by)
            with pytest.raises(ClientError):
                channel.codec.publish(message("k"))
            # The broker does not mind what was still on its way.
            assert await connection.channel()
            assert connection.reconnects_total == 0

    play(scene())


@BOTH_LOOPS
def test_when_both_sides_close_the_number_is_free_again_only_after_both(
    amqp_server: AmqpServer, loop_factory: LoopFactory
) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection:
            for round_ in range(20):
                channel = await connection.channel()
                # The broker closes the channel for this one, and we do before we hear of it.
                channel.codec.publish(message("k", exchange="no-such-exchange"))
                closing = asyncio.create_task(channel.close())
                if round_ % 2:
                    await asyncio.sleep(0)
                others = await asyncio.gather(*(connection.channel() for _ in range(3)))
                await closing
                assert not channel.is_open
                for other in others:
                    await other.prefetch(1)
                    await other.close()
            assert connection.reconnects_total == 0
            assert (await connection.channel()).number == 1

    play(scene(), loop_factory)


# ---- numbers


@BOTH_LOOPS
def test_numbers_are_used_again(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection:
            first, second, third = [await connection.channel() for _ in range(3)]
            assert [first.number, second.number, third.number] == [1, 2, 3]
            await second.close()
            with pytest.raises(ClientClosed):
                await second.call(BasicQos())
            fresh = await connection.channel()
            assert fresh.number == 2
            with pytest.raises(ChannelClosed):
                await first.call(QueueDeclare("no-such-queue", passive=True))
            assert (await connection.channel()).number == 1
            for _ in range(300):
                channel = await connection.channel()
                assert channel.number == 4
                await channel.close()

    play(scene(), loop_factory)


def test_all_channels_may_be_in_use(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url, channel_max=5) as connection:
            channels = await asyncio.gather(*(connection.channel() for _ in range(5)))
            assert sorted(channel.number for channel in channels) == [1, 2, 3, 4, 5]
            with pytest.raises(ClientError, match="all 5 channels of the connection are in use"):
                await connection.channel()
            await channels[2].close()
            assert (await connection.channel()).number == channels[2].number
            assert connection.reconnects_total == 0

    play(scene())


def test_a_stale_channel_harms_no_other_that_has_its_number(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection, queue_of(connection, b"one") as queue:
            old = await connection.channel()
            delivery = await old.get(queue)
            assert delivery is not None
            await old.close()
            fresh = await connection.channel()
            assert fresh.number == old.number
            with pytest.raises(StaleDelivery):
                delivery.ack()
            with pytest.raises(ClientError):
                old.codec.publish(message(queue))
            again = await fresh.get(queue)
            assert again is not None and again.redelivered
            again.ack()
            await has_count(connection, queue, 0)
            assert fresh.is_open

    play(scene())


# ---- deadlines


@BOTH_LOOPS
def test_a_question_that_is_not_answered_gives_up_its_channel(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel, other = await connection.channel(), await connection.channel()
            proxy.at(Step("server", "basic.qos-ok"), DROP_FRAME)
            begin = time.monotonic()
            with pytest.raises(DeadlineExceeded, match=r"did not answer basic\.qos within 0\.2 s"):
                await channel.call(BasicQos(), deadline_s=0.2)
            assert time.monotonic() - begin < 5
            assert isinstance(channel.closed_by, DeadlineExceeded)
            with pytest.raises(DeadlineExceeded):
                await channel.call(BasicQos())
            await other.prefetch(1)
            # The broker has closed it, too: its number is free.
            await until(lambda: channel.link.free_number() == channel.number, "the number is free")
            fresh = await connection.channel()
            assert fresh.number == channel.number
            await fresh.prefetch(1)
            assert connection.reconnects_total == 0

    play(scene(), loop_factory)


def test_what_else_waits_on_a_channel_that_is_given_up_hears_of_it(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel = await connection.channel()
            proxy.freeze()
            patient = asyncio.create_task(channel.call(QueueDeclare("q", passive=True), deadline_s=50))
            await asyncio.sleep(0)
            with pytest.raises(DeadlineExceeded):
                await channel.call(BasicQos(), deadline_s=0.2)
            with pytest.raises(DeadlineExceeded, match=r"basic\.qos within 0\.2 s"):
                await patient
            with pytest.raises(DeadlineExceeded, match=r"channel\.open within"):
                await connection.channel(deadline_s=0.2)
            begin = time.monotonic()
            await channel.close()
            assert time.monotonic() - begin < 1
            proxy.thaw()

    play(scene())


def test_a_close_that_is_not_answered_keeps_its_number(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel = await connection.channel()
            proxy.at(Step("server", "channel.close-ok"), DROP_FRAME)
            begin = time.monotonic()
            await channel.close(deadline_s=0.2)
            assert time.monotonic() - begin < 5
            assert not channel.is_open
            assert [step.name for step in proxy.steps()].count("channel.close") == 1, "it is not said twice"
            fresh = await connection.channel()
            assert fresh.number != channel.number
            await fresh.prefetch(1)

    play(scene())


def test_the_deadline_of_an_open_is_not_that_of_the_questions_to_come(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel = await connection.channel(deadline_s=1.5)
            proxy.freeze()
            asking = asyncio.create_task(channel.call(BasicQos()))
            await asyncio.sleep(2)
            assert not asking.done()
            proxy.thaw()
            await asking

    play(scene())


def test_a_question_ends_with_the_connection(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel = await connection.channel()
            proxy.at(Step("client", "basic.qos"), HALF_OPEN)
            asking = asyncio.create_task(channel.call(BasicQos()))
            await asyncio.sleep(0.1)
            proxy.reset_all()
            with pytest.raises(ConnectionLost):
                await asking
            assert isinstance(channel.closed_by, ConnectionLost)

    play(scene())


def test_a_late_confirm_does_not_end_the_connection(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection, queue_of(connection) as queue:
            channel = await connection.channel()
            await channel.confirm()
            channel.on_end(lambda _: channel.codec.abandon())
            proxy.freeze()
            channel.codec.publish(message(queue))
            with pytest.raises(DeadlineExceeded):
                await channel.call(BasicQos(), deadline_s=0.1)
            proxy.thaw()
            await has_count(connection, queue, 1)
            assert connection.reconnects_total == 0

    play(scene())


# ---- confirms


def test_confirms_count_from_the_question_on(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection, queue_of(connection) as queue:
            channel = await connection.channel()
            channel.codec.publish(message(queue))
            asking = asyncio.create_task(channel.confirm())
            await asyncio.sleep(0)
            sent = [message(queue) for _ in range(5)]
            for one in sent:
                channel.codec.publish(one)
            await asking
            await channel.confirm()
            await until(lambda: all(one.is_confirmed for one in sent), "all are confirmed")
            assert [one.tag for one in sent] == [1, 2, 3, 4, 5]
            assert channel.is_open

    play(scene())


# ---- the end


def test_the_broker_may_cancel_a_consumer(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection:
            channel = await connection.channel()
            queue = unique_name("q")
            await channel.call(QueueDeclare(queue))
            delivery_buffer, told = DeliveryBuffer(b"mine"), asyncio.Event()
            await channel.consume(queue, delivery_buffer, on_cancel=told.set)
            await (await connection.channel()).call(QueueDelete(queue))
            async with asyncio.timeout(60):
                await told.wait()
            assert channel.codec.delivery_buffers == {}
            assert channel.is_open

    play(scene())


def test_close_says_nothing_to_a_channel_that_is_closed(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection:
            channel = await connection.channel()
            await asyncio.gather(channel.close(), channel.close())
            await channel.close()
            with pytest.raises(ClientClosed):
                channel.send(ChannelClose(200, "no"))
            assert await connection.channel()

    play(scene())
