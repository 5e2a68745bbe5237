"""The system calls that are made to fail, the errors that each can give, and the test's hand on `calls.c`."""

import errno
import mmap
import os
import struct
import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tests.crash.faults import FaultyDisk

_SOURCE: Final = Path(__file__).with_name("calls.c")
_PATH_BYTES: Final = 512
# Stands for an errno: the call does half of what it is asked for, and says so.
SHORT: Final = 0


class Kind(Enum):
    """The value of each but the last is its place in calls.c."""

    OPEN = 0
    # open with O_CREAT.
    CREATE = 1
    OPENDIR = 2
    READDIR = 3
    READ = 4
    WRITE = 5
    RENAME = 6
    # And rmdir.
    UNLINK = 7
    MKDIR = 8
    STAT = 9
    TRUNCATE = 10
    ALLOCATE = 11
    MMAP = 12
    LOCK = 13
    ACCEPT = 14
    EVENTFD = 15
    THREAD = 16
    # fsync and fdatasync: done by shim.c.
    SYNC = 17


_COUNTED: Final = [kind for kind in Kind if kind is not Kind.SYNC]
_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)

# What each call can really give, by its manual page; not what follows only from a wrong argument, such as EBADF.
ERRORS: Final[dict[Kind, tuple[int, ...]]] = {
    Kind.OPEN: (*_DESCRIPTORS, errno.ENOMEM, errno.EIO, errno.EACCES),
    Kind.CREATE: (*_DESCRIPTORS, errno.ENOMEM, *_SPACE, errno.EIO, errno.EACCES),
    Kind.OPENDIR: (*_DESCRIPTORS, errno.ENOMEM, errno.EIO, errno.EACCES),
    Kind.READDIR: (errno.EIO,),
    Kind.READ: (errno.EIO, SHORT),
    Kind.WRITE: (*_SPACE, errno.EIO, SHORT),
    Kind.RENAME: (*_SPACE, errno.EIO),
    Kind.UNLINK: (errno.EIO, errno.ENOMEM),
    Kind.MKDIR: (*_SPACE, errno.ENOMEM, errno.EIO),
    Kind.STAT: (errno.ENOMEM, errno.EIO),
    Kind.TRUNCATE: (errno.EIO,),
    Kind.ALLOCATE: (*_SPACE, errno.EIO, errno.EOPNOTSUPP),
    Kind.MMAP: (errno.ENOMEM, errno.ENODEV),
    Kind.LOCK: (errno.ENOLCK, errno.EWOULDBLOCK),
    Kind.ACCEPT: (*_DESCRIPTORS, errno.ECONNABORTED, errno.ENOMEM, errno.ENOBUFS, errno.EPROTO, errno.EPERM),
    Kind.EVENTFD: (*_DESCRIPTORS, errno.ENOMEM),
    Kind.THREAD: (errno.EAGAIN,),
    Kind.SYNC: (errno.EIO, errno.ENOSPC),
}

# What may pass by itself: nothing is broken, and a broker that runs has to go on.
SHORTAGES: Final = frozenset({*_DESCRIPTORS, *_SPACE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS})


@dataclass(frozen=True, order=True)
class Fault:
    """The n-th call of a kind, counted from the start of the broker, fails with this error."""

    kind_name: str
    number: int
    error: int

    @property
    def kind(self) -> Kind:
        return Kind[self.kind_name]

    @property
    def may_stop(self) -> bool:
        """Whether a running broker may end because of it, having said why. A failed write or sync is the end of a
        store; whatever may pass, or concerns one connection or one read, is not."""
        match self.kind:
            case Kind.WRITE:
                return self.error != SHORT
            case Kind.SYNC:
                return True
            case Kind.ACCEPT | Kind.READ | Kind.READDIR | Kind.THREAD:
                return False
            case Kind.ALLOCATE:
                return self.error == errno.EIO
            case _:
                return self.error not in SHORTAGES

    def __str__(self) -> str:
        return f"{self.kind_name.lower()}:{self.number}:{error_name(self.error)}"

    @classmethod
    def parse(cls, text: str) -> "Fault":
        kind, number, error = text.split(":")
        return cls(kind.upper(), int(number), SHORT if error == "short" else getattr(errno, error))


def error_name(error: int) -> str:
    return "short" if error == SHORT else errno.errorcode[error]


class FaultyCalls:
    """The control file of `calls.c`, and the environment in which a broker's calls are counted and fail."""

    def __init__(self, directory: Path, target: Path) -> None:
        """Calls on files below the target count; the libraries and control files go into the directory."""
        self._disk = FaultyDisk(directory, target)
        library, control = directory / "calls.so", directory / "calls"
        command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        self._layout = struct.Struct(f"={5 + len(_COUNTED)}q{_PATH_BYTES}s")
        control.write_bytes(bytes(self._layout.size))
        with control.open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), self._layout.size)
        self.reset()
        self.environment = {
            **self._disk.environment,
            "LD_PRELOAD": f"{library} {self._disk.environment['LD_PRELOAD']}",
            "LEVERET_CALLS_DIRECTORY": self._disk.environment["LEVERET_FAULT_DIRECTORY"],
            "LEVERET_CALLS_CONTROL": str(control),
        }

    def reset(self, fault: Fault | None = None, sticky: bool = False) -> None:
        """Counts from nothing, and has this call fail, or none."""
        self._disk.mend()
        for word in ("sync_count", "sync_failed_count"):
            self._disk[word] = 0
        kind, number, error = -1, 0, 0
        if fault is not None and fault.kind is Kind.SYNC:
            self._disk["sync_error"] = fault.error
            self._disk["sync_fails_at"] = fault.number
        elif fault is not None:
            kind, number, error = fault.kind.value, fault.number, fault.error
        self._layout.pack_into(self._words, 0, kind, number, error, sticky, 0, *[0] * len(_COUNTED), b"")

    def mend(self) -> None:
        """Nothing fails any more; the counts stay."""
        struct.pack_into("=q", self._words, 0, -1)
        self._disk.mend()

    @property
    def counts(self) -> dict[Kind, int]:
        """How many calls of each kind there were since the last reset."""
        words = self._layout.unpack_from(self._words)
        return {**dict(zip(_COUNTED, words[5:-1], strict=True)), Kind.SYNC: self._disk["sync_count"]}

    @property
    def hits(self) -> int:
        """How many calls have failed."""
        return int(self._layout.unpack_from(self._words)[4]) + self._disk["sync_failed_count"]

    @property
    def path(self) -> str:
        """Of the first that failed; empty for a sync and for what has no file."""
        return os.fsdecode(self._layout.unpack_from(self._words)[-1].rstrip(b"\0"))
