"""Priorities: one ready list for each that was used, the highest first, with positions that count through all."""

from __future__ import annotations

import struct

import pytest

from leveret.core.queue.priority_ready import PriorityReady
from leveret.core.queue.ready import ReadyList
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.takers import Taker, ready_bodies
from tests.unit.queues.dataplane import message

SLOT = struct.Struct(">QQIIII")


def slots(*places: tuple[int, int]) -> bytearray:
    """Cold slots at these positions, with these priorities."""
    return bytearray(b"".join(SLOT.pack(position, 1 << 32 | position, 100, 10, 0, level) for position, level in places))


def new_levels(priority_max: int = 10, disk: FakeDisk | None = None) -> tuple[PriorityReady, ReadyList]:
    base = ReadyList() if disk is None else ReadyList(disk.paging_context, disk.queue_log())
    return PriorityReady(base, priority_max, None if disk is None else disk.paging_context, None, False), base


def test_only_the_lists_that_were_used_exist_the_highest_first() -> None:
    levels, base = new_levels()
    assert levels.used == [base]
    high, middle = levels.list_for(9), levels.list_for(4)
    assert levels.used == [high, middle, base]
    assert (levels.list_for(9), levels.list_for(0)) == (high, base)


def test_what_is_above_the_highest_priority_counts_as_that() -> None:
    levels, _ = new_levels(priority_max=3)
    assert levels.list_for(255) is levels.list_for(3)
    assert levels.list_for(2) is not levels.list_for(3)


def test_the_top_is_the_highest_list_that_has_something() -> None:
    levels, base = new_levels()
    levels.list_for(9)
    assert levels.top() is base
    levels.list_for(4).push(message())
    base.push(message())
    assert levels.top() is levels.list_for(4)


def test_counts_are_of_all_lists() -> None:
    levels, base = new_levels()
    base.push(message(b"1"))
    levels.list_for(5).push(message(b"22"))
    levels.list_for(7).push(message(b"333"))
    assert (levels.total_count(), levels.total_bytes()) == (3, 6)


def test_positions_count_through_all_lists() -> None:
    disk, taker = FakeDisk(), Taker()
    queue = disk.queue(priority_max=5)
    for priority in (1, 5, 1, 0):
        queue.publish(message(b"%d" % priority, priority=priority))
    assert ready_bodies(queue) == [b"5", b"1", b"1", b"0"]
    queue.subscribe(taker)
    assert [entry.position for entry in taker.held] == [2, 1, 3, 4]
    queue.publish(message(b"straight", priority=5))
    assert taker.held[-1].position == 5


def test_recovered_slots_go_to_the_lists_of_their_priorities() -> None:
    disk = FakeDisk()
    levels, base = new_levels(3, disk)
    levels.restore(slots((1, 0), (2, 3), (3, 0), (4, 1)), 4, 9)
    counts = [(level.count, level.bytes) for level in levels.used]
    assert counts == [(1, 10), (1, 10), (2, 20)]
    assert levels.list_for(3).find_cold(2, 1 << 32 | 2) == 0
    assert [base.find_cold(position, 1 << 32 | position) for position in (1, 3)] == [0, 1]
    assert base.next_position == 9


def test_recovered_slots_of_too_high_priorities_share_the_highest_list_in_order() -> None:
    disk = FakeDisk()
    levels, _ = new_levels(2, disk)
    levels.restore(slots((1, 9), (2, 2), (3, 9), (4, 255)), 4, 5)
    assert [levels.list_for(2).find_cold(position, 1 << 32 | position) for position in (1, 2, 3, 4)] == [0, 1, 2, 3]
    assert levels.total_count() == 4


def test_only_as_many_slots_as_there_are_are_taken() -> None:
    levels, _ = new_levels(2, FakeDisk())
    levels.restore(slots((1, 0), (2, 1), (3, 1)), 2, 4)
    assert levels.total_count() == 2


def test_after_a_crash_all_lists_know_what_may_have_been_seen() -> None:
    disk, taker = FakeDisk(), Taker()
    queue = disk.queue(priority_max=5)
    for priority in (0, 5):
        queue.publish(persistent(b"%d" % priority, priority=priority))
    disk.commit()
    again = disk.queue(priority_max=5)
    again.restore(disk.book(), True)
    again.subscribe(taker)
    while disk.load(again):
        pass
    assert [(entry.message.body, entry.seen) for entry in taker.held] == [(b"5", True), (b"0", True)]


def test_a_load_is_found_in_the_list_that_waits_for_it() -> None:
    disk = FakeDisk()
    queue = disk.queue(priority_max=5, lazy=True)
    queue.publish(persistent(b"low"))
    disk.commit()
    load = queue.take_load(disk.journal)
    assert queue.is_loading(load) and queue.has_load()
    queue.publish(message(b"high", priority=5))
    assert queue.is_loading(load) and queue.has_load(), "it is still wanted"
    disk.read(load)
    queue.finish_load(load)
    assert not queue.is_loading(load) and not queue.has_load()


@pytest.mark.parametrize("priority_max", [1, 255])
def test_the_highest_priority_is_told(priority_max: int) -> None:
    assert new_levels(priority_max)[0].priority_max == priority_max
