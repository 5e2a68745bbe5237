"""Super streams with pika: made by one call, published to through both kinds of exchange, read partition by partition,
kept over a restart, and gone as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.conformance.own_broker import of_queue, running

KINDS = ("direct", "x-super-stream")
KEYS = [f"customer-{number}" for number in range(40)]
ROUNDS = 5


class Guest:
    """Whoever asks, inside the broker."""

    actor = None

    def __init__(self, node: Any) -> None:
        from leveret.auth.access import Access
        from leveret.auth.identity import CatalogUser

        self.vhost = node.broker.vhosts["/"]
        self.access = Access(CatalogUser(node.broker.catalog, "guest"), "/")
        self.connection_id = 0


def create(broker: Any, name: str, partitions: Any, **named: Any) -> list[str]:
    streams: list[str] = broker.call(lambda node: node.super_streams.create(Guest(node), name, partitions, **named))
    return streams


def delete(broker: Any, name: str) -> list[str]:
    streams: list[str] = broker.call(lambda node: node.super_streams.delete(Guest(node), name))
    return streams


@contextmanager
def channel_to(broker: Any) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        if connection.is_open:
            connection.close()


def read_all(broker: Any, channel: BlockingChannel, stream: str) -> list[str]:
    """Every message of a stream from its first one on."""
    count = of_queue(broker, stream, lambda live: live.next_offset - live.first_offset)
    channel.basic_qos(prefetch_count=1000)
    found = []
    if count:
        for method, _, body in channel.consume(stream, arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
            assert method is not None, f"{stream} has {count} messages, and {len(found)} came"
            channel.basic_ack(method.delivery_tag)
            found.append(body.decode())
            if len(found) == count:
                break
        channel.cancel()
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    with running(tmp_path) as made:
        yield made


def publish_rounds(channel: BlockingChannel, exchange: str, keys: list[str]) -> None:
    for number in range(ROUNDS):
        for key in keys:
            channel.basic_publish(exchange, key, f"{key}:{number}".encode(), mandatory=True)


def test_by_hash_all_of_a_key_is_in_one_partition_and_in_order(broker: Any) -> None:
    streams = create(broker, "orders", 4, kind="x-super-stream")
    with channel_to(broker) as channel:
        publish_rounds(channel, "orders", KEYS)
        seen = {stream: read_all(broker, channel, stream) for stream in streams}
    homes = defaultdict(set)
    for stream, bodies in seen.items():
        assert bodies, "40 keys and one of four partitions has none"
        for body in bodies:
            homes[body.split(":")[0]].add(stream)
    assert sum(map(len, seen.values())) == len(KEYS) * ROUNDS
    for key in KEYS:
        (home,) = homes[key]
        assert home == broker.call(lambda node, key=key: node.super_streams.route("/", "orders", key))[0]
        assert [body for body in seen[home] if body.startswith(f"{key}:")] == [f"{key}:{n}" for n in range(ROUNDS)]


def test_by_key_each_partition_has_its_key(broker: Any) -> None:
    keys = ["emea", "apac", "americas"]
    streams = create(broker, "invoices", keys)
    assert streams == ["invoices-emea", "invoices-apac", "invoices-americas"]
    with channel_to(broker) as channel:
        publish_rounds(channel, "invoices", keys)
        for key, stream in zip(keys, streams, strict=True):
            assert read_all(broker, channel, stream) == [f"{key}:{number}" for number in range(ROUNDS)]
        with pytest.raises(UnroutableError):
            channel.basic_publish("invoices", "africa", b"", mandatory=True)


def test_a_super_stream_can_be_put_together_by_hand(broker: Any) -> None:
    """With nothing but AMQP, as RabbitMQ's users did before there was a call for it."""
    with channel_to(broker) as channel:
        channel.exchange_declare("s", "x-super-stream", durable=True, arguments={"x-super-stream": True})
        for number in (2, 0, 1):
            channel.queue_declare(f"s-{number}", durable=True, arguments={"x-queue-type": "stream"})
            channel.queue_bind(f"s-{number}", "s", str(number), {"x-stream-partition-order": number})
        made = create(broker, "t", 3, kind="x-super-stream")
        assert broker.call(lambda node: node.super_streams.partitions("/", "s")) == ["s-0", "s-1", "s-2"]
        publish_rounds(channel, "s", KEYS)
        publish_rounds(channel, "t", KEYS)
        for number, stream in enumerate(made):
            assert read_all(broker, channel, f"s-{number}") == read_all(broker, channel, stream)


def test_a_binding_without_a_number_is_refused(broker: Any) -> None:
    create(broker, "s", 1, kind="x-super-stream")
    with channel_to(broker) as channel:
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.queue_bind("s-0", "s", "emea")
        assert caught.value.reply_code == 406
        assert caught.value.reply_text == 'PRECONDITION_FAILED - The binding key must be an integer: <<"emea">>'


@pytest.mark.parametrize("kind", KINDS)
def test_deleting_removes_everything(broker: Any, kind: str) -> None:
    create(broker, "s", 3, kind=kind)
    with channel_to(broker) as channel:
        publish_rounds(channel, "s", ["0", "1", "2"])
        assert delete(broker, "s") == ["s-0", "s-1", "s-2"]
        for declare in (
            lambda other: other.exchange_declare("s", passive=True),
            lambda other: other.queue_declare("s-0", passive=True),
            lambda other: other.queue_declare("s-2", passive=True),
        ):
            other = channel.connection.channel()
            with pytest.raises(ChannelClosedByBroker) as caught:
                declare(other)
            assert caught.value.reply_code == 404
        # Another one of the same name begins empty.
        create(broker, "s", 3, kind=kind)
        assert [read_all(broker, channel, f"s-{number}") for number in range(3)] == [[], [], []]


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_keeps_it(tmp_path: Path, kind: str) -> None:
    keys = ["0", "1", "2"]
    with running(tmp_path) as broker, channel_to(broker) as channel:
        create(broker, "gone", 2, kind=kind)
        create(broker, "s", 3, arguments={"x-max-age": "1h"}, kind=kind)
        publish_rounds(channel, "s", keys)
        before = {f"s-{key}": read_all(broker, channel, f"s-{key}") for key in keys}
        delete(broker, "gone")
    with running(tmp_path) as broker, channel_to(broker) as channel:
        (found,) = broker.call(lambda node: node.super_streams.list("/"))
        assert (found.name, found.kind, list(found.partitions)) == ("s", kind, [f"s-{key}" for key in keys])
        assert {stream: read_all(broker, channel, stream) for stream in before} == before
        # Keys go where they went.
        publish_rounds(channel, "s", keys)
        for stream, bodies in before.items():
            assert read_all(broker, channel, stream) == bodies * 2
