"""File descriptors of this process: how many are open, and how many may be."""

from __future__ import annotations

import os
import resource

# Where the system sets no limit.
UNLIMITED = 1 << 20


def open_descriptors(directory: str = "/proc/self/fd") -> int | None:
    """None where the system does not say (macOS). The one that looks is not counted."""
    try:
        return len(os.listdir(directory)) - 1
    except OSError:
        return None


def descriptors_max() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft
