"""The journal: where records go, what is noted of each queue, batches, and who is told when they are safe."""

from __future__ import annotations

import struct

import pytest

from leveret.core.log.batch import NoteSource, Publisher
from leveret.core.log.compaction import append_copy
from tests.unit.core.fake_disk import COUNTED, HEAD_BYTES, KEY, PLACED, SETTLED, FakeDisk, Note, kept, persistent
from tests.unit.queues.dataplane import message

NOTES_RECORD_BYTES = 32
CONGESTED_BYTES = 8388608
OFFSET_MASK = 0xFFFFFFFF


# ---- messages


def test_a_message_knows_its_place_before_it_is_written() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    one, two = kept(disk, queue_log, 2)
    number = disk.journal.segment.id
    assert one.location == number << 32 | HEAD_BYTES
    assert two.location == one.location + (one.length + 7 & ~7)
    assert not disk.journal.is_written(one.location)
    disk.commit()
    assert disk.journal.is_written(one.location) and disk.journal.is_written(two.location)
    assert (queue_log.live, disk.segments[number].live) == (2, 2)


def test_what_was_written_is_read_back_by_a_scan() -> None:
    disk = FakeDisk()
    (one,) = kept(disk, disk.queue_log(7))
    disk.commit()
    assert disk.notes() == [Note(7, 1, one.location & OFFSET_MASK, one.length, 4, PLACED)]
    image = disk.images[one.location >> 32]
    assert b"body" in image[HEAD_BYTES : HEAD_BYTES + one.length]


def test_the_first_record_wakes_once_until_the_batch_is_taken() -> None:
    disk = FakeDisk()
    kept(disk, disk.queue_log(), 3)
    assert disk.wakes == [True]
    disk.commit()
    kept(disk, disk.queue_log(), 1)
    assert disk.wakes == [True, True]


def test_acks_and_deliveries_wake_without_haste() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    (one,) = kept(disk, queue_log)
    disk.commit()
    disk.wakes.clear()
    queue_log.hand_out(1, 1, one.location)
    queue_log.settle(1, one.location, one.body_size)
    assert disk.wakes == [False]
    assert (disk.journal.commit_wanted, disk.journal.notes_pending) == (False, True)
    kept(disk, queue_log)
    assert disk.wakes == [False, True], "a publish does not wait for them"


def test_nothing_of_an_earlier_batch_goes_to_disk_with_a_later_one() -> None:
    """Buffers are used again; what a record leaves unwritten must be zeros."""
    disk = FakeDisk()
    queue_log = disk.queue_log()
    kept(disk, queue_log, 3, b"\xee" * 1000)
    disk.commit()
    disk.commit()
    start = len(disk.images[1])
    kept(disk, queue_log, 3, b"")
    disk.commit()
    assert b"\xee" * 4 not in disk.images[1][start:]


def test_a_buffer_grows_with_what_is_put_into_it() -> None:
    disk = FakeDisk()
    made = kept(disk, disk.queue_log(), 5, bytes(100_000))
    disk.commit()
    assert [note.a for note in disk.notes()] == [one.location & OFFSET_MASK for one in made]


# ---- segments


def test_a_full_segment_is_followed_by_the_spare_one() -> None:
    disk = FakeDisk(segment_bytes=300)
    queue_log = disk.queue_log()
    disk.provide_spares()
    spare = disk.journal.spare
    made = kept(disk, queue_log, 4, bytes(100))
    assert [one.location >> 32 for one in made] == [1, 1, spare.id, spare.id]
    first = disk.segments[1]
    assert (first.sealed, first.live, first.first_sequence, first.last_sequence) == (True, 2, 1, 2)
    assert (disk.journal.segment, spare.first_sequence) == (spare, 3)
    assert disk.journal.drained == [first], "somebody must write its index"
    batch = disk.commit()
    assert [part[0].id for part in batch.parts] == [1, spare.id]
    assert len(disk.noted(PLACED)) == 4


def test_without_a_spare_a_segment_grows_on() -> None:
    disk = FakeDisk(segment_bytes=300)
    made = kept(disk, disk.queue_log(), 10, bytes(100))
    assert {one.location >> 32 for one in made} == {1}
    disk.commit()
    assert len(disk.noted(PLACED)) == 10


def test_notes_alone_do_not_make_a_segment_grow_for_ever() -> None:
    disk = FakeDisk(segment_bytes=2000)
    queue_log = disk.queue_log()
    (one,) = kept(disk, queue_log)
    for times in range(2, 500):
        disk.provide_spares()
        queue_log.hand_out(1, times, one.location)
        disk.commit()
    assert max(segment.end for segment in disk.segments.values()) < 2000 + 2 * 64
    assert disk.noted(COUNTED)[-1] == Note(1, 1, 499, one.location >> 32, 0, COUNTED)


def test_a_sealed_segment_whose_last_message_goes_is_reported() -> None:
    disk = FakeDisk(segment_bytes=100)
    queue_log = disk.queue_log()
    disk.provide_spares()
    one, two = kept(disk, queue_log, 2, bytes(100))
    disk.journal.drained.clear()
    queue_log.settle(2, two.location, two.body_size)
    assert disk.journal.drained == [], "that one is still written to"
    queue_log.settle(1, one.location, one.body_size)
    assert disk.journal.drained == [disk.segments[1]]
    assert (queue_log.live, disk.live()) == (0, 0)


# ---- what is noted


def test_a_segment_remembers_which_others_its_notes_are_about() -> None:
    disk = FakeDisk(segment_bytes=100)
    queue_log = disk.queue_log()
    one, two = kept(disk, queue_log, 2, bytes(100))
    disk.commit()
    disk.provide_spares()
    disk.journal.keep(queue_log, persistent(), 3)
    queue_log.settle(1, one.location, one.body_size)
    queue_log.hand_out(2, 2, two.location)
    disk.commit()
    assert disk.journal.segment.settles == {1}
    assert disk.segments[1].settles == set(), "its own notes need no other"


def test_the_index_has_what_the_records_say() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    made = kept(disk, queue_log, 40)
    for position, one in enumerate(made[:30], 1):
        queue_log.hand_out(position, 1, one.location)
        if position % 2:
            queue_log.settle(position, one.location, one.body_size)
    disk.commit()
    assert disk.journal.segment.copy_index() == disk.scan(1).notes


# ---- what a queue must know of a message without reading it


def placed_note(disk: FakeDisk) -> Note:
    disk.commit()
    (note,) = disk.noted(PLACED)
    assert disk.journal.segment.copy_index() == disk.scan(1).notes
    return note


@pytest.mark.parametrize("priority", [0, 9, 255])
def test_the_priority_of_a_message_is_in_its_record_and_its_note(priority: int) -> None:
    disk = FakeDisk()
    disk.journal.keep(disk.queue_log(), persistent(priority=priority), 1)
    assert placed_note(disk).kind == PLACED | priority << 8
    assert disk.images[1][HEAD_BYTES + 17] == priority


def test_a_message_with_an_expiration_is_marked_in_its_record_and_its_note() -> None:
    disk = FakeDisk()
    disk.journal.keep(disk.queue_log(), persistent(expiration="0", priority=3), 1)
    assert placed_note(disk).kind == PLACED | 3 << 8 | 0x10000
    (octets,) = struct.unpack_from(">H", disk.images[1], HEAD_BYTES + 18)
    assert octets == 0x8000 | len(persistent().address)


def test_the_moment_of_a_message_is_in_its_record() -> None:
    disk, one = FakeDisk(), persistent()
    one.stamp = 1_700_000_000_123
    disk.journal.keep(disk.queue_log(), one, 1)
    disk.commit()
    assert struct.unpack_from(">Q", disk.images[1], HEAD_BYTES + 32) == (1_700_000_000_123,)


def test_a_copied_record_says_the_same_of_its_message() -> None:
    disk, one = FakeDisk(), persistent(expiration="5", priority=7)
    one.stamp = 99
    disk.journal.keep(disk.queue_log(), one, 1)
    disk.commit()
    at = one.location & OFFSET_MASK
    append_copy(disk.journal, bytes(disk.images[1]), at, [(1, 1)])
    disk.commit()
    first, second = disk.noted(PLACED)
    assert second._replace(a=first.a) == first
    assert struct.unpack_from(">Q", disk.images[1], second.a + 32) == (99,)


def test_a_key_is_noted_with_its_second_and_its_own_time_to_live() -> None:
    disk, noting = FakeDisk(), NoteSource(5)
    disk.journal.add_key(noting, bytes(range(16)), 1_700_000_000, 0xABCDEF)
    disk.commit()
    assert disk.notes() == [Note(5, 0x0001020304050607, 0x08090A0B, 0x0C0D0E0F, 1_700_000_000, KEY | 0xABCDEF << 8)]
    assert disk.journal.segment.noted_by == {noting}
    assert disk.journal.segment.settles == set(), "its last octets name no segment"


# ---- pages


def test_a_transient_message_gets_a_page_that_no_scan_counts() -> None:
    disk = FakeDisk()
    one = message(b"transient")
    location = disk.pager.page(one)
    assert disk.pager.is_page(location) and disk.journal.is_page(location)
    disk.commit()
    assert disk.live(paging=True) == 1
    assert disk.scan(location >> 32).notes == b""
    disk.pager.release(location)
    assert disk.live(paging=True) == 0


def test_one_page_serves_all_queues_that_hold_the_message() -> None:
    disk = FakeDisk()
    one = message(b"transient")
    assert disk.pager.page(one) == disk.pager.page(one)
    assert disk.live(paging=True) == 2


def test_a_page_that_nobody_needs_any_more_is_not_used_again() -> None:
    """Its segment may be on its way out."""
    disk = FakeDisk(segment_bytes=100)
    one = message(b"transient")
    disk.provide_spares()
    first = disk.pager.page(one)
    disk.pager.page(message(b"rolls on"))
    disk.pager.release(first)
    assert disk.segments[first >> 32].live == 0 and disk.segments[first >> 32].sealed
    assert disk.pager.page(one) >> 32 != first >> 32
    assert disk.segments[first >> 32].live == 0


def test_a_page_does_not_change_where_the_log_has_a_message() -> None:
    disk = FakeDisk()
    (one,) = kept(disk, disk.queue_log())
    location, length = one.location, one.length
    assert disk.pager.page(one) != location
    assert (one.location, one.length) == (location, length)


# ---- batches


def test_batches_are_numbered_and_every_one_says_how_far_all_was_synced() -> None:
    disk = FakeDisk()
    kept(disk, disk.queue_log(), 2)
    first = disk.commit()
    assert (first.number, first.last_sequence, disk.journal.synced_batch) == (1, 3, 1)
    assert disk.scan(1).synced_sequence == 0
    second = disk.commit(sync=False)
    assert (second.number, second.last_sequence) == (2, 4)
    assert (disk.journal.synced_batch, disk.journal.synced_sequence) == (1, 3)
    assert disk.scan(1).synced_sequence == 3
    assert disk.journal.batch == 3


def test_a_batch_is_filled_while_the_one_before_is_being_written() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    kept(disk, queue_log, 2)
    first = disk.journal.take_batch()
    late = persistent(b"late")
    disk.journal.keep(queue_log, late, 3)
    assert first.data is not disk.journal.take_batch().data
    assert not disk.journal.is_written(late.location)


def test_a_journal_that_runs_ahead_of_the_disk_is_congested_until_it_has_caught_up() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    body = bytes(CONGESTED_BYTES // 8)
    for position in range(1, 8):
        disk.journal.keep(queue_log, persistent(body), position)
    assert not disk.journal.congested
    batch = disk.journal.take_batch()
    disk.journal.keep(queue_log, persistent(body), 8)
    assert disk.journal.congested, "what is in flight counts"
    disk.journal.batch_written(batch)
    assert not disk.journal.congested
    assert disk.journal.in_flight_bytes == 0


def test_a_publisher_that_is_no_channel_hears_nothing() -> None:
    assert Publisher().synced(1, 2) == 0


def test_what_gathered_before_the_last_record_is_written_before_it() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    one, _ = kept(disk, queue_log, 2)
    disk.commit()
    queue_log.settle(1, one.location, one.body_size)
    disk.journal.keep(queue_log, persistent(b"late"), 3)
    disk.journal.append_closed()
    disk.commit()
    assert disk.scan(1).closed
    assert len(disk.noted(SETTLED)) == 1
    assert len(disk.noted(PLACED)) == 3


def test_a_journal_that_is_closed_takes_nothing_behind_its_last_record() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    (one,) = kept(disk, queue_log)
    disk.commit()
    assert not disk.scan(1).closed
    disk.journal.append_closed()
    for late in (
        lambda: disk.journal.keep(queue_log, persistent(b"late"), 2),
        lambda: queue_log.settle(1, one.location, one.body_size),
        lambda: disk.journal.append_closed(),
    ):
        with pytest.raises(AssertionError, match="closed"):
            late()
    disk.commit()
    assert disk.scan(1).closed
    assert disk.noted(SETTLED) == []


def test_no_batch_is_skipped() -> None:
    """Confirms are cumulative: one that was forgotten would be confirmed by the next."""
    disk = FakeDisk()
    disk.commit()
    kept(disk, disk.queue_log())
    forgotten = disk.journal.take_batch()
    following = disk.journal.take_batch()
    with pytest.raises(AssertionError, match="batch 3 is written behind 1"):
        disk.journal.batch_written(following)
    with pytest.raises(AssertionError, match="batch 3 is synced"):
        disk.journal.batch_synced(following)
    with pytest.raises(AssertionError, match="batch 2 is synced"):
        disk.journal.batch_synced(forgotten)
    disk.journal.batch_written(forgotten)
    with pytest.raises(AssertionError, match="batch 2 is written"):
        disk.journal.batch_written(forgotten)
    disk.journal.batch_written(following)
    with pytest.raises(AssertionError, match="batch 2 is synced"):
        disk.journal.batch_synced(forgotten)
    disk.journal.batch_synced(following)
    assert disk.journal.synced_batch == 3


def test_a_record_takes_no_more_targets_than_it_has_room_for() -> None:
    """The next one would be written behind it."""
    disk = FakeDisk()
    queue_log = disk.queue_log()
    (one,) = kept(disk, queue_log)
    with pytest.raises(AssertionError, match="room"):
        disk.journal.keep(disk.queue_log(2), one, 1)


# ---- a segment that grew without end


def test_no_record_goes_where_its_location_would_name_another_segment() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    segment = disk.journal.segment
    segment.end = (1 << 32) - 64
    with pytest.raises(AssertionError, match="no room for a record"):
        disk.journal.keep(queue_log, persistent(b"x" * 200), 1)
    assert (segment.end, segment.live, queue_log.live) == ((1 << 32) - 64, 0, 0)


def test_publishers_leave_room_for_the_notes_of_a_segment_that_cannot_grow_on() -> None:
    disk = FakeDisk()
    disk.journal.segment.end = (1 << 32) - (1 << 29)
    assert not disk.journal.has_room(200)
    disk.journal.spare = disk.new_segment(False)
    assert disk.journal.has_room(200), "the next segment takes over"
    assert not disk.journal.has_room(1 << 32)


def test_a_journal_that_is_far_ahead_of_the_disk_is_overfull_until_it_has_caught_up() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    body = bytes(CONGESTED_BYTES)
    for position in range(1, 8):
        disk.journal.keep(queue_log, persistent(body), position)
    assert disk.journal.congested and not disk.journal.overfull
    disk.journal.keep(queue_log, persistent(body), 8)
    assert disk.journal.overfull
    disk.commit()
    assert not disk.journal.overfull
