"""Memory: how much this process may use, how much it holds, and giving back what it has freed.

Only asks the system; who decides on the figures is node.watch. Paths start at `root`, so that a test can bring its own
/proc and /sys."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

# Files with a limit in a directory of a cgroup. Above memory.high nothing is killed, but every allocation is slowed
# down until the process crawls, so that this too is a limit.
LIMIT_FILES_V1 = ("memory.limit_in_bytes",)
LIMIT_FILES_V2 = ("memory.max", "memory.high")


def memory_limit_bytes(root: str = "/") -> int:
    """The least of the machine's memory and the limits of this process's cgroups, version 1 or 2.

    "max", and the astronomic figures that version 1 has in its place, are no limits: they never are the least. Where
    there is no /proc (macOS) it is what the system says the machine has."""
    limits = [_physical_bytes(root)]
    for directory, top, names in _memory_cgroups(root):
        limits.extend(_limits_upwards(directory, top, names))
    return min(limits)


def _physical_bytes(root: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB$", _text(os.path.join(root, "proc/meminfo")), re.MULTILINE)
    if found is None:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(found[1]) * 1024


def _memory_cgroups(root: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Per hierarchy that may limit memory: this process's directory, the top one, and the files with limits."""
    mounts = _cgroup_mounts(root)
    for line in _text(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in mounts:
            continue
        seen_from, mount_point = mounts[kind]
        # In a container the mount may show only a part of the hierarchy, while the path starts at the real top. A path
        # outside of that part belongs to a parent that cannot be seen: the visible top is then the best there is.
        inside = os.path.relpath(path, seen_from)
        outside = inside.split("/", 1)[0] == ".."
        directory = mount_point if outside else os.path.normpath(os.path.join(mount_point, inside))
        yield directory, mount_point, LIMIT_FILES_V1 if kind == "memory" else LIMIT_FILES_V2


def _cgroup_mounts(root: str) -> dict[str, tuple[str, str]]:
    """What the mount shows of its hierarchy, and where: under "memory" for version 1, under "" for version 2."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in _text(os.path.join(root, "proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        places, kinds = before.split(), after.split()
        if len(places) < 5 or len(kinds) < 3:
            continue
        shown, mount_point = (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), p) for p in places[3:5])
        mount_point = os.path.normpath(os.path.join(root, mount_point.lstrip("/")))
        if kinds[0] == "cgroup2":
            mounts.setdefault("", (shown, mount_point))
        elif kinds[0] == "cgroup" and "memory" in kinds[2].split(","):
            mounts.setdefault("memory", (shown, mount_point))
    return mounts


def _limits_upwards(directory: str, top: str, names: tuple[str, ...]) -> Iterator[int]:
    """Limits of a cgroup and of all that it is nested in: each holds for the whole below it."""
    while True:
        for name in names:
            text = _text(os.path.join(directory, name)).strip()
            # A limit of nothing cannot be meant for a process that runs.
            if text.isdecimal() and int(text) > 0:
                yield int(text)
        if len(directory) <= len(top):
            return
        directory = os.path.dirname(directory)


def _text(path: str) -> str:
    """What a file holds, or nothing if it cannot be read: each of these is absent on some system."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


class ResidentMemory:
    """What this process holds of the machine's memory. Keeps a file open, so that asking costs one system call.

    Where there is no /proc (macOS) the answer is the most that it has ever held, which never falls: good enough to
    develop with, but an alarm for it ends only with the process."""

    def __init__(self, root: str = "/") -> None:
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        try:
            self._fd = os.open(os.path.join(root, "proc/self/statm"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1
        self._malloc_trim: Callable[[int], int] | None = None
        self._malloc_info: Callable[[], Any] | None = None
        self._sought = False

    def resident_bytes(self) -> int:
        if self._fd < 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024
        return int(os.pread(self._fd, 128, 0).split(None, 2)[1]) * self._page_bytes

    def give_back(self) -> bool:
        """Makes the C library return freed memory to the system; False where it cannot be told to (not glibc)."""
        self._seek()
        if self._malloc_trim is None:
            return False
        self._malloc_trim(0)
        return True

    def free_bytes(self) -> int:
        """What the C library keeps that is not in use, whether it was returned to the system or not; 0 where it does
        not say (not glibc, or one before 2.33)."""
        self._seek()
        return 0 if self._malloc_info is None else int(self._malloc_info().fordblks)

    def _seek(self) -> None:
        if not self._sought:
            self._sought = True
            self._malloc_trim, self._malloc_info = _find_malloc()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


# Of glibc's struct mallinfo2, in order.
_MALLOC_FIGURES = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


def _find_malloc() -> tuple[Callable[[int], int] | None, Callable[[], Any] | None]:
    # Imported here: most processes never need it, and it would slow every start down.
    try:
        import ctypes

        library = ctypes.CDLL(None)
        trim = library.malloc_trim
    except (ImportError, OSError, AttributeError):
        return None, None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    info = getattr(library, "mallinfo2", None)
    if info is not None:
        figures = [(name, ctypes.c_size_t) for name in _MALLOC_FIGURES]
        info.argtypes, info.restype = [], type("MallocInfo", (ctypes.Structure,), {"_fields_": figures})
    return trim, info
