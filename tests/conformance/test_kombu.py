"""kombu: the library under Celery, with py-amqp beneath it."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.message import Message
from kombu.simple import SimpleQueue

from tests.conformance.target import Target
from tests.conformance.topology import unique_name

WAIT_SECONDS_MAX = 20


@pytest.fixture
def connection(target: Target) -> Iterator[Connection]:
    with Connection(target.url, transport_options={"confirm_publish": True}) as opened:
        yield opened


def received(connection: Connection, queues: list[Queue], count: int) -> list[tuple[Any, Message]]:
    """Consumes and acknowledges this many messages."""
    messages: list[tuple[Any, Message]] = []

    def keep(body: Any, message: Message) -> None:
        messages.append((body, message))
        message.ack()

    with Consumer(connection.channel(), queues, callbacks=[keep]):
        while len(messages) < count:
            connection.drain_events(timeout=WAIT_SECONDS_MAX)
    return messages


def test_producer_and_consumer(connection: Connection) -> None:
    exchange = Exchange(unique_name("exchange"), "topic", durable=False, auto_delete=True)
    queue = Queue(unique_name("queue"), exchange, routing_key="media.#", exclusive=True)
    queue(connection.channel()).declare()
    producer = Producer(connection.channel(), exchange, serializer="json")
    for name in ("one", "two"):
        producer.publish({"name": name, "size": 1301013}, routing_key=f"media.{name}")
    messages = received(connection, [queue], 2)
    assert [body["name"] for body, _ in messages] == ["one", "two"]
    assert messages[0][1].delivery_info["routing_key"] == "media.one"
    assert messages[0][1].content_type == "application/json"


@pytest.mark.parametrize("compression", [None, "zlib", "bzip2"])
def test_compression(connection: Connection, compression: str | None) -> None:
    queue = Queue(unique_name("queue"), exclusive=True)
    queue(connection.channel()).declare()
    body = {"text": "ä" * 1000, "list": [1, None, {"deep": True}]}
    Producer(connection.channel()).publish(body, routing_key=queue.name, compression=compression)
    ((content, message),) = received(connection, [queue], 1)
    assert content == body
    assert ("compression" in message.headers) is (compression is not None)


def test_declare_on_publish_and_retry_policy(connection: Connection) -> None:
    exchange = Exchange(unique_name("exchange"), "direct", durable=False, auto_delete=True)
    queue = Queue(unique_name("queue"), exchange, routing_key="key", exclusive=True)
    producer = connection.Producer()
    policy = {"interval_start": 0, "interval_step": 0.1, "max_retries": 3}
    producer.publish("hello", exchange=exchange, routing_key="key", declare=[queue], retry=True, retry_policy=policy)
    assert [body for body, _ in received(connection, [queue], 1)] == ["hello"]


def remove_simple(connection: Connection, name: str) -> None:
    """A simple queue has an exchange of its own name."""
    channel = connection.channel()
    Queue(name)(channel).delete()
    Exchange(name)(channel).delete()


def test_simple_queue(connection: Connection) -> None:
    name = unique_name("simple")
    with connection.SimpleQueue(name) as queue:
        assert isinstance(queue, SimpleQueue)
        for number in range(3):
            queue.put({"number": number})
        assert len(queue) == 3
        message = queue.get(block=True, timeout=WAIT_SECONDS_MAX)
        assert message.payload == {"number": 0}
        message.requeue()
        # The others were delivered already and wait in the client.
        for number in (1, 2, 0):
            message = queue.get(block=True, timeout=WAIT_SECONDS_MAX)
            assert message.payload == {"number": number}
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get(block=False)
    remove_simple(connection, name)


def test_simple_queue_clear(connection: Connection) -> None:
    name = unique_name("buffer")
    with connection.SimpleBuffer(name) as queue:
        for number in range(3):
            queue.put(number)
        assert queue.clear() == 3
    remove_simple(connection, name)


def test_fanout_and_prefetch(connection: Connection) -> None:
    exchange = Exchange(unique_name("exchange"), "fanout", durable=False, auto_delete=True)
    queues = [Queue(unique_name("queue"), exchange, exclusive=True) for _ in range(2)]
    for queue in queues:
        queue(connection.channel()).declare()
    Producer(connection.channel(), exchange).publish("news")
    assert [body for body, _ in received(connection, queues, 2)] == ["news", "news"]


def test_prefetch_count_holds_messages_back(connection: Connection) -> None:
    queue = Queue(unique_name("queue"), exclusive=True)
    queue(connection.channel()).declare()
    producer = Producer(connection.channel())
    for number in range(3):
        producer.publish(number, routing_key=queue.name)
    seen: list[Message] = []
    keep = [lambda _, message: seen.append(message)]
    with Consumer(connection.channel(), [queue], callbacks=keep, prefetch_count=1):
        connection.drain_events(timeout=WAIT_SECONDS_MAX)
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.3)
        assert len(seen) == 1
        seen[0].ack()
        connection.drain_events(timeout=WAIT_SECONDS_MAX)
        assert len(seen) == 2


def test_dynamic_queue_operations(connection: Connection) -> None:
    exchange = Exchange(unique_name("exchange"), "direct", durable=False, auto_delete=True)
    queue = Queue(unique_name("queue"), exchange, routing_key="one", exclusive=True)(connection.channel())
    queue.declare()
    queue.bind_to(exchange.name, "two")
    producer = Producer(connection.channel(), exchange)
    for key in ("one", "two"):
        producer.publish(key, routing_key=key)
    assert queue.get().payload == "one"
    assert queue.purge() == 1
    queue.unbind_from(exchange, "two")
    producer.publish("two", routing_key="two")
    assert queue.get() is None
    assert queue.delete() == 0


def test_heartbeats_of_both_sides(target: Target) -> None:
    with Connection(target.url, heartbeat=2) as connection:
        connection.connect()
        assert connection.get_heartbeat_interval() == 2
        for _ in range(6):
            connection.heartbeat_check(rate=4)
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.5)
        assert connection.connected
