"""The sealer: records get their checksums in the disk's thread, and are good when they are on disk."""

from __future__ import annotations

import os
import select
from pathlib import Path

from leveret.core.log.record_check import checked_length
from leveret.core.log.records import command_record, sealed
from leveret.runtime.disk_thread import DiskThread
from leveret.storage.sealer import Sealer


def test_records_are_sealed_before_they_are_written(tmp_path: Path) -> None:
    thread = DiskThread("test", Sealer())
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    try:
        one, two = command_record(1, 0, b"one"), command_record(2, 1, b"the second")
        data = bytearray(b"\xff" * 8) + one + two
        thread.prepare(data, 8, len(one) + len(two), 99)
        thread.write(fd, data, 8, len(one) + len(two), 0)
        thread.submit()
        assert select.select([thread.done_fd], [], [], 10)[0]
        assert thread.finish() == 0
        octets = os.pread(fd, 1000, 0)
        assert octets == bytes(sealed(one + two, 99))
        assert checked_length(octets, 0, len(octets), 99) == 35
        assert checked_length(octets, 40, len(octets), 99) == 42
        assert data[:8] == b"\xff" * 8, "nothing before the stretch is touched"
    finally:
        thread.stop()
        os.close(fd)
