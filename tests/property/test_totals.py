"""Totals of a node only grow, and miss nothing, whatever is opened, closed, declared and deleted in whichever order."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.activity import AMQP091
from leveret.core.connection.consumer import Consumer, Getter
from leveret.operations.statistics.totals import CLASSIC_TYPE, Totals, totals_of
from tests.fuzz.effort import effort
from tests.unit.operations.statistics.observed import Caller, Observed
from tests.unit.queues.dataplane import Workbench, method_frame, publish_frames

NAMES = ("a", "b", "c")
STEPS = (
    *("connect", "disconnect", "open", "close", "declare", "delete"),
    *("publish", "publish", "publish", "mandatory", "get", "get", "take", "consume", "hear", "ack", "reject", "return"),
)


class Walk:
    """Clients of one broker, and what should have been counted."""

    def __init__(self) -> None:
        self.observed = Observed()
        self.broker = self.observed.broker
        self.vhost = self.broker.vhosts["/"]
        self.benches: dict[int, Workbench] = {}
        self.last_id = 0
        self.expected: Counter[str] = Counter()
        for name in NAMES:
            self.observed.queue(name)
        for _ in range(2):
            self.connect()
        for bench in self.benches.values():
            self.open(bench)
            self.open(bench)

    def step(self, step: str, one: int, name: str) -> None:
        if step == "connect" or not self.benches:
            self.connect()
            return
        connection_id = list(self.benches)[one % len(self.benches)]
        bench = self.benches[connection_id]
        channels = list(bench.connection.channels.values())
        if step == "disconnect":
            for channel in channels:
                self.close(bench, channel)
            self.broker.disconnected(connection_id)
            del self.benches[connection_id]
        elif step == "declare" and name.encode() not in self.vhost.queues:
            self.observed.queue(name)
        elif step == "delete" and name.encode() in self.vhost.queues:
            self.observed.delete(name)
        elif step == "open" or not channels:
            self.open(bench)
        else:
            self.on_channel(step, bench, channels[one % len(channels)], name)
        bench.sent()

    def connect(self) -> None:
        bench = Workbench(office=self.broker.office)
        bench.exchanges, bench.queues, bench.router = self.vhost.exchanges, self.vhost.queues, self.vhost.router
        self.last_id += 1
        self.benches[self.last_id] = bench
        self.broker.connected(self.last_id, Caller(bench))

    def open(self, bench: Workbench) -> None:
        channel = bench.open_channel(max(bench.connection.channels, default=0) + 1)
        channel.channel_session = self
        if channel.number % 2:
            channel.publish_path.start_confirming()

    def consumer_lost(self, tag: bytes) -> None:
        """The consumer's queue is gone."""
        for bench in self.benches.values():
            for channel in bench.connection.channels.values():
                consumer = channel.consumers.get(tag)
                if consumer is not None and consumer.queue.deleted:
                    channel.remove_consumer(tag)

    def close(self, bench: Workbench, channel: Any) -> None:
        channel.start_closing()
        channel.requeue_all()
        for tag in list(channel.consumers):
            channel.remove_consumer(tag)
        channel.close()
        bench.connection.drop_channel(channel.number)
        self.broker.retired.add_channel(channel)

    def on_channel(self, step: str, bench: Workbench, channel: Any, name: str) -> None:
        queue = self.vhost.queues.get(name.encode())
        number = channel.number
        if step == "close":
            self.close(bench, channel)
        elif step in ("publish", "mandatory"):
            bench.feed(publish_frames(number, "", name, b"x", mandatory=step == "mandatory"))
            self.expected["publish"] += 1
            self.expected["confirm"] += number % 2
            if queue is None:
                self.expected["return_unroutable" if step == "mandatory" else "drop_unroutable"] += 1
        elif step in ("get", "take") and queue is not None:
            found = Getter(channel, queue, step == "take").fetch()
            self.expected["get_empty" if not found else "get" if step == "get" else "get_no_ack"] += 1
        elif step in ("consume", "hear") and queue is not None:
            tag = f"{id(channel)}-{len(channel.consumers)}-{name}".encode()
            if tag not in channel.consumers:
                consumer = Consumer(channel, queue, tag, step == "hear", False, 0, 2, 0, {})
                channel.add_consumer(consumer)
                queue.subscribe(consumer)
        elif step in ("ack", "reject", "return") and channel.unacked.count:
            held = next(entry for entry in channel.unacked.entries() if entry is not None)
            if step == "ack":
                self.expected["ack"] += 1
                bench.feed(method_frame(number, "basic.ack", delivery_tag=held.tag, multiple=False))
            else:
                back = step == "return"
                bench.feed(method_frame(number, "basic.reject", delivery_tag=held.tag, requeue=back))


def counters(totals: Totals) -> dict[str, int | float]:
    """Everything that may only grow."""
    found: dict[str, int | float] = {**totals.message_stats, **totals.churn, "received": totals.bytes_received}
    found["sent"] = totals.bytes_sent
    for protocol, numbers in totals.protocols.items():
        for name in ("received", "received_confirm", "confirmed", "routed", "unroutable_dropped"):
            found[f"{protocol} {name}"] = getattr(numbers, name)
    for kind, deliveries in totals.deliveries.items():
        for name in ("delivered", "acknowledged", "redelivered", "get_empty"):
            found[f"{kind} {name}"] = getattr(deliveries, name)
    for (reason, _, strategy), count in totals.dead_lettered.items():
        found[f"{reason} {strategy}"] = count
    found["waited"] = totals.times["time_in_queue"].count
    found["sized"] = totals.sizes[AMQP091].count
    return found


@effort(120)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5), st.sampled_from(NAMES)), min_size=20, max_size=80))
def test_totals_only_grow_and_miss_nothing(steps: list[tuple[str, int, str]]) -> None:
    walk = Walk()
    last = counters(totals_of(walk.broker))
    for step in steps:
        walk.step(*step)
        totals = totals_of(walk.broker)
        now = counters(totals)
        assert all(now[name] >= last[name] for name in last), (step, last, now)
        last = now
        stats = totals.message_stats
        for name in (
            "publish",
            "confirm",
            "return_unroutable",
            "drop_unroutable",
            "get",
            "get_no_ack",
            "get_empty",
            "ack",
        ):
            assert stats[name] == walk.expected[name], (step, name)
        # What channels have counted, and what queues have, is the same.
        of_queues = totals.deliveries[AMQP091, CLASSIC_TYPE]
        assert stats["deliver"] == of_queues.delivered_consume_manual_ack
        assert stats["deliver_no_ack"] == of_queues.delivered_consume_auto_ack
        assert (stats["deliver_get"], stats["ack"]) == (of_queues.delivered, of_queues.acknowledged)
        assert (stats["redeliver"], stats["get_empty"]) == (of_queues.redelivered, of_queues.get_empty)
        assert totals.connections == len(walk.benches)
        assert totals.channels == sum(len(bench.connection.channels) for bench in walk.benches.values())
        assert totals.sizes[AMQP091].count == stats["publish"]
        assert totals.times["time_in_queue"].count == stats["ack"] + stats["deliver_no_ack"] + stats["get_no_ack"]
    walk.observed.close()
