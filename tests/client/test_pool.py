"""The channel pool: N channels, lent one by one, never more than so many, and good as new after any accident."""

from __future__ import annotations

import asyncio
import gc

import pytest

from leveret.client import (
    BatchFailed,
    ChannelClosed,
    ClientClosed,
    Connection,
    ConnectionLost,
    DeadlineExceeded,
    PooledChannel,
    Unroutable,
)
from leveret.client.transport.channel import Channel
from leveret.wire.basic_methods import BasicAck
from tests.client.faults import DROP_FRAME, HALF_OPEN
from tests.client.producer_scene import bodies, count, restored, run, run_proxied
from tests.client.proxy import Proxy, Step
from tests.client.topology_scene import Scene, cut
from tests.client.waiting import until

SMALL = {"pool_size": 2, "channels_max": 3}


def open_channels(connection: Connection) -> int:
    """As the link sees it."""
    assert connection._link is not None
    return len(connection._link._handlers)


def test_borrow_publish_and_return(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        assert open_channels(connection) == 0
        async with connection.pool.borrow() as channel:
            assert isinstance(channel, PooledChannel) and isinstance(channel.channel, Channel)
            await channel.publish(b"one", routing_key="q")
            second = channel.publish("two", routing_key="q", priority=1)
            assert channel.outstanding == 1
            await channel.wait_confirms()
            assert second.done() and channel.outstanding == 0
            # Not awaited: the pool does not take it back before it is confirmed.
            third = channel.publish({"three": 3}, routing_key="q")
        assert third.done() and third.exception() is None
        with pytest.raises(ClientClosed, match="given back"):
            channel.publish(b"four", routing_key="q")
        with pytest.raises(ClientClosed, match="given back"):
            _ = channel.channel
        await until(lambda: connection.pool.statistics.idle == 4)
        assert connection.pool.statistics.borrowed == 0 and open_channels(connection) == 4
        assert await bodies(connection) == [b"one", b"two", b'{"three":3}']

    run(scene, script)


@pytest.mark.parametrize("exchange", ["", "missing"])
def test_a_caught_failure_is_not_logged_once_more(scene: Scene, exchange: str) -> None:
    async def script(connection: Connection) -> None:
        complaints: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
        async with connection.pool.borrow() as channel:
            for _ in range(3):
                channel.publish(b"lost", exchange=exchange, routing_key="none")
            with pytest.raises(BatchFailed):
                await channel.wait_confirms()
        gc.collect()
        assert complaints == []
        # What nobody asks for is another matter.
        async with connection.pool.borrow() as channel:
            channel.publish(b"lost", exchange=exchange, routing_key="none")
        gc.collect()
        assert complaints == ["Confirmation exception was never retrieved"]

    run(scene, script)


def test_confirms_as_yes_or_no(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.pool.borrow() as channel:
            channel.publish("", "q", b"one", {"priority": 1, "message_id": "m1", "headers": {"a": 1}})
            assert await channel.wait_for_confirms(10) is True
            channel.publish("", "none", b"lost")
            assert await channel.wait_for_confirms() is False
            assert await channel.wait_for_confirms() is True
        found = await connection.get("q", no_ack=True)
        assert found is not None
        assert (found.body, found.priority, found.message_id, found.headers) == (b"one", 1, "m1", {"a": 1})

    run(scene, script)


def test_no_answer_in_time_is_a_no(scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        with pytest.raises(DeadlineExceeded):
            async with connection.pool.borrow(confirm_deadline_s=0.05) as channel:
                proxy.at(Step("server", "basic.ack"), DROP_FRAME)
                channel.publish(b"one", routing_key="q")
                assert await channel.wait_for_confirms(0.05) is False

    run_proxied(scene, script)


def test_it_is_filled_before_the_first_use(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        assert (connection.pool.statistics.idle, open_channels(connection)) == (2, 2)
        await connection.pool.fill()
        assert open_channels(connection) == 2
        cut(connection)
        await until(lambda: connection.reconnects_total == 1 and connection.pool.statistics.idle == 2)

    run(scene, script, fill_pool=True, **SMALL)


def test_failures_of_what_was_published(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.pool.borrow() as channel:
            channel.publish(b"0", routing_key="q")
            lost = channel.publish(b"1", routing_key="none")
            with pytest.raises(BatchFailed) as raised:
                await channel.wait_confirms()
            assert [(index, type(error)) for index, error in raised.value.failures] == [(1, Unroutable)]
            with pytest.raises(Unroutable):
                await lost
            await channel.wait_confirms()
        assert connection.pool.statistics.replaced_total == 0

    run(scene, script)


def test_never_shared_first_come_first_served_and_bounded(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        in_use: set[Channel] = set()
        order: list[int] = []

        async def use(number: int) -> None:
            async with connection.pool.borrow() as channel:
                assert channel.channel not in in_use
                in_use.add(channel.channel)
                order.append(number)
                assert len(in_use) <= 3 and open_channels(connection) <= 3
                channel.publish(b"%d" % number, routing_key="q")
                await asyncio.sleep(0.002 * (number % 3))
                in_use.discard(channel.channel)

        await asyncio.gather(*(use(number) for number in range(50)))
        statistics = connection.pool.statistics
        assert (statistics.waiting, statistics.borrowed, statistics.borrowed_total) == (0, 0, 50)
        # What is beyond pool_size is not kept.
        assert statistics.idle == 2
        await until(lambda: open_channels(connection) == 2)
        assert sorted(order[:3]) == [0, 1, 2] and order[3:] == sorted(order[3:])
        assert await count(connection) == 50

    run(scene, script, **SMALL)


def test_waiting_has_a_deadline_and_giving_up_loses_nothing(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        pool = connection.pool
        async with pool.borrow(), pool.borrow(), pool.borrow():
            with pytest.raises(DeadlineExceeded, match="channel of the pool"):
                async with pool.borrow(deadline_s=0.1):
                    pass
            waiting = asyncio.ensure_future(pool.borrow().__aenter__())
            await asyncio.sleep(0.01)
            assert pool.statistics.waiting == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert pool.statistics.waiting == 0
            # Cancelled when it was just given one: that is the next one's.
            first, second = (asyncio.ensure_future(pool.take(5, lambda reason: None)) for _ in range(2))
            await asyncio.sleep(0.01)
            in_hand = next(iter(pool._borrowed))
            pool.put(in_hand)
            first.cancel()
            assert await second is in_hand
            await asyncio.gather(first, return_exceptions=True)
        assert pool.statistics.borrowed == 0

    run(scene, script, **SMALL)


def test_a_producer_has_one_of_them_for_its_life(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        pool = connection.pool
        async with connection.producer(routing_key="q") as producer, connection.producer(confirms=False):
            assert pool.statistics.borrowed == 2
            async with pool.borrow():
                with pytest.raises(DeadlineExceeded):
                    async with pool.borrow(deadline_s=0.05):
                        pass
                third = connection.producer(routing_key="q", deadline_s=0.3)
                with pytest.raises(DeadlineExceeded, match="never sent"):
                    await third.publish(b"there is no channel")
            await third.publish(b"now there is")
            await third.close()
            # It keeps its place when its channel ends.
            async with restored(connection):
                cut(connection)
            async with pool.borrow():
                await producer.publish(b"still here")
        assert pool.statistics.borrowed == 0
        assert await bodies(connection) == [b"now there is", b"still here"]

    run(scene, script, **SMALL)


def test_a_channel_that_the_broker_closes_is_replaced(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        pool = connection.pool
        async with pool.borrow() as channel:
            good = channel.publish(b"good", routing_key="q")
            await channel.wait_confirms()
            lost = channel.publish(b"x", exchange="missing")
            with pytest.raises(ChannelClosed, match="no exchange 'missing'"):
                await lost
            with pytest.raises(ChannelClosed):
                channel.publish(b"x", routing_key="q")
            assert good.exception() is None
        await until(lambda: pool.statistics.idle == 2)
        assert pool.statistics.replaced_total == 1
        # The end may also come after it was given back.
        async with pool.borrow() as channel:
            channel.channel.send(BasicAck(delivery_tag=77))
        await until(lambda: pool.statistics.replaced_total == 2 and pool.statistics.idle == 2)
        async with pool.borrow() as one, pool.borrow() as two, pool.borrow() as three:
            for channel in (one, two, three):
                await channel.publish(b"good", routing_key="q")
        assert await count(connection) == 4

    run(scene, script, **SMALL)


def test_it_is_not_taken_back_while_confirms_are_outstanding(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        pool = connection.pool
        async with pool.borrow() as channel:
            await channel.publish(b"0", routing_key="q")
            lent = channel.channel
        proxy.at(Step("server", "basic.ack"), DROP_FRAME)
        futures = []
        with pytest.raises(DeadlineExceeded, match="1 messages were not confirmed"):
            async with pool.borrow(confirm_deadline_s=0.2) as channel:
                futures.append(channel.publish(b"1", routing_key="q"))
                channel_used = channel.channel
        with pytest.raises(DeadlineExceeded):
            await futures[0]
        assert not channel_used.is_open
        await until(lambda: pool.statistics.idle == 2)
        assert pool.statistics.replaced_total == 1
        assert lent is channel_used or lent.is_open
        async with pool.borrow() as channel:
            await channel.publish(b"2", routing_key="q")
        assert await bodies(connection) == [b"0", b"1", b"2"]

    run_proxied(leveret_scene, script, **SMALL)


def test_cancelled_while_it_waits_for_confirms(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        pool = connection.pool

        async def use() -> None:
            async with pool.borrow() as channel:
                channel.publish(b"x", routing_key="q").add_done_callback(lambda one: one.exception())

        await use()
        proxy.at(Step("client", "basic.publish"), HALF_OPEN)
        using = asyncio.ensure_future(use())
        await asyncio.sleep(0.05)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert pool.statistics.borrowed == 0 and pool.statistics.replaced_total == 1
        proxy.thaw()
        await use()

    run_proxied(leveret_scene, script, **SMALL)


def test_after_a_reconnect_all_are_there_again_and_confirm(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        pool = connection.pool
        async with pool.borrow() as channel:
            await channel.publish(b"0", routing_key="q")
            async with restored(connection):
                pending = channel.publish(b"1", routing_key="q")
                cut(connection)
                with pytest.raises(ConnectionLost):
                    await pending
            with pytest.raises(ConnectionLost):
                channel.publish(b"2", routing_key="q")
        await until(lambda: pool.statistics.idle == 2)
        assert open_channels(connection) == 2
        assert all(channel.codec.confirming and channel.is_open for channel in pool._idle)
        async with pool.borrow() as channel:
            await channel.publish(b"3", routing_key="q")
        assert pool.statistics.replaced_total == 0
        assert set(await bodies(connection)) >= {b"0", b"3"}

    run(scene, script, **SMALL)


def test_borrowing_while_there_is_no_connection(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        pool = connection.pool
        proxy.refuse = True
        proxy.cut_all()
        with pytest.raises(DeadlineExceeded):
            async with pool.borrow(deadline_s=0.1):
                pass

        async def use(number: int) -> None:
            async with pool.borrow() as channel:
                await channel.publish(b"%d" % number, routing_key="q")

        users = [asyncio.ensure_future(use(number)) for number in range(8)]
        await asyncio.sleep(0.05)
        proxy.refuse = False
        await asyncio.gather(*users)
        assert open_channels(connection) <= 3 and pool.statistics.borrowed == 0
        assert await count(connection) == 8

    run_proxied(leveret_scene, script, **SMALL)


def test_what_others_cannot_use_is_not_lent_again(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        from leveret.core.client.channel_codec import DeliveryBuffer

        pool = connection.pool
        async with pool.borrow() as channel:
            used = channel.channel
            await used.consume("q", DeliveryBuffer(b"mine"), no_ack=True)
        assert not used.is_open
        assert pool.statistics.replaced_total == 1

    run(leveret_scene, script, **SMALL)


def test_a_closed_connection_lends_nothing(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        pool = connection.pool
        async with pool.borrow(), pool.borrow(), pool.borrow():
            waiting = asyncio.ensure_future(pool.borrow().__aenter__())
            await asyncio.sleep(0.01)
            await connection.close()
            with pytest.raises(ClientClosed):
                await waiting
        with pytest.raises(ClientClosed):
            async with pool.borrow():
                pass

    run(leveret_scene, script, **SMALL)


def test_fails_at_once_on_a_wrong_message(leveret_scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.pool.borrow() as channel:
            with pytest.raises(ValueError, match="priority"):
                channel.publish(b"x", priority=300)
            assert channel.outstanding == 0

    run(leveret_scene, script)
