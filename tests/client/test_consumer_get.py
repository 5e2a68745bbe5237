"""Single messages without a consumer."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client import AlreadySettled, ChannelClosed, StaleDelivery
from leveret.client.consuming.getting import CHANNELS_MAX
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import in_loop, numbered, placed


def test_one_message(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(3)) as place:
            first = await place.connection.get(place.queue)
            assert first is not None
            assert (first.body, first.message_count) == (b"0", 2)
            first.ack()
            second = await place.connection.get(place.queue, no_ack=True)
            assert second is not None and second.body == b"1"
            with pytest.raises(AlreadySettled):
                second.ack()
            third = await place.connection.get(place.queue)
            assert third is not None
            third.nack()
            again = await place.connection.get(place.queue)
            assert again is not None and again.redelivered
            again.ack()
            assert await place.connection.get(place.queue) is None
            await place.expect_depth(0)
            # One after the other needs one channel.
            assert len(place.connection._getter._channels) == 1

    in_loop(script())


def test_a_missing_queue_disturbs_nobody(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x") as place:
            kept = await place.connection.get(place.queue)
            assert kept is not None
            with pytest.raises(ChannelClosed) as caught:
                await place.connection.get("no such queue")
            assert caught.value.code == 404
            kept.ack()
            await place.expect_depth(0)

    in_loop(script())


def test_many_unsettled_ones_share_channels(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        count = 3 * CHANNELS_MAX
        async with placed(amqp_server, *numbered(count)) as place:
            found = [await place.connection.get(place.queue) for _ in range(count)]
            assert [one.body for one in found if one is not None] == numbered(count)
            assert len(place.connection._getter._channels) == CHANNELS_MAX
            for one in found:
                assert one is not None
                one.ack()
            assert await place.connection.get(place.queue) is None
            await place.expect_depth(0)

    in_loop(script())


def test_at_once(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, *numbered(20)) as place:
            found = await asyncio.gather(*(place.connection.get(place.queue) for _ in range(21)))
            assert sorted(one.body for one in found if one is not None) == sorted(numbered(20))

    in_loop(script())


def test_a_lost_connection(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x") as place:
            old = await place.connection.get(place.queue)
            assert old is not None
            place.break_off()
            with pytest.raises(StaleDelivery):
                await asyncio.sleep(0.05)
                old.ack()
            await place.expect_depth(1)
            new = await place.connection.get(place.queue)
            assert new is not None and new.redelivered
            new.ack()

    in_loop(script())


def test_one_who_does_not_wait_loses_nothing(amqp_server: AmqpServer) -> None:
    async def script() -> None:
        async with placed(amqp_server, b"x") as place:
            asking = asyncio.create_task(place.connection.get(place.queue))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await place.expect_depth(1)

    in_loop(script())
