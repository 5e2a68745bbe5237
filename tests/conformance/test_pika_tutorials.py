"""RabbitMQ's tutorials with pika's blocking connection."""

import threading
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, UnroutableError

from tests.conformance.target import Target
from tests.conformance.topology import unique_name

PERSISTENT = pika.BasicProperties(delivery_mode=2)
WAIT_SECONDS_MAX = 20


@pytest.fixture
def connection(target: Target) -> Iterator[pika.BlockingConnection]:
    with pika.BlockingConnection(pika.URLParameters(target.url)) as opened:
        yield opened


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


def received(channel: BlockingChannel, queue: str, count: int) -> list[tuple[str, bytes]]:
    """Consumes this many messages, acknowledges them, and gives their routing keys and bodies."""
    messages = []
    for method, _, body in channel.consume(queue, inactivity_timeout=WAIT_SECONDS_MAX):
        assert method, f"got only {messages}"
        channel.basic_ack(method.delivery_tag)
        messages.append((method.routing_key, body))
        if len(messages) == count:
            break
    channel.cancel()
    return messages


def exclusive_queue(channel: BlockingChannel, exchange: str, *routing_keys: str) -> str:
    queue: str = channel.queue_declare("", exclusive=True).method.queue
    for routing_key in routing_keys:
        channel.queue_bind(queue, exchange, routing_key)
    return queue


def test_hello_world(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"Hello World!")
    assert received(channel, queue, 1) == [(queue, b"Hello World!")]


def test_work_queues(target: Target, channel: BlockingChannel) -> None:
    """Two workers share durable work, each with one task at a time; one dies with a task in hand."""
    queue = unique_name("tasks")
    channel.queue_declare(queue, durable=True)
    try:
        for number in range(6):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
        dying = pika.BlockingConnection(pika.URLParameters(target.url))
        dying_channel = dying.channel()
        dying_channel.basic_qos(prefetch_count=1)
        _, _, body = next(dying_channel.consume(queue, inactivity_timeout=WAIT_SECONDS_MAX))
        assert body == b"0"
        dying.close()
        channel.basic_qos(prefetch_count=1)
        done = received(channel, queue, 6)
        assert sorted(body for _, body in done) == [b"%d" % number for number in range(6)]
    finally:
        channel.queue_delete(queue)


def test_publish_subscribe(channel: BlockingChannel) -> None:
    exchange = unique_name("logs")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    queues = [exclusive_queue(channel, exchange, "") for _ in range(2)]
    channel.basic_publish(exchange, "", b"info: Hello World!")
    for queue in queues:
        assert received(channel, queue, 1) == [("", b"info: Hello World!")]


def test_routing(channel: BlockingChannel) -> None:
    exchange = unique_name("direct-logs")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    errors = exclusive_queue(channel, exchange, "error")
    everything = exclusive_queue(channel, exchange, "info", "warning", "error")
    for severity in ("info", "warning", "error"):
        channel.basic_publish(exchange, severity, severity.encode())
    assert received(channel, errors, 1) == [("error", b"error")]
    assert [key for key, _ in received(channel, everything, 3)] == ["info", "warning", "error"]


def test_topics(channel: BlockingChannel) -> None:
    exchange = unique_name("topic-logs")
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    kernel = exclusive_queue(channel, exchange, "kern.*")
    critical = exclusive_queue(channel, exchange, "*.critical", "kern.#")
    for key in ("kern.info", "cron.critical", "kern.critical", "cron.info"):
        channel.basic_publish(exchange, key, key.encode())
    assert [key for key, _ in received(channel, kernel, 2)] == ["kern.info", "kern.critical"]
    assert [key for key, _ in received(channel, critical, 3)] == ["kern.info", "cron.critical", "kern.critical"]


def serve_fibonacci(url: str, queue: str, ready: threading.Event, count: int) -> None:
    """Answers this many questions and goes."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, auto_delete=True)
        channel.basic_qos(prefetch_count=1)
        ready.set()
        for method, properties, body in channel.consume(queue, inactivity_timeout=WAIT_SECONDS_MAX):
            one, two = 0, 1
            for _ in range(int(body)):
                one, two = two, one + two
            reply = pika.BasicProperties(correlation_id=properties.correlation_id)
            channel.basic_publish("", properties.reply_to, b"%d" % one, reply)
            channel.basic_ack(method.delivery_tag)
            if method.delivery_tag == count:
                return


@pytest.mark.parametrize("direct", [False, True], ids=["reply queue", "direct reply-to"])
def test_rpc(target: Target, channel: BlockingChannel, direct: bool) -> None:
    queue = unique_name("rpc")
    ready = threading.Event()
    server = threading.Thread(target=serve_fibonacci, args=(target.url, queue, ready, 3))
    server.start()
    assert ready.wait(WAIT_SECONDS_MAX)
    replies: dict[str | None, bytes] = {}

    def keep(_channel: BlockingChannel, _method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        replies[properties.correlation_id] = body

    callback = "amq.rabbitmq.reply-to" if direct else channel.queue_declare("", exclusive=True).method.queue
    channel.basic_consume(callback, keep, auto_ack=True)
    for number in (0, 1, 30):
        question = pika.BasicProperties(reply_to=callback, correlation_id=f"fib {number}")
        channel.basic_publish("", queue, b"%d" % number, question)
    for _ in range(WAIT_SECONDS_MAX * 10):
        if len(replies) == 3:
            break
        channel.connection.process_data_events(time_limit=0.1)
    server.join(WAIT_SECONDS_MAX)
    assert replies == {"fib 0": b"0", "fib 1": b"1", "fib 30": b"832040"}


def test_publisher_confirms_one_by_one(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number, mandatory=True)
    assert [body for _, body in received(channel, queue, 20)] == [b"%d" % number for number in range(20)]


def test_an_unroutable_message_raises(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", unique_name("nobody"), b"lost", mandatory=True)
    assert caught.value.messages[0].method.reply_code == 312


def test_channel_errors_are_told_and_the_connection_lives_on(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(unique_name("gone"), passive=True)
    assert caught.value.reply_code == 404
    connection.channel().queue_declare("", exclusive=True)


def test_connection_errors_are_told(target: Target) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(target.url))
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.channel().exchange_declare(unique_name("exchange"), "nonsense")
    assert caught.value.reply_code == 503


def test_a_cancelled_consumer_is_told(target: Target, channel: BlockingChannel) -> None:
    queue = unique_name("queue")
    channel.queue_declare(queue)
    with pika.BlockingConnection(pika.URLParameters(target.url)) as other:
        consumer = other.channel()
        cancelled = threading.Event()
        consumer.add_on_cancel_callback(lambda _: cancelled.set())
        consumer.basic_consume(queue, lambda *_: None)
        channel.queue_delete(queue)
        for _ in range(WAIT_SECONDS_MAX * 10):
            if cancelled.is_set():
                break
            other.process_data_events(time_limit=0.1)
        assert cancelled.is_set()


def test_transactions(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.tx_select()
    channel.basic_publish("", queue, b"forgotten")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    channel.tx_commit()
    assert received(channel, queue, 1) == [(queue, b"kept")]


def test_properties_survive(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"number": 1, "text": "ä", "list": [1, "two", None], "table": {"nested": True}},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.basic_publish("", queue, b"{}", sent)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert properties == sent
