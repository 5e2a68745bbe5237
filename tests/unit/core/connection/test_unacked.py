"""What a channel delivered and has not seen settled: found by tag, taken one by one or up to a tag, restored."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable

import pytest

from leveret.core.connection.unacked import Unacked
from leveret.core.queue.contract import Entry
from tests.unit.queues.dataplane import Workbench, message

UNKNOWN = 2**64 - 1


def delivered(tags: Iterable[int]) -> list[Entry]:
    """Entries that a channel delivered with these tags; tags in between went to a consumer without acks."""
    bench = Workbench()
    channel = bench.open_channel()
    queue = bench.add_queue()
    for tag in tags:
        while channel.last_tag < tag - 1:
            queue.publish(message())
            bench.get(channel, queue, no_ack=True)
        queue.publish(message())
        bench.get(channel, queue)
        bench.sent()
    entries: list[Entry] = channel.unacked.entries()
    return entries


def holding(tags: Iterable[int]) -> Unacked:
    unacked = Unacked()
    for entry in delivered(tags):
        unacked.add(entry)
    return unacked


def held_tags(unacked: Unacked) -> list[int]:
    return [entry.tag for entry in unacked.entries()]


def test_nothing_is_found_where_nothing_is() -> None:
    unacked = Unacked()
    assert unacked.find(1) == -1
    assert unacked.take(1) is None
    assert unacked.take_first(UNKNOWN) is None
    assert (unacked.count, unacked.entries()) == (0, [])


def test_an_entry_is_taken_by_its_tag_once() -> None:
    unacked = holding([1, 2, 3])
    assert unacked.take(2).tag == 2
    assert unacked.take(2) is None
    assert unacked.count == 2
    assert held_tags(unacked) == [1, 3]


@pytest.mark.parametrize("tag", [0, 1, 4, 6, 7, 9, 11, UNKNOWN])
def test_a_tag_in_a_gap_or_beyond_is_not_found(tag: int) -> None:
    unacked = holding([2, 3, 5, 8, 10])
    assert unacked.find(tag) == -1
    assert unacked.take(tag) is None
    assert unacked.count == 5


@pytest.mark.parametrize("tag", [2, 3, 5, 8, 10])
def test_every_tag_is_found_among_gaps(tag: int) -> None:
    assert holding([2, 3, 5, 8, 10]).take(tag).tag == tag


def test_take_first_stops_at_the_tag() -> None:
    unacked = holding([1, 2, 5])
    assert unacked.take_first(4).tag == 1
    assert unacked.take_first(4).tag == 2
    assert unacked.take_first(4) is None
    assert unacked.take_first(5).tag == 5
    assert unacked.count == 0


def test_take_first_steps_over_what_was_taken_singly() -> None:
    unacked = holding([1, 2, 3])
    unacked.take(1)
    assert unacked.take_first(UNKNOWN).tag == 2


@pytest.mark.parametrize(
    ("tag", "expected"), [(0, 2), (1, 2), (2, 3), (3, 5), (5, 8), (7, 8), (8, 10), (10, 0), (UNKNOWN, 0)]
)
def test_the_lowest_tag_above_another(tag: int, expected: int) -> None:
    assert holding([2, 3, 5, 8, 10]).first_above(tag) == expected


def test_a_stretch_of_tags_is_shown_and_stays() -> None:
    unacked = holding([2, 3, 5, 8, 10])
    assert [entry.tag for entry in unacked.between(2, 8)] == [3, 5, 8]
    assert [entry.tag for entry in unacked.between(0, UNKNOWN)] == [2, 3, 5, 8, 10]
    assert unacked.between(5, 7) == unacked.between(10, UNKNOWN) == unacked.between(9, 2) == []
    assert held_tags(unacked) == [2, 3, 5, 8, 10]
    assert Unacked().between(0, UNKNOWN) == []


def test_a_stretch_is_found_among_any_holes() -> None:
    entries = delivered(range(1, 301))
    rolls = random.Random(7)
    unacked = Unacked()
    for entry in entries:
        unacked.add(entry)
    left = list(range(1, 301))
    while left:
        low, high = sorted(rolls.sample(range(302), 2))
        assert [entry.tag for entry in unacked.between(low, high)] == [tag for tag in left if low < tag <= high]
        assert unacked.first_above(low) == next((tag for tag in left if tag > low), 0)
        start = rolls.randrange(len(left))
        for tag in left[start : start + rolls.randrange(1, 20)]:
            unacked.take(tag)
            left.remove(tag)
    assert unacked.between(0, UNKNOWN) == []


def test_restored_entries_stand_in_their_old_places() -> None:
    unacked = holding([1, 2, 3, 4])
    taken = [unacked.take(3), unacked.take(1)]
    unacked.restore(taken)
    assert held_tags(unacked) == [1, 2, 3, 4]
    assert unacked.count == 4
    assert unacked.take(3).tag == 3


def test_takes_in_any_order_find_all_and_only_what_is_held() -> None:
    entries = delivered(range(1, 800, 2))
    rolls = random.Random(5)
    unacked = Unacked()
    for entry in entries:
        unacked.add(entry)
    left = {entry.tag for entry in entries}
    while left:
        tag = rolls.randrange(1, 801)
        taken = unacked.take(tag)
        assert (taken is not None) == (tag in left)
        left.discard(tag)
        assert unacked.count == len(left)
        if rolls.random() < 0.1 and left:
            lowest = unacked.take_first(UNKNOWN)
            assert lowest.tag == min(left)
            left.discard(lowest.tag)


def test_one_message_kept_for_days_costs_nothing_while_many_pass_by() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.consume(channel, queue)
    note = message()
    queue.publish(note)

    def pass_by(count: int) -> None:
        for _ in range(count):
            queue.publish(note)
            channel.settle(channel.last_tag, False, 0, 0)
            bench.sent()

    pass_by(200)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        pass_by(2000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_tags(channel.unacked) == [1]
    # 2000 holes would be 16,000 octets.
    assert after - before < 6_000
