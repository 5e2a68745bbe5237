"""Queues made anew from notes: what was placed and not settled, in order, each once, with its deliveries."""

from __future__ import annotations

import struct

from leveret.core.rebuild import QueueBook, Rebuild
from tests.unit.core.fake_disk import COUNTED, HANDED, PLACED, SETTLED

NOTE = struct.Struct(">QQIIII")


def placed(position: int, offset: int = 64, queue: int = 1) -> bytes:
    return NOTE.pack(queue, position, offset, 100, 10, PLACED)


def settled(first: int, count: int, segment: int, queue: int = 1) -> bytes:
    return NOTE.pack(queue, first, count, segment, 0, SETTLED)


def handed(position: int, queue: int = 1) -> bytes:
    return NOTE.pack(queue, position, 0, 0, 0, HANDED)


def counted(position: int, times: int, segment: int = 1, queue: int = 1) -> bytes:
    return NOTE.pack(queue, position, times, segment, 0, COUNTED)


def rebuilt(*notes_of_segments: bytes, first: int = 1) -> tuple[Rebuild, dict[int, set[int]]]:
    """From the notes of segments 1, 2, 3 and so on; and which others the notes of each are about."""
    numbers = range(first, first + len(notes_of_segments))
    rebuild, settles = Rebuild(), {number: set[int]() for number in numbers}
    for number, notes in zip(numbers, notes_of_segments, strict=True):
        rebuild.add_notes(bytearray(notes), 0, len(notes), number, set(numbers), settles[number])
    return rebuild, settles


def found(book: QueueBook, live: dict[int, int] | None = None, superseded: set[int] | None = None) -> dict[int, int]:
    """Position -> deliveries, after the book is finished."""
    book.finish({} if live is None else live, set() if superseded is None else superseded)
    slots = list(struct.iter_unpack(">QQIIII", bytes(book.slots)))
    assert len(slots) == book.count
    assert [slot[0] for slot in slots] == sorted(slot[0] for slot in slots)
    return {slot[0]: slot[4] for slot in slots}


def test_what_was_placed_and_not_settled_is_there() -> None:
    rebuild, _ = rebuilt(placed(1) + placed(2) + placed(3) + settled(2, 1, 1))
    live: dict[int, int] = {}
    assert found(rebuild.books[1], live) == {1: 0, 3: 0}
    assert live == {1: 2}
    assert rebuild.books[1].next_position == 4


def test_a_slot_has_the_place_and_sizes_of_its_record() -> None:
    rebuild, _ = rebuilt(placed(9, offset=640), first=7)
    book = rebuild.books[1]
    book.finish({}, set())
    assert bytes(book.slots) == struct.pack(">QQIIII", 9, 7 << 32 | 640, 100, 10, 0, 0)


def test_queues_are_kept_apart() -> None:
    rebuild, _ = rebuilt(placed(1, queue=5) + placed(1, queue=6) + placed(2, queue=5) + settled(1, 1, 1, queue=6))
    assert {queue: found(book) for queue, book in rebuild.books.items()} == {5: {1: 0, 2: 0}, 6: {}}


def test_segments_may_come_in_any_order() -> None:
    rebuild, _ = rebuilt(placed(4) + placed(5) + settled(1, 1, 2), placed(1) + placed(2))
    assert found(rebuild.books[1]) == {2: 0, 4: 0, 5: 0}


def test_runs_of_settled_ones_may_overlap_and_come_in_any_order() -> None:
    notes = b"".join(placed(position) for position in range(1, 21))
    notes += settled(15, 3, 1) + settled(2, 6, 1) + settled(3, 1, 1) + settled(8, 2, 1) + settled(2, 2, 1)
    rebuild, _ = rebuilt(notes)
    assert list(found(rebuild.books[1])) == [1, *range(10, 15), 18, 19, 20]


def test_deliveries_are_counted() -> None:
    notes = b"".join(placed(position) for position in range(1, 6))
    rebuild, _ = rebuilt(notes + counted(2, 2) + counted(2, 4) + handed(2) + handed(3) + counted(2, 3))
    assert found(rebuild.books[1]) == {1: 1, 2: 4, 3: 1, 4: 0, 5: 0}
    assert rebuild.books[1].handed == 3


def test_copies_of_one_message_are_one_the_newest() -> None:
    """A crash between a compaction and the deletion of what was compacted."""
    rebuild, _ = rebuilt(placed(1) + placed(2), placed(3), placed(1, offset=128) + placed(2, offset=256))
    live: dict[int, int] = {}
    superseded: set[int] = set()
    assert found(rebuild.books[1], live, superseded) == {1: 0, 2: 0, 3: 0}
    assert (live, superseded) == ({2: 1, 3: 2}, {1})


def test_a_settled_message_is_settled_in_all_its_copies() -> None:
    rebuild, _ = rebuilt(placed(1), placed(1), settled(1, 1, 2))
    superseded: set[int] = set()
    assert found(rebuild.books[1], {}, superseded) == {}
    assert superseded == {1}


def test_a_segment_is_told_which_others_its_notes_are_about() -> None:
    _, settles = rebuilt(
        placed(1), placed(2) + settled(1, 1, 1) + settled(2, 1, 2), counted(1, 2, 1) + settled(9, 1, 77)
    )
    # Whether its own is among them is all the same: the caller takes that out.
    assert {number: others - {number} for number, others in settles.items()} == {1: set(), 2: {1}, 3: {1}}


def test_notes_about_a_segment_that_is_gone_settle_nothing() -> None:
    rebuild, settles = rebuilt(placed(3) + settled(3, 1, 99))
    assert found(rebuild.books[1]) == {3: 0}
    assert settles == {1: set()}


def test_no_position_that_the_log_speaks_of_is_given_again() -> None:
    notes = {
        "placed": (placed(7), 8),
        "settled": (settled(3, 5, 1), 8),
        "settled long ago": (settled(3, 5, 99), 8),
        "handed": (handed(7), 8),
        "counted": (counted(7, 2), 8),
    }
    for name, (note, expected) in notes.items():
        rebuild, _ = rebuilt(note)
        assert rebuild.books[1].next_position == expected, name


def test_a_part_of_the_notes_can_be_taken() -> None:
    rebuild, notes = Rebuild(), bytearray(placed(1) + placed(2) + placed(3))
    rebuild.add_notes(notes, 32, 64, 1, {1}, set())
    assert found(rebuild.books[1]) == {2: 0}


def test_a_long_queue_may_be_nearly_drained() -> None:
    rebuild, _ = rebuilt(b"".join(placed(position) for position in range(1, 50_001)) + settled(1, 49_999, 1))
    assert found(rebuild.books[1]) == {50_000: 0}
