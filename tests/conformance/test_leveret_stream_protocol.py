"""The stream protocol with rstream: publishing, reading from anywhere, filters, kept offsets, deduplication, errors."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from rstream import (
    AMQPMessage,
    CompressionType,
    ConfirmationStatus,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetType,
    OnClosedErrorInfo,
    Producer,
    Properties,
    RawMessage,
    amqp_decoder,
    exceptions,
)
from rstream.client import Client
from rstream.recovery import BackOffRecoveryStrategy
from rstream.schema import FrameHandlerInfo

from tests.conformance.own_broker import running
from tests.conformance.stream_scenes import (
    Received,
    address,
    both,
    eventually,
    opened,
    read,
    within_deadline,
)


def test_what_is_published_is_read_in_order_and_with_its_offset(broker: Any) -> None:
    async def scenario() -> None:
        async with both(broker, "plain") as (producer, consumer):
            received = await read(consumer, "plain")
            assert await producer.send_wait("plain", b"one") == 1
            assert await producer.send_batch("plain", [b"two", b"three"]) == [2, 3]
            assert await received.count(3) == [b"one", b"two", b"three"]
            assert received.offsets == [0, 1, 2]

    within_deadline(scenario())


def test_every_message_is_confirmed(broker: Any) -> None:
    async def scenario() -> None:
        confirmed: list[int] = []

        def on_confirm(status: ConfirmationStatus) -> None:
            assert status.is_confirmed
            confirmed.append(status.message_id)

        async with both(broker, "confirmed") as (producer, consumer):
            for number in range(1, 2001):
                await producer.send("confirmed", RawMessage(b"x", number), on_publish_confirm=on_confirm)
            await eventually(lambda: len(confirmed) == 2000)
            assert sorted(confirmed) == list(range(1, 2001))
            await (await read(consumer, "confirmed")).count(2000)

    within_deadline(scenario())


def test_many_messages_keep_their_order(broker: Any) -> None:
    async def scenario() -> None:
        async with both(broker, "many") as (producer, consumer):
            bodies = [str(number).encode() for number in range(20000)]
            received = await read(consumer, "many")
            for body in bodies:
                await producer.send("many", body)
            assert await received.count(20000) == bodies
            assert received.offsets == list(range(20000))

    within_deadline(scenario())


def test_large_messages_come_whole(broker: Any) -> None:
    async def scenario() -> None:
        async with both(broker, "large") as (producer, consumer):
            bodies = [bytes([number]) * size for number, size in enumerate((0, 1, 65535, 65536, 900000, 5))]
            for body in bodies:
                await producer.send_wait("large", body)
            assert await (await read(consumer, "large")).count(6) == bodies

    within_deadline(scenario())


@pytest.mark.parametrize("compression", [CompressionType.No, CompressionType.Gzip])
def test_sub_batches_are_taken_apart_by_the_client(broker: Any, compression: CompressionType) -> None:
    async def scenario() -> None:
        stream = f"batches-{compression.name}"
        async with both(broker, stream) as (producer, consumer):
            await producer.send_wait(stream, b"before")
            await producer.send_sub_entry(stream, [b"a", b"b", b"c"], compression_type=compression)
            # rstream sends sub-batches in its own time.
            await (received := await read(consumer, stream)).count(4)
            await producer.send_wait(stream, b"after")
            assert await received.count(5) == [b"before", b"a", b"b", b"c", b"after"]
            assert received.offsets == [0, 1, 2, 3, 4]

    within_deadline(scenario())


@pytest.mark.parametrize(
    ("kind", "value", "first"),
    [
        (OffsetType.FIRST, None, 0),
        (OffsetType.LAST, None, 9),
        (OffsetType.NEXT, None, 10),
        (OffsetType.OFFSET, 4, 4),
        (OffsetType.TIMESTAMP, 0, 0),
    ],
)
def test_reading_starts_anywhere(broker: Any, kind: OffsetType, value: int | None, first: int) -> None:
    async def scenario() -> None:
        stream = f"from-{kind.name}-{value}"
        async with both(broker, stream) as (producer, consumer):
            bodies = [str(number).encode() for number in range(15)]
            for body in bodies[:10]:
                await producer.send_wait(stream, body)
            received = await read(consumer, stream, ConsumerOffsetSpecification(kind, value))
            for body in bodies[10:]:
                await producer.send_wait(stream, body)
            assert await received.count(15 - first) == bodies[first:]
            assert received.offsets == list(range(first, 15))

    within_deadline(scenario())


def test_a_moment_is_a_place_to_start(broker: Any) -> None:
    async def scenario() -> None:
        async with both(broker, "moment") as (producer, consumer):
            await producer.send_wait("moment", b"before")
            await asyncio.sleep(0.05)
            now = int(time.time() * 1000)
            await asyncio.sleep(0.05)
            await producer.send_wait("moment", b"after")
            received = await read(consumer, "moment", ConsumerOffsetSpecification(OffsetType.TIMESTAMP, now))
            assert await received.count(1) == [b"after"]

    within_deadline(scenario())


def test_a_consumer_that_comes_again_goes_on(broker: Any) -> None:
    async def scenario() -> None:
        async with both(broker, "again") as (producer, consumer):
            for number in range(5):
                await producer.send_wait("again", str(number).encode())
            with pytest.raises(exceptions.OffsetNotFound):
                await consumer.query_offset("again", "me")
            await (await read(consumer, "again")).count(5)
            await consumer.store_offset("again", "me", 2)
        async with opened(Consumer, broker) as consumer:
            offset = await consumer.query_offset("again", "me")
            assert offset == 2
            received = await read(consumer, "again", ConsumerOffsetSpecification(OffsetType.OFFSET, offset + 1))
            assert await received.count(2) == [b"3", b"4"]

    within_deadline(scenario())


async def value_of(message: AMQPMessage) -> str:
    value: str = message.application_properties["colour"]
    return value


def coloured(colour: str, number: int) -> AMQPMessage:
    return AMQPMessage(body=str(number).encode(), application_properties={"colour": colour})


def test_filters(broker: Any) -> None:
    async def scenario() -> None:
        async with (
            both(broker, "filtered") as (plain, consumer),
            opened(Producer, broker, filter_value_extractor=value_of) as producer,
        ):
            for number in range(30):
                await producer.send_wait("filtered", coloured(("red", "green", "blue")[number % 3], number))
            await plain.send_wait("filtered", coloured("red", 99))
            wanted = FilterConfiguration(
                values_to_filter=["red"],
                predicate=lambda message: message.application_properties[b"colour"] == b"red",
                match_unfiltered=False,
            )
            received = await read(consumer, "filtered", decoder=amqp_decoder, filter_input=wanted)
            messages = await received.count(10)
            assert [int(message.body) for message in messages] == list(range(0, 30, 3))
        async with opened(Consumer, broker) as consumer:
            wanted = FilterConfiguration(values_to_filter=["none"], predicate=None, match_unfiltered=True)
            received = await read(consumer, "filtered", filter_input=wanted)
            await received.count(1)
            assert received.offsets == [30]

    within_deadline(scenario())


def test_a_named_producer_publishes_everything_once(tmp_path: Path) -> None:
    async def publish(broker: Any, *numbers: int) -> None:
        async with opened(Producer, broker) as producer:
            await producer.create_stream("once", exists_ok=True)
            for number in numbers:
                message = RawMessage(str(number).encode(), publishing_id=number)
                await producer.send_wait("once", message, publisher_name="me")

    async def received(broker: Any) -> list[bytes]:
        async with opened(Consumer, broker) as consumer:
            return await (await read(consumer, "once")).count(4)

    with running(tmp_path) as broker:
        within_deadline(publish(broker, 1, 2, 3, 2, 3))
    with running(tmp_path) as broker:

        async def scenario() -> None:
            await publish(broker, 1, 3, 4)
            assert await received(broker) == [b"1", b"2", b"3", b"4"]

        within_deadline(scenario())


def test_streams_and_offsets_survive_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as broker:

        async def before() -> None:
            async with both(broker, "kept") as (producer, consumer):
                for number in range(100):
                    await producer.send("kept", str(number).encode())
                await producer.send_sub_entry("kept", [b"100", b"101"], compression_type=CompressionType.Gzip)
                await (await read(consumer, "kept")).count(102)
                await consumer.store_offset("kept", "me", 50)
                assert await consumer.query_offset("kept", "me") == 50

        within_deadline(before())
    with running(tmp_path) as broker:

        async def after() -> None:
            async with opened(Consumer, broker) as consumer:
                assert await consumer.query_offset("kept", "me") == 50
                received = await read(consumer, "kept", ConsumerOffsetSpecification(OffsetType.OFFSET, 51))
                assert await received.count(51) == [str(number).encode() for number in range(51, 102)]

        within_deadline(after())


# ---- what goes wrong


def test_errors_have_their_codes(broker: Any) -> None:
    async def scenario() -> None:
        async with both(broker, "taken") as (producer, consumer):
            with pytest.raises(exceptions.StreamAlreadyExists):
                await producer.create_stream("taken")
            with pytest.raises(exceptions.StreamDoesNotExist):
                await producer.delete_stream("nowhere")
            with pytest.raises(exceptions.StreamDoesNotExist):
                await read(consumer, "nowhere")
            with pytest.raises(exceptions.PreconditionFailed):
                await producer.create_stream("bad", arguments={"max-age": "soon"})
            assert await producer.stream_exists("taken")
            assert not await producer.stream_exists("bad")

    within_deadline(scenario())


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"password": "wrong"}, exceptions.AuthenticationFailure),
        ({"vhost": "nowhere"}, exceptions.VirtualHostAccessFailure),
    ],
)
def test_who_may_not_come_in_is_told_why(broker: Any, changed: dict[str, str], error: type[Exception]) -> None:
    async def scenario() -> None:
        with pytest.raises(error):
            await Producer(**{**address(broker), **changed}).start()

    within_deadline(scenario())


def test_a_deleted_stream_is_told_to_those_who_read_it(broker: Any) -> None:
    async def scenario() -> None:
        lost: list[str] = []

        def on_close(info: OnClosedErrorInfo) -> None:
            lost.extend(info.streams)

        async with (
            opened(Producer, broker) as producer,
            opened(Consumer, broker, on_close_handler=on_close) as consumer,
        ):
            await producer.create_stream("mortal")
            await read(consumer, "mortal")
            await producer.delete_stream("mortal")
            await eventually(lambda: lost == ["mortal"])

    within_deadline(scenario())


def close_readers(node: Any) -> None:
    """As an operator closes a connection; rstream has others that only ask where streams are."""
    for connection in list(node.broker.connections.values()):
        if connection.subscriptions:
            connection.close_by_broker(320, "closed for a test")


def test_a_consumer_recovers_from_a_closed_connection(broker: Any) -> None:
    async def scenario() -> None:
        recovery = BackOffRecoveryStrategy(True, jitter=1)
        async with (
            opened(Producer, broker) as producer,
            opened(Consumer, broker, recovery_strategy=recovery) as consumer,
        ):
            await producer.create_stream("recovering")
            received = await read(consumer, "recovering")
            await producer.send_wait("recovering", b"one")
            await received.count(1)
            await asyncio.to_thread(broker.call, close_readers)
            async with opened(Producer, broker) as other:
                await other.send_wait("recovering", b"two")
            assert await received.count(2) == [b"one", b"two"]
            assert received.offsets == [0, 1]

    within_deadline(scenario())


def test_the_broker_says_which_versions_it_speaks(broker: Any) -> None:
    async def scenario() -> None:
        client = Client(broker.host, broker.stream_port, frame_max=1 << 20, heartbeat=60)
        await client.start()
        await client.authenticate(vhost="/", username="guest", password="guest")
        info = await client.exchange_command_version(FrameHandlerInfo(2, 1, 2))
        assert (info.key_command, info.min_version, info.max_version) == (2, 1, 2)
        await client.close()

    within_deadline(scenario())


def test_heartbeats_keep_a_quiet_connection(broker: Any) -> None:
    async def scenario() -> None:
        async with opened(Consumer, broker, heartbeat=1) as consumer:
            await consumer.create_stream("quiet")
            received = await read(consumer, "quiet")
            await asyncio.sleep(3.5)
            async with opened(Producer, broker) as producer:
                await producer.send_wait("quiet", b"still there?")
            assert await received.count(1) == [b"still there?"]

    within_deadline(scenario())


# ---- beside AMQP


def test_messages_cross_between_the_protocols(broker: Any) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("crossing", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        content_type="text/plain", headers={"n": 5, "x-trace": "t"}, message_id="m-1", app_id="shop", priority=3
    )
    channel.basic_publish("", "crossing", b"from amqp", properties)

    async def scenario() -> None:
        async with opened(Producer, broker) as producer, opened(Consumer, broker) as consumer:
            message = AMQPMessage(
                body=b"from a stream client",
                properties=Properties(message_id="m-2", content_type="a/b", group_id="till"),
                application_properties={"colour": "red", "n": 7},
            )
            await producer.send_wait("crossing", message)
            await producer.send_sub_entry("crossing", [b"raw octets"], compression_type=CompressionType.Gzip)
            _, second, third = await (await read(consumer, "crossing")).count(3)
            assert third == b"raw octets"
            assert second == bytes(message)
        async with opened(Consumer, broker) as consumer:
            decoded = (await (await decoded_first(consumer)).count(1))[0]
        assert decoded.body == b"from amqp"
        assert decoded.properties.message_id == b"m-1"
        assert decoded.properties.content_type == b"text/plain"
        assert decoded.properties.group_id == b"shop"
        assert decoded.header.priority == 3
        assert decoded.application_properties == {b"n": 5}
        assert decoded.message_annotations == {b"x-exchange": b"", b"x-routing-key": b"crossing", b"x-trace": b"t"}

    async def decoded_first(consumer: Consumer) -> Received:
        received = Received()

        def first_only(message: Any, context: Any) -> None:
            if context.offset == 0:
                received(amqp_decoder(message), context)

        await consumer.subscribe("crossing", callback=first_only)
        return received

    within_deadline(scenario())
    channel.basic_qos(prefetch_count=10)
    found = []
    for method, header, body in channel.consume("crossing", arguments={"x-stream-offset": "first"}):
        found.append((header, body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == 3:
            break
    connection.close()
    assert [body for _, body in found] == [b"from amqp", b"from a stream client", b"raw octets"]
    header = found[1][0]
    assert (header.message_id, header.content_type, header.app_id) == ("m-2", "a/b", "till")
    assert header.headers["colour"] == "red"
    assert (header.headers["n"], header.headers["x-stream-offset"]) == (7, 1)
