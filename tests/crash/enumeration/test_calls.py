"""The shim that counts calls and lets one fail: files below its directory and no others, the n-th call, once or for
good."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.enumeration.calls import Fault, FaultyCalls, Kind

_PRELUDE = """
import os, sys
path = sys.argv[1]
def tried(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return error.strerror
"""


def outcome(calls: FaultyCalls, path: Path, script: str) -> str:
    command = [sys.executable, "-c", _PRELUDE + script, str(path)]
    return subprocess.run(command, env=calls.environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def calls(tmp_path: Path, target: Path) -> FaultyCalls:
    return FaultyCalls(tmp_path / "shim", target)


_EVERYTHING = """
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.write(fd, b'abc'); os.pwrite(fd, b'd', 3); os.writev(fd, [b'e'])
os.pread(fd, 1, 0); os.preadv(fd, [bytearray(1)], 0)
os.posix_fallocate(fd, 0, 10); os.ftruncate(fd, 5); os.fsync(fd); os.fstat(fd)
os.close(os.open(path, os.O_RDONLY)); os.rename(path, path + '2'); os.unlink(path + '2')
os.mkdir(path); os.listdir(path); os.rmdir(path)
"""


def test_every_kind_is_counted(calls: FaultyCalls, target: Path) -> None:
    outcome(calls, target / "file", _EVERYTHING)
    expected = {
        Kind.CREATE: 1,
        Kind.OPEN: 1,
        Kind.WRITE: 3,
        Kind.READ: 2,
        Kind.ALLOCATE: 1,
        Kind.TRUNCATE: 1,
        Kind.SYNC: 1,
        Kind.STAT: 1,
        Kind.RENAME: 1,
        Kind.UNLINK: 2,
        Kind.MKDIR: 1,
        Kind.OPENDIR: 1,
    }
    assert {kind: calls.counts[kind] for kind in expected} == expected


def test_files_elsewhere_do_not_count(calls: FaultyCalls, tmp_path: Path) -> None:
    outcome(calls, tmp_path / "data-of-another", _EVERYTHING)
    files = set(Kind) - {Kind.ACCEPT, Kind.EVENTFD, Kind.THREAD}
    assert {kind for kind in files if calls.counts[kind]} == set()


@pytest.mark.parametrize(
    ("sticky", "expected"),
    [(False, "3 No space left on device 3"), (True, "3 No space left on device No space left on device")],
)
def test_the_nth_call_fails(calls: FaultyCalls, target: Path, sticky: bool, expected: str) -> None:
    calls.reset(Fault("WRITE", 2, errno.ENOSPC), sticky)
    script = "fd = os.open(path, os.O_RDWR | os.O_CREAT)\nprint(*[tried(os.write, fd, b'abc') for _ in range(3)])"
    assert outcome(calls, target / "file", script) == expected
    assert calls.hits == (2 if sticky else 1) and calls.path == str(target / "file")
    assert (target / "file").read_bytes() == (b"abc" if sticky else b"abcabc")


def test_half_a_read_and_half_a_write(calls: FaultyCalls, target: Path) -> None:
    (target / "file").write_bytes(b"abcdef")
    calls.reset(Fault("READ", 1, 0))
    script = "fd = os.open(path, os.O_RDWR)\nprint(os.pread(fd, 6, 0), os.pread(fd, 6, 0))"
    assert outcome(calls, target / "file", script) == "b'abc' b'abcdef'"
    calls.reset(Fault("WRITE", 1, 0))
    assert outcome(calls, target / "file", "fd = os.open(path, os.O_RDWR)\nprint(os.pwrite(fd, b'xxxx', 0))") == "2"
    assert outcome(calls, target / "file", "fd = os.open(path, os.O_RDWR)\nprint(os.pwritev(fd, [b'x'], 0))") == "1"


def test_a_failed_sync_has_its_errno_and_takes_what_was_written(calls: FaultyCalls, target: Path) -> None:
    calls.reset(Fault("SYNC", 1, errno.ENOSPC))
    script = "fd = os.open(path, os.O_RDWR | os.O_CREAT)\nos.write(fd, b'abc')\nprint(tried(os.fdatasync, fd))"
    assert outcome(calls, target / "file", script) == "No space left on device"
    assert (target / "file").read_bytes() == bytes(3)


def test_no_thread_and_no_event(calls: FaultyCalls, target: Path) -> None:
    calls.reset(Fault("THREAD", 1, errno.EAGAIN))
    script = """
import threading
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error)
"""
    assert outcome(calls, target / "file", script) == "can't start new thread"
    calls.reset(Fault("EVENTFD", 1, errno.EMFILE))
    assert outcome(calls, target / "file", "print(tried(os.eventfd, 0))") == "Too many open files"
    calls.mend()
    assert outcome(calls, target / "file", "os.close(os.eventfd(0))") == ""
