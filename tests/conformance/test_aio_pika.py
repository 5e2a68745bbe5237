"""RabbitMQ's tutorials with aio-pika, plain and robust connections."""

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError
from aio_pika.patterns import RPC, Master
from pamqp.commands import Basic

from tests.conformance.target import Target
from tests.conformance.topology import unique_name

WAIT_SECONDS_MAX = 30

Scenario = Callable[[AbstractConnection], Awaitable[None]]
Connect = Callable[[str], Awaitable[AbstractConnection]]


@pytest.fixture(params=["connect", "connect_robust"])
def run(request: pytest.FixtureRequest, target: Target) -> Callable[[Scenario], None]:
    """Runs a scenario over a connection of each kind."""
    connect: Connect = getattr(aio_pika, request.param)

    async def within_deadline(scenario: Scenario) -> None:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            connection = await connect(target.url)
            try:
                await scenario(connection)
            finally:
                await connection.close()

    return lambda scenario: asyncio.run(within_deadline(scenario))


Run = Callable[[Scenario], None]


async def received(queue: AbstractQueue, count: int) -> list[AbstractIncomingMessage]:
    """Consumes and acknowledges this many messages."""
    messages: list[AbstractIncomingMessage] = []
    async with queue.iterator() as iterator:
        async for message in iterator:
            await message.ack()
            messages.append(message)
            if len(messages) == count:
                break
    return messages


async def publish(channel: AbstractChannel, exchange: str, key: str, body: bytes) -> None:
    await (await channel.get_exchange(exchange)).publish(aio_pika.Message(body), key)


def test_hello_world(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"Hello World!"), queue.name)
        (message,) = await received(queue, 1)
        assert (message.body, message.routing_key) == (b"Hello World!", queue.name)

    run(scenario)


def test_work_queues(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        queue = await channel.declare_queue(unique_name("tasks"), durable=True)
        try:
            for number in range(5):
                message = aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, queue.name)
            other = await connection.channel()
            await other.set_qos(prefetch_count=1)
            task = await (await other.get_queue(queue.name)).get()
            assert task and task.body == b"0"
            await other.close()
            done = await received(queue, 5)
            assert (done[0].body, done[0].redelivered) == (b"0", True)
            assert sorted(message.body for message in done) == [b"%d" % number for number in range(5)]
        finally:
            await queue.delete(if_unused=False, if_empty=False)

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "bindings", "expected"),
    [
        ("fanout", [""], ["kern.info", "cron.critical", "kern.critical", "cron"]),
        ("direct", ["kern.info", "cron"], ["kern.info", "cron"]),
        ("topic", ["kern.*", "*.critical"], ["kern.info", "cron.critical", "kern.critical"]),
    ],
)
def test_exchanges(run: Run, kind: str, bindings: list[str], expected: list[str]) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(unique_name("logs"), kind, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        for key in bindings:
            await queue.bind(exchange, key)
        for key in ("kern.info", "cron.critical", "kern.critical", "cron"):
            await publish(channel, exchange.name, key, key.encode())
        assert [message.routing_key for message in await received(queue, len(expected))] == expected

    run(scenario)


def test_headers_exchange(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(unique_name("headers"), "headers", auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "", arguments={"x-match": "all", "format": "pdf", "pages": 3})
        for pages in (2, 3):
            headers = {"format": "pdf", "pages": pages, "extra": None}
            await exchange.publish(aio_pika.Message(b"%d" % pages, headers=headers), "")
        assert [message.body for message in await received(queue, 1)] == [b"3"]

    run(scenario)


def test_rpc_pattern(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        rpc = await RPC.create(await connection.channel())
        name = unique_name("multiply")

        async def multiply(x: int, y: int) -> int:
            return x * y

        await rpc.register(name, multiply, auto_delete=True)
        assert await asyncio.gather(*(rpc.call(name, kwargs={"x": 6, "y": y}) for y in range(10))) == [
            6 * y for y in range(10)
        ]
        await rpc.close()

    run(scenario)


def test_direct_reply_to(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        server_channel, client_channel = await connection.channel(), await connection.channel()
        queue = await server_channel.declare_queue(exclusive=True)

        async def answer(message: AbstractIncomingMessage) -> None:
            reply = aio_pika.Message(message.body.upper(), correlation_id=message.correlation_id)
            assert message.reply_to
            await server_channel.default_exchange.publish(reply, message.reply_to, mandatory=False)

        await queue.consume(answer, no_ack=True)
        replies = await client_channel.get_queue("amq.rabbitmq.reply-to")
        answers: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await replies.consume(answers.put, no_ack=True)
        question = aio_pika.Message(b"question", correlation_id="7", reply_to="amq.rabbitmq.reply-to")
        await client_channel.default_exchange.publish(question, queue.name)
        reply = await answers.get()
        assert (reply.body, reply.correlation_id) == (b"QUESTION", "7")

    run(scenario)


def test_master_worker_pattern(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        master = Master(await connection.channel())
        name = unique_name("work")
        results: asyncio.Queue[int] = asyncio.Queue()

        async def work(*, number: int) -> None:
            await results.put(number)

        worker = await master.create_worker(name, work, auto_delete=True)
        for number in range(10):
            await master.create_task(name, {"number": number})
        assert sorted([await results.get() for _ in range(10)]) == list(range(10))
        await worker.close()

    run(scenario)


def test_confirms_all_at_once(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue(exclusive=True, durable=True)
        message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        results = await asyncio.gather(*(channel.default_exchange.publish(message, queue.name) for _ in range(200)))
        assert all(isinstance(result, Basic.Ack) for result in results)
        assert len(await received(queue, 200)) == 200

    run(scenario)


def test_an_unroutable_message_raises(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        with pytest.raises((PublishError, DeliveryError)):
            await channel.default_exchange.publish(aio_pika.Message(b"lost"), unique_name("nobody"), mandatory=True)

    run(scenario)


def test_channel_errors_are_told(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        with pytest.raises(ChannelNotFoundEntity, match="NOT_FOUND - no queue"):
            await channel.declare_queue(unique_name("gone"), passive=True)

    run(scenario)


def test_transactions(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(aio_pika.Message(b"forgotten"), queue.name)
        await transaction.rollback()
        await channel.default_exchange.publish(aio_pika.Message(b"kept"), queue.name)
        await transaction.commit()
        assert [message.body for message in await received(queue, 1)] == [b"kept"]

    run(scenario)


def test_exchange_to_exchange(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        source = await channel.declare_exchange(unique_name("source"), "topic", auto_delete=True)
        destination = await channel.declare_exchange(unique_name("destination"), "fanout", auto_delete=True)
        await destination.bind(source, "a.#")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(destination)
        await source.publish(aio_pika.Message(b"through"), "a.b")
        assert [message.body for message in await received(queue, 1)] == [b"through"]

    run(scenario)


def test_update_secret(run: Run) -> None:
    async def scenario(connection: AbstractConnection) -> None:
        await connection.update_secret("guest", reason="about to expire")
        await (await connection.channel()).declare_queue(exclusive=True)

    run(scenario)
