"""Files and directories: made whole or not at all, replaced without a moment between, locked for one process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leveret.runtime import files
from leveret.runtime.files import (
    DirectoryLock,
    create_file,
    cut_file,
    remove_files,
    replace_file,
    sync_directory,
    write_all,
)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, as names of files and directories."""
    seen: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        seen.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    monkeypatch.setattr(files.os, "fsync", watched)
    return seen


def test_a_new_file_is_durable_with_its_name(tmp_path: Path, syncs: list[str]) -> None:
    fd = create_file(tmp_path / "new", b"head", 4096)
    try:
        assert os.pread(fd, 8, 0) == b"head" + bytes(4)
        assert os.fstat(fd).st_size == 4096
        assert syncs == ["new", tmp_path.name]
        assert os.write(fd, b"more") == 4
        assert os.pread(fd, 8, 0) == b"headmore"
    finally:
        os.close(fd)


def test_a_file_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "there", b"head")
    assert (tmp_path / "there").read_bytes() == b"old"


def test_a_file_that_cannot_be_made_whole_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(files.os, "posix_fallocate", full)
    with pytest.raises(OSError, match="no space"):
        create_file(tmp_path / "new", b"head", 4096)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_cannot_reserve_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def unable(*_arguments: Any) -> None:
        raise OSError(code, "cannot")

    monkeypatch.setattr(files.os, "posix_fallocate", unable)
    os.close(create_file(tmp_path / "new", b"head", 4096))
    assert (tmp_path / "new").read_bytes() == b"head"


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(files.os, "write", lambda fd, data: write(fd, data[:3]))
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_all(fd, b"0123456789")
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, syncs: list[str]) -> None:
    path = tmp_path / "file"
    replace_file(path, b"first")
    replace_file(path, bytearray(b"2nd"))
    assert path.read_bytes() == b"2nd"
    assert syncs == ["file.new", tmp_path.name] * 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace_file(path, b"old")

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"


def test_what_a_crash_left_of_a_replacement_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "file.new").write_bytes(b"half of something longer")
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_file_is_cut_for_good(tmp_path: Path, syncs: list[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    cut_file(path, 4)
    assert path.read_bytes() == b"0123"
    assert syncs == ["file"]


def test_files_are_removed_with_their_names(tmp_path: Path, syncs: list[str]) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two").touch()
    remove_files([tmp_path / "one", tmp_path / "gone", tmp_path / "sub" / "two"])
    assert [entry.name for entry in tmp_path.rglob("*")] == ["sub"]
    assert sorted(syncs) == sorted([tmp_path.name, "sub"])
    remove_files([])


def test_a_directory_that_is_not_there_cannot_be_synced(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "none")


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = DirectoryLock(path)
    assert path.read_text() == f"{os.getpid()}\n"
    with pytest.raises(BlockingIOError):
        DirectoryLock(path)
    assert path.read_text() == f"{os.getpid()}\n", "whoever fails leaves the owner's number there"
    lock.release()
    DirectoryLock(path).release()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    script = f"import os; from pathlib import Path; from leveret.runtime.files import DirectoryLock; \
DirectoryLock(Path({str(path)!r})); os.kill(os.getpid(), 9)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=60).returncode == -9
    assert path.read_text().strip().isdigit()
    DirectoryLock(path).release()
