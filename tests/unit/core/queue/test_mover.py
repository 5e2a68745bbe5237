"""The broker's own hand in a queue: what it puts back is as it was, nothing counts as delivered, bodies are let go."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.mover import Mover
from leveret.core.queue.office import Office
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import COUNTED, HANDED, FakeDisk
from tests.unit.core.queue.test_plain_queue import publish, totals
from tests.unit.core.takers import Taker, ready_bodies
from tests.unit.queues.dataplane import Workbench, message

ALL = 1 << 60


def new_queue() -> ClassicQueue:
    return ClassicQueue(b"q", None)


def take_all(mover: Mover) -> list[bytes]:
    """Keeps everything the queue has."""
    bodies = []
    while mover.fetch():
        bodies.append(mover.taken.message.body)
        mover.keep()
    return bodies


def delivered(queue: ClassicQueue) -> list[tuple[bytes, bool]]:
    """What a consumer with acks would get, with the redelivered mark."""
    taker = Taker()
    queue.subscribe(taker)
    return [(entry.message.body, entry.seen) for entry in taker.held]


def test_what_was_passed_over_is_where_and_as_it_was() -> None:
    queue = new_queue()
    publish(queue, b"1", b"2", b"3")
    mover = Mover(queue)
    assert take_all(mover) == [b"1", b"2", b"3"]
    assert (queue.ready_count(), queue.unacked_count, queue.unacked_bytes, mover.kept_count()) == (0, 3, 3, 3)
    publish(queue, b"4")
    assert mover.put_back(ALL)
    assert (queue.unacked_count, queue.unacked_bytes, mover.kept_count()) == (0, 0, 0)
    assert totals(queue) == {"published": 4}
    assert delivered(queue) == [(body, False) for body in (b"1", b"2", b"3", b"4")]


def test_a_consumer_without_acks_is_told_that_it_is_the_first() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    queue.publish(message(b"1"))
    mover = Mover(queue)
    take_all(mover)
    mover.put_back(ALL)
    assert bench.get(channel, queue, no_ack=True)
    assert [sent.fields["redelivered"] for sent in bench.sent()] == [False]
    assert totals(queue) == {"published": 1, "delivered": 1, "settled": 1}


def test_what_was_delivered_before_still_says_so() -> None:
    queue, taker = new_queue(), Taker()
    publish(queue, b"1")
    assert queue.get(taker) == 1
    queue.requeue(taker.held.pop())
    mover = Mover(queue)
    take_all(mover)
    mover.put_back(ALL)
    (entry,) = queue.ready_entries()
    assert (entry.seen, entry.delivery_count) == (True, 1)


def test_some_are_settled_and_the_rest_put_back_a_part_at_a_time() -> None:
    queue = new_queue()
    publish(queue, *(b"%d" % number for number in range(6)))
    mover = Mover(queue)
    for number in range(6):
        assert mover.fetch()
        mover.settle() if number % 2 else mover.keep()
    assert (queue.withdrawn_total, totals(queue)) == (3, {"published": 6}), "that is no acknowledgement"
    assert not mover.put_back(2)
    assert (ready_bodies(queue), mover.kept_count(), queue.unacked_count) == ([b"0", b"2"], 1, 1)
    assert mover.put_back(2**63 - 1)
    assert (ready_bodies(queue), mover.kept_count(), queue.unacked_count) == ([b"0", b"2", b"4"], 0, 0)
    assert mover.put_back(2), "nothing is left"


def test_what_is_held_is_settled_or_kept_as_a_whole() -> None:
    queue = new_queue()
    publish(queue, b"1", b"2", b"3", b"4")
    mover = Mover(queue)
    for _ in range(2):
        assert mover.fetch()
        mover.hold()
    assert (mover.held_count(), queue.unacked_count, queue.withdrawn_total) == (2, 2, 0)
    assert mover.settle_held() == 2
    assert (mover.held_count(), queue.unacked_count, queue.withdrawn_total) == (0, 0, 2)
    for _ in range(2):
        assert mover.fetch()
        mover.hold()
    assert mover.keep_held() == 2
    assert (mover.held_count(), mover.kept_count()) == (0, 2)
    assert mover.put_back(ALL)
    assert ready_bodies(queue) == [b"3", b"4"]
    assert totals(queue) == {"published": 4}
    assert mover.settle_held() == mover.keep_held() == 0


def test_what_was_not_meant_goes_back_at_once() -> None:
    queue = new_queue()
    publish(queue, b"1", b"2")
    mover = Mover(queue)
    assert mover.fetch()
    mover.give_back_taken()
    assert mover.taken is None
    assert ready_bodies(queue) == [b"1", b"2"]
    assert mover.fetch()
    mover.put_back(0)
    assert ready_bodies(queue) == [b"1", b"2"]


def test_the_tail_position_is_that_of_the_next_message() -> None:
    for queue in (new_queue(), ClassicQueue(b"q", None, priority_max=5)):
        assert queue.tail_position() == 1
        queue.publish(message(b"low"))
        queue.publish(message(b"high", priority=3))
        assert queue.tail_position() == 3
        assert sorted(entry.position for entry in queue.ready_entries()) == [1, 2]


def test_priorities_are_kept() -> None:
    queue = ClassicQueue(b"q", None, priority_max=5)
    for body, priority in ((b"1", 0), (b"2", 3), (b"3", 0), (b"4", 3)):
        queue.publish(message(body, priority=priority))
    mover = Mover(queue)
    assert take_all(mover) == [b"2", b"4", b"1", b"3"]
    mover.put_back(ALL)
    assert delivered(queue) == [(body, False) for body in (b"2", b"4", b"1", b"3")]


def test_what_is_held_may_expire_once_it_is_back() -> None:
    office = Office(1000)
    queue = ClassicQueue(b"q", None, office=office)
    short = message(b"short", expiration="50")
    short.stamp = 1000
    queue.publish(short)
    mover = Mover(queue)
    take_all(mover)
    office.now = 2000
    mover.put_back(ALL)
    queue.dispatch()
    assert (queue.ready_count(), queue.expired_total) == (0, 1)


def test_a_delivery_limit_does_not_count_it() -> None:
    queue = new_queue()
    queue.set_rules(Rules(delivery_limit=0))
    publish(queue, b"1")
    for _ in range(3):
        mover = Mover(queue)
        assert take_all(mover) == [b"1"]
        mover.put_back(ALL)
    queue.dispatch()
    assert (queue.ready_count(), queue.limited_total) == (1, 0)


def test_what_is_held_when_the_queue_is_deleted_is_gone() -> None:
    disk = FakeDisk()
    queue = disk.queue()
    queue.publish(message(b"1", delivery_mode=2))
    mover = Mover(queue)
    take_all(mover)
    queue.close()
    mover.put_back(ALL)
    assert (queue.unacked_count, queue.ready_count(), disk.live()) == (0, 0, 0)


# ---- on disk


def durable(disk: FakeDisk, *bodies: bytes) -> ClassicQueue:
    queue, office = disk.queue(), Office(journal=disk.journal)
    for body in bodies:
        office.deliver(message(body, delivery_mode=2, headers={"a": body.decode()}), [queue])
    disk.commit()
    return queue


def test_the_log_knows_nothing_of_it() -> None:
    disk = FakeDisk()
    queue = durable(disk, b"1", b"2")
    mover = Mover(queue)
    take_all(mover)
    mover.put_back(ALL)
    disk.commit()
    assert [note for note in disk.notes() if note.kind in (HANDED, COUNTED)] == []


def test_bodies_that_the_disk_has_are_let_go_and_come_back() -> None:
    disk = FakeDisk()
    queue = durable(disk, b"1", b"2")
    shared = message(b"3", delivery_mode=2)
    queue.publish(shared)
    queue.publish(message(b"4"))
    disk.commit()
    mover = Mover(queue)
    assert take_all(mover) == [b"1", b"2", b"3", b"4"]
    assert shared.body == b"3", "another queue may hold it"
    mover.put_back(ALL)
    assert [entry.message.body for entry in queue.ready_entries()] == [None, None, b"3", b"4"]
    assert Mover(queue).fetch() is None
    assert disk.load(queue)
    assert delivered(queue) == [(body, False) for body in (b"1", b"2", b"3", b"4")]


def test_what_waits_on_disk_comes_later() -> None:
    disk = FakeDisk(window_bytes=0)
    queue = durable(disk, b"1", b"2")
    mover = Mover(queue)
    called = []
    assert mover.fetch() is None
    queue.await_load(lambda: called.append(True))
    disk.load(queue)
    assert (called, mover.fetch(), mover.taken.message.body) == ([True], True, b"1")


@pytest.mark.parametrize("keep", [False, True])
def test_compaction_finds_what_it_holds(keep: bool) -> None:
    disk = FakeDisk()
    queue, taker = durable(disk, b"1", b"2"), Taker()
    assert queue.get(taker) == 1
    queue.requeue(taker.held.pop())
    mover = Mover(queue)
    assert mover.fetch()
    first = mover.taken.message
    if keep:
        mover.keep()
    found: dict[Any, Any] = {}
    mover.collect_located(first.location >> 32, found)
    assert found == {(queue.queue_log.id, 1): (first, 1)}
    other: dict[Any, Any] = {}
    mover.collect_located(77, other)
    Mover(new_queue()).collect_located(0, other)
    assert other == {}
