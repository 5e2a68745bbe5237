"""A small file system of a test's own, in a mount namespace that only the test and its broker share.

Nothing is left behind, however the test ends: the namespace lives as long as the keeper and the broker do, the keeper
lives until the test's end of a pipe is closed, and with the namespace go its mounts and loop devices. The namespace is
private because any copy of the mount table elsewhere would keep a dead file system alive over the remount."""

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

# EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: what was not synced, the journal included, is gone.
_SHUT_DOWN: Final = 0x8004587D
_WITHOUT_FLUSH: Final = struct.pack("I", 2)
_COMMANDS: Final = ("unshare", "nsenter", "mount", "umount", "losetup", "mkfs.ext4")
_UNMOUNT_S_MAX: Final = 20.0
MIB: Final = 1024 * 1024


class Volume:
    """An ext4 image or a tmpfs. `path` is where its broker sees it, `seen_from_here` where the test sees it."""

    def __init__(self, directory: Path, size_bytes: int, kind: str = "ext4") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self.size_bytes = size_bytes
        self.path = directory / "volume"
        self.path.mkdir()
        self.image = directory / "volume.img"
        self.is_mounted = False
        if kind == "ext4":
            with self.image.open("wb") as image:
                image.truncate(size_bytes)
            _run("mkfs.ext4", "-qF", str(self.image))
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"ready\n", "no mount namespace"

    def __enter__(self) -> Self:
        self.mount()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Put before a command, runs it where the volume is mounted."""
        return ("nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", f"--wd={os.getcwd()}", "--")

    @property
    def seen_from_here(self) -> Path:
        return Path(f"/proc/{self._keeper.pid}/root{self.path}")

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.seen_from_here)
        return found.f_bavail * found.f_frsize

    def mount(self) -> None:
        if self.kind == "ext4":
            _run(*self.prefix, "mount", "-o", "loop", str(self.image), str(self.path))
        else:
            _run(*self.prefix, "mount", "-t", self.kind, "-o", f"size={self.size_bytes}", self.kind, str(self.path))
        self.is_mounted = True

    def limit(self, free_bytes: int, free_files: int) -> None:
        """Leaves so much room in a tmpfs, beside what is in it now; while it is in use."""
        assert self.kind == "tmpfs", "only a tmpfs can be made smaller"
        found = os.statvfs(self.seen_from_here)
        size = (found.f_blocks - found.f_bfree) * found.f_frsize + free_bytes
        files = found.f_files - found.f_ffree + free_files
        _run(*self.prefix, "mount", "-o", f"remount,size={size},nr_inodes={files}", str(self.path))

    def unmount(self) -> None:
        """The processes that used it must be dead; the kernel may still be busy burying them."""
        deadline = time.monotonic() + _UNMOUNT_S_MAX
        while (done := _try(*self.prefix, "umount", str(self.path))).returncode:
            assert "busy" in done.stderr and time.monotonic() < deadline, done.stderr
            time.sleep(0.02)
        self.is_mounted = False

    def shut_down(self) -> None:
        """From now on nothing reaches the image; what was not synced never will."""
        directory = os.open(self.seen_from_here, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(directory, _SHUT_DOWN, _WITHOUT_FLUSH)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Unmounts and ends the namespace. The broker must have been ended before."""
        try:
            if self.is_mounted:
                self.unmount()
        finally:
            assert self._keeper.stdin is not None and self._keeper.stdout is not None
            self._keeper.stdin.close()
            self._keeper.stdout.close()
            self._keeper.wait(20)
            self.image.unlink(missing_ok=True)


def _try(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _run(*command: str) -> None:
    done = _try(*command)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


@cache
def obstacle() -> str:
    """Why volumes and their shutdown do not work here, found out by doing it; empty if they do."""
    # The tools of the file systems are for root, and in places that not everybody's path has.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [command for command in _COMMANDS if not shutil.which(command)]
    if missing:
        return f"{', '.join(missing)} not found"
    if os.geteuid() != 0:
        return "mounting needs root"
    directory = Path(tempfile.mkdtemp(prefix="leveret-volume-"))
    try:
        return _rehearsal(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _rehearsal(directory: Path) -> str:
    try:
        with Volume(directory, 16 * MIB) as volume:
            (volume.seen_from_here / "lost").write_bytes(b"not synced")
            volume.shut_down()
            volume.unmount()
            volume.mount()
            if (volume.seen_from_here / "lost").exists():
                return "the shutdown of ext4 kept what was not synced"
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return f"ext4 on a loop device cannot be mounted and shut down: {error}"
    return ""


def skip_without_volumes() -> None:
    if reason := obstacle():
        pytest.skip(f"needs root, loop devices, mount namespaces and the shutdown ioctl of ext4: {reason}")
