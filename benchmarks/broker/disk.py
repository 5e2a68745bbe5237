"""The disk under the brokers: which file system it is, and what one bare write and fdatasync cost there.

Durable figures are told as multiples of that bare write, taken right before in the same run: disks differ a
thousandfold, and the same disk differs by the hour. Called by __main__.py and durable_cases.py."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# What a 1 KiB message is in a log: the body with its properties, routing key and record header.
APPEND_BYTES = 1100
APPENDS_MAX = 2000
APPENDS_MIN = 20
# fdatasync does nothing there, so every durable figure would be a lie.
MEMORY_KINDS = frozenset({"tmpfs", "ramfs", "devtmpfs"})


class DiskError(Exception):
    """No directory on a real disk."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file system: its kind (ext4) and what it lies on (/dev/vda)."""

    kind: str
    device: str


@dataclass(frozen=True, slots=True)
class Appends:
    """Microseconds that one write and fdatasync took."""

    mean_us: float
    p50_us: float
    p99_us: float


def mount_of(path: Path, mountinfo: str) -> Mount:
    """The file system that holds `path`, from the text of /proc/self/mountinfo."""
    found, depth_max = Mount("unknown", "unknown"), 0
    for line in mountinfo.splitlines():
        place, _, source = line.partition(" - ")
        # Blanks in a path are written \040; nothing else of a mount point matters here.
        point = Path(place.split()[4].replace("\\040", " "))
        # Of two mounts on one point the later hides the earlier.
        if path.is_relative_to(point) and len(point.parts) >= depth_max:
            kind, device = source.split()[:2]
            found, depth_max = Mount(kind, device), len(point.parts)
    return found


def mounted(path: Path) -> Mount:
    return mount_of(path.resolve(), Path("/proc/self/mountinfo").read_text())


def data_root(asked: Path | None, cache: Path) -> Path:
    """Where the brokers keep their files: as asked, or the first of the usual places that is a real disk."""
    places = [asked] if asked else [Path(tempfile.gettempdir()), cache]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        if mounted(place).kind not in MEMORY_KINDS:
            return place.resolve()
    tried = ", ".join(f"{place} ({mounted(place).kind})" for place in places)
    raise DiskError(f"the brokers' files must lie on a disk, not in memory: {tried}; name one with --data-root")


def append_synced(directory: Path, seconds: float = 0.5) -> Appends:
    """Appends to a new file in `directory`, one fdatasync after each write, until the time or the count is up."""
    record = os.urandom(APPEND_BYTES)
    taken: list[float] = []
    # With a name, as a log has one: a file without is cheaper to sync on some file systems.
    with tempfile.NamedTemporaryFile(dir=directory, buffering=0) as file:
        number = file.fileno()
        end = time.perf_counter() + seconds
        while len(taken) < APPENDS_MAX:
            begun = time.perf_counter()
            if begun > end and len(taken) >= APPENDS_MIN:
                break
            os.write(number, record)
            os.fdatasync(number)
            taken.append((time.perf_counter() - begun) * 1e6)
    return Appends(statistics.fmean(taken), statistics.median(taken), statistics.quantiles(taken, n=100)[98])
