"""A queue's ledger: acks as runs of positions, deliveries as far as they went, and what is noted again."""

from __future__ import annotations

from tests.unit.core.fake_disk import COUNTED, HANDED, SETTLED, FakeDisk, Note, kept


def test_acks_in_a_row_are_one_note() -> None:
    disk = FakeDisk()
    ledger = disk.ledger(3)
    made = kept(disk, ledger, 1000)
    disk.commit()
    for position, one in enumerate(made, 1):
        ledger.settle(position, one.location, one.body_size)
    disk.commit()
    assert disk.noted(SETTLED) == [Note(3, 1, 1000, 1, 0, SETTLED)]


def test_a_gap_or_another_segment_ends_a_run_of_acks() -> None:
    disk = FakeDisk(segment_bytes=600)
    ledger = disk.ledger()
    disk.provide_spares()
    made = kept(disk, ledger, 6, bytes(100))
    assert [one.location >> 32 for one in made] == [1, 1, 1, 1, 2, 2]
    for position in (1, 3, 4, 5, 6):
        ledger.settle(position, made[position - 1].location, made[position - 1].body_size)
    disk.commit()
    assert [note[1:4] for note in disk.noted(SETTLED)] == [(1, 1, 1), (3, 2, 1), (5, 2, 2)]


def test_the_first_delivery_is_noted_up_to_a_position_and_later_ones_each() -> None:
    disk = FakeDisk()
    ledger = disk.ledger()
    made = kept(disk, ledger, 5)
    for position in (1, 2, 3):
        ledger.hand_out(position, 1, made[position - 1].location)
    ledger.hand_out(2, 2, made[1].location)
    disk.commit()
    assert disk.noted(HANDED, COUNTED) == [Note(1, 2, 2, 1, 0, COUNTED), Note(1, 3, 0, 0, 0, HANDED)]
    ledger.hand_out(2, 3, made[1].location)
    disk.commit()
    assert disk.noted(HANDED, COUNTED)[2:] == [Note(1, 2, 3, 1, 0, COUNTED)], "what is known is not noted again"


def test_deliveries_are_noted_anew_when_their_segment_goes() -> None:
    disk = FakeDisk()
    ledger = disk.ledger()
    made = kept(disk, ledger, 2)
    ledger.hand_out(1, 1, made[0].location)
    disk.commit()
    assert disk.journal.segment.noted_by == {ledger}
    ledger.note_again(0)
    disk.commit()
    assert [note.first for note in disk.noted(HANDED)] == [1, 1]


def test_a_queue_without_messages_has_nothing_to_note_anew() -> None:
    disk = FakeDisk()
    ledger = disk.ledger()
    ledger.handed = 10
    ledger.note_again(0)
    disk.commit()
    assert disk.notes() == []
    assert disk.wakes == []


def test_a_closed_ledger_notes_nothing_and_lets_its_records_go() -> None:
    disk = FakeDisk()
    ledger = disk.ledger()
    made = kept(disk, ledger, 3)
    ledger.settle(1, made[0].location, made[0].body_size)
    ledger.close()
    for position in (2, 3):
        ledger.settle(position, made[position - 1].location, made[position - 1].body_size)
    disk.commit()
    assert disk.noted(SETTLED) == []
    assert (ledger.live, disk.live()) == (0, 0)


def test_a_message_out_of_turn_is_counted_by_itself() -> None:
    """A queue with priorities does not hand out in the order of positions."""
    disk = FakeDisk()
    ledger = disk.ledger()
    made = kept(disk, ledger, 2)
    ledger.count(2, 1, made[1].location)
    disk.commit()
    assert disk.noted(HANDED, COUNTED) == [Note(1, 2, 1, 1, 0, COUNTED)]
    assert ledger.handed == 0


def test_only_a_queue_with_messages_says_that_notes_are_needed_again() -> None:
    disk = FakeDisk()
    ledger = disk.ledger()
    assert not ledger.note_again(1)
    kept(disk, ledger)
    assert ledger.note_again(1)
    ledger.close()
    assert not ledger.note_again(1)
