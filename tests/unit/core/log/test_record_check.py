"""Records with a good checksum whose inside does not fit: no reader looks into them."""

from __future__ import annotations

import os
import random
import struct
from typing import Any

import pytest

from leveret.core.codec.properties import parse_properties
from leveret.core.log.compaction import Compaction
from leveret.core.log.rebuild import Rebuild
from leveret.core.log.record_check import blocks_fit, checked_length, checked_message_length, index_fits
from leveret.core.log.records import sealed
from leveret.core.log.scan import Scan
from leveret.core.stream.scan import StreamScan, first_since
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.errors import HardError
from leveret.storage.record_checker import RecordChecker
from tests.fuzz.stored_records import (
    ADDRESS,
    ENTRY,
    VALID,
    command,
    entry,
    log_of,
    message,
    misshapen,
    mutated,
    notes,
    track,
)
from tests.unit.core.fake_disk import HEAD_BYTES, FakeDisk, kept

SALT = 77
# Interpreted, each takes a hundred times as long.
ROUNDS = 100 if os.environ.get("LEVERET_PURE", "0") not in ("", "0") else 3000
MISSHAPEN = dict(misshapen())


def length_of(octets: bytearray) -> int:
    data = log_of(SALT, octets)
    return int(checked_length(data, 0, len(data), SALT))


@pytest.mark.parametrize("name", VALID)
def test_what_the_broker_writes_is_good(name: str) -> None:
    octets = VALID[name]()
    assert length_of(octets) == struct.unpack_from(">I", octets, 4)[0]


@pytest.mark.parametrize("name", MISSHAPEN)
def test_what_does_not_fit_is_no_record(name: str) -> None:
    octets = MISSHAPEN[name]
    assert length_of(octets) == 0
    # It is the inside alone: what is right by its checksum ends where the record does.
    scan = Scan(SALT)
    data = log_of(SALT, octets)
    scan.run(data, 0)
    assert [(gap[0], gap[1]) for gap in scan.gaps] == [(0, (struct.unpack_from(">I", octets, 4)[0] + 7) & ~7)]


def test_only_a_message_is_read_as_one() -> None:
    for name, make in VALID.items():
        data = bytes(sealed(make(), SALT))
        assert (checked_message_length(data, 0, len(data), SALT) > 0) == (name == "message")


def test_properties_are_refused_just_as_publishers_are() -> None:
    dice = random.Random(5)
    verdicts = []
    for _ in range(4000):
        octets = mutated(dice, message(body=b"", targets=0))
        # Only the properties are changed.
        start = 40 + len(ADDRESS)
        octets[:start] = message(body=b"", targets=0)[:start]
        raw = bytes(octets[start : start + struct.unpack_from(">I", octets, 24)[0]])
        try:
            parse_properties(raw)
            good = True
        except HardError:
            good = False
        verdicts.append(good)
        assert (length_of(octets) > 0) == good, raw
    assert 500 < sum(verdicts) < 3500, "there are some of both"


# ---- readers


def test_a_scan_goes_on_behind_it() -> None:
    bad = MISSHAPEN["message: 268435456 targets"]
    data = log_of(SALT, message(1), _with_sequence(bad, 2), message(3), notes(4, synced=0))
    scan = Scan(SALT)
    scan.run(data, 0)
    start = len(message(1))
    assert (scan.gaps, scan.misshapen) == ([(start, start + len(bad), 2)], {start})
    assert (scan.records, scan.last_sequence, scan.batch_sequence, scan.end) == (3, 4, 4, len(data))
    assert len(scan.notes) == 32 * (2 + 2 + 3)
    assert not scan.is_torn(start, 2, 0), "it was written so: the power has nothing to do with it"


def test_a_scan_of_the_catalog_leaves_it_out() -> None:
    data = log_of(SALT, command(1, b"one"), _with_sequence(MISSHAPEN["kind 11"], 2), command(3, b"three"))
    scan = Scan(SALT)
    scan.run(data, 0)
    assert (scan.commands, len(scan.gaps), scan.last_sequence) == ([b"one", b"three"], 1, 3)


def _with_sequence(octets: bytearray, sequence: int) -> bytearray:
    made = bytearray(octets)
    struct.pack_into(">Q", made, 8, sequence)
    return made


@pytest.mark.parametrize("name", [name for name in MISSHAPEN if name.startswith(("message", "kind"))])
def test_a_load_gives_it_up(name: str) -> None:
    assert loaded(MISSHAPEN[name]) == ({0: False}, [None])


@pytest.mark.parametrize("name", [name for name in VALID if name != "message"])
def test_a_load_takes_nothing_else_for_a_message(name: str) -> None:
    assert loaded(VALID[name]()) == ({0: False}, [None])


def test_a_load_reads_what_is_good() -> None:
    lost, (found,) = loaded(message(body=b"found"))
    assert (lost, found.body, found.properties.priority) == ({}, b"found", 3)


def loaded(octets: bytearray) -> tuple[dict[int, bool], list[Any]]:
    """What a queue's load brings if an index says that its message is where these octets stand."""
    disk = FakeDisk()
    length = struct.unpack_from(">I", octets, 4)[0]
    disk.images[1] += log_of(disk.segments[1].salt, octets)
    disk.segments[1].end = disk.segments[1].written = len(disk.images[1])
    rebuild = Rebuild()
    rebuild.add_notes(bytearray(placed(HEAD_BYTES, length)), 0, 32, 1, {1}, set())
    book = rebuild.books[1]
    book.finish({}, set())
    queue = disk.queue(lazy=True)
    queue.restore(book, False)
    load = queue.take_load(disk.journal)
    disk.read(load)
    return load.lost, load.messages[: load.count]


def test_compaction_does_not_copy_it() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log()
    one = kept(disk, queue_log, 1)[0]
    disk.commit()
    segment = disk.segments[1]
    place = one.location & 0xFFFFFFFF
    index = bytearray(segment.copy_index())
    for octets in (MISSHAPEN["message: a body of 65536"], MISSHAPEN["message: 4 targets"], notes(3), entry(), track()):
        sealed_octets = sealed(bytearray(octets), segment.salt)
        struct.pack_into(">I", index, 20, struct.unpack_from(">I", octets, 4)[0])
        compaction = Compaction(disk.journal, segment, {}, {(1, 1): (one, 0)})
        # A note that is cut off is not read.
        compaction.run(index + b"\0" * 31, bytes(disk.images[1][:place] + sealed_octets))
        assert (compaction.damaged, compaction.copied) == ([place], 0)


def test_a_rebuild_reads_whole_notes_alone() -> None:
    rebuild = Rebuild()
    octets = struct.pack(">QQIIII", 7, 3, 5, 1, 0, 2)
    for size in range(32, 64):
        rebuild.add_notes(bytearray((octets * 2)[:size]), 0, size, 1, {1}, set())
    assert list(rebuild.books) == [7]


@pytest.mark.parametrize("name", [name for name in MISSHAPEN if name.split(":")[0] in ("entry", "sub-batch", "track")])
def test_a_scan_of_a_stream_stops_there_and_can_go_on(name: str) -> None:
    bad = MISSHAPEN[name]
    if not name.endswith("highest sequence"):
        struct.pack_into(">Q", bad := bytearray(bad), 8, 2)
    data = log_of(SALT, entry(0), entry(1), bad, entry(5), track(6))
    segment = StreamSegment(1, SALT, None, 0, 64)
    scan = StreamScan(segment, Tracking(), 0)
    used = scan.run(data)
    assert (used, scan.messages) == (2 * len(entry(0)), 2)
    assert scan.misshapen_bytes == (struct.unpack_from(">I", bad, 4)[0] + 7) & ~7
    behind = used + scan.misshapen_bytes
    scan.pass_misshapen()
    if scan.misshapen_bytes == len(bad):
        assert behind + scan.run(data, behind) == len(data)
        assert (scan.messages, scan.next_offset) == (3, 6)


@pytest.mark.parametrize("name", MISSHAPEN)
def test_readers_of_streams_are_never_given_it(name: str) -> None:
    good = log_of(SALT, entry(0))
    data = bytearray(8) + good + log_of(SALT, MISSHAPEN[name]) + log_of(SALT, entry(1))
    RecordChecker().check(data, 8, len(data) - 8, SALT)
    assert struct.unpack_from(">Q", data)[0] == 8 + len(good)


def test_a_moment_is_not_looked_for_behind_the_end() -> None:
    head = struct.pack(">IIQB15x", 0, 32, 5, ENTRY)
    assert first_since(head, 0) == (-1, 0)


# ---- indexes


def placed(place: int, length: int) -> bytes:
    return struct.pack(">QQIIII", 1, 1, place, length, 0, 1)


@pytest.mark.parametrize(
    ("index", "good"),
    [
        (b"", True),
        (placed(HEAD_BYTES, 64), True),
        (placed(HEAD_BYTES, 64)[:-1], False),
        (placed(HEAD_BYTES, 64) + b"\0", False),
        (placed(HEAD_BYTES - 8, 64), False),
        (placed(HEAD_BYTES + 1, 64), False),
        (placed(HEAD_BYTES, 39), False),
        (placed(HEAD_BYTES, 1000 - HEAD_BYTES + 1), False),
        (placed(0xFFFFFFF8, 64), False),
        (placed(HEAD_BYTES, 0xFFFFFFFF), False),
    ],
)
def test_an_index_places_only_what_is_in_its_segment(index: bytes, good: bool) -> None:
    assert index_fits(index, HEAD_BYTES, 1000) == good


def test_blocks_stand_one_behind_the_other() -> None:
    one, two = (struct.pack(">QQQ16x", offset, 5, place) for offset, place in ((0, 64), (9, 72)))
    assert blocks_fit(one + two, HEAD_BYTES, 80)
    # The highest bit says that a message of the block has no filter value.
    assert blocks_fit(struct.pack(">QQQ16x", 0, 5, 64 | 1 << 63), HEAD_BYTES, 80)
    for wrong in (two + one, one + one, one[:-1], struct.pack(">QQQ16x", 1 << 63, 5, 64)):
        assert not blocks_fit(wrong, HEAD_BYTES, 80)
    assert not blocks_fit(one + two, HEAD_BYTES, 72)


# ---- anything


def test_whatever_is_sealed_is_read_to_its_end() -> None:
    """Every reader, on what dice make of good records: under a sanitizer, see `make fuzz-asan`."""
    dice = random.Random(18)
    makers = list(VALID.values())
    for _ in range(ROUNDS):
        records = [mutated(dice, dice.choice(makers)()) for _ in range(dice.randrange(1, 5))]
        data = log_of(SALT, *records)
        read_everything(data)


def read_everything(data: bytes) -> None:
    scan = Scan(SALT)
    scan.run(data, 0)
    Rebuild().add_notes(scan.notes, 0, len(scan.notes), 1, {1}, set())
    tracking = Tracking()
    stream = StreamScan(StreamSegment(1, SALT, None, 0, 0), tracking, None)
    at = 0
    while at < len(data):
        used = stream.run(data, at)
        at += used + stream.misshapen_bytes
        if used == 0 and not stream.misshapen_bytes:
            at += 8
        stream.pass_misshapen()
    window = bytearray(8) + data
    RecordChecker().check(window, 8, len(data), SALT)
    first_since(data, 5000)
