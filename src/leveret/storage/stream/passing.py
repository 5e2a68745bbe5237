"""How a reader of a stream gets past what cannot be read: around bad sectors, and to the next good record. Blocks: for
threads. Raises OSError where something is short; never takes that for an end or for damage."""

from __future__ import annotations

import os
from pathlib import Path

from leveret.core.stream.cursor import RESULT_BYTES
from leveret.core.stream.segment import StreamSegment
from leveret.runtime.read_errors import Holes, read_around
from leveret.storage.stream.search import find_next_record


def read_stretch(path: Path, place: int, size: int) -> tuple[bytearray, Holes]:
    """A stretch with room for a result before it; sectors that the disk cannot read are zeros, and told."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data, holes = read_around(fd, size, place)
    finally:
        os.close(fd)
    # What the file does not have is zeros: it really ends there.
    return bytearray(RESULT_BYTES) + data + bytes(size - len(data)), holes


def find_next_entry(segment: StreamSegment, place: int, end: int, offset: int) -> tuple[int, int] | None:
    """The next good record behind this place: its offset and its place."""
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = find_next_record(fd, place, end, segment.salt, offset)
        if found is None:
            return None
        head, _ = read_around(fd, 8, found + 8)
        return int.from_bytes(head, "big"), found
    finally:
        os.close(fd)


def is_missing(path: Path) -> bool:
    """Whether the directory can be read and does not have this name. Raises OSError if it cannot be read."""
    return path.name not in os.listdir(path.parent)
