"""Batches: many messages on one channel and one wait, and which of them failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from leveret.client import BatchFailed, ChannelClosed, ClientClosed, Connection, DeadlineExceeded, Message, Unroutable
from tests.client.faults import HALF_OPEN, STALL_READING
from tests.client.producer_scene import bodies, count, declare_exchange, made, run, run_proxied, take_all
from tests.client.proxy import Proxy, Step
from tests.client.topology_scene import Scene
from tests.client.waiting import until


def test_a_batch_in_its_order(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q", window=300) as producer:
            await producer.publish_batch([])
            await producer.publish_batch([b"%d" % number for number in range(1000)])
            await producer.publish_batch(["text", {"a": 1}, Message(b"m", type="t"), b"octets"])
            assert producer.confirmed == 1004 and producer.in_flight == 0
        found = await take_all(connection)
        assert [one.body for one in found[:1000]] == [b"%d" % number for number in range(1000)]
        assert [one.body for one in found[1000:]] == [b"text", b'{"a":1}', b"m", b"octets"]
        assert found[1002].type == "t"
        assert len({one.message_id for one in found}) == 1004

    run(scene, script)


def test_what_fails_is_named_by_its_place_and_the_others_stand(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        await declare_exchange(connection, "shop", "q")
        async with connection.producer(exchange="shop") as producer:
            messages: list[object] = [b"%d" % number for number in range(10)]
            messages[2] = Message(b"2", exchange="", routing_key="none")
            messages[4] = None
            messages[5] = Message(b"5", priority=-1)
            messages[7] = Message(b"7", exchange="missing")
            with pytest.raises(BatchFailed, match=r"4 messages.*the first is message 2") as raised:
                await producer.publish_batch(messages)
            failures = raised.value.failures
            assert [(index, type(error)) for index, error in failures] == [
                (2, Unroutable),
                (4, TypeError),
                (5, ValueError),
                (7, ChannelClosed),
            ]
            assert raised.value.unsent_from is None and producer.in_flight == 0
        arrived = await bodies(connection)
        assert list(dict.fromkeys(arrived)) == [b"0", b"1", b"3", b"6", b"8", b"9"]

    run(scene, script)


def test_the_deadline_is_for_all(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", window=10) as producer:
            await producer.publish_batch([b"before"] * 5)
            proxy.at(Step("client", "basic.publish", nth=1), HALF_OPEN)
            with pytest.raises(BatchFailed) as raised:
                await producer.publish_batch([b"x"] * 100, deadline_s=0.3)
            assert raised.value.unsent_from == 10
            assert [index for index, _ in raised.value.failures] == list(range(10))
            assert all(isinstance(error, DeadlineExceeded) for _, error in raised.value.failures)
            assert producer.in_flight == 0
            proxy.thaw()
            await producer.publish_batch([b"after"] * 5)

    run_proxied(leveret_scene, script)


def test_no_more_is_taken_from_a_generator_than_there_is_room_for(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", window=1000, window_bytes=100_000) as producer:
            taken = 0

            def messages() -> Iterator[bytes]:
                nonlocal taken
                for _ in range(500):
                    taken += 1
                    yield bytes(1000)

            await producer.publish(b"before")
            proxy.at(Step("client", "basic.publish"), HALF_OPEN)
            batch = asyncio.ensure_future(producer.publish_batch(messages()))
            await asyncio.sleep(0.1)
            assert taken == 101 and producer.in_flight_bytes == 100_000
            proxy.thaw()
            await batch
            assert taken == 500
        assert await count(connection) == 501

    run_proxied(leveret_scene, script)


@pytest.mark.parametrize(("on_uvloop", "by_run"), [(False, False), (True, False), (False, True)])
def test_what_the_socket_does_not_take_is_not_gathered(leveret_scene: Scene, on_uvloop: bool, by_run: bool) -> None:
    """A broker that reads nothing: only little more than the socket's buffers hold is written, not the whole window."""

    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", window=1_000_000, window_bytes=1 << 30) as producer:
            await producer.publish(b"before")
            proxy.at(Step("client", "basic.publish"), STALL_READING)
            large = [bytes(10_000)] * 3000
            publishing = producer.publish_made(made(large)) if by_run else producer.publish_batch(large)
            batch = asyncio.ensure_future(publishing)
            link = connection._link
            assert link is not None
            await until(lambda: link.is_congested)
            await asyncio.sleep(0.1)
            assert link.pending_bytes < 2_000_000
            assert producer.in_flight_bytes < 20_000_000
            proxy.thaw()
            await batch
        assert await count(connection) == 3001

    run_proxied(leveret_scene, script, on_uvloop)


def test_cancelled_batches_free_their_room(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", window=10) as producer:
            await producer.publish(b"before")
            proxy.at(Step("client", "basic.publish"), HALF_OPEN)
            batches = [asyncio.ensure_future(producer.publish_batch([b"x"] * 8)) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert producer.in_flight == 10
            batches[0].cancel()
            await asyncio.sleep(0.01)
            assert producer.in_flight == 8
            batches[1].cancel()
            await asyncio.gather(*batches, return_exceptions=True)
            assert producer.in_flight == 0
            proxy.thaw()
            await producer.publish(b"after")

    run_proxied(leveret_scene, script)


def test_single_messages_get_their_turn_beside_a_batch(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q", window=100) as producer:
            batch = asyncio.ensure_future(producer.publish_batch([b"batch"] * 20_000))
            await asyncio.sleep(0.01)
            for _ in range(20):
                await producer.publish(b"single")
            assert not batch.done()
            await batch
        assert await count(connection) == 20_020

    run(leveret_scene, script)


def test_closing_in_the_middle_of_a_batch(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        producer = connection.producer(routing_key="q", window=100)
        batch = asyncio.ensure_future(producer.publish_batch([b"batch"] * 100_000))
        await until(lambda: producer.confirmed > 500)
        await producer.close()
        with pytest.raises(BatchFailed) as raised:
            await batch
        assert raised.value.failures == []
        assert raised.value.unsent_from == producer.confirmed == await count(connection)

    run(leveret_scene, script)


def test_a_batch_on_a_connection_that_is_closed(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        producer = connection.producer(routing_key="q", window=10)
        await producer.publish(b"before")
        proxy.refuse = True
        proxy.cut_all()
        batch = asyncio.ensure_future(producer.publish_batch([b"x"] * 20))
        await asyncio.sleep(0.05)
        await connection.close()
        with pytest.raises(BatchFailed) as raised:
            await batch
        assert raised.value.unsent_from == 10
        assert all(isinstance(error, ClientClosed) for _, error in raised.value.failures)

    run_proxied(leveret_scene, script)
