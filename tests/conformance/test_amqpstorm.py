"""RabbitMQ's tutorials with AMQPStorm."""

import threading
from collections.abc import Iterator

import amqpstorm
import pytest
from amqpstorm.message import Message

from tests.conformance.target import Target
from tests.conformance.topology import unique_name, wait_for

WAIT_SECONDS_MAX = 20


@pytest.fixture
def connection(target: Target) -> Iterator[amqpstorm.Connection]:
    with amqpstorm.Connection(target.host, "guest", "guest", port=target.port, timeout=WAIT_SECONDS_MAX) as opened:
        yield opened


@pytest.fixture
def channel(connection: amqpstorm.Connection) -> Iterator[amqpstorm.Channel]:
    with connection.channel() as opened:
        yield opened


def new_queue(channel: amqpstorm.Channel) -> str:
    queue: str = channel.queue.declare(exclusive=True)["queue"]
    return queue


def received(channel: amqpstorm.Channel, queue: str, count: int) -> list[Message]:
    """Consumes and acknowledges this many messages."""
    messages: list[Message] = []

    def keep(message: Message) -> None:
        messages.append(message)
        message.ack()

    tag = channel.basic.consume(keep, queue)

    def complete() -> bool:
        channel.process_data_events()
        return len(messages) >= count

    wait_for(f"{count} messages", complete)
    channel.basic.cancel(tag)
    return messages


def test_hello_world(channel: amqpstorm.Channel) -> None:
    queue = new_queue(channel)
    Message.create(channel, "Hello World!", {"content_type": "text/plain"}).publish(queue)
    (message,) = received(channel, queue, 1)
    assert (message.body, message.properties["content_type"]) == ("Hello World!", "text/plain")


def test_work_queue_with_prefetch(connection: amqpstorm.Connection, channel: amqpstorm.Channel) -> None:
    queue = unique_name("tasks")
    channel.queue.declare(queue, durable=True)
    try:
        for number in range(4):
            channel.basic.publish(str(number), queue, properties={"delivery_mode": 2})
        with connection.channel() as dying:
            dying.basic.qos(1)
            assert dying.basic.get(queue).body == "0"
        channel.basic.qos(1)
        messages = received(channel, queue, 4)
        assert [message.body for message in messages] == ["0", "1", "2", "3"]
        assert [message.redelivered for message in messages] == [True, False, False, False]
    finally:
        channel.queue.delete(queue)


@pytest.mark.parametrize(
    ("kind", "binding", "expected"),
    [
        ("fanout", "", ["a.b", "a.c", "b"]),
        ("direct", "a.b", ["a.b"]),
        ("topic", "a.*", ["a.b", "a.c"]),
    ],
)
def test_exchanges(channel: amqpstorm.Channel, kind: str, binding: str, expected: list[str]) -> None:
    exchange = unique_name("exchange")
    channel.exchange.declare(exchange, kind, auto_delete=True)
    queue = new_queue(channel)
    channel.queue.bind(queue, exchange, binding)
    for key in ("a.b", "a.c", "b"):
        channel.basic.publish(key, key, exchange)
    assert [message.body for message in received(channel, queue, len(expected))] == expected


def test_rpc(target: Target, channel: amqpstorm.Channel) -> None:
    queue = unique_name("rpc")
    channel.queue.declare(queue, auto_delete=True)

    def serve() -> None:
        connection = amqpstorm.Connection(target.host, "guest", "guest", port=target.port)
        with connection, connection.channel() as server:
            (question,) = received(server, queue, 1)
            reply = Message.create(server, question.body.upper(), {"correlation_id": question.correlation_id})
            reply.publish(question.reply_to)

    server = threading.Thread(target=serve)
    server.start()
    callback = new_queue(channel)
    question = Message.create(channel, "question")
    question.reply_to = callback
    question.publish(queue)
    (answer,) = received(channel, callback, 1)
    server.join(WAIT_SECONDS_MAX)
    assert (answer.body, answer.correlation_id) == ("QUESTION", question.correlation_id)


def test_publisher_confirms(channel: amqpstorm.Channel) -> None:
    queue = new_queue(channel)
    channel.confirm_deliveries()
    for number in range(20):
        assert channel.basic.publish(str(number), queue, mandatory=True) is True
    assert channel.queue.declare(queue, passive=True)["message_count"] == 20


def test_an_unroutable_message_raises(channel: amqpstorm.Channel) -> None:
    channel.confirm_deliveries()
    with pytest.raises(amqpstorm.AMQPMessageError) as caught:
        channel.basic.publish("lost", unique_name("nobody"), mandatory=True)
    assert caught.value.error_code == 312


def test_errors_are_told(channel: amqpstorm.Channel) -> None:
    with pytest.raises(amqpstorm.AMQPChannelError) as caught:
        channel.queue.declare(unique_name("gone"), passive=True)
    assert caught.value.error_code == 404


def test_reject_and_get(channel: amqpstorm.Channel) -> None:
    queue = new_queue(channel)
    channel.basic.publish("again", queue)
    wait_for("the message", lambda: channel.queue.declare(queue, passive=True)["message_count"] == 1)
    first = channel.basic.get(queue)
    first.reject(requeue=True)
    second = channel.basic.get(queue)
    assert (second.body, second.redelivered) == ("again", True)
    second.ack()
    assert channel.basic.get(queue) is None


def test_transactions(channel: amqpstorm.Channel) -> None:
    queue = new_queue(channel)
    channel.tx.select()
    channel.basic.publish("forgotten", queue)
    channel.tx.rollback()
    channel.basic.publish("kept", queue)
    channel.tx.commit()
    assert [message.body for message in received(channel, queue, 1)] == ["kept"]
