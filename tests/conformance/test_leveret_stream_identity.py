"""What a reader that keeps offsets elsewhere asks for: which streams a super stream consists of, and whether a stream
is the one that it knows or another one of the same name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from leveret.testing import Broker
from tests.conformance.raw_client import RawClient
from tests.http_client import Api

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker({"data_dir": str(tmp_path / "data")})
    made.start()
    yield made
    made.stop()


def connected(broker: Broker, login: str = "guest:guest") -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url.replace("guest:guest", login)))


def declare(broker: Broker, stream: str) -> None:
    with connected(broker) as connection:
        connection.channel().queue_declare(stream, durable=True, arguments=STREAM)


def asked(broker: Broker, queue: str, arguments: dict[str, Any], login: str = "guest:guest") -> tuple[Any, bytes]:
    with connected(broker, login) as connection:
        _, properties, body = next(connection.channel().consume(queue, arguments=arguments, auto_ack=True))
        return properties, body


def identity_of(broker: Broker, stream: str) -> str:
    properties, _ = asked(broker, stream, {"x-stream-query": True})
    identity: str = properties.headers["x-stream-id"]
    return identity


def partitions_of(broker: Broker, name: str, login: str = "guest:guest") -> list[tuple[str, int]]:
    _, body = asked(broker, "", {"x-super-stream-query": name}, login)
    return [(one["stream"], one["partition"]) for one in json.loads(body)]


def refusal(broker: Broker, queue: str, arguments: dict[str, Any]) -> tuple[int, str]:
    with connected(broker) as connection, pytest.raises(ChannelClosedByBroker) as caught:
        next(connection.channel().consume(queue, arguments=arguments, auto_ack=True))
    return caught.value.reply_code, caught.value.reply_text


# ---- identity


def test_a_stream_keeps_its_identity_over_restarts_and_one_made_anew_has_another(broker: Broker) -> None:
    declare(broker, "orders")
    first = identity_of(broker, "orders")
    broker.stop()
    broker.start()
    assert identity_of(broker, "orders") == first
    Api(broker).ask("DELETE", "/queues/%2F/orders")
    declare(broker, "orders")
    assert identity_of(broker, "orders") != first


def test_a_broker_without_its_data_gives_no_identity_again(broker: Broker, tmp_path: Path) -> None:
    declare(broker, "orders")
    first = identity_of(broker, "orders")
    broker.stop()
    shutil.rmtree(tmp_path / "data")
    broker.start()
    declare(broker, "orders")
    again = identity_of(broker, "orders")
    # The id is the same: the moment is what differs.
    assert again.partition("-")[0] == first.partition("-")[0]
    assert again != first


def test_every_way_to_declare_a_stream_gives_it_an_identity(broker: Broker) -> None:
    declare(broker, "by-amqp")
    api = Api(broker)
    api.ask("PUT", "/queues/%2F/by-http", {"durable": True, "arguments": STREAM})
    imported = {"name": "by-import", "vhost": "/", "durable": True, "auto_delete": False, "arguments": STREAM}
    assert api.ask("POST", "/definitions", {"queues": [imported]}).status < 300
    assert api.ask("PUT", "/stream/super-streams/%2F/by-call", {"partitions": 2}).status < 300
    names = ["by-amqp", "by-http", "by-import", "by-call-0", "by-call-1"]
    found = [identity_of(broker, name) for name in names]
    assert len(set(found)) == len(names)
    assert all(int(one.partition("-")[2]) > 1_700_000_000_000 for one in found)


def test_a_consumer_can_ask_for_the_stream_that_it_knows_alone(broker: Broker) -> None:
    declare(broker, "orders")
    first = identity_of(broker, "orders")
    asked(broker, "orders", {"x-stream-query": True, "x-stream-id": first})
    Api(broker).ask("DELETE", "/queues/%2F/orders")
    declare(broker, "orders")
    told = {"x-stream-consumer-name": "lake", "x-stream-store-offset": 5}
    for arguments in ({}, {"x-stream-query": True}, {"x-stream-query": True, **told}):
        code, text = refusal(broker, "orders", {"x-stream-id": first, **arguments})
        assert code == 406
        assert f"'{first}' is asked for: it was deleted and made anew" in text
    properties, _ = asked(broker, "orders", {"x-stream-query": True, "x-stream-consumer-name": "lake"})
    assert "x-stream-stored-offset" not in properties.headers
    assert refusal(broker, "orders", {"x-stream-id": 7})[0] == 406


# ---- partitions


def test_partitions_are_told_with_their_numbers_holes_and_all(broker: Broker) -> None:
    api = Api(broker)
    api.ask("PUT", "/stream/super-streams/%2F/trips", {"partitions": 3})
    assert partitions_of(broker, "trips") == [("trips-0", 0), ("trips-1", 1), ("trips-2", 2)]
    api.ask("DELETE", "/queues/%2F/trips-1")
    assert partitions_of(broker, "trips") == [("trips-0", 0), ("trips-2", 2)]


def test_partitions_named_by_key_and_streams_bound_by_hand(broker: Broker) -> None:
    api = Api(broker)
    api.ask("PUT", "/stream/super-streams/%2F/sales", {"binding-keys": "emea,apac"})
    assert partitions_of(broker, "sales") == [("sales-emea", 0), ("sales-apac", 1)]
    for name in ("late", "plain"):
        declare(broker, name)
    with connected(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("queue")
        # Twice the same stream, a queue, and one without a number.
        for queue, key in (("late", "a"), ("late", "b"), ("queue", "a")):
            channel.queue_bind(queue, "sales", key)
    assert partitions_of(broker, "sales") == [("sales-emea", 0), ("sales-apac", 1), ("late", 2)]


def test_a_reader_without_other_rights_may_ask(broker: Broker) -> None:
    api = Api(broker)
    api.ask("PUT", "/stream/super-streams/%2F/trips", {"partitions": 2})
    api.ask("PUT", "/users/reader", {"password": "secret", "tags": ""})
    api.ask("PUT", "/permissions/%2F/reader", {"configure": "^$", "write": "^$", "read": "^trips-"})
    assert partitions_of(broker, "trips", "reader:secret") == [("trips-0", 0), ("trips-1", 1)]


def test_what_is_no_super_stream(broker: Broker) -> None:
    assert refusal(broker, "", {"x-super-stream-query": "none"}) == (404, "NOT_FOUND - no exchange 'none' in vhost '/'")
    assert partitions_of(broker, "amq.direct") == []
    for name in (7, "", "x" * 256):
        assert refusal(broker, "", {"x-super-stream-query": name})[0] == 406
    declare(broker, "orders")
    assert refusal(broker, "orders", {"x-super-stream-query": "amq.direct"})[0] == 406


def test_the_channel_works_on_after_the_answer(client: RawClient) -> None:
    """The answer's consumer is gone when it comes, and its tag is free."""
    for _ in range(2):
        asking = {"x-super-stream-query": "amq.direct"}
        client.call(1, "basic.consume", queue="", consumer_tag="ask", arguments=asking)
        assert client.expect(1, "basic.deliver").body == b"[]"
        assert client.expect(1, "basic.cancel")["consumer_tag"] == "ask"
    client.expect_quiet()
