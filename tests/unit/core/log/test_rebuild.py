"""Queues made anew from notes: what was placed and not settled, in order, each once, with its deliveries."""

from __future__ import annotations

import struct

from leveret.core.log.rebuild import QueueBook, Rebuild
from tests.unit.core.fake_disk import COUNTED, HANDED, KEY, PLACED, SETTLED

DELAYED = 1 << 63
NOTE = struct.Struct(">QQIIII")


def placed(position: int, offset: int = 64, queue: int = 1, priority: int = 0, expires: bool = False) -> bytes:
    return NOTE.pack(queue, position, offset, 100, 10, PLACED | priority << 8 | expires << 16)


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


# ---- what goes along with a message


def test_a_slot_has_the_priority_of_its_message() -> None:
    rebuild, _ = rebuilt(placed(1, priority=255) + placed(2) + placed(3, priority=7, expires=True))
    book = rebuild.books[1]
    book.finish({}, set())
    assert [slot[5] for slot in struct.iter_unpack(">QQIIII", bytes(book.slots))] == [255, 0, 7]


def test_priorities_stay_with_their_messages_when_they_are_sorted_and_thinned_out() -> None:
    rebuild, _ = rebuilt(placed(3, priority=3) + placed(1, priority=1) + settled(1, 1, 1) + placed(2, priority=2))
    book = rebuild.books[1]
    book.finish({}, set())
    assert [(slot[0], slot[5]) for slot in struct.iter_unpack(">QQIIII", bytes(book.slots))] == [(2, 2), (3, 3)]


def test_one_message_with_an_expiration_is_enough_to_say_so() -> None:
    rebuild, _ = rebuilt(placed(1) + placed(2, expires=True) + placed(3) + placed(1, queue=2))
    assert (rebuild.books[1].expiring, rebuild.books[2].expiring) == (True, False)


def test_keys_are_collected_with_the_segment_they_are_noted_in() -> None:
    digests = [bytes([number]) * 16 for number in (1, 2)]
    notes = [struct.pack(">Q16sII", 9, digest, 100 + at, KEY | at << 8) for at, digest in enumerate(digests)]
    rebuild, settles = rebuilt(*notes, first=5)
    assert rebuild.books[9].keys == [(100, digests[0], 5, 0), (101, digests[1], 6, 1)]
    assert settles == {5: set(), 6: set()}
    assert rebuild.books[9].next_position == 1


# ---- delayed messages


def test_delayed_messages_stand_behind_all_others_and_do_not_move_their_positions() -> None:
    rebuild, _ = rebuilt(placed(DELAYED + 5) + placed(1) + placed(DELAYED + 4) + placed(2))
    book = rebuild.books[1]
    assert list(found(book)) == [1, 2, DELAYED + 4, DELAYED + 5]
    assert book.next_position == 3


def test_a_delayed_message_that_was_settled_is_gone_and_moves_no_position() -> None:
    rebuild, _ = rebuilt(placed(1) + placed(DELAYED + 5) + settled(DELAYED + 5, 1, 1))
    book = rebuild.books[1]
    assert (list(found(book)), book.next_position) == ([1], 2)


def test_no_number_that_tells_delayed_messages_apart_is_given_again() -> None:
    moment = 1 << 22
    for notes, expected in (
        (placed(1) + settled(1, 1, 1), 0),
        (placed(DELAYED + moment + 7) + placed(DELAYED + 5 * moment + 3), 7),
        (settled(DELAYED + moment + 7, 3, 1), 9),
        (settled(DELAYED + moment + 7, 3, 99), 9),
    ):
        rebuild, _ = rebuilt(notes)
        assert rebuild.books[1].delay_sequence == expected
