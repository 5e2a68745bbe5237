"""Who is late: never early, at most one interval too late, each by its own timeout, and at no cost that grows."""

from __future__ import annotations

import pytest

from leveret.core.connection.ack_watch import AckWatch, effective_timeout, own_timeout
from leveret.core.connection.channel import Channel
from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.queues.dataplane import Workbench, message, new_consumer

SETTLED = 0


class Stage:
    """A channel with a watch, in time that moves when told."""

    def __init__(self, default_ms: int = 0) -> None:
        self.bench = Workbench()
        self.channel: Channel = self.bench.open_channel()
        self.queue: ClassicQueue = self.bench.add_queue()
        self.watch = AckWatch(self.channel, default_ms)
        self.now = 1000.0
        # (moment, tag) of everything that was late
        self.late: list[tuple[float, int]] = []

    def consume(self, timeout_ms: int = -1, tag: str = "c", queue: ClassicQueue | None = None) -> Consumer:
        consumer = new_consumer(self.channel, queue or self.queue, tag)
        consumer.ack_timeout_ms = timeout_ms
        self.channel.add_consumer(consumer)
        self.watch.add(consumer)
        consumer.queue.subscribe(consumer)
        return consumer

    def deliver(self, count: int = 1, queue: ClassicQueue | None = None) -> int:
        for _ in range(count):
            (queue or self.queue).publish(message())
        self.bench.sent()
        return int(self.channel.last_tag)

    def ack(self, tag: int) -> None:
        self.channel.settle(tag, False, SETTLED, 0)

    def pass_ms(self, ms: float) -> int:
        """Looks whenever the watch asks for it and gives the number of looks; late entries are taken out."""
        looks, end = 0, self.now + ms
        while (wait := self.watch.wait_ms(self.now)) is not None and self.now + wait <= end:
            assert wait >= 1
            self.now += wait
            looks += 1
            late = self.watch.look(self.now)
            self.late += [(self.now, entry.tag) for entry in late]
            for entry in late:
                self.channel.unacked.take(entry.tag)
        self.now = end
        return looks

    def late_tags(self) -> list[int]:
        return [tag for _, tag in self.late]


# ---- whose timeout


@pytest.mark.parametrize(
    ("own", "queue", "node", "expected"),
    [(-1, -1, 0, 0), (-1, -1, 9, 9), (-1, 5, 9, 5), (-1, 0, 9, 0), (3, 5, 9, 3), (0, 5, 9, 0), (3, -1, 0, 3)],
)
def test_the_consumer_goes_over_its_queue_and_the_queue_over_the_node(
    own: int, queue: int, node: int, expected: int
) -> None:
    stage = Stage()
    stage.queue.ack_timeout_ms = queue
    assert effective_timeout(own, stage.queue, node) == expected


def test_a_consumer_has_a_timeout_of_its_own_and_a_get_has_none() -> None:
    stage = Stage()
    assert own_timeout(stage.consume(7)) == 7
    assert own_timeout(new_consumer(stage.channel, stage.queue)) == -1
    assert own_timeout(Getter(stage.channel, stage.queue, False)) == -1


def test_without_a_timeout_there_is_no_next_look() -> None:
    stage = Stage()
    stage.consume()
    stage.consume(0, "never")
    stage.deliver(2)
    assert stage.watch.wait_ms(stage.now) is None
    assert stage.watch.look(stage.now) == []


# ---- when


@pytest.mark.parametrize("timeout_ms", [20, 200, 1000, 60_000])
@pytest.mark.parametrize("phase", [0.0, 0.3, 0.99])
def test_late_is_never_early_and_at_most_one_interval_late(timeout_ms: int, phase: float) -> None:
    stage = Stage()
    stage.consume(timeout_ms)
    interval = min(max(timeout_ms / 8, 10), 1000)
    stage.pass_ms(interval * (3 + phase))
    tag, delivered = stage.deliver(), stage.now
    stage.pass_ms(timeout_ms * 1.3 + interval)
    ((moment, late),) = stage.late
    assert late == tag
    assert timeout_ms <= moment - delivered <= timeout_ms + interval + 2


@pytest.mark.parametrize("timeout_ms", [1, 80, 3_600_000])
def test_looks_are_10_ms_to_a_second_apart_while_nothing_is_held(timeout_ms: int) -> None:
    stage = Stage()
    stage.consume(timeout_ms)
    wait = stage.watch.wait_ms(stage.now)
    assert wait == min(max(timeout_ms / 8, 10), 1000)
    assert stage.pass_ms(10 * wait) == 10


def test_a_busy_channel_is_looked_at_twice_an_interval_at_most() -> None:
    stage = Stage()
    stage.consume(800)
    looks = 0
    for _ in range(1000):
        stage.deliver()
        looks += stage.pass_ms(10)
    assert looks <= 2 * 10_000 / 100 + 2
    assert stage.late_tags() == list(range(1, stage.late_tags()[-1] + 1))
    assert 900 <= len(stage.late) < 930


def test_what_is_acknowledged_in_time_is_not_late() -> None:
    stage = Stage()
    stage.consume(200)
    stage.deliver(3)
    stage.pass_ms(190)
    stage.ack(2)
    stage.pass_ms(1000)
    assert stage.late_tags() == [1, 3]


def test_a_shorter_timeout_that_comes_later_is_met_in_time() -> None:
    stage = Stage()
    stage.consume(60_000)
    stage.deliver()
    stage.pass_ms(100)
    other = stage.bench.add_queue("other")
    stage.consume(40, "quick", other)
    stage.deliver(queue=other)
    stage.pass_ms(60)
    assert stage.late_tags() == [2]


# ---- whose messages


def test_each_is_late_by_its_own_timeout() -> None:
    stage = Stage()
    queues = [stage.bench.add_queue(name) for name in ("a", "b", "c")]
    for queue, timeout_ms in zip(queues, (400, 100, 0), strict=True):
        stage.consume(timeout_ms, queue.name.decode(), queue)
    for _ in range(2):
        for queue in queues:
            stage.deliver(queue=queue)
    stage.pass_ms(300)
    assert stage.late_tags() == [2, 5]
    stage.pass_ms(300)
    assert sorted(stage.late_tags()) == [1, 2, 4, 5]
    stage.pass_ms(10_000)
    assert [entry.tag for entry in stage.channel.unacked.entries()] == [3, 6]


def test_a_get_has_its_queues_timeout_or_the_nodes() -> None:
    stage = Stage(default_ms=100)
    other = stage.bench.add_queue("other")
    other.ack_timeout_ms = 1000
    for queue in (stage.queue, other):
        queue.publish(message())
        getter = Getter(stage.channel, queue, False)
        assert getter.fetch()
        stage.watch.add(getter)
    stage.pass_ms(200)
    assert stage.late_tags() == [1]
    stage.pass_ms(1000)
    assert stage.late_tags() == [1, 2]


def test_what_a_cancelled_consumer_holds_is_late_all_the_same() -> None:
    stage = Stage()
    stage.consume(100)
    stage.deliver()
    stage.channel.remove_consumer(b"c")
    stage.pass_ms(200)
    assert stage.late_tags() == [1]


def test_looking_ends_when_nobody_has_a_timeout_or_holds_anything() -> None:
    stage = Stage()
    stage.consume(100)
    tag = stage.deliver()
    stage.channel.remove_consumer(b"c")
    stage.pass_ms(50)
    assert stage.watch.wait_ms(stage.now) is not None
    stage.ack(tag)
    stage.pass_ms(50)
    assert stage.watch.wait_ms(stage.now) is None
    assert (stage.watch.marks, stage.watch.sources) == ([], {})


def test_a_consumer_without_acks_needs_no_look() -> None:
    stage = Stage(default_ms=100)
    stage.channel.add_consumer(new_consumer(stage.channel, stage.queue, no_ack=True))
    stage.watch.rebuild()
    assert stage.watch.wait_ms(stage.now) is None


# ---- timeouts that change


def test_a_queues_new_timeout_counts_for_what_was_delivered_before() -> None:
    stage = Stage()
    other = stage.bench.add_queue("other")
    stage.consume(-1, "slow", other)
    stage.consume(80)
    stage.deliver(queue=other)
    stage.deliver()
    stage.pass_ms(500)
    assert stage.late_tags() == [2]
    stage.deliver()
    other.ack_timeout_ms = 300
    stage.pass_ms(40)
    assert stage.late_tags() == [2, 1]


def test_a_queues_timeout_may_be_taken_away() -> None:
    stage = Stage()
    stage.queue.ack_timeout_ms = 100
    stage.consume()
    stage.deliver()
    stage.pass_ms(50)
    stage.queue.ack_timeout_ms = 0
    stage.pass_ms(1000)
    assert stage.late == []
    assert stage.watch.wait_ms(stage.now) is None


def test_a_rebuild_finds_everybody_who_holds_something() -> None:
    """As after a policy: nobody had a timeout until now."""
    stage = Stage()
    stage.queue.publish(message())
    assert stage.bench.get(stage.channel, stage.queue)
    stage.deliver()
    stage.queue.ack_timeout_ms = 100
    stage.watch.rebuild()
    stage.pass_ms(90)
    assert stage.late == []
    stage.pass_ms(50)
    assert stage.late_tags() == [1]


def test_what_a_rollback_brings_back_is_looked_through_again() -> None:
    stage = Stage()
    stage.consume(100)
    stage.channel.start_transaction()
    stage.deliver(2)
    stage.ack(1)
    stage.pass_ms(500)
    assert stage.late_tags() == [2]
    stage.channel.rollback()
    stage.watch.rebuild()
    stage.pass_ms(200)
    assert stage.late_tags() == [2, 1]


# ---- cost


def test_one_message_held_for_hours_needs_few_marks() -> None:
    stage = Stage()
    stage.consume(3_600_000)
    stage.deliver()
    for _ in range(600):
        stage.ack(stage.deliver())
        stage.pass_ms(1000)
    assert len(stage.watch.marks) <= 66
    stage.pass_ms(3_010_000)
    assert stage.late_tags() == [1]


def test_marks_older_than_every_timeout_are_dropped_however_much_is_held() -> None:
    stage = Stage()
    patient = stage.bench.add_queue("patient")
    stage.consume(0, "patient", patient)
    stage.consume(80)
    for _ in range(1000):
        stage.deliver(queue=patient)
        stage.pass_ms(10)
    assert len(stage.watch.marks) <= 12
    assert stage.channel.unacked.count == 1000


def test_gets_from_ever_new_queues_are_not_all_remembered() -> None:
    stage = Stage(default_ms=1_000_000)
    stage.consume()
    stage.deliver()
    for number in range(500):
        queue = stage.bench.add_queue(f"q{number}")
        queue.publish(message())
        getter = Getter(stage.channel, queue, False)
        getter.fetch()
        stage.watch.add(getter)
        stage.ack(stage.channel.last_tag)
    assert len(stage.watch.sources) <= 70
