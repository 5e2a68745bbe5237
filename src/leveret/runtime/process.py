"""What the system says of this process, for people who watch it: descriptors, threads, switches, collected garbage."""

from __future__ import annotations

import gc
import os
import resource
import threading
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")


def descriptors_used() -> int:
    """0 where the system does not say."""
    try:
        # One of them is the listing itself.
        return len(os.listdir(DESCRIPTORS)) - 1
    except OSError:
        return 0


def descriptors_max() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def threads_used() -> int:
    return threading.active_count()


def context_switches() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw


def garbage_collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def garbage_collected() -> int:
    """Objects, not octets."""
    return sum(generation["collected"] for generation in gc.get_stats())
