"""The search for the next good record: right, and done in time that grows with the octets, not with their square."""

from __future__ import annotations

import random
import struct

import pytest
from google_crc32c import extend

from leveret.core.log.record_search import RecordSearch
from leveret.core.log.records import command_record, sealed
from leveret.core.log.scan import Scan

SALT = 0x5A17
# Every octet is in the sums of its prefixes once; and each eighth may be the start of something that looks like a
# record, whose checksum takes at most two unfinished steps of the sums, or is short.
PASSES_MAX = 1 + 2 * 64 // 8
# What one search may do beyond.
SLACK_BYTES = 1024


def record(sequence: int, payload: bytes = b"x", salt: int = SALT) -> bytes:
    return bytes(sealed(command_record(sequence, 0, payload), salt))


def find(data: bytes, at: int, sequence_min: int) -> int:
    place: int = RecordSearch(data, SALT).find(at, sequence_min)
    return place


def spoiled(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_the_next_record_is_found_behind_damage() -> None:
    octets = record(1) + b"\xff" * 64 + record(2) + record(3)
    assert find(octets, 8, 2) == 40 + 64
    assert find(octets, 1, 1) == 40 + 64, "records start at multiples of eight"


def test_older_records_are_not_taken_for_the_next() -> None:
    octets = record(1) + record(2) + record(9)
    assert find(octets, 0, 3) == 80
    assert find(octets, 0, 10) == -1


def test_nothing_is_found_where_nothing_is() -> None:
    assert find(b"", 0, 1) == -1
    assert find(bytes(4096), 0, 0) == -1
    assert find(record(1), 8, 0) == -1


def test_a_body_that_looks_like_a_record_is_not_one_in_another_file() -> None:
    """A client may publish a copy of a record; it does not know the salt."""
    assert find(record(1, record(2, b"inner", salt=SALT + 1)), 8, 1) == -1


def test_checksums_are_those_of_the_octets() -> None:
    dice = random.Random(4)
    data = dice.randbytes(5000)
    search = RecordSearch(data, SALT)
    for start in sorted(dice.randrange(4000) for _ in range(300)):
        end = dice.randrange(start, len(data) + 1)
        assert search.checksum(start, end) == extend(SALT, data[start:end])
    assert search.checksum(10, 4000) == extend(SALT, data[10:4000]), "also if it begins before the others"


def test_records_of_every_length_are_found() -> None:
    for size in [*range(300), 1000, 4096, 70_001]:
        data = b"\xff" * 40 + record(5, b"y" * size) + record(6)
        search = RecordSearch(data, SALT)
        assert search.find(0, 1) == 40
        assert search.length_at(40) == 32 + size
        assert RecordSearch(spoiled(data, 40 + 32 + size // 2 if size else 40), SALT).find(0, 6) == len(data) - 40


def heads(size: int, claimed: int) -> bytes:
    """Octets of which every eighth is the start of what looks like a record of that length, with a high sequence."""
    return struct.pack(">II", 0x7FFFFFFF, claimed) * (size // 8)


@pytest.mark.parametrize("size", [4096, 65536, 262144])
@pytest.mark.parametrize("part", [2, 3, 100], ids=lambda part: f"lengths of 1/{part}")
def test_a_body_full_of_heads_is_searched_in_linear_time(size: int, part: int) -> None:
    """Its author knows the format, and not the salt."""
    damaged = spoiled(record(1, heads(size, max(size // part, 200))), 50)
    data = damaged + record(2, b"next" * 100)
    search = RecordSearch(data, SALT)
    assert search.find(8, 2) == len(damaged)
    assert search.checksummed <= PASSES_MAX * len(data) + SLACK_BYTES
    naive = sum(max(size // part, 200) for _ in range(size // 8 // 2))
    assert size < 65536 or part > 3 or naive > 100 * search.checksummed, "it would have been many times that"


def test_so_is_one_by_somebody_who_knows_the_salt() -> None:
    """Good records and what looks like long ones in turns: each good one ends a search, and the next begins."""
    pairs = b"".join(heads(8, 60_000) + bytes(24) + record(number, b"") for number in range(10, 2000))
    damaged = spoiled(record(1, pairs + bytes(70_000)), 20)
    data = bytes(64) + damaged + record(3000)
    scan = Scan(SALT)
    scan.run(data, 64)
    assert scan.last_sequence == 3000 and scan.records == 1991
    # Each search looks at the octets between two good ones, and each good one is checksummed once more.
    assert scan.search.checksummed <= 2 * PASSES_MAX * len(data) + SLACK_BYTES


def test_a_scan_over_a_crafted_body_finds_all_the_rest() -> None:
    size = 262144
    bodies = [record(number, b"body %d" % number) for number in range(1, 20)]
    bodies[9] = spoiled(record(10, heads(size, size // 2)), 20)
    data = bytes(64) + b"".join(bodies)
    scan = Scan(SALT)
    scan.run(data, 64)
    assert (scan.records, scan.last_sequence) == (18, 19)
    start = 64 + sum(map(len, bodies[:9]))
    assert scan.gaps == [(start, start + len(bodies[9]), 10)]
    assert scan.search.checksummed <= PASSES_MAX * len(data) + SLACK_BYTES
