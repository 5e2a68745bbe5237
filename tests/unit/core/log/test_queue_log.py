"""A queue's queue log: acks as runs of positions, deliveries as far as they went, and what is noted again."""

from __future__ import annotations

from tests.unit.core.fake_disk import COUNTED, HANDED, SETTLED, FakeDisk, Note, kept


def test_acks_in_a_row_are_one_note() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log(3)
    made = kept(disk, queue_log, 1000)
    disk.commit()
    for position, one in enumerate(made, 1):
        queue_log.settle(position, one.location, one.body_size)
    disk.commit()
    assert disk.noted(SETTLED) == [Note(3, 1, 1000, 1, 0, SETTLED)]


def test_a_gap_or_another_segment_ends_a_run_of_acks() -> None:
    disk = FakeDisk(segment_bytes=600)
    queue_log = disk.queue_log()
    disk.provide_spares()
    made = kept(disk, queue_log, 6, bytes(100))
    assert [one.location >> 32 for one in made] == [1, 1, 1, 1, 2, 2]
    for position in (1, 3, 4, 5, 6):
        queue_log.settle(position, made[position - 1].location, made[position - 1].body_size)
    disk.commit()
    assert [note[1:4] for note in disk.noted(SETTLED)] == [(1, 1, 1), (3, 2, 1), (5, 2, 2)]


def test_the_first_delivery_is_noted_up_to_a_position_and_later_ones_each() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    made = kept(disk, queue_log, 5)
    for position in (1, 2, 3):
        queue_log.hand_out(position, 1, made[position - 1].location)
    queue_log.hand_out(2, 2, made[1].location)
    disk.commit()
    assert disk.noted(HANDED, COUNTED) == [Note(1, 2, 2, 1, 0, COUNTED), Note(1, 3, 0, 0, 0, HANDED)]
    queue_log.hand_out(2, 3, made[1].location)
    disk.commit()
    assert disk.noted(HANDED, COUNTED)[2:] == [Note(1, 2, 3, 1, 0, COUNTED)], "what is known is not noted again"


def test_deliveries_are_noted_anew_when_their_segment_goes() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    made = kept(disk, queue_log, 2)
    queue_log.hand_out(1, 1, made[0].location)
    disk.commit()
    assert disk.journal.segment.noted_by == {queue_log}
    queue_log.note_again(0)
    disk.commit()
    assert [note.first for note in disk.noted(HANDED)] == [1, 1]


def test_a_queue_without_messages_has_nothing_to_note_anew() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    queue_log.handed = 10
    queue_log.note_again(0)
    disk.commit()
    assert disk.notes() == []
    assert disk.wakes == []


def test_a_closed_ledger_notes_nothing_and_lets_its_records_go() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    made = kept(disk, queue_log, 3)
    queue_log.settle(1, made[0].location, made[0].body_size)
    queue_log.close()
    for position in (2, 3):
        queue_log.settle(position, made[position - 1].location, made[position - 1].body_size)
    disk.commit()
    assert disk.noted(SETTLED) == []
    assert (queue_log.live, disk.live()) == (0, 0)


def test_a_message_out_of_turn_is_counted_by_itself() -> None:
    """A queue with priorities does not hand out in the order of positions."""
    disk = FakeDisk()
    queue_log = disk.queue_log()
    made = kept(disk, queue_log, 2)
    queue_log.count(2, 1, made[1].location)
    disk.commit()
    assert disk.noted(HANDED, COUNTED) == [Note(1, 2, 1, 1, 0, COUNTED)]
    assert queue_log.handed == 0


def test_only_a_queue_with_messages_says_that_notes_are_needed_again() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    assert not queue_log.note_again(1)
    kept(disk, queue_log)
    assert queue_log.note_again(1)
    queue_log.close()
    assert not queue_log.note_again(1)
