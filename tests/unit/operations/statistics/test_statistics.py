"""Rates and samples by the clock: RabbitMQ's numbers, for every client the same, and nothing of what is at rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.core.connection.router import NamesMatcher
from leveret.operations.statistics.series import Series
from tests.unit.operations.statistics.observed import START_MS, Caller, Observed
from tests.unit.queues.dataplane import Workbench, publish_frames


@pytest.fixture
def observed() -> Iterator[Observed]:
    made = Observed()
    yield made
    made.close()


def test_a_rate_is_the_change_over_the_last_interval(observed: Observed) -> None:
    queue, rate = observed.queue(), observed.statistics.rate
    observed.publish(queue, 10)
    assert rate(queue, "publish") == 0.0, "not sampled yet"
    observed.after(5)
    assert (rate(queue, "publish"), rate(queue, "messages"), rate(queue, "ack")) == (2.0, 2.0, 0.0)
    observed.publish(queue, 100)
    observed.clock.ms += 4999
    assert [rate(queue, "publish") for _ in range(3)] == [2.0] * 3, "whoever asks, and how often"
    observed.after(0.001)
    assert rate(queue, "publish") == 20.0
    observed.after(5)
    assert rate(queue, "publish") == 0.0


def test_samples_are_those_of_rabbitmq(observed: Observed) -> None:
    """The walk of queue_q1_rates.json: what came when, and what the API said of it."""
    queue = observed.queue()
    for came in (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 41, 169, 297):
        observed.publish(queue, came)
        observed.after(5)
    found = observed.statistics.details(queue, "publish", 60, 5)
    now = START_MS + 65_000
    assert found == {
        "rate": 59.4,
        "samples": [
            {"sample": sample, "timestamp": now - 5000 * at} for at, sample in enumerate([507, 210, 41, *[0] * 10])
        ],
        "avg_rate": 8.45,
        "avg": 58.30769230769231,
    }
    assert observed.statistics.details(queue, "publish") == {"rate": 59.4}
    for age_s, incr_s in ((60, None), (None, 5), (0, 5), (60, 0), (-60, 5), (60, -5)):
        assert observed.statistics.details(queue, "publish", age_s, incr_s) == {"rate": 59.4}


def test_samples_further_apart_and_further_back(observed: Observed) -> None:
    queue = observed.queue()
    for _ in range(750):
        observed.publish(queue)
        observed.after(5)
    now = START_MS + 3_750_000
    every_15 = observed.statistics.details(queue, "publish", 60, 15)
    assert [sample["sample"] for sample in every_15["samples"]] == [750, 747, 744, 741, 738]
    assert (every_15["avg_rate"], every_15["samples"][0]["timestamp"]) == (0.2, now)
    hour = observed.statistics.details(queue, "publish", 3600, 60)
    assert len(hour["samples"]) == 61
    # The last whole minute was half a minute ago.
    assert hour["samples"][0] == {"sample": 744, "timestamp": now - 30_000}
    assert hour["samples"][-1] == {"sample": 744 - 720, "timestamp": now - 30_000 - 3_600_000}
    assert (hour["rate"], hour["avg_rate"]) == (0.2, 0.2)
    day = observed.statistics.details(queue, "publish", 86400, 1800)
    assert len(day["samples"]) == 3, "of a queue an hour is kept"
    whole = observed.statistics.details(observed.statistics.overview, "messages", 86400, 1800)
    assert len(whole["samples"]) == 49
    assert [sample["sample"] for sample in whole["samples"]] == [720, 360, *[0] * 47]
    close = observed.statistics.details(queue, "publish", 3600, 1)
    assert len(close["samples"]) == 61, "no closer together than they are kept"


def test_a_walk_that_is_late_or_left_out_changes_nothing_but_what_it_did_not_see(observed: Observed) -> None:
    queue = observed.queue()
    observed.publish(queue, 10)
    observed.after(7)
    observed.publish(queue, 5)
    observed.after(18)
    samples = observed.statistics.details(queue, "publish", 30, 5)["samples"]
    assert [(sample["timestamp"] - START_MS) // 1000 for sample in samples] == [25, 20, 15, 10, 5, 0, -5]
    assert [sample["sample"] for sample in samples] == [15, 10, 10, 10, 10, 0, 0]
    assert observed.statistics.rate(queue, "publish") == 1.0


def test_an_object_at_rest_has_no_series_and_remembers_what_it_was(observed: Observed) -> None:
    busy, idle = observed.queue("busy"), observed.queue("idle")
    observed.publish(busy, 3)
    observed.after(5)
    assert isinstance(busy.series, Series) and idle.series is None
    for _ in range(62 * 12):
        observed.after(5)
    assert isinstance(busy.series, Series)
    observed.after(5)
    assert busy.series == (3, 0, 0, 0, 0, 0, 0, 0, 3, 0)
    assert observed.statistics.details(busy, "messages", 60, 5)["avg"] == 3.0
    observed.publish(busy, 2)
    observed.after(5)
    assert observed.statistics.rate(busy, "publish") == 0.4
    samples = observed.statistics.details(busy, "publish", 10, 5)["samples"]
    assert [sample["sample"] for sample in samples] == [5, 3, 3]


def test_what_a_start_has_found_has_not_just_come(observed: Observed) -> None:
    queue = observed.queue()
    observed.publish(queue, 1000)
    observed.statistics._sampler.settle()
    observed.after(5)
    assert observed.statistics.details(queue, "messages", 10, 5)["avg"] == 1000
    observed.publish(queue)
    observed.after(5)
    assert observed.statistics.rate(queue, "messages") == 0.2


def test_a_queue_that_is_deleted_leaves_nothing_behind(observed: Observed) -> None:
    queue = observed.queue()
    observed.publish(queue, 5)
    observed.after(5)
    observed.delete()
    again = observed.queue()
    observed.after(5)
    assert again is not queue and again.series is None
    assert observed.statistics.details(again, "publish", 10, 5)["avg"] == 0.0
    assert observed.statistics.details(queue, "publish")["rate"] == 0.0, "whoever still has it may ask"


def test_channels_connections_and_exchanges_have_series_as_well(observed: Observed) -> None:
    bench = Workbench(office=observed.broker.office)
    observed.broker.connected(1, Caller(bench))
    bench.exchanges[b""] = observed.broker.vhosts["/"].exchanges[b""]
    bench.router.changed()
    channel = bench.open_channel()
    observed.queue()
    octets = publish_frames(1, "", "nowhere", b"x" * 100, mandatory=True) * 10
    observed.after(5)
    bench.feed(octets)
    bench.sent()
    observed.after(5)
    statistics, exchange = observed.statistics, observed.broker.vhosts["/"].exchanges[b""]
    assert isinstance(exchange.matcher, NamesMatcher)
    assert statistics.rate(channel, "publish") == statistics.rate(channel, "return_unroutable") == 2.0
    assert (statistics.rate(exchange, "publish_in"), statistics.rate(exchange, "publish_out")) == (2.0, 0.0)
    caller = observed.broker.connections[1]
    assert statistics.rate(caller, "recv_oct") == len(octets) / 5
    assert statistics.rate(bench.connection, "send_cnt") == 1 / 5
    assert statistics.rate(statistics.overview, "publish") == 2.0
    assert statistics.with_details(exchange, statistics.exchange_stats(exchange)) == {
        "publish_in": 10,
        "publish_in_details": {"rate": 2.0},
        "publish_out": 0,
        "publish_out_details": {"rate": 0.0},
    }
    assert statistics.connection_stats(caller) == {
        "recv_oct": len(octets),
        "recv_cnt": 1,
        "send_oct": bench.write_buffer.bytes_sent,
        "send_cnt": 1,
    }


def test_the_node_is_sampled_at_all_four_distances(observed: Observed) -> None:
    for _ in range(3):
        observed.after(5)
    statistics = observed.statistics
    for name in ("mem_used", "fd_used", "proc_used"):
        details = statistics.details(statistics.node, name, 10, 5)
        assert len(details["samples"]) == 3 and details["samples"][0]["sample"] > 0
    assert statistics.details(statistics.node, "gc_num", 86400, 1800)["samples"]


def test_other_intervals_are_sampled_as_they_come() -> None:
    observed = Observed(interval_s=0.5)
    queue = observed.queue()
    observed.publish(queue, 7)
    observed.after(0.5)
    assert observed.statistics.rate(queue, "publish") == 14.0
    samples = observed.statistics.details(queue, "publish", 5, 1)["samples"]
    assert [sample["timestamp"] for sample in samples] == [START_MS - 1000 * at for at in range(6)]
    observed.close()
