"""A scan of a log: the notes its index would have, and every stretch where a record should stand and none does."""

from __future__ import annotations

import struct

import pytest

from leveret.core.log.records import command_record, sealed
from leveret.core.log.scan import Scan
from tests.unit.core.fake_disk import HEAD_BYTES, FakeDisk
from tests.unit.queues.dataplane import message

SALT = 77


def command(sequence: int, payload: bytes = b"command", synced: int = 0) -> bytes:
    return bytes(sealed(command_record(sequence, synced, payload), SALT))


def scanned(octets: bytes, start: int = 0) -> Scan:
    scan = Scan(SALT)
    scan.run(octets, start)
    return scan


def log_image(count: int = 5) -> tuple[FakeDisk, bytes, list[int]]:
    """A segment with so many messages, and where its records start."""
    disk = FakeDisk()
    queue_log = disk.queue_log()
    starts = []
    for position in range(1, count + 1):
        one = message(b"%d" % position * 20, delivery_mode=2)
        disk.journal.keep(queue_log, one, position)
        starts.append(one.location & 0xFFFFFFFF)
    starts.append(disk.journal.segment.end)
    disk.commit()
    return disk, bytes(disk.images[1]), starts


def scan_segment(disk: FakeDisk, image: bytes) -> Scan:
    scan = Scan(disk.segments[1].salt)
    scan.run(image, HEAD_BYTES)
    return scan


def test_an_empty_log_has_no_records() -> None:
    for octets in (b"", bytes(4096)):
        scan = scanned(octets)
        assert (scan.records, scan.end, scan.first_sequence, scan.last_sequence, scan.gaps) == (0, 0, 0, 0, [])


def test_commands_are_collected_in_order() -> None:
    octets = command(5, b"one") + command(6, b"two", 5) + command(7, b"", 6)
    scan = scanned(octets + bytes(100))
    assert scan.commands == [b"one", b"two"]
    assert (scan.first_sequence, scan.last_sequence, scan.synced_sequence) == (5, 7, 6)
    assert (scan.records, scan.end, scan.gaps) == (3, len(octets), [])


def test_a_segment_gives_the_notes_of_its_index() -> None:
    disk, image, _ = log_image()
    scan = scan_segment(disk, image + bytes(4096))
    assert scan.notes == disk.segments[1].copy_index()
    assert (scan.records, scan.end, scan.gaps) == (6, len(image), [])


def test_a_torn_end_is_where_the_last_good_record_ends() -> None:
    disk, image, starts = log_image()
    for size in range(starts[4] + 1, starts[5]):
        scan = scan_segment(disk, image[:size])
        # All but the padding is the record.
        if scan.end == starts[4]:
            assert (scan.records, scan.last_sequence, scan.gaps) == (4, 4, [])
        else:
            assert size >= starts[5] - 7
            assert scan.records == 5


@pytest.mark.parametrize("offset", [0, 4, 8, 16, 40, 70])
def test_damage_in_the_middle_is_a_gap(offset: int) -> None:
    disk, image, starts = log_image()
    damaged = bytearray(image)
    damaged[starts[2] + offset] ^= 0x10
    scan = scan_segment(disk, bytes(damaged))
    assert scan.gaps == [(starts[2], starts[3], 3)]
    assert (scan.records, scan.last_sequence, scan.end) == (5, 6, len(image))
    assert [struct.unpack(">Q", scan.notes[i + 8 : i + 16])[0] for i in range(0, len(scan.notes), 32)] == [1, 2, 4, 5]


def test_damage_at_the_start_is_a_gap() -> None:
    disk, image, starts = log_image()
    damaged = bytearray(image)
    damaged[starts[0] + 33] ^= 1
    scan = scan_segment(disk, bytes(damaged))
    assert scan.gaps == [(starts[0], starts[1], 1)]
    assert (scan.first_sequence, scan.records) == (2, 5)


def test_several_records_lost_at_several_places_are_several_gaps() -> None:
    disk, image, starts = log_image(8)
    damaged = bytearray(image)
    for i in (1, 2, 5):
        damaged[starts[i] + 8 : starts[i] + 16] = b"\xff" * 8
    scan = scan_segment(disk, bytes(damaged))
    assert scan.gaps == [(starts[1], starts[3], 2), (starts[5], starts[6], 6)]


def test_good_records_with_a_hole_in_their_sequence_are_a_gap_of_no_octets() -> None:
    octets = command(1) + command(4)
    scan = scanned(octets)
    assert scan.gaps == [(len(command(1)), len(command(1)), 2)]
    assert scan.records == 2


def test_what_an_older_log_left_behind_is_not_read() -> None:
    """A sequence that does not grow is no successor, however good its checksum."""
    octets = command(8) + command(9)
    scan = scanned(octets + command(3) + command(9))
    assert (scan.records, scan.end, scan.last_sequence, scan.gaps) == (2, len(octets), 9, [])


def test_records_of_another_file_are_not_read() -> None:
    other = Scan(SALT + 1)
    other.run(command(1) + command(2), 0)
    assert (other.records, other.gaps) == (0, [])


# ---- batches


def test_a_batch_ends_with_the_record_that_is_no_message() -> None:
    disk, image, _ = log_image(3)
    scan = scan_segment(disk, image)
    assert (scan.batch_end, scan.batch_sequence, scan.last_sequence) == (len(image), 4, 4)


def test_messages_behind_the_last_end_belong_to_an_unfinished_batch() -> None:
    disk, image, _ = log_image(3)
    queue_log = disk.queue_log()
    for position in (4, 5):
        disk.journal.keep(queue_log, message(b"x", delivery_mode=2), position)
    second = disk.journal.segment.end
    disk.commit()
    scan = scan_segment(disk, bytes(disk.images[1])[:second])
    assert (scan.batch_end, scan.batch_sequence, scan.last_sequence, scan.end) == (len(image), 4, 6, second)


def test_without_the_end_of_any_batch_there_is_none() -> None:
    disk, image, starts = log_image(3)
    scan = scan_segment(disk, image[: starts[3]])
    assert (scan.batch_end, scan.batch_sequence, scan.records) == (0, 0, 3)


def test_the_record_that_closes_a_log_ends_its_last_batch() -> None:
    disk, _, _ = log_image(1)
    disk.journal.append_closed()
    disk.commit()
    scan = scan_segment(disk, bytes(disk.images[1]))
    assert scan.closed
    assert (scan.batch_sequence, scan.batch_end) == (scan.last_sequence, scan.end)


# ---- what a message's record says of it


def test_priority_and_expiration_are_in_the_notes_as_in_the_index() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    for position, properties in enumerate(({}, {"priority": 200}, {"expiration": "5"}), 1):
        disk.journal.keep(queue_log, message(b"x", key="k" * 200, delivery_mode=2, **properties), position)
    disk.commit()
    scan = disk.scan(1)
    assert scan.notes == disk.segments[1].copy_index()
    assert [struct.unpack(">I", scan.notes[at + 28 : at + 32])[0] for at in (0, 32, 64)] == [1, 1 | 200 << 8, 0x10001]


def test_keys_are_among_the_notes() -> None:
    disk = FakeDisk()
    disk.journal.add_key(disk.queue_log(9), bytes(range(16)), 77, 3)
    disk.commit()
    assert disk.scan(1).notes == struct.pack(">Q16sII", 9, bytes(range(16)), 77, 5 | 3 << 8)
