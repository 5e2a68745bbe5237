"""The cold list: slots of messages on disk, in order, over any number of chunks."""

from __future__ import annotations

import random
import struct

import pytest

from leveret.core.log.cold import ColdList

LENGTH, BODY_SIZE, DELIVERIES = 16, 20, 24
CHUNK_SLOTS = 4096
Slot = tuple[int, int, int, int, int]


def slot_at(cold: ColdList, index: int) -> Slot:
    return (
        cold.position_at(index),
        cold.location_at(index),
        cold.number_at(index, LENGTH),
        cold.number_at(index, BODY_SIZE),
        cold.number_at(index, DELIVERIES),
    )


def filled(count: int) -> ColdList:
    cold = ColdList()
    for number in range(1, count + 1):
        cold.push(number * 2, number << 32 | 64, 100 + number, number, number % 3)
    return cold


def test_an_empty_list_holds_nothing() -> None:
    cold = ColdList()
    assert (cold.count, cold.find(1)) == (0, -1)


@pytest.mark.parametrize("count", [1, 8, 9, 100, CHUNK_SLOTS, CHUNK_SLOTS + 1, 3 * CHUNK_SLOTS + 5])
def test_slots_are_kept_as_they_came(count: int) -> None:
    cold = filled(count)
    assert cold.count == count
    for number in (1, count // 2 or 1, count):
        assert slot_at(cold, number - 1) == (number * 2, number << 32 | 64, 100 + number, number, number % 3)


def test_fields_hold_the_largest_numbers() -> None:
    cold = ColdList()
    largest = ((1 << 64) - 1, (1 << 64) - 1, (1 << 32) - 1, (1 << 32) - 1, (1 << 32) - 1)
    cold.push(*largest)
    assert slot_at(cold, 0) == largest


def test_the_oldest_go_first() -> None:
    cold = filled(2 * CHUNK_SLOTS)
    for number in range(1, 2 * CHUNK_SLOTS):
        assert cold.position_at(0) == number * 2
        cold.drop_first()
    assert (cold.count, cold.position_at(0)) == (1, 4 * CHUNK_SLOTS)
    cold.drop_first()
    assert cold.count == 0
    cold.push(1, 2, 3, 4, 5)
    assert slot_at(cold, 0) == (1, 2, 3, 4, 5)


def test_something_can_be_put_before_all_others() -> None:
    cold = filled(3)
    cold.push_first(1, 77, 8, 9)
    assert slot_at(cold, 0) == (1, 77, 8, 9, 0)
    assert [cold.position_at(i) for i in range(4)] == [1, 2, 4, 6]
    cold.push(8, 1, 1, 1, 1)
    assert [cold.position_at(i) for i in range(5)] == [1, 2, 4, 6, 8]


def test_a_position_is_found_where_it_stands() -> None:
    cold = filled(CHUNK_SLOTS + 100)
    for _ in range(50):
        cold.drop_first()
    assert cold.find(102) == 0
    assert cold.find(2 * (CHUNK_SLOTS + 100)) == CHUNK_SLOTS + 49
    assert [cold.find(position) for position in (0, 100, 103, 9001, 2 * (CHUNK_SLOTS + 100) + 2)] == [-1] * 5


def test_a_record_that_moved_is_elsewhere_with_another_length() -> None:
    cold = filled(3)
    cold.move(1, 9 << 32 | 640, 48)
    assert slot_at(cold, 1) == (4, 9 << 32 | 640, 48, 2, 2)
    assert slot_at(cold, 0)[1:3] == (1 << 32 | 64, 101)


def test_a_slot_is_copied_as_documented() -> None:
    cold = filled(2)
    copy = bytearray(80)
    cold.copy_slot(1, copy, 32)
    assert struct.unpack(">QQIIII", copy[32:64]) == (4, 2 << 32 | 64, 102, 2, 2, 0)
    assert copy[:32] == bytes(32) and copy[64:] == bytes(16)


def test_a_cleared_list_starts_anew() -> None:
    cold = filled(CHUNK_SLOTS + 1)
    cold.clear()
    assert cold.count == 0
    cold.push_first(5, 6, 7, 8)
    assert slot_at(cold, 0) == (5, 6, 7, 8, 0)


def test_any_coming_and_going_is_that_of_a_deque() -> None:
    rolls, cold = random.Random(9), ColdList()
    first = last = 1 << 40
    for step in range(20_000):
        roll = rolls.random()
        growing = step // 4000 % 2 == 0
        if roll < (0.6 if growing else 0.3):
            cold.push(last, step, 0, 0, 0)
            last += 1
        elif roll < (0.8 if growing else 0.4):
            first -= 1
            cold.push_first(first, step, 0, 0)
        elif cold.count:
            cold.drop_first()
            first += 1
        assert cold.count == last - first
        if cold.count:
            assert (cold.position_at(0), cold.position_at(cold.count - 1)) == (first, last - 1)
            middle = rolls.randrange(cold.count)
            assert cold.find(first + middle) == middle
