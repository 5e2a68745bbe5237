"""Producers and lost connections: what was not answered for is sent again, in its order and with its id."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from leveret.client import ChannelClosed, ClientClosed, Connection, DeadlineExceeded, connect
from leveret.testing import Broker
from tests.client.amqp_server import AmqpServer
from tests.client.faults import CUT, DROP_FRAME, HALF_OPEN, RESET, Action
from tests.client.producer_scene import (
    QUICK,
    bodies,
    count,
    declare,
    expect_nothing_left,
    restored,
    run,
    run_proxied,
    take_all,
)
from tests.client.proxy import Proxy, Step
from tests.client.topology_scene import Scene, cut
from tests.client.waiting import until
from tests.conformance.server_process import free_port


@pytest.mark.parametrize("on_uvloop", [False, True])
def test_what_was_written_and_not_answered_comes_again_before_new_ones(scene: Scene, on_uvloop: bool) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q") as producer:
            await producer.publish(b"0")
            # The broker gets them, but its answers are lost.
            happened = proxy.at(Step("server", "basic.ack"), CUT)
            first = [await producer.submit(b"%d" % number) for number in range(1, 6)]
            await until(happened.is_set)
            await until(lambda: producer._keeper.channel is None)
            later = [await producer.submit(b"%d" % number) for number in range(6, 11)]
            await asyncio.gather(*first, *later)
            assert producer.retransmitted == 5 and producer.in_flight == 0
        found = await take_all(connection)
        assert [int(one.body) for one in found] == [0, *range(1, 6), *range(1, 11)]
        # The second time each has the id of the first.
        assert [one.message_id for one in found[1:6]] == [one.message_id for one in found[6:11]]

    run_proxied(scene, script, on_uvloop)


@pytest.mark.parametrize("action", [CUT, RESET])
@pytest.mark.parametrize("when", ["before", "middle", "after"])
@pytest.mark.parametrize(
    "step", ["channel.open", "confirm.select", "basic.publish", "header", "body"], ids=lambda step: str(step)
)
def test_a_cut_at_every_step(leveret_scene: Scene, step: str, when: str, action: Action) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        # Twice: the second one strikes when it is restored.
        for _ in range(2):
            proxy.at(Step("client", step, when=when), action)  # type: ignore[arg-type]
        async with connection.producer(routing_key="q") as producer:
            sent = [await producer.submit(b"%d" % number) for number in range(20)]
            await asyncio.gather(*sent)
            assert producer.in_flight == 0
        arrived = [int(body) for body in await bodies(connection)]
        assert list(dict.fromkeys(arrived)) == list(range(20))

    run_proxied(leveret_scene, script)


@pytest.mark.parametrize("step", ["channel.open-ok", "confirm.select-ok", "basic.ack"])
def test_answers_that_are_lost(leveret_scene: Scene, step: str) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        proxy.at(Step("server", step), RESET)
        async with connection.producer(routing_key="q") as producer:
            await producer.publish_batch(b"%d" % number for number in range(50))
        arrived = [int(body) for body in await bodies(connection)]
        assert list(dict.fromkeys(arrived)) == list(range(50))

    run_proxied(leveret_scene, script)


def test_a_confirm_that_never_comes(leveret_scene: Scene) -> None:
    """The connection is well, but an answer got lost: the deadline counts."""

    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q") as producer:
            await producer.publish(b"1")
            proxy.at(Step("server", "basic.ack"), DROP_FRAME)
            with pytest.raises(DeadlineExceeded, match="may have arrived"):
                await producer.publish(b"2", deadline_s=0.3)
            await producer.publish(b"3")
            assert producer.in_flight == 0
        assert await bodies(connection) == [b"1", b"2", b"3"]

    run_proxied(leveret_scene, script)


def test_publishing_while_there_is_no_connection(scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", window=5) as producer:
            await producer.publish(b"before")
            proxy.refuse = True
            proxy.cut_all()
            await until(lambda: producer._keeper.channel is None)
            tasks = [asyncio.ensure_future(producer.publish(b"%d" % number)) for number in range(8)]
            await asyncio.sleep(0)
            with pytest.raises(DeadlineExceeded, match="no room"):
                await producer.publish(b"late", deadline_s=0.2)
            # The same bound as ever.
            assert (producer.in_flight, producer.waiting) == (5, 3)
            never_sent = tasks.pop(2)
            never_sent.cancel()
            await asyncio.sleep(0.01)
            assert (producer.in_flight, producer.waiting) == (5, 2)
            proxy.refuse = False
            await asyncio.gather(*tasks)
        assert await bodies(connection) == [b"before", b"0", b"1", b"3", b"4", b"5", b"6", b"7"]

    run_proxied(scene, script)


def test_deadlines_while_there_is_no_connection(scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q") as producer:
            proxy.refuse = True
            proxy.cut_all()
            await until(lambda: producer._keeper.channel is None)
            with pytest.raises(DeadlineExceeded, match="never sent"):
                await producer.publish(b"late", deadline_s=0.2)
            assert producer.in_flight == 0
            proxy.refuse = False
            await producer.publish(b"good")
        assert await bodies(connection) == [b"good"]

    run_proxied(scene, script)


def test_closed_by_the_broker(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with connect(amqp_server.url, **QUICK) as connection:
            await declare(connection, "closed-by-the-broker", expires=60_000)
            async with connection.producer(routing_key="closed-by-the-broker") as producer:
                sent = [await producer.submit(b"%d" % number) for number in range(500)]
                async with restored(connection):
                    await asyncio.to_thread(amqp_server.close_connections)
                    sent += [await producer.submit(b"%d" % number) for number in range(500, 1000)]
                await asyncio.gather(*sent)
            arrived = [int(body) for body in await bodies(connection, "closed-by-the-broker")]
            assert list(dict.fromkeys(arrived)) == list(range(1000))
        await expect_nothing_left()

    asyncio.run(script())


def test_a_blocked_connection_is_bounded_too(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        broker = leveret_scene.server.broker
        assert broker is not None
        async with connection.producer(routing_key="q", window=10) as producer:
            await producer.publish(b"before")
            broker.raise_alarm("memory")
            try:
                tasks = [asyncio.ensure_future(producer.publish(b"%d" % number)) for number in range(15)]
                await until(lambda: connection.blocked is not None)
                await asyncio.sleep(0.05)
                assert (producer.in_flight, producer.waiting) == (10, 5)
                with pytest.raises(DeadlineExceeded):
                    await producer.publish(b"late", deadline_s=0.1)
            finally:
                broker.clear_alarm("memory")
            await asyncio.gather(*tasks)
        assert len(await bodies(connection)) == 16

    run(leveret_scene, script)


def test_the_deadline_says_that_the_broker_takes_nothing(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        broker = leveret_scene.server.broker
        assert broker is not None
        broker.raise_alarm("disk")
        try:
            producer = connection.producer(routing_key="q")
            with pytest.raises(DeadlineExceeded, match="the broker takes no messages"):
                await producer.publish(b"late", deadline_s=0.3)
        finally:
            broker.clear_alarm("disk")

    run(leveret_scene, script)


def test_a_restart_of_the_broker_loses_nothing_that_was_confirmed(tmp_path: object) -> None:
    async def script() -> None:
        settings: dict[str, object] = {"data_dir": str(tmp_path), "listen.port": free_port()}
        broker = await asyncio.to_thread(Broker(settings).start)
        try:
            async with connect(broker.url, **QUICK) as connection:
                await declare(connection, "q")
                async with connection.producer(routing_key="q", deadline_s=30) as producer:
                    sent = [await producer.submit(b"%d" % number) for number in range(300)]
                    await asyncio.to_thread(broker.stop)
                    sent += [await producer.submit(b"%d" % number) for number in range(300, 600)]
                    broker = await asyncio.to_thread(Broker(settings).start)
                    await asyncio.gather(*sent)
                arrived = [int(body) for body in await bodies(connection)]
                assert list(dict.fromkeys(arrived)) == list(range(600))
            await expect_nothing_left()
        finally:
            await asyncio.to_thread(broker.stop)

    asyncio.run(script())


def test_recovery_that_is_given_up_ends_all_waits(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        producer = connection.producer(routing_key="q", window=2)
        await producer.publish(b"before")
        proxy.refuse = True
        proxy.cut_all()
        waiting = [asyncio.ensure_future(producer.publish(b"x")) for _ in range(4)]
        for one in waiting:
            with pytest.raises(ClientClosed):
                await one
        with pytest.raises(ClientClosed):
            await producer.publish(b"x")
        assert producer.in_flight == 0

    run_proxied(leveret_scene, script, give_up_after_s=0.3)


def test_closing_the_connection_while_it_is_lost(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        producer = connection.producer(routing_key="q")
        await producer.publish(b"before")
        proxy.refuse = True
        proxy.cut_all()
        await until(lambda: producer._keeper.channel is None)
        waiting = asyncio.ensure_future(producer.publish(b"x"))
        await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            await connection.close()
        with pytest.raises(ClientClosed, match="before the message was confirmed"):
            await waiting

    run_proxied(leveret_scene, script)


def test_messages_of_cancelled_publishes_are_not_sent_again(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q") as producer:
            proxy.at(Step("client", "basic.publish"), HALF_OPEN)
            given_up, kept = (asyncio.ensure_future(producer.publish(body)) for body in (b"given up", b"kept"))
            await asyncio.sleep(0.05)
            given_up.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await given_up
            proxy.reset_all()
            await kept
        assert await bodies(connection) == [b"kept"]

    run_proxied(leveret_scene, script)


def test_a_missing_exchange_during_recovery(leveret_scene: Scene) -> None:
    """The guilty ones are found among those that are sent again, too."""

    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q") as producer:
            proxy.at(Step("client", "basic.publish"), RESET)
            outcomes = await asyncio.gather(
                *(producer.publish(b"%d" % n, exchange="" if n % 4 else "missing") for n in range(12)),
                return_exceptions=True,
            )
            assert [isinstance(one, ChannelClosed) for one in outcomes] == [n % 4 == 0 for n in range(12)]
        assert set(await bodies(connection)) == {b"%d" % n for n in range(12) if n % 4}

    run_proxied(leveret_scene, script)


def test_with_deduplication_each_arrives_once(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        await declare(connection, "once", message_deduplication=True)
        async with connection.producer(routing_key="once", deduplicate=True, window=50) as producer:
            cuts = 0

            async def disturb() -> None:
                nonlocal cuts
                while True:
                    await asyncio.sleep(0.03)
                    proxy.reset_all()
                    cuts += 1

            disturber = asyncio.ensure_future(disturb())
            number = 0
            while producer.retransmitted < 100 or cuts < 5:
                await producer.publish_batch(b"%d" % n for n in range(number, number + 20))
                number += 20
            disturber.cancel()
            await asyncio.gather(disturber, return_exceptions=True)
        arrived = [int(body) for body in await bodies(connection, "once")]
        assert arrived == list(range(number))

    run_proxied(leveret_scene, script)


def test_a_stream_takes_each_once_by_its_publishing_id(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        await declare(connection, "stream", queue_type="stream")
        for start in (0, 100):
            # The second one goes on under the same name.
            async with connection.producer(routing_key="stream", publishing_name="till") as producer:
                happened = proxy.at(Step("server", "basic.ack"), RESET)
                sent = [await producer.submit(b"%d" % number) for number in range(start, start + 50)]
                await until(happened.is_set)
                sent += [await producer.submit(b"%d" % number) for number in range(start + 50, start + 100)]
                await asyncio.gather(*sent)
                assert producer.retransmitted > 0
        assert await count(connection, "stream") == 200

    run_proxied(leveret_scene, script)


def test_a_broken_connection_of_ours(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q") as producer:
            for _ in range(5):
                sent = [await producer.submit(b"x") for _ in range(10)]
                async with restored(connection):
                    cut(connection)
                await asyncio.gather(*sent)
            assert producer.confirmed == 50
            assert await count(connection) >= 50

    run(scene, script)
