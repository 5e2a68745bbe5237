"""Heartbeats, alarms and full sockets: how a connection knows how it is."""

from __future__ import annotations

import asyncio
import time

import pytest

from leveret.client import ConnectionLost, State, connect, events
from leveret.wire.basic_methods import BasicQos
from leveret.wire.queue_methods import QueueDeclare
from tests.client.amqp_server import AmqpServer
from tests.client.channel_scene import message
from tests.client.life_scene import BOTH_LOOPS, Ear, LoopFactory, off_loop, play
from tests.client.proxy import Proxy
from tests.client.waiting import until


def seen(proxy: Proxy, side: str) -> int:
    return sum(step.side == side and step.name == "heartbeat" for step in proxy.steps())


# ---- heartbeats


@BOTH_LOOPS
def test_an_idle_connection_lives_on_heartbeats(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        with Proxy((amqp_server.host, amqp_server.port)) as proxy:
            async with connect(proxy.url, heartbeat=1) as connection:
                ear = Ear(connection)
                await asyncio.sleep(4)
                assert seen(proxy, "client") >= 3
                assert seen(proxy, "server") >= 2
                assert ear.heard == []
                await (await connection.channel()).prefetch(1)

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_silent_peer_is_noticed_and_left(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url, heartbeat=1, backoff_min_s=0.02, close_deadline_s=0.2) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            asking = asyncio.create_task(channel.call(BasicQos(), deadline_s=50))
            await asking
            proxy.freeze()
            begin = time.monotonic()
            lost = await ear.hears(events.Lost)
            assert 1.5 < time.monotonic() - begin < 5
            assert "nothing was heard of the broker for" in lost.reason
            assert isinstance(channel.closed_by, ConnectionLost)
            proxy.thaw()
            await ear.hears(events.Restored)

    play(scene(), loop_factory)


def test_heartbeats_may_be_switched_off(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url, heartbeat=0) as connection:
            link = await connection.ready()
            assert link.agreed.heartbeat == 0
            assert link._heartbeat is None

    play(scene())


@pytest.mark.parametrize(("wanted", "agreed"), [(0.2, 1), (1.5, 2), (7, 7), (60, 60), (600, 60)])
def test_heartbeats_are_whole_seconds_and_the_shorter_wish_counts(proxy: Proxy, wanted: float, agreed: int) -> None:
    async def scene() -> None:
        async with connect(proxy.url, heartbeat=wanted) as connection:
            link = await connection.ready()
            assert link.agreed.heartbeat == agreed
            assert link._heartbeat is not None
            assert link._heartbeat._interval_s == agreed

    play(scene())


@BOTH_LOOPS
def test_who_holds_the_reading_is_not_taken_for_a_silent_broker(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url, heartbeat=1) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            link = await connection.ready()
            one, two = object(), object()
            link.hold_reading(one)
            link.hold_reading(two)
            asking = asyncio.create_task(channel.call(BasicQos()))
            await asyncio.sleep(3.5)
            link.let_read(one)
            await asyncio.sleep(0.1)
            assert not asking.done(), "the other one still holds it"
            link.let_read(two)
            await asking
            assert ear.heard == []

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_holding_a_link_that_has_ended_does_nothing(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url, backoff_min_s=0.02) as connection:
            link = await connection.ready()
            link.hold_reading("before")
            proxy.reset_all()
            link.let_read("before")
            await until(link.ended.done, "it has ended")
            link.hold_reading("after")
            link.let_read("after")
            link.let_read("never held")
            assert await connection.channel()

    play(scene(), loop_factory)


# ---- alarms


def set_alarm(server: AmqpServer, on: bool) -> None:
    if server.broker is not None:
        (server.broker.raise_alarm if on else server.broker.clear_alarm)("memory")
    else:
        assert server.node is not None
        server.node.control("set_vm_memory_high_watermark", "0.00001" if on else "0.9")


@BOTH_LOOPS
def test_an_alarm_is_told_of(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            queue = (await channel.call(QueueDeclare("", exclusive=True))).queue
            await off_loop(set_alarm, amqp_server, True)
            try:
                channel.codec.publish(message(queue))
                blocked = await ear.hears(events.Blocked)
                assert "memory" in blocked.reason
                assert connection.blocked == blocked.reason
                assert connection.state is State.OPEN
            finally:
                await off_loop(set_alarm, amqp_server, False)
            await ear.hears(events.Unblocked)
            assert connection.blocked is None
            assert await channel.get(queue) is not None
        assert await ear.ends() == ["Blocked", "Unblocked", "Closed"]

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_close_while_it_is_blocked(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    """RabbitMQ reads nothing of a blocked connection, not even its close."""

    async def scene() -> None:
        connection = await connect(amqp_server.url, close_deadline_s=0.5)
        ear = Ear(connection)
        channel = await connection.channel()
        await off_loop(set_alarm, amqp_server, True)
        try:
            # RabbitMQ tells only those who publish.
            channel.codec.publish(message("nowhere"))
            await ear.hears(events.Blocked)
            begin = time.monotonic()
            await connection.close()
            assert time.monotonic() - begin < 3
            assert connection.state is State.CLOSED
            assert connection.blocked is None
        finally:
            await off_loop(set_alarm, amqp_server, False)

    play(scene(), loop_factory)


# ---- full sockets


@BOTH_LOOPS
def test_a_peer_that_does_not_read_is_noticed_as_congestion(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url) as connection:
            channel = await connection.channel()
            queue = (await channel.call(QueueDeclare("", exclusive=True))).queue
            link = await connection.ready()
            await link.room()
            proxy.freeze()
            sent = 0
            while not link.is_congested:
                channel.codec.publish(message(queue, b"x" * 100_000))
                sent += 1
                await asyncio.sleep(0)
                assert sent < 1000, "a socket takes only so much"
            for _ in range(5):
                channel.codec.publish(message(queue, b"x" * 100_000))
                sent += 1
            await asyncio.sleep(0)
            assert link.pending_bytes >= 500_000
            waiting = asyncio.create_task(link.room())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            proxy.thaw()
            await waiting
            answer = await channel.call(QueueDeclare(queue, passive=True))
            assert answer.message_count == sent
            assert (link.pending_bytes, link._write_buffer.congested) == (0, False)

    play(scene(), loop_factory)
