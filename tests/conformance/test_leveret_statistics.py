"""What is counted, seen from clients: every number after one walk through all of it, and rates while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.conformance import statistics_walk as walk
from tests.conformance.own_broker import running


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    with running(tmp_path, management__sample_interval_s=0.2) as broker:
        yield broker


def connect(broker: Any) -> Any:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def of_node(broker: Any, read: Callable[[Any, Any], Any]) -> Any:
    """Reads on the broker's thread: called with its statistics and its default vhost."""
    return broker.call(lambda node: read(node.statistics, node.broker.vhosts["/"]))


def wait_until(broker: Any, true: Callable[[Any, Any], bool]) -> None:
    deadline = time.monotonic() + 20
    while not of_node(broker, true):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_all_numbers_of_a_walk(broker: Any) -> None:
    connection = connect(broker)
    publisher, consumer = connection.channel(), connection.channel()
    walk.publish_all(publisher)
    walk.consume_all(consumer)
    wait_until(broker, lambda _, vhost: vhost.queues[b"dead"].ready_count() == 1)

    def queue(name: bytes) -> Any:
        return of_node(broker, lambda statistics, vhost: statistics.queue_stats(vhost.queues[name]))

    assert (queue(b"work"), queue(b"open"), queue(b"dead")) == (walk.OF_WORK, walk.OF_OPEN, walk.OF_DEAD)

    def exchange(name: bytes) -> Any:
        return of_node(broker, lambda statistics, vhost: statistics.exchange_stats(vhost.exchanges[name]))

    assert (exchange(b"fan"), exchange(b""), exchange(b"amq.topic")) == (walk.OF_FAN, walk.OF_DEFAULT, {})

    def channels(node: Any) -> list[Any]:
        (one,) = node.broker.connections.values()
        return [node.statistics.channel_stats(channel) for channel in one.counted()[1]]

    assert broker.call(channels) == [walk.OF_PUBLISHER, walk.OF_CONSUMER]
    octets = broker.call(lambda node: node.statistics.connection_stats(next(iter(node.broker.connections.values()))))
    assert set(octets) == {"recv_oct", "recv_cnt", "send_oct", "send_cnt"}
    assert octets["recv_oct"] > octets["recv_cnt"] > 10 and octets["send_oct"] > octets["send_cnt"] > 10
    connection.close()


def test_totals_stay_when_everything_is_closed_and_deleted(broker: Any) -> None:
    connection = connect(broker)
    walk.publish_all(connection.channel())
    walk.consume_all(connection.channel())
    wait_until(broker, lambda _, vhost: vhost.queues[b"dead"].ready_count() == 1)
    before = broker.call(lambda node: node.statistics.totals())
    assert before.message_stats == {**walk.OF_CONSUMER, **walk.OF_PUBLISHER}
    received = before.protocols["amqp091"]
    assert (received.received, received.received_confirm, received.confirmed, received.routed) == (13, 13, 13, 15)
    assert (received.unroutable_dropped, received.unroutable_returned, received.publishers) == (2, 1, 1)
    deliveries = before.deliveries["amqp091", "rabbit_classic_queue"]
    assert (deliveries.delivered, deliveries.acknowledged, deliveries.redelivered) == (17, 8, 2)
    assert before.dead_lettered["rejected", "rabbit_classic_queue", "at_least_once"] == 1
    assert before.sizes["amqp091"].counts[0] == 13
    # Eight were acknowledged, and six taken without acks.
    assert before.times["time_in_queue"].count == 14
    assert before.times["fsync"].bounds[0] == pytest.approx(0.0001)

    channel = connection.channel()
    for name in ("work", "open", "dead"):
        channel.queue_delete(name)
    connection.close()
    wait_until(broker, lambda statistics, _: statistics.totals().connections == 0)
    after = broker.call(lambda node: node.statistics.totals())
    assert (after.message_stats, after.deliveries) == (before.message_stats, before.deliveries)
    assert after.dead_lettered == before.dead_lettered and after.sizes == before.sizes
    assert after.times["time_in_queue"] == before.times["time_in_queue"]
    assert after.protocols["amqp091"].received == 13 and after.protocols["amqp091"].publishers == 0
    assert after.bytes_received > before.bytes_received and after.bytes_sent > before.bytes_sent
    assert after.churn == {
        "connection_created": 1,
        "connection_closed": 1,
        "channel_created": 3,
        "channel_closed": 3,
        "queue_declared": 3,
        "queue_created": 3,
        "queue_deleted": 3,
    }
    assert (after.queues, after.channels, after.consumers, after.messages) == (0, 0, 0, 0)


def test_a_queue_that_goes_with_messages_that_somebody_holds_counts_their_acks_all_the_same(broker: Any) -> None:
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("q")
    for _ in range(3):
        channel.basic_publish("", "q", b"")
    tags = [channel.basic_get("q")[0].delivery_tag for _ in range(3)]
    channel.queue_delete("q")
    channel.basic_ack(tags[1])
    channel.queue_declare("other")

    def acknowledged() -> tuple[int, int]:
        found = broker.call(lambda node: node.statistics.totals().deliveries["amqp091", "rabbit_classic_queue"])
        return found.delivered, found.acknowledged

    assert acknowledged() == (3, 1)
    channel.basic_ack(tags[2], multiple=True)
    channel.queue_declare("other")
    assert acknowledged() == (3, 3)
    connection.close()


def test_rates_rise_with_traffic_and_fall_without(broker: Any) -> None:
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("q")
    assert of_node(broker, lambda statistics, vhost: statistics.details(vhost.queues[b"q"], "publish")) == {"rate": 0.0}
    sent = 0

    def rate(name: str) -> float:
        found: float = of_node(broker, lambda statistics, vhost: statistics.rate(vhost.queues[b"q"], name))
        return found

    deadline = time.monotonic() + 20
    while rate("publish") == 0 and time.monotonic() < deadline:
        channel.basic_publish("", "q", b"x" * 100)
        sent += 1
        connection.process_data_events(0.01)
    assert rate("publish") > 0 and sent > 0
    wait_until(broker, lambda statistics, vhost: statistics.rate(vhost.queues[b"q"], "publish") == 0)

    def sampled(statistics: Any, what: Any, name: str) -> bool:
        """Samples of whole seconds: the newest may be of a moment ago."""
        details = statistics.details(what, name, 60, 1)
        assert [sample["timestamp"] % 1000 for sample in details["samples"]] == [0] * 61
        return bool(details["samples"][0]["sample"] == sent)

    wait_until(broker, lambda statistics, vhost: sampled(statistics, vhost.queues[b"q"], "messages"))
    wait_until(broker, lambda statistics, _: sampled(statistics, statistics.overview, "publish"))
    node = of_node(broker, lambda statistics, _: statistics.details(statistics.node, "mem_used", 60, 1))
    assert node["samples"][0]["sample"] > 1_000_000
    connection.close()
