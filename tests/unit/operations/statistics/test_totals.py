"""The node's totals: sums over what is there and what is gone, and where each number comes from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.broker.activity import AMQP091, STREAM, Activity, Retired
from leveret.catalog import commands
from leveret.core.observe.histogram import Histogram
from leveret.core.queue.rules import Rules
from leveret.operations.statistics.totals import CARRIED, CLASSIC_TYPE, DISABLED, STREAM_TYPE, spread, totals_of
from leveret.wire.stream_codes import Code
from tests.unit.core.stream.test_chunk import filled
from tests.unit.core.stream_client_bench import publish_frame, simple
from tests.unit.core.takers import Taker
from tests.unit.operations.statistics.observed import Caller, Observed
from tests.unit.queues.dataplane import Workbench, message, publish_frames


@pytest.fixture
def observed() -> Iterator[Observed]:
    made = Observed()
    yield made
    made.close()


def test_a_node_that_did_nothing(observed: Observed) -> None:
    totals = totals_of(observed.broker)
    assert not any(totals.message_stats.values()) and not any(totals.stream_errors.values())
    assert (totals.connections, totals.channels, totals.queues, totals.messages) == (0, 0, 0, 0)
    assert totals.exchanges == len(observed.broker.vhosts["/"].exchanges) > 0
    assert set(totals.deliveries) >= {(AMQP091, CLASSIC_TYPE), (AMQP091, STREAM_TYPE), (STREAM, STREAM_TYPE)}


def test_a_queue_that_goes_is_counted_on(observed: Observed) -> None:
    queue, taker = observed.queue(), Taker()
    observed.publish(queue, 3)
    queue.get(taker)
    queue.get(taker)
    queue.settle(taker.held.pop())

    def seen() -> tuple[int, int, int]:
        found = totals_of(observed.broker).deliveries[AMQP091, CLASSIC_TYPE]
        return found.delivered, found.delivered_get_manual_ack, found.acknowledged

    assert seen() == (2, 2, 1)
    observed.delete()
    assert seen() == (2, 2, 1)
    # Somebody still has one of it.
    queue.settle(taker.held.pop())
    assert seen() == (2, 2, 2)
    assert seen() == (2, 2, 2)
    assert observed.broker.retired._leaving == []
    churn = totals_of(observed.broker).churn
    assert (churn["queue_created"], churn["queue_deleted"]) == (1, 1)


def test_queues_of_a_vhost_that_goes_are_counted_on(observed: Observed) -> None:
    queue = observed.queue()
    observed.publish(queue, 3)
    taker = Taker()
    queue.get(taker)
    observed.broker.apply(commands.DeleteVhost("/"))
    totals = totals_of(observed.broker)
    assert (totals.deliveries[AMQP091, CLASSIC_TYPE].delivered, totals.queues, totals.messages) == (1, 0, 0)
    assert totals.churn["queue_deleted"] == 1


def test_connections_are_added_up_and_stay_when_they_go(observed: Observed) -> None:
    bench = Workbench(office=observed.broker.office)
    bench.add_queue()
    channel = bench.open_channel()
    channel.publish_path.start_confirming()
    observed.broker.connected(1, Caller(bench))
    octets = publish_frames(1, "", "q", b"x" * 200) + publish_frames(1, "", "nowhere")
    bench.feed(octets)
    before = totals_of(observed.broker)
    assert (before.connections, before.channels, before.bytes_received) == (1, 1, len(octets))
    amqp = before.protocols[AMQP091]
    assert (amqp.received, amqp.received_confirm, amqp.confirmed, amqp.routed) == (2, 2, 2, 1)
    assert (amqp.unroutable_dropped, amqp.unroutable_returned, amqp.publishers, amqp.consumers) == (1, 0, 1, 0)
    assert before.sizes[AMQP091].counts[:2] == (1, 1)
    # As a session does it: channels first, then the connection.
    bench.connection.drop_channel(1)
    observed.broker.retired.add_channel(channel)
    observed.broker.disconnected(1)
    after = totals_of(observed.broker)
    assert after.message_stats == before.message_stats and after.bytes_received == before.bytes_received
    assert (after.connections, after.channels, after.protocols[AMQP091].publishers) == (0, 0, 0)


def test_publishers_of_the_stream_protocol() -> None:
    bench = filled(b"1", b"2")
    publisher = next(iter(bench.connection.publishers.values()))
    publisher.refusal = Code.ACCESS_REFUSED
    bench.feed(publish_frame(1, simple(3, b"3")))
    live, gone = Activity(), Retired()
    live.add_publisher(publisher)
    gone.add_publisher(publisher)
    gone.add_queue(bench.stream)
    live.merge(gone)
    assert (live.stream_publishers, live.stream_received, live.stream_confirmed) == (1, 4, 4)
    assert live.stream_errors == {Code.ACCESS_REFUSED: 2}
    assert gone.queues()[1].publish == 2


def test_errors_have_rabbitmqs_names(observed: Observed) -> None:
    observed.broker.churn.stream_errors[Code.VIRTUAL_HOST_ACCESS_FAILURE] += 3
    errors = totals_of(observed.broker).stream_errors
    assert errors["vhost_access_failure"] == 3
    known = {"access_refused", "frame_too_large", "publisher_does_not_exist", "sasl_authentication_failure_loopback"}
    assert known < set(errors) and "ok" not in errors


def test_what_leaves_a_queue_is_counted_by_its_reason_and_whether_it_went_anywhere(observed: Observed) -> None:
    queue, taker = observed.queue(), Taker()
    for buries in (False, True):
        if buries:
            queue.set_rules(Rules(dead_letter_exchange=b"amq.fanout"))
        observed.publish(queue, 2)
        for _ in range(2):
            queue.get(taker)
            queue.discard(taker.held.pop())
    observed.broker.dead_letter_worker.run()
    found = totals_of(observed.broker).dead_lettered
    assert found["rejected", CLASSIC_TYPE, DISABLED] == 2
    assert found["rejected", CLASSIC_TYPE, CARRIED] == 2, "though nobody was there to take them"
    assert sum(found.values()) == 4


def test_what_left_at_once_waited_for_no_time(observed: Observed) -> None:
    queue, taker = observed.queue(), Taker()
    one = message(b"")
    one.stamp = observed.broker.office.now - 300
    for each in (one, message(b"")):
        queue.publish(each)
        queue.get(taker)
    taker.held[1].message.stamp = observed.broker.office.now
    for entry in taker.held:
        queue.settle(entry)
    waited = totals_of(observed.broker).times["time_in_queue"]
    assert (waited.count, waited.counts[0], waited.sum) == (2, 1, 0.3)


def test_a_histogram_in_other_units() -> None:
    histogram = Histogram((10, 1000))
    histogram.note(500)
    found = spread(histogram, 0.001, 3)
    assert (found.bounds, found.counts, found.sum, found.count) == ((0.01, 1.0), (3, 1, 0), 0.5, 4)
