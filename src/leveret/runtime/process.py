"""What the system says of this process, for people who watch it: descriptors, threads, processors, switches, garbage,
memory by kind. Asked when somebody wants to know, and kept by nobody."""

from __future__ import annotations

import errno
import gc
import os
import re
import resource
import threading
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")
STATUS = Path("/proc/self/status")
# Where the system sets no limit.
UNLIMITED = 1 << 20
# How the kernel names what a process holds, and how we do.
MEMORY_KINDS = {"VmRSS": "rss", "RssAnon": "anonymous", "RssFile": "files", "RssShmem": "shared", "VmSwap": "swapped"}


def descriptors_used() -> int:
    """0 where the system does not say."""
    try:
        # One of them is the listing itself.
        return len(os.listdir(DESCRIPTORS)) - 1
    except OSError as error:
        # No descriptor is left even for the listing: all are in use.
        return descriptors_max() if error.errno == errno.EMFILE else 0


def descriptors_max() -> int:
    return _limit(resource.RLIMIT_NOFILE)


def threads_used() -> int:
    return threading.active_count()


def threads_max() -> int:
    return _limit(resource.RLIMIT_NPROC)


def _limit(kind: int) -> int:
    soft = resource.getrlimit(kind)[0]
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def processors() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def context_switches() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw


def garbage_collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def garbage_collected() -> int:
    """Objects, not octets."""
    return sum(generation["collected"] for generation in gc.get_stats())


def memory_kinds() -> dict[str, int]:
    """Octets by kind; 0 where the system does not say."""
    found = dict.fromkeys(MEMORY_KINDS.values(), 0)
    try:
        status = STATUS.read_text("ascii", "replace")
    except OSError:
        found["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return found
    for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE):
        if name in MEMORY_KINDS:
            found[MEMORY_KINDS[name]] = int(size) * 1024
    return found


def machine_name() -> str:
    return os.uname().nodename or "localhost"
