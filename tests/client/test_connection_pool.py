"""Pools of connections: opened at once, spread by how busy they are, and closed together; for tasks and for threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leveret.client import ClientClosed, ConnectionFailed, ConnectionPool, State, blocking
from leveret.client.topology import Queue
from leveret.testing import Broker
from tests.client.blocking_scene import our_threads
from tests.client.producer_scene import QUICK, WAIT_S, expect_nothing_left
from tests.client.proxy import Proxy
from tests.client.topology_scene import Scene
from tests.client.waiting import until, until_blocking
from tests.conformance.server_process import free_port


def run(url: str, script: Callable[[ConnectionPool], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(WAIT_S):
            async with ConnectionPool(url, **{**QUICK, **options}) as pool:
                await pool.connection().topology.declare(Queue("q"))
                await script(pool)
            assert all(one.state is State.CLOSED for one in pool.connections)
            await expect_nothing_left()

    asyncio.run(whole())


def test_it_is_open_and_full_at_the_start(scene: Scene) -> None:
    async def script(pool: ConnectionPool) -> None:
        assert [one.state for one in pool.connections] == [State.OPEN] * 3
        assert [one.pool.statistics.idle for one in pool.connections] == [2] * 3
        assert [one.options.name for one in pool.connections] == ["shop-1", "shop-2", "shop-3"]

    run(scene.url, script, connections=3, pool_size=2, name="shop")


def test_work_is_spread_over_its_connections(scene: Scene) -> None:
    async def script(pool: ConnectionPool) -> None:
        first, second = pool.connections
        async with pool.borrow() as one, pool.borrow() as two:
            assert one.channel.link is not two.channel.link
            one.publish("", "q", b"1")
            two.publish("", "q", b"2")
            assert await one.wait_for_confirms(10) and await two.wait_for_confirms(10)
        producers = [pool.producer(routing_key="q") for _ in range(4)]
        for producer in producers:
            await producer.publish(b"3")
        assert abs(first.busyness - second.busyness) <= 1
        async with pool.consumer("q") as consumer:
            found = {(await consumer.next()).body for _ in range(6)}
        assert found == {b"1", b"2", b"3"}

    run(scene.url, script, connections=2)


def test_a_lost_connection_is_passed_over(broker: Broker) -> None:
    async def script(pool: ConnectionPool) -> None:
        lost, other = pool.connections
        proxy.refuse = True
        proxy.cut_all()
        await until(lambda: State.OPEN not in (lost.state, other.state))
        # None is open: one that may come back is better than nothing.
        assert pool.connection() in (lost, other)
        proxy.refuse = False
        await until(lambda: lost.state is other.state is State.OPEN)
        await lost.close()
        assert [pool.connection() for _ in range(3)] == [other] * 3

    with Proxy((broker.host, broker.port)) as proxy:
        run(proxy.url, script, connections=2)


def test_none_is_left_open_if_one_cannot_be_opened() -> None:
    async def whole() -> None:
        pool = ConnectionPool(f"amqp://127.0.0.1:{free_port()}", connections=3)
        with pytest.raises(ConnectionFailed):
            await pool.open()
        with pytest.raises(ClientClosed):
            pool.connection()
        await expect_nothing_left()

    asyncio.run(whole())


def test_what_makes_no_sense_is_refused() -> None:
    for kind in (ConnectionPool, blocking.ConnectionPool):
        with pytest.raises(ValueError, match="connections is 0"):
            kind(connections=0)
        with pytest.raises(ClientClosed, match="not opened yet"):
            kind().connection()


def test_for_threads(scene: Scene) -> None:
    before = our_threads()
    with blocking.ConnectionPool(scene.url, connections=2, name="shop", pool_size=1) as pool:
        assert [one.options.name for one in pool.connections] == ["shop-1", "shop-2"]
        assert [one.pool.statistics.idle for one in pool.connections] == [1, 1]
        pool.connection().topology.declare(Queue("q"))
        with pool.borrow() as one, pool.borrow() as two:
            one.publish("", "q", b"1", {"priority": 3})
            assert one.wait_for_confirms(10)
            two.publish("", "none", b"lost")
            assert two.wait_for_confirms() is False
        producer = pool.producer()
        producer.publish("", "q", b"2")
        assert producer.wait_for_confirms(10)
        with pool.consumer("q") as consumer:
            found = [consumer.next() for _ in range(2)]
            assert [(one.body, one.priority) for one in found] == [(b"1", 3), (b"2", 0)]
            for delivery in found:
                delivery.ack()
    with pytest.raises(ClientClosed):
        pool.connection()
    pool.close()
    until_blocking(lambda: our_threads() == before)
