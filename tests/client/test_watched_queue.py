"""broker.queue(...): looking into queues of a broker in a test, and what a failing assertion says."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from leveret.testing import Broker

CHANNEL = pika.adapters.blocking_connection.BlockingChannel


@pytest.fixture
def channel(broker: Broker) -> Iterator[CHANNEL]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_delete("orders")
    channel.queue_declare("orders")
    yield channel
    connection.close()


def failure(assertion: Any, *arguments: Any, **wanted: Any) -> str:
    with pytest.raises(AssertionError) as failed:
        assertion(*arguments, **wanted, within_s=0.05)
    return str(failed.value)


def test_messages_are_seen_and_stay_as_they_are(broker: Broker, channel: CHANNEL) -> None:
    properties = pika.BasicProperties(message_id="m1", headers={"kind": "tea"}, timestamp=7, reply_to="me")
    channel.basic_publish("amq.direct", "nowhere", b"lost")
    channel.basic_publish("", "orders", b'{"id": 1}', properties)
    channel.basic_publish("", "orders", b"two")
    orders = broker.queue("orders")
    first, second = orders.expect(count=2)
    assert (first.body, first.exchange, first.routing_key, first.redelivered) == (b'{"id": 1}', "", "orders", False)
    assert first.headers == {"kind": "tea"}
    assert first.properties == {"message_id": "m1", "timestamp": 7, "reply_to": "me"}
    assert first.json() == {"id": 1}
    with pytest.raises(ValueError, match="the body is no JSON"):
        second.json()
    assert (orders.count, orders.unacked_count) == (2, 0)
    method, _, _ = channel.basic_get("orders")
    assert method is not None and method.redelivered is False
    assert (orders.count, orders.unacked_count) == (1, 1)
    assert repr(orders) == "<queue 'orders' in vhost '/'>"


def test_it_waits_until_it_is_so(broker: Broker, channel: CHANNEL) -> None:
    def publish() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        for body in (b"one", b"two"):
            time.sleep(0.1)
            connection.channel().basic_publish("", "orders", body)
        connection.close()

    thread = threading.Thread(target=publish)
    thread.start()
    orders = broker.queue("orders")
    orders.assert_published(body="two")
    orders.expect(bodies=["one", b"two"])
    thread.join()


def test_what_a_consumer_took_at_once_was_published_all_the_same(broker: Broker, channel: CHANNEL) -> None:
    channel.basic_publish("", "orders", b"before")
    orders = broker.queue("orders")
    channel.basic_publish("", "orders", b"after", pika.BasicProperties(message_id="m2", headers={"a": 1, "b": 2}))
    for _ in range(2):
        assert channel.basic_get("orders", auto_ack=True)[2]
    orders.assert_empty()
    assert orders.assert_published(body=b"before").routing_key == "orders"
    found = orders.assert_published(body="after", routing_key="orders", message_id="m2", headers={"a": 1})
    assert found.headers == {"a": 1, "b": 2}
    assert [message.body for message in orders.arrivals()] == [b"before", b"after"]


def test_a_queue_may_come_later_and_come_again(broker: Broker, channel: CHANNEL) -> None:
    channel.queue_delete("orders")
    orders = broker.queue("orders")
    assert (orders.count, orders.unacked_count, orders.messages(), orders.arrivals()) == (0, 0, [], [])
    for body in (b"first", b"second"):
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", body)
        orders.assert_published(body=body)
        channel.queue_delete("orders")
    assert [message.body for message in orders.arrivals()] == [b"first", b"second"]
    assert failure(orders.expect, 1) == "there is no queue 'orders' in vhost '/'; expected 1 message within 0.05 s"
    assert "so nothing can have come to it" in failure(orders.assert_published, body=b"third")


def test_a_count_that_is_wrong_shows_what_there_is(broker: Broker, channel: CHANNEL) -> None:
    for number in range(13):
        channel.basic_publish("", "orders", b"%d" % number, pika.BasicProperties(type="tea", headers={"n": number}))
    channel.basic_get("orders")
    said = failure(broker.queue("orders").expect, count=3).splitlines()
    assert said[0] == "queue 'orders' has 12 messages, expected 3 messages within 0.05 s"
    assert said[1] == "  consumers hold 1 more, and have not acknowledged them"
    assert said[2] == "  1. with key 'orders': b'1' headers={'n': 1} type='tea'"
    assert said[-1] == "  and 2 more"


def test_bodies_that_are_wrong_are_compared(broker: Broker, channel: CHANNEL) -> None:
    channel.basic_publish("", "orders", b'{"id": 1, "drink": "tea"}')
    channel.basic_publish("", "orders", b"plain")
    assert failure(broker.queue("orders").expect, bodies=[{"id": 2, "drink": "tea"}, "plein", b"third"]) == (
        "queue 'orders' has 2 messages, expected 3 messages within 0.05 s\n"
        '  1. with key \'orders\': b\'{"id": 1, "drink": "tea"}\'\n'
        "       body:\n"
        "           {\n"
        '             "drink": "tea",\n'
        '         -   "id": 1\n'
        '         +   "id": 2\n'
        "           }\n"
        "  2. with key 'orders': b'plain'\n"
        "       body: b'plain', wanted b'plein'\n"
        "  3. is missing: b'third'"
    )


def test_a_message_that_did_not_come_is_compared_with_the_nearest(broker: Broker, channel: CHANNEL) -> None:
    channel.basic_publish("", "orders", b"x" * 100)
    channel.basic_publish("", "orders", b"one\ntwo", pika.BasicProperties(app_id="shop", headers={"a": 1}))
    orders = broker.queue("orders")
    wanted: dict[str, Any] = {"body": "one\nthree", "headers": {"a": 2, "b": 3}, "app_id": "shop"}
    said = failure(orders.assert_published, **wanted).splitlines()
    assert said[0].endswith("came to queue 'orders' within 0.05 s; 2 messages came")
    assert said[1:] == [
        "  the nearest: with key 'orders': b'one\\ntwo' app_id='shop' headers={'a': 1}",
        "    body:",
        "        one",
        "      - two",
        "      + three",
        "    header 'a': 1, wanted 2",
        "    header 'b': there is none, wanted 3",
        f"  also: with key 'orders': {b'x' * 80!r}... (100 bytes)",
    ]
    assert "routing_key: 'orders', wanted 'other'" in failure(orders.assert_published, routing_key="other")
    assert "wanted JSON: {'id': 1}" in failure(orders.assert_published, body={"id": 1})


def test_what_is_not_empty_is_shown(broker: Broker, channel: CHANNEL) -> None:
    channel.basic_publish("", "orders", b"tea")
    orders = broker.queue("orders")
    assert failure(orders.assert_empty).splitlines() == [
        "queue 'orders' has 1 message, expected to be empty within 0.05 s",
        "  1. with key 'orders': b'tea'",
    ]
    method, _, _ = channel.basic_get("orders")
    assert "consumers hold 1 more" in failure(orders.assert_empty)
    channel.basic_ack(method.delivery_tag)
    orders.assert_empty()


def test_streams_are_looked_into_as_well(broker: Broker, channel: CHANNEL) -> None:
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    log = broker.queue("log")
    for number in range(3):
        channel.basic_publish("", "log", b"%d" % number)
    log.expect(bodies=["0", "1", "2"])
    log.assert_published(body="1")
    assert [message.body for message in log.arrivals()] == [b"0", b"1", b"2"]


def test_wrong_words_are_refused(broker: Broker) -> None:
    orders = broker.queue("orders")
    with pytest.raises(TypeError, match="there is no property massage_id"):
        orders.assert_published(massage_id="m1")
    for wanted in ({}, {"count": 1, "bodies": ["x"]}):
        with pytest.raises(TypeError, match="either a count or bodies"):
            orders.expect(**wanted)  # type: ignore[arg-type]
