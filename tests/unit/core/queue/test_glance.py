"""Looking at what is ready: in the order of delivery, wherever it is, and without a trace."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.glance import Reading, glance, glance_after, glance_at, returned_count
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.queue.test_plain_queue import totals
from tests.unit.core.takers import Taker
from tests.unit.queues.dataplane import message


def read(disk: FakeDisk, queue: ClassicQueue, glances: list[Any]) -> list[bytes | None]:
    """The bodies, those on disk included."""
    calls: list[bool] = []
    reading = Reading(queue, [seen for seen in glances if seen.body is None], lambda: calls.append(True))
    while not reading.is_over():
        before = len(calls)
        load = reading.take_load(disk.journal)
        if load is None:
            break
        disk.read(load)
        assert not reading.is_loading(load)
        reading.finish_load(load)
        assert len(calls) == before + 1
    return [seen.body for seen in glances]


def mixed(disk: FakeDisk, **features: Any) -> ClassicQueue:
    """A queue with messages that came back, in memory, on disk, and transient ones beside those on disk."""
    queue = disk.queue(**features)
    for number in range(12):
        body = b"%d" % number * 40
        queue.publish(message(body) if number % 4 == 3 else persistent(body))
    disk.commit()
    taker = Taker(3)
    queue.subscribe(taker)
    queue.unsubscribe(taker)
    for entry in reversed(taker.held):
        queue.requeue(entry)
    return queue


@pytest.mark.parametrize("offset", range(13))
@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_every_window_of_a_queue_is_seen_as_it_would_be_delivered(offset: int, count: int) -> None:
    disk = FakeDisk(window_bytes=200)
    queue = mixed(disk)
    before = (totals(queue), queue.ready_count(), queue.unacked_count, queue.ready_bytes())
    expected = [b"%d" % number * 40 for number in range(12)][offset : offset + count]
    glances = glance(queue, offset, count)
    assert [seen.body_size for seen in glances] == [len(body) for body in expected]
    assert [seen.position for seen in glances] == list(range(1, 13))[offset : offset + count]
    assert [seen.seen for seen in glances] == [number < 3 for number in range(12)][offset : offset + count]
    assert read(disk, queue, glances) == expected
    assert (totals(queue), queue.ready_count(), queue.unacked_count, queue.ready_bytes()) == before


def test_what_is_being_loaded_is_seen_as_well() -> None:
    disk = FakeDisk(window_bytes=200)
    queue = disk.queue(lazy=True)
    for number in range(5):
        queue.publish(persistent(b"%d" % number))
    disk.commit()
    load = queue.take_load(disk.journal)
    assert load is not None
    queue.publish(persistent(b"5"))
    disk.commit()
    assert read(disk, queue, glance(queue, 0, 10)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    disk.read(load)
    queue.finish_load(load)
    assert [seen.body for seen in glance(queue, 1, 3)] == [b"1", b"2", b"3"]


def test_the_highest_priority_is_seen_first() -> None:
    queue = ClassicQueue(b"q", None, priority_max=5)
    for number in range(6):
        queue.publish(message(b"%d" % number, priority=number % 3))
    assert [seen.body for seen in glance(queue, 0, 10)] == [b"2", b"5", b"1", b"4", b"0", b"3"]
    assert [seen.body for seen in glance(queue, 3, 2)] == [b"4", b"0"]


def test_many_that_came_back_are_in_order() -> None:
    queue = ClassicQueue(b"q", None)
    for number in range(100):
        queue.publish(message(b"%d" % number))
    taker = Taker(90)
    queue.subscribe(taker)
    queue.unsubscribe(taker)
    for entry in taker.held[::2] + taker.held[1::2]:
        queue.requeue(entry)
    assert returned_count(queue) == 90
    assert [seen.body for seen in glance(queue, 85, 10)] == [b"%d" % number for number in range(85, 95)]
    assert [seen.delivery_count for seen in glance(queue, 88, 4)] == [1, 1, 0, 0]


def test_what_is_not_written_yet_is_waited_for() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    queue.publish(persistent(b"1"))
    calls: list[bool] = []
    reading = Reading(queue, glance(queue, 0, 1), lambda: calls.append(True))
    assert reading.take_load(disk.journal) is None
    assert (reading.lacks_next(), reading.is_over(), calls) == (True, False, [])
    disk.commit()
    load = reading.take_load(disk.journal)
    assert load is not None
    disk.read(load)
    reading.finish_load(load)
    assert (reading.lacks_next(), reading.is_over(), calls) == (False, True, [True])


def test_what_has_gone_with_its_segment_is_left_out() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    queue.publish(persistent(b"1"))
    disk.commit()
    seen = glance(queue, 0, 1)
    queue.purge()
    disk.segments.clear()
    calls: list[bool] = []
    reading = Reading(queue, seen, lambda: calls.append(True))
    assert reading.take_load(disk.journal) is None
    assert (reading.is_over(), calls, seen[0].body) == (True, [True], None)


def test_a_record_that_was_moved_is_found_where_it_is_now() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    first, second = persistent(b"first"), persistent(b"second")
    queue.publish(first)
    queue.publish(second)
    disk.commit()
    seen = glance(queue, 0, 1)
    # As if compaction had put a copy of the first one there.
    queue.move_stored(1, first.location, second.location, second.length)
    assert read(disk, queue, seen) == [b"second"]


def test_an_entry_that_somebody_holds() -> None:
    queue = ClassicQueue(b"q", None)
    queue.publish(message(b"1"))
    taker = Taker()
    queue.subscribe(taker)
    seen = glance_at(taker.held[0])
    assert (seen.body, seen.position, seen.seen, seen.delivery_count) == (b"1", 1, False, 0)
    seen.drop()
    assert (seen.body, seen.message, taker.held[0].message.body) == (None, None, b"1")


@pytest.mark.parametrize("position", range(14))
@pytest.mark.parametrize("count", [1, 2, 5, 20])
@pytest.mark.parametrize("features", [{}, {"lazy": True}])
def test_every_page_behind_a_position(position: int, count: int, features: dict[str, Any]) -> None:
    disk = FakeDisk(window_bytes=200)
    queue = mixed(disk, **features)
    before = (totals(queue), queue.ready_count(), queue.unacked_count, queue.ready_bytes())
    glances = glance_after(queue, position, count)
    assert [seen.position for seen in glances] == list(range(1, 13))[position : position + count]
    assert read(disk, queue, glances) == [b"%d" % number * 40 for number in range(12)][position : position + count]
    assert (totals(queue), queue.ready_count(), queue.unacked_count, queue.ready_bytes()) == before


def test_pages_behind_a_position_while_some_are_loaded() -> None:
    disk = FakeDisk(window_bytes=200)
    queue = disk.queue(lazy=True)
    for number in range(5):
        queue.publish(persistent(b"%d" % number))
    disk.commit()
    load = queue.take_load(disk.journal)
    assert load is not None
    queue.publish(persistent(b"5"))
    disk.commit()
    assert read(disk, queue, glance_after(queue, 2, 3)) == [b"2", b"3", b"4"]
    disk.read(load)
    queue.finish_load(load)
    assert read(disk, queue, glance_after(queue, 2, 3)) == [b"2", b"3", b"4"]


def test_pages_behind_a_position_pass_over_priorities() -> None:
    queue = ClassicQueue(b"q", None, priority_max=5)
    for number in range(6):
        queue.publish(message(b"%d" % number, priority=number % 3))
    assert [seen.body for seen in glance_after(queue, 1, 3)] == [b"1", b"2", b"3"]
    assert [seen.body for seen in glance_after(queue, 4, 9)] == [b"4", b"5"]
