"""Super streams and single active consumers with rstream: every message is read once, whoever comes and goes."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
from rstream import (
    AMQPMessage,
    Consumer,
    ConsumerOffsetSpecification,
    EventContext,
    OffsetSpecification,
    OffsetType,
    Producer,
    Properties,
    RouteType,
    SuperStreamConsumer,
    SuperStreamProducer,
    amqp_decoder,
    exceptions,
)

from tests.conformance.stream_scenes import Received, eventually, opened, read, within_deadline


async def id_of(message: AMQPMessage) -> str:
    return str(message.properties.message_id)


def numbered(number: int) -> AMQPMessage:
    return AMQPMessage(body=str(number).encode(), properties=Properties(message_id=str(number)))


async def make(broker: Any, name: str, **how: Any) -> None:
    async with opened(Producer, broker) as producer:
        client = await producer.default_client
        names = how.get("names") or [f"{name}-{number}" for number in range(3)]
        keys = how.get("keys") or ["0", "1", "2"]
        await client.create_super_stream(name, names, keys)


def producer_of(broker: Any, name: str, routing: RouteType = RouteType.Hash) -> Any:
    return opened(SuperStreamProducer, broker, super_stream=name, routing=routing, routing_extractor=id_of)


def consumer_of(broker: Any, name: str) -> Any:
    return opened(SuperStreamConsumer, broker, super_stream=name)


def test_a_super_stream_is_made_listed_and_deleted(broker: Any) -> None:
    async def scenario() -> None:
        await make(broker, "listed")
        async with opened(Producer, broker) as producer:
            client = await producer.default_client
            assert await client.partitions("listed") == ["listed-0", "listed-1", "listed-2"]
            assert await client.route("1", "listed") == ["listed-1"]
            with pytest.raises(exceptions.StreamAlreadyExists):
                await client.create_super_stream("listed", ["x"], ["0"])
            assert await client.stream_exists("listed-2")
            await client.delete_super_stream("listed")
            assert not await client.stream_exists("listed-2")
            with pytest.raises(exceptions.StreamDoesNotExist):
                await client.delete_super_stream("listed")

    within_deadline(scenario())


def test_messages_are_spread_by_hash_and_all_of_them_read(broker: Any) -> None:
    async def scenario() -> None:
        await make(broker, "spread")
        async with producer_of(broker, "spread") as producer, consumer_of(broker, "spread") as consumer:
            received = Received()
            await consumer.subscribe(callback=received, decoder=amqp_decoder)
            for number in range(300):
                await producer.send(numbered(number))
            messages = await received.count(300)
            assert sorted(int(message.body) for message in messages) == list(range(300))
            assert set(received.streams) == {"spread-0", "spread-1", "spread-2"}
            # All of a key are in one partition: the broker agrees with the client on which one.
            partitions = {int(m.body): stream for m, stream in zip(messages, received.streams, strict=True)}
            for number in range(300):
                await producer.send(numbered(number))
            await received.count(600)
            for message, stream in zip(received.messages[300:], received.streams[300:], strict=True):
                assert partitions[int(message.body)] == stream

    within_deadline(scenario())


def test_messages_are_routed_by_key(broker: Any) -> None:
    async def scenario() -> None:
        await make(broker, "keyed", names=["keyed-eu", "keyed-us"], keys=["eu", "us"])
        for key in ("eu", "us", "eu"):
            # A producer each: rstream asks for the way of its first key and sends everything there.
            async with producer_of(broker, "keyed", RouteType.Key) as producer:
                await producer.send(AMQPMessage(body=key.encode(), properties=Properties(message_id=key)))
        async with opened(Consumer, broker) as consumer:
            received = await read(consumer, "keyed-eu", decoder=amqp_decoder)
            assert [message.body for message in await received.count(2)] == [b"eu", b"eu"]

    within_deadline(scenario())


def group(name: str) -> dict[str, str]:
    return {"single-active-consumer": "true", "name": "group", "super-stream": name}


async def from_first(is_active: bool, context: EventContext) -> OffsetSpecification:
    return OffsetSpecification(OffsetType.FIRST, 0)


def test_each_partition_has_one_of_the_group(broker: Any) -> None:
    async def scenario() -> None:
        await make(broker, "grouped")
        members = [Received() for _ in range(4)]
        async with AsyncExitStack() as stack:
            for member in members:
                consumer = await stack.enter_async_context(consumer_of(broker, "grouped"))
                await consumer.subscribe(
                    callback=member,
                    decoder=amqp_decoder,
                    properties=group("grouped"),
                    consumer_update_listener=from_first,
                )
            producer = await stack.enter_async_context(producer_of(broker, "grouped"))
            for number in range(300):
                await producer.send(numbered(number))
            await eventually(lambda: sum(len(member.messages) for member in members) >= 300)
            await asyncio.sleep(0.1)
            found = Counter(int(message.body) for member in members for message in member.messages)
            assert found == Counter(range(300))
            served = [set(member.streams) for member in members]
            assert sorted(map(len, served)) == [0, 1, 1, 1]
            assert set().union(*served) == {"grouped-0", "grouped-1", "grouped-2"}

    within_deadline(scenario())


def test_the_next_one_goes_on_where_the_last_one_was(broker: Any) -> None:
    """With the offset kept by the broker nothing is lost and nothing read twice, although the reader changes."""

    async def from_stored(is_active: bool, context: EventContext) -> OffsetSpecification:
        try:
            offset = await context.consumer.query_offset(context.stream, "group")
        except exceptions.OffsetNotFound:
            return OffsetSpecification(OffsetType.FIRST, 0)
        return OffsetSpecification(OffsetType.OFFSET, offset + 1)

    async def scenario() -> None:
        async with opened(Producer, broker) as producer, opened(Consumer, broker) as second:
            await producer.create_stream("handed")
            how: dict[str, Any] = {
                "properties": {"single-active-consumer": "true", "name": "group"},
                "consumer_update_listener": from_stored,
                "offset_specification": ConsumerOffsetSpecification(OffsetType.FIRST, None),
            }
            received, waiting = Received(), Received()
            async with opened(Consumer, broker) as first:
                await first.subscribe("handed", callback=received, **how)
                await second.subscribe("handed", callback=waiting, **how)
                for number in range(10):
                    await producer.send_wait("handed", str(number).encode())
                await received.count(10)
                await first.store_offset("handed", "group", 9)
                assert await first.query_offset("handed", "group") == 9
                assert waiting.messages == []
            for number in range(10, 15):
                await producer.send_wait("handed", str(number).encode())
            assert await waiting.count(5) == [str(number).encode() for number in range(10, 15)]

    within_deadline(scenario())
