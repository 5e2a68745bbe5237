"""Sorted slots: any order in, increasing positions out, over any number of chunks."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from leveret.core.log.sorted_slots import SortedSlots

CHUNK_SLOTS = 512
SLOT_BYTES = 32
LARGEST = (1 << 64) - 1
# Where the sign would change if positions were taken as signed.
MIDDLE = 1 << 63
Slot = tuple[int, int, int, int, int]


def unpacked(octets: bytearray) -> list[Slot]:
    slots = list(struct.iter_unpack(">QQIIII", octets))
    assert all(spare == 0 for *_, spare in slots)
    return [(position, location, length, size, count) for position, location, length, size, count, _ in slots]


def positions(slots: SortedSlots) -> list[int]:
    return [slot[0] for slot in unpacked(slots.slots_from(0, slots.count))]


def slot_for(position: int) -> Slot:
    return (position, position ^ LARGEST, position % 1000 + 64, position % 777, position % 3)


def filled(keys: list[int]) -> SortedSlots:
    slots = SortedSlots()
    for key in keys:
        assert slots.add(*slot_for(key)) is True
    return slots


def drained(slots: SortedSlots) -> list[Slot]:
    got = bytearray()
    while slots.count:
        first = slots.first_position()
        one = bytearray(SLOT_BYTES)
        slots.copy_first(one, 0)
        assert unpacked(one)[0][0] == first
        got += one
        slots.drop_first()
    return unpacked(got)


def shuffled(count: int, seed: int = 4) -> list[int]:
    """Positions around the middle, every second one, in any order."""
    return random.Random(seed).sample(range(MIDDLE - count, MIDDLE + count, 2), count)


def orders(count: int) -> dict[str, list[int]]:
    up = [MIDDLE + 2 * number for number in range(count)]
    streams = [(codec << 40) + number for number in range(count // 3) for codec in (1, 2, LARGEST >> 40)]
    return {"up": up, "down": up[::-1], "any": shuffled(count), "three streams": streams}


def test_nothing_is_in_a_new_one() -> None:
    slots = SortedSlots()
    assert (slots.count, slots.bytes_total, slots.find(0), slots.slots_from(0, 10)) == (0, 0, -1, bytearray())
    assert (slots.location_of(5), slots.length_of(5), slots.body_size_of(5)) == (0, 0, 0)
    assert (slots.move(5, 1, 1), slots.remove(5)) == (False, False)


def test_taking_the_first_of_none_is_refused() -> None:
    slots = SortedSlots()
    with pytest.raises(AssertionError):
        slots.first_position()
    with pytest.raises(AssertionError):
        slots.copy_first(bytearray(SLOT_BYTES), 0)
    with pytest.raises(AssertionError):
        slots.drop_first()


@pytest.mark.parametrize("order", ["up", "down", "any", "three streams"])
@pytest.mark.parametrize("count", [1, 3, CHUNK_SLOTS, CHUNK_SLOTS + 1, 5 * CHUNK_SLOTS + 7])
def test_whatever_the_order_they_leave_sorted(order: str, count: int) -> None:
    keys = orders(count)[order]
    slots = filled(keys)
    assert slots.count == len(keys)
    assert slots.bytes_total == sum(key % 777 for key in keys)
    assert drained(slots) == [slot_for(key) for key in sorted(keys)]
    assert (slots.count, slots.bytes_total) == (0, 0)


def test_positions_are_compared_without_a_sign() -> None:
    keys = [MIDDLE, 1, LARGEST, 0, MIDDLE - 1, MIDDLE + 1]
    slots = filled(keys)
    assert positions(slots) == [0, 1, MIDDLE - 1, MIDDLE, MIDDLE + 1, LARGEST]
    assert all(slots.find(key) >= 0 for key in keys)


def test_a_full_chunk_takes_one_more_anywhere() -> None:
    full = list(range(MIDDLE, MIDDLE + 2 * CHUNK_SLOTS, 2))
    for place in range(CHUNK_SLOTS + 1):
        key = MIDDLE + 2 * place - 1
        slots = filled([*full, key])
        assert slots.find(key) >= 0
        assert positions(slots) == sorted([*full, key])


def test_fields_hold_the_largest_numbers() -> None:
    slots, u32 = SortedSlots(), (1 << 32) - 1
    assert slots.add(LARGEST, LARGEST, u32, u32, u32)
    assert unpacked(slots.slots_from(LARGEST, 1)) == [(LARGEST, LARGEST, u32, u32, u32)]
    assert (slots.location_of(LARGEST), slots.length_of(LARGEST), slots.body_size_of(LARGEST)) == (LARGEST, u32, u32)
    assert slots.bytes_total == u32


@pytest.mark.parametrize("field", range(5))
def test_a_number_that_does_not_fit_changes_nothing(field: int) -> None:
    keys = shuffled(CHUNK_SLOTS)
    slots = filled(keys)
    numbers = [MIDDLE + 1, 1, 1, 1, 1]
    numbers[field] = 1 << 64
    with pytest.raises(OverflowError):
        slots.add(*numbers)
    assert (positions(slots), slots.bytes_total) == (sorted(keys), sum(key % 777 for key in keys))


def test_a_position_is_taken_once() -> None:
    keys = shuffled(3 * CHUNK_SLOTS)
    slots = filled(keys)
    before, total = slots.slots_from(0, slots.count), slots.bytes_total
    for key in (keys[0], min(keys), max(keys), *sorted(keys)[:: CHUNK_SLOTS // 2]):
        assert slots.add(key, 1, 2, 3, 4) is False
    assert (slots.count, slots.bytes_total) == (len(keys), total)
    assert slots.slots_from(0, slots.count) == before
    assert slots.remove(keys[0])
    assert slots.add(keys[0], 1, 2, 3, 4) is True
    assert unpacked(slots.slots_from(keys[0], 1)) == [(keys[0], 1, 2, 3, 4)]


def test_each_is_found_and_nothing_else() -> None:
    keys = shuffled(2000)
    slots = filled(keys)
    for key in keys:
        assert slots.find(key) >= 0
        assert slots.find(key + 1) == -1
        assert (slots.location_of(key), slots.length_of(key), slots.body_size_of(key)) == slot_for(key)[1:4]
        assert (slots.location_of(key + 1), slots.length_of(key + 1), slots.body_size_of(key + 1)) == (0, 0, 0)
    assert len({slots.find(key) for key in keys}) == len(keys)


def test_a_record_that_moved_is_elsewhere_with_another_length() -> None:
    keys = shuffled(2000)
    slots = filled(keys)
    total = slots.bytes_total
    assert slots.move(keys[7], 9 << 32 | 640, 48) is True
    assert slots.move(keys[7] + 1, 1, 1) is False
    expected = {key: slot_for(key) for key in sorted(keys)}
    expected[keys[7]] = (keys[7], 9 << 32 | 640, 48, *slot_for(keys[7])[3:])
    assert unpacked(slots.slots_from(0, 2000)) == list(expected.values())
    assert slots.bytes_total == total


def test_removing_all_in_any_order_leaves_nothing() -> None:
    keys = shuffled(3000)
    slots, left = filled(keys), set(keys)
    for step, key in enumerate(shuffled(3000, seed=5)):
        assert slots.remove(key) is True
        assert slots.remove(key) is False
        left.discard(key)
        if step % 250 == 0:
            assert positions(slots) == sorted(left)
            assert slots.bytes_total == sum(key % 777 for key in left)
    assert (slots.count, slots.bytes_total) == (0, 0)
    assert slots.add(*slot_for(9))
    assert positions(slots) == [9]


def test_the_first_is_copied_where_it_is_wanted() -> None:
    slots = filled([4, 2])
    copy = bytearray(80)
    slots.copy_first(copy, 32)
    assert unpacked(copy[32:64]) == [slot_for(2)]
    assert copy[:32] == bytes(32) and copy[64:] == bytes(16)


@pytest.mark.parametrize("to_at", [-1, 1, 32])
def test_a_copy_must_fit(to_at: int) -> None:
    copy = bytearray(SLOT_BYTES)
    with pytest.raises(AssertionError):
        filled([4]).copy_first(copy, to_at)
    assert copy == bytes(SLOT_BYTES)


def test_pages_follow_each_other_over_chunks() -> None:
    keys = shuffled(3000)
    slots, pages, start = filled(keys), [], 0
    while page := unpacked(slots.slots_from(start, 700)):
        pages.append(len(page))
        assert page[0][0] >= start
        assert page == [slot_for(key) for key in sorted(keys) if key >= start][:700]
        start = page[-1][0] + 1
    assert pages == [700, 700, 700, 700, 200]


@pytest.mark.parametrize(("start", "limit", "expected"), [
    (0, 0, []), (0, -1, []), (0, 2, [2, 4]), (3, 1, [4]), (4, 99, [4, 6]), (6, (1 << 63) - 1, [6]), (7, 5, []),
    (LARGEST, 5, []),
])  # fmt: skip
def test_a_page_starts_and_ends_where_asked(start: int, limit: int, expected: list[int]) -> None:
    assert [slot[0] for slot in unpacked(filled([6, 2, 4]).slots_from(start, limit))] == expected


def test_a_page_is_a_copy() -> None:
    slots = filled([2, 4])
    page = slots.slots_from(0, 2)
    page[:] = bytes(len(page))
    assert positions(slots) == [2, 4]


def test_cleared_it_starts_anew() -> None:
    slots = filled(shuffled(2000))
    slots.clear()
    assert (slots.count, slots.bytes_total, slots.slots_from(0, 5)) == (0, 0, bytearray())
    assert slots.add(*slot_for(MIDDLE))
    assert slots.add(*slot_for(5))
    assert positions(slots) == [5, MIDDLE]


def test_what_falls_due_makes_room_for_earlier_ones() -> None:
    """The first chunk is taken from and added to at the same end."""
    keys = shuffled(1500)
    slots = filled(keys)
    left = sorted(keys)
    for step in range(2000):
        assert slots.first_position() == left.pop(0)
        slots.drop_first()
        earlier = left[0] - 1 if step % 2 else left[-1] + 1
        slots.add(*slot_for(earlier))
        left = sorted({*left, earlier})
    assert positions(slots) == left


def traced_bytes(slots: SortedSlots) -> float:
    """Octets of memory a slot, since tracing began."""
    return tracemalloc.get_traced_memory()[0] / slots.count


@pytest.mark.parametrize("order", ["up", "down", "any", "three streams"])
def test_memory_stays_near_the_slots(order: str) -> None:
    keys = orders(12_000)[order]
    gone = random.Random(6).sample(keys, len(keys) * 9 // 10)
    tracemalloc.start()
    try:
        slots = filled(keys)
        assert traced_bytes(slots) < 1.25 * SLOT_BYTES
        for number, key in enumerate(gone):
            slots.remove(key)
            if number % 1000 == 0:
                assert traced_bytes(slots) < 2.1 * SLOT_BYTES
        assert traced_bytes(slots) < 2.1 * SLOT_BYTES
        while slots.count > 1:
            slots.drop_first()
        assert tracemalloc.get_traced_memory()[0] < 2 * CHUNK_SLOTS * SLOT_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(SortedSlots(), "chunks"), reason="compiled, its chunks cannot be seen")
@pytest.mark.parametrize(("order", "slots_a_chunk"), [("up", 510), ("three streams", 256), ("any", 256), ("down", 250)])
def test_chunks_are_well_filled(order: str, slots_a_chunk: int) -> None:
    slots = filled(orders(20 * CHUNK_SLOTS)[order])
    assert slots.count / len(slots.chunks) >= slots_a_chunk


@pytest.mark.skipif(not hasattr(SortedSlots(), "chunks"), reason="compiled, its chunks cannot be seen")
def test_chunks_that_became_small_are_joined() -> None:
    keys = shuffled(20 * CHUNK_SLOTS)
    slots = filled(keys)
    for key in keys[CHUNK_SLOTS:]:
        slots.remove(key)
    assert len(slots.chunks) <= 6
    assert positions(slots) == sorted(keys[:CHUNK_SLOTS])
