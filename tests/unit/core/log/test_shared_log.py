"""Records of consensus groups in a journal: what they look like, who is told, and what counts as live."""

from __future__ import annotations

import pytest

from leveret.core.log.shared_log import SharedLog
from leveret.storage.groups.found_groups import FLOOR, SHARED, STATE, GroupRecord, decode_group_record
from tests.unit.core.fake_disk import HEAD_BYTES, FakeDisk, persistent, read_notes

GROUP = 7
VOTERS = (1 << 32, 2 << 32)


class Groups(FakeDisk):
    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        super().__init__(segment_bytes)
        self.synced: list[int] = []
        self.shared = SharedLog(self.journal, self.synced.append)

    def record(self, location: int) -> GroupRecord | None:
        number, offset = location >> 32, location & 0xFFFFFFFF
        return decode_group_record(bytes(self.images[number][offset:]), self.salt_of(number))


def test_records_are_what_was_appended() -> None:
    disk = Groups()
    entry = disk.shared.append_entry(3, 17, 2, 1, b"descriptor", b"payload")
    state = disk.shared.append_state(3, 2, VOTERS[1], 16)
    floor = disk.shared.append_floor(3, 10, 1, VOTERS, (5,), True)
    disk.commit()
    assert disk.record(entry) == GroupRecord(SHARED, 1, 10, 0, 3, 2, 17, b"descriptorpayload")
    assert disk.record(state) == GroupRecord(STATE, 0, 0, 0, 3, 2, VOTERS[1], (16).to_bytes(8, "big"))
    members = b"".join(one.to_bytes(8, "big") for one in (*VOTERS, 5))
    assert disk.record(floor) == GroupRecord(FLOOR, 1, 2, 1, 3, 1, 10, members)
    assert (disk.shared.entries_total, disk.shared.entry_bytes_total) == (1, 7)


def test_the_index_has_a_note_for_each_and_a_scan_finds_the_same() -> None:
    disk = Groups()
    disk.shared.append_entry(3, 17, 2, 0, b"d", b"payload")
    disk.shared.append_state(3, 2, VOTERS[1], 16)
    disk.shared.append_floor(3, 10, 1, VOTERS, (), True)
    written = disk.journal.segment.copy_index()
    disk.commit()
    notes = [(note.queue, note.first, note.c, note.kind) for note in read_notes(written)]
    assert notes == [(3, 17, SHARED, GROUP), (3, 0, STATE, GROUP), (3, 10, FLOOR | 0x100, GROUP)]
    assert disk.scan(1).notes[: len(written)] == written


def test_a_sync_is_told_with_its_ticket_once_the_batch_is_synced() -> None:
    disk = Groups()
    disk.shared.append_entry(3, 17, 2, 0, b"d", b"payload")
    disk.shared.sync(5)
    assert disk.synced == []
    batch = disk.journal.take_batch()
    disk.write(batch)
    disk.journal.batch_written(batch)
    assert disk.synced == []
    disk.journal.batch_synced(batch)
    assert disk.synced == [5]


def test_records_hold_their_segment_until_they_are_released() -> None:
    disk = Groups()
    segment = disk.journal.segment
    places = [disk.shared.append_entry(3, index, 2, 0, b"d", b"payload") for index in (1, 2)]
    assert segment.live == 2
    for place in places:
        disk.shared.release(place)
    assert segment.live == 0


def test_a_message_behind_a_record_has_its_own_targets() -> None:
    """The record that targets are added to is never the one before the entry."""
    disk = Groups()
    queue_log = disk.queue_log(1)
    sent = persistent(b"body")
    disk.journal.keep(queue_log, sent, 1)
    disk.shared.append_entry(3, 17, 2, 0, b"d", b"payload")
    disk.journal.keep(queue_log, sent, 2)
    disk.commit()
    assert disk.scan(1).records == 4 and disk.scan(1).gaps == []
    assert [note.first for note in read_notes(disk.scan(1).notes) if note.kind & 0xFF == 1] == [1, 2]


def test_what_does_not_fit_is_refused() -> None:
    disk = Groups()
    with pytest.raises(ValueError, match="descriptor of 65536"):
        disk.shared.append_entry(3, 1, 1, 0, bytes(65536), b"")
    with pytest.raises(ValueError, match="65536 members"):
        disk.shared.append_floor(3, 1, 1, range(65536), (), False)
    assert disk.journal.segment.end == HEAD_BYTES
