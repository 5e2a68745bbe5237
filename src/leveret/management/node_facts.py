"""What the system says of this process beside what runtime/process.py knows: processors, limits, memory by kind. Asked
when somebody wants to know, and kept by nobody."""

from __future__ import annotations

import os
import re
import resource

# Where the system sets no limit.
UNLIMITED = 1 << 20


def processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_max() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


# How the kernel names what a process holds, and how we do.
_KINDS = {"VmRSS": "rss", "RssAnon": "anonymous", "RssFile": "files", "RssShmem": "shared", "VmSwap": "swapped"}


def memory_kinds() -> dict[str, int]:
    """Octets by kind; 0 where the system does not say."""
    found = dict.fromkeys(_KINDS.values(), 0)
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", file.read(), re.MULTILINE):
                if name in _KINDS:
                    found[_KINDS[name]] = int(size) * 1024
    except OSError:
        found["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found
