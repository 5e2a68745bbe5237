"""What the system says of this very process: descriptors, threads, processors, memory by kind. Asked when somebody
wants to know, and kept by nobody."""

from __future__ import annotations

import gc
import os
import re
import resource
import threading
from dataclasses import dataclass

# Where the system sets no limit.
UNLIMITED = 1 << 20


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    pid: int
    processors: int
    descriptors_used: int
    descriptors_max: int
    threads: int
    threads_max: int
    context_switches: int
    gc_runs: int
    gc_collected: int
    resident_bytes: int


def process_facts() -> ProcessFacts:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    collected = gc.get_stats()
    return ProcessFacts(
        pid=os.getpid(),
        processors=_processors(),
        descriptors_used=_descriptors_used(),
        descriptors_max=_limit(resource.RLIMIT_NOFILE),
        threads=threading.active_count(),
        threads_max=_limit(resource.RLIMIT_NPROC),
        context_switches=usage.ru_nvcsw + usage.ru_nivcsw,
        gc_runs=sum(generation["collections"] for generation in collected),
        gc_collected=sum(generation["collected"] for generation in collected),
        resident_bytes=memory_kinds()["rss"],
    )


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _descriptors_used() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _limit(kind: int) -> int:
    soft = resource.getrlimit(kind)[0]
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
