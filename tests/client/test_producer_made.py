"""Messages that are made already, published by the run: they fare as those of a batch do."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client import BatchFailed, ChannelClosed, ClientClosed, Connection, DeadlineExceeded, Unroutable
from leveret.client.publishing.message_encoder import MessageEncoder
from tests.client.faults import CUT, HALF_OPEN
from tests.client.producer_scene import count, declare_exchange, made, run, run_proxied, take_all
from tests.client.proxy import Proxy, Step
from tests.client.topology_scene import Scene


def test_in_their_order_whatever_the_room(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(window=300, window_bytes=50_000) as producer:
            await producer.publish_made([])
            sizes = [number % 700 for number in range(1000)]
            # Larger than the window, and than what one frame or the socket takes.
            sizes[500] = 60_000
            sizes[501] = 500_000
            bodies = [b"%04d" % number + bytes(size) for number, size in enumerate(sizes)]
            await producer.publish_made(made(bodies))
            assert producer.confirmed == producer.published == 1000 and producer.in_flight == 0
            assert producer.in_flight_bytes == 0
        assert [one.body for one in await take_all(connection)] == bodies

    run(scene, script)


def test_what_fails_is_named_by_its_place_and_the_others_stand(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        await declare_exchange(connection, "shop", "q")
        async with connection.producer() as producer:
            messages = made(b"%d" % number for number in range(10))
            messages[2:3] = made([b"2"], routing_key="none")
            messages[5:6] = made([b"5"], app_id="x" * 200)
            encoder = MessageEncoder()
            messages[6] = encoder.make(b"6", routing_key="q", headers={"h": "x" * 200_000})
            messages[7:8] = made([b"7"], exchange="missing")
            with pytest.raises(BatchFailed) as raised:
                await producer.publish_made(messages)
            failures = raised.value.failures
            assert [(index, type(error)) for index, error in failures] == [
                (2, Unroutable),
                (6, ValueError),
                (7, ChannelClosed),
            ]
            assert raised.value.unsent_from is None and producer.in_flight == 0
        arrived = [one.body for one in await take_all(connection)]
        assert list(dict.fromkeys(arrived)) == [b"0", b"1", b"3", b"4", b"5", b"8", b"9"]

    run(scene, script)


def test_a_lost_connection_loses_nothing_and_changes_no_id(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(window=500) as producer:
            for nth in (1, 3):
                happened = proxy.at(Step("server", "basic.ack", nth=nth), CUT)
                messages = made(b"%d" % number for number in range(3000))
                await producer.publish_made(messages)
                assert happened.is_set()
                assert producer.retransmitted > 0 and producer.in_flight == 0
                found = await take_all(connection)
                ids = list(dict.fromkeys(one.message_id for one in found))
                assert ids == [message.message_id.decode() for message in messages]

    run_proxied(leveret_scene, script)


def test_the_deadline_is_for_all(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(window=10) as producer:
            await producer.publish_made(made([b"before"] * 5))
            proxy.at(Step("client", "basic.publish", nth=1), HALF_OPEN)
            with pytest.raises(BatchFailed) as raised:
                await producer.publish_made(made([b"x"] * 100), deadline_s=0.3)
            assert raised.value.unsent_from == 10
            assert [index for index, _ in raised.value.failures] == list(range(10))
            assert all(isinstance(error, DeadlineExceeded) for _, error in raised.value.failures)
            assert producer.in_flight == 0
            proxy.thaw()
            await producer.publish_made(made([b"after"] * 5))

    run_proxied(leveret_scene, script)


def test_single_messages_get_their_turn_and_closing_ends_it(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        producer = connection.producer(window=100)
        batch = asyncio.ensure_future(producer.publish_made(made([b"batch"] * 50_000)))
        await asyncio.sleep(0.01)
        for _ in range(20):
            await producer.publish(b"single", routing_key="q")
        assert not batch.done()
        await producer.close()
        with pytest.raises(BatchFailed) as raised:
            await batch
        assert raised.value.failures == []
        assert raised.value.unsent_from == producer.confirmed - 20 == await count(connection) - 20
        with pytest.raises(ClientClosed):
            await producer.publish_made(made([b"late"]))

    run(leveret_scene, script)
