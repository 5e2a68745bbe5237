"""Whoever walks over stored records, fed with records whose insides dice have changed and whose checksums are right.

Stands alone because it needs few modules: these are built with sanitizers in every run of the tests."""

from __future__ import annotations

import random
import struct

from leveret.core.log.rebuild import Rebuild
from leveret.core.log.scan import Scan
from leveret.core.stream.scan import StreamScan, first_since
from leveret.core.stream.segment import StreamSegment
from leveret.core.stream.tracking import Tracking
from leveret.storage.record_checker import RecordChecker
from tests.fuzz.stored_records import ROUNDS, SEED, VALID, log_of, misshapen, mutated

SALT = 77


def test_scans() -> None:
    dice = random.Random(SEED)
    makers = list(VALID.values())
    for _ in range(ROUNDS):
        data = log_of(SALT, *[mutated(dice, dice.choice(makers)()) for _ in range(dice.randrange(1, 5))])
        # A file may end anywhere.
        data = data[: dice.choice([len(data), dice.randrange(len(data) + 1)])]
        scan_all(data)
    for _, octets in misshapen():
        scan_all(log_of(SALT, octets))


def scan_all(data: bytes) -> None:
    scan = Scan(SALT)
    scan.run(data, 0)
    rebuild = Rebuild()
    rebuild.add_notes(scan.notes, 0, len(scan.notes), 1, {1}, set())
    for book in rebuild.books.values():
        book.finish({}, set())
    stream = StreamScan(StreamSegment(1, SALT, None, 0, 0), Tracking(), None)
    at = 0
    while at < len(data):
        used = stream.run(data, at)
        at += used + (stream.misshapen_bytes if used + stream.misshapen_bytes else 8)
        stream.pass_misshapen()
    window = bytearray(8) + data
    RecordChecker().check(window, 8, len(data), SALT)
    assert 8 <= struct.unpack_from(">Q", window)[0] <= len(window)
    first_since(data, 5000)
