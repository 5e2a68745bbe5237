"""Clients that recover by themselves: the broker closes their connection, and they go on as if nothing had been."""

import asyncio
import time

import aio_pika
import pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from kombu import Connection, Consumer, Exchange, Producer, Queue

from tests.conformance.conftest import Connect
from tests.conformance.raw_client import RawClient, Refusal
from tests.conformance.target import Target
from tests.conformance.topology import Topology, unique_name, wait_for

pytestmark = pytest.mark.timeout(120)

WAIT_SECONDS_MAX = 60


def test_the_broker_says_why_it_closes(connect: Connect, target: Target) -> None:
    client = connect()
    target.close_connections()
    refusal = client.refusal()
    assert refusal == Refusal("connection", 320, "CONNECTION_FORCED - closed by the conformance tests", 0, 0)
    client.expect_eof()


async def robust_scenario(target: Target) -> None:
    connection = await aio_pika.connect_robust(target.url, reconnect_interval=0.1, fail_fast=False)
    reconnected = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: reconnected.set())
    try:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        exchange = await channel.declare_exchange(unique_name("exchange"), "topic", auto_delete=True)
        queue = await channel.declare_queue(unique_name("queue"), exclusive=True)
        await queue.bind(exchange, "a.#")
        seen: asyncio.Queue[bytes] = asyncio.Queue()

        async def keep(message: AbstractIncomingMessage) -> None:
            await message.ack()
            await seen.put(message.body)

        await queue.consume(keep)
        await exchange.publish(aio_pika.Message(b"before"), "a.b")
        assert await seen.get() == b"before"
        await asyncio.to_thread(target.close_connections)
        await reconnected.wait()
        # The exchange, the exclusive queue, the binding and the consumer are there again.
        await exchange.publish(aio_pika.Message(b"after"), "a.b")
        assert await seen.get() == b"after"
    finally:
        await connection.close()


@pytest.mark.filterwarnings("ignore:There is no current event loop:DeprecationWarning")
def test_aio_pika_robust_connection(target: Target) -> None:
    async def within_deadline() -> None:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await robust_scenario(target)

    asyncio.run(within_deadline())


def test_kombu_ensures_publishing_and_consuming(target: Target) -> None:
    exchange = Exchange(unique_name("exchange"), "direct", durable=False)
    queue = Queue(unique_name("queue"), exchange, routing_key="key", durable=False, auto_delete=True)
    seen: list[str] = []

    def keep(body: str, message: object) -> None:
        seen.append(body)
        message.ack()  # type: ignore[attr-defined]

    with Connection(target.url, transport_options={"confirm_publish": True}) as connection:
        errors: list[BaseException] = []

        def noted(error: BaseException, _interval: float) -> None:
            errors.append(error)

        producer = Producer(connection, auto_declare=False)
        publish = connection.ensure(producer, producer.publish, errback=noted, max_retries=20, interval_start=0.1)
        publish("before", exchange=exchange, routing_key="key", declare=[exchange, queue])
        target.close_connections()
        publish("after", exchange=exchange, routing_key="key", declare=[exchange, queue])
        assert errors, "the closed connection was not noticed"
        with Consumer(connection.default_channel, [queue], callbacks=[keep]):
            while len(seen) < 2:
                connection.drain_events(timeout=20)
        assert seen == ["before", "after"]
        exchange(connection.default_channel).delete()


def test_a_kombu_consumer_is_told_and_can_start_anew(target: Target) -> None:
    queue = Queue(unique_name("queue"), exclusive=True)
    seen: list[str] = []
    with Connection(target.url) as connection:
        consumer = Consumer(
            connection.default_channel, [queue], callbacks=[lambda body, _: seen.append(body)], no_ack=True
        )
        consumer.consume()
        target.close_connections()
        with pytest.raises(connection.connection_errors):
            while True:
                connection.drain_events(timeout=20)
        connection.ensure_connection(max_retries=20, interval_start=0.1)
        consumer.revive(connection.default_channel)
        consumer.consume()
        Producer(connection.default_channel).publish("after", routing_key=queue.name)
        while not seen:
            connection.drain_events(timeout=20)
        assert seen == ["after"]


def test_pika_is_told(target: Target) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(target.url))
    target.close_connections()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            connection.process_data_events(time_limit=0.1)
    assert caught.value.reply_code == 320


def test_unacknowledged_messages_survive_the_close(connect: Connect, target: Target, topology: Topology) -> None:
    client = connect()
    queue = topology.queue(client, exclusive=False, auto_delete=False)
    client.publish(1, "", queue, b"held")
    client.call(1, "basic.get", queue=queue)
    target.close_connections()
    client.refusal()
    again = connect()
    wait_for("the message to come back", lambda: message_returned(again, queue))


def message_returned(client: RawClient, queue: str) -> bool:
    got = client.call(1, "basic.get", queue=queue, no_ack=True)
    return got.name == "basic.get-ok" and (got.body, got["redelivered"]) == (b"held", True)
