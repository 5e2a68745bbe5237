"""The test's hand on the misbehaving disk: compiles `shim.c`, and switches its faults while a broker runs.

The shim sees calls of libc, so it does not see io_uring or writes through a mapping; the storage uses neither."""

import mmap
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = Path(__file__).with_name("shim.c")

# The words of the control file, each a signed 64 bit number, in the order of struct control in shim.c.
WORDS: Final = (
    "sync_fails_at",
    "write_room_bytes",
    "short_every",
    "sync_delay_ms",
    "sync_hangs",
    "sync_error",
    "syncs_fail",
    "sync_lies",
    "write_lies",
    "bad_inode",
    "bad_start",
    "bad_end",
    "open_error",
    "sync_count",
    "sync_failed_count",
    "sync_hung_count",
    "write_count",
    "write_failed_count",
    "write_short_count",
    "read_failed_count",
    "open_failed_count",
)


class FaultyDisk:
    """The control file and the environment that puts a broker onto this disk. A new one has no faults."""

    def __init__(self, directory: Path, target: Path) -> None:
        """Faults are made in files below the target; the shim and the control file go into the directory."""
        if not shutil.which("gcc"):
            pytest.skip("gcc is missing, which compiles the faulty disk; install with: apt-get install gcc libc6-dev")
        directory.mkdir(parents=True, exist_ok=True)
        shim, control = directory / "shim.so", directory / "control"
        subprocess.run(
            # What it calls of its own must not go through another library that is preloaded, too.
            ["gcc", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", str(shim), str(_SOURCE), "-ldl", "-lpthread"],
            check=True,
        )
        control.write_bytes(bytes(8 * len(WORDS)))
        with control.open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), 8 * len(WORDS))
        self["write_room_bytes"] = -1
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(shim),
            # As the kernel names it: a path with a link in it would never match.
            "LEVERET_FAULT_DIRECTORY": str(target.parent.resolve() / target.name),
            "LEVERET_FAULT_CONTROL": str(control),
        }

    def __getitem__(self, word: str) -> int:
        value: int = struct.unpack_from("=q", self._words, 8 * WORDS.index(word))[0]
        return value

    def __setitem__(self, word: str, value: int) -> None:
        struct.pack_into("=q", self._words, 8 * WORDS.index(word), value)

    def spoil(self, path: Path | None, start: int, end: int) -> None:
        """The disk cannot read this range of the file, or of every file."""
        self["bad_inode"] = 0 if path is None else path.stat().st_ino
        self["bad_start"], self["bad_end"] = start, end

    def mend(self) -> None:
        """No faults any more; what hangs goes on. The counts stay."""
        for word in WORDS[: WORDS.index("sync_count")]:
            self[word] = -1 if word == "write_room_bytes" else 0


def wait_for(what: str, condition: Callable[[], bool], wait_s: float = 60.0) -> None:
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {wait_s} s for {what}"
        time.sleep(0.005)
