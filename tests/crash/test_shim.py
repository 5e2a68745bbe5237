"""The faulty disk itself: each fault does what it says, to files below its directory and to no others."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.faults import FaultyDisk

# Each line writes to the file beside it, and prints what came of it.
_PRELUDE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def tried(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return error.strerror
"""


def outcome(disk: FaultyDisk, path: Path, script: str) -> str:
    command = [sys.executable, "-c", _PRELUDE + script, str(path)]
    return subprocess.run(command, env=disk.environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def disk(tmp_path: Path, target: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path / "shim", target)


def test_a_good_disk_is_left_alone(disk: FaultyDisk, target: Path) -> None:
    script = "os.write(fd, b'ab'); os.pwrite(fd, b'cd', 2); os.pwritev(fd, [b'e', b'f'], 4); os.fdatasync(fd)"
    outcome(disk, target / "file", script)
    assert (target / "file").read_bytes() == b"abcdef"
    assert (disk["write_count"], disk["sync_count"], disk["sync_failed_count"]) == (3, 1, 0)


def test_files_elsewhere_are_left_alone(disk: FaultyDisk, tmp_path: Path) -> None:
    disk["write_room_bytes"] = 0
    outcome(disk, tmp_path / "data-of-another", "os.write(fd, b'ab'); os.fsync(fd)")
    assert (tmp_path / "data-of-another").read_bytes() == b"ab"
    assert (disk["write_count"], disk["sync_count"]) == (0, 0)


def test_a_failed_sync_takes_what_was_not_synced_and_the_next_succeeds(disk: FaultyDisk, target: Path) -> None:
    disk["sync_fails_at"] = 2
    script = """
os.pwrite(fd, b'safe', 0)
print(tried(os.fdatasync, fd))
os.pwrite(fd, b'gone', 4); os.writev(fd, [b'SA', b'FE'])
print(tried(os.fsync, fd), tried(os.fdatasync, fd))
"""
    assert outcome(disk, target / "file", script) == "None\nInput/output error None"
    assert (target / "file").read_bytes() == bytes(8)
    assert (disk["sync_count"], disk["sync_failed_count"]) == (3, 1)


def test_a_full_disk_takes_what_fits(disk: FaultyDisk, target: Path) -> None:
    disk["write_room_bytes"] = 5
    script = """
print(tried(os.write, fd, b'abc'), tried(os.pwritev, fd, [b'de', b'fg'], 3), tried(os.write, fd, b'x'))
print(tried(os.posix_fallocate, fd, 0, 10))
"""
    assert outcome(disk, target / "file", script) == "3 2 No space left on device\nNo space left on device"
    assert (target / "file").read_bytes() == b"abcde"


def test_short_writes(disk: FaultyDisk, target: Path) -> None:
    disk["short_every"] = 2
    script = "print(os.write(fd, b'abcd'), os.write(fd, b'efgh'), os.pwrite(fd, b'ij', 6))"
    assert outcome(disk, target / "file", script) == "4 2 2"
    assert (target / "file").read_bytes() == b"abcdefij"


def test_slow_and_hung_syncs(disk: FaultyDisk, target: Path) -> None:
    disk["sync_delay_ms"] = 30
    timed = "import time; begun = time.monotonic(); os.fsync(fd); print(time.monotonic() - begun >= 0.03)"
    assert outcome(disk, target / "file", timed) == "True"
    disk["sync_hangs"] = 1
    command = [sys.executable, "-c", _PRELUDE + "os.fsync(fd)", str(target / "file")]
    with subprocess.Popen(command, env=disk.environment) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        disk.mend()
        assert process.wait(10) == 0
    assert disk["sync_hung_count"] == 1


def test_lies(disk: FaultyDisk, target: Path) -> None:
    disk["write_lies"] = 1
    assert outcome(disk, target / "file", "print(os.write(fd, b'abc'))") == "3"
    assert (target / "file").read_bytes() == b""


def test_a_range_of_one_file_cannot_be_read(disk: FaultyDisk, target: Path) -> None:
    (target / "file").write_bytes(b"0123456789" * 10)
    (target / "other").write_bytes(b"0123456789" * 10)
    disk.spoil(target / "file", 20, 25)
    script = """
print(os.pread(fd, 20, 0) == b'0123456789' * 2, tried(os.pread, fd, 1, 24), os.pread(fd, 3, 25))
print(tried(os.preadv, fd, [bytearray(8)], 15), tried(lambda: open(sys.argv[1], 'rb').read()))
"""
    bad = "Input/output error"
    assert outcome(disk, target / "file", script).splitlines() == [f"True {bad} b'567'", f"{bad} {bad}"]
    assert disk["read_failed_count"] == 3
    assert outcome(disk, target / "other", "print(len(os.pread(fd, 100, 0)))") == "100"
    disk.mend()
    assert outcome(disk, target / "file", "print(len(os.pread(fd, 100, 0)))") == "100"


def test_files_cannot_be_opened_for_reading(disk: FaultyDisk, target: Path, tmp_path: Path) -> None:
    (target / "file").write_bytes(b"x")
    (tmp_path / "elsewhere").write_bytes(b"x")
    disk["open_error"] = errno.EMFILE
    script = "print(tried(os.open, sys.argv[1], os.O_RDONLY), tried(open, sys.argv[1], 'rb'))"
    assert outcome(disk, target / "file", script) == "Too many open files Too many open files"
    assert "Too many" not in outcome(disk, tmp_path / "elsewhere", script)
    assert disk["open_failed_count"] == 2
