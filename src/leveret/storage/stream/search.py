"""Finding the next good record of a stream's segment behind one that is damaged. Blocks: for threads and for starts."""

from __future__ import annotations

from collections.abc import Callable

from leveret.core.log.record_search import RecordSearch
from leveret.runtime.read_errors import read_around

WINDOW_BYTES = 4 * 1024 * 1024
# Longer than any record there is.
WINDOW_BYTES_MAX = 512 * 1024 * 1024
RECORD_HEAD_BYTES = 32
ENTRY = 6
ENTRY_HEAD_BYTES = 40
# The longest filter value there can be.
FILTER_BYTES_MAX = 65535


def claimed_length(data: bytes | bytearray, at: int) -> int:
    """The length that the record at data[at] says it has, 0 if that cannot be: then it is damaged."""
    length = int.from_bytes(data[at + 4 : at + 8], "big")
    if data[at + 16] != ENTRY:
        return length
    address, properties, body = (
        int.from_bytes(data[at + 18 : at + 20], "big"),
        int.from_bytes(data[at + 24 : at + 28], "big"),
        int.from_bytes(data[at + 28 : at + 32], "big"),
    )
    filter_size = length - ENTRY_HEAD_BYTES - address - properties - body
    return length if 0 <= filter_size <= FILTER_BYTES_MAX else 0


def find_next_record(
    fd: int, place: int, end: int, salt: int, offset: int, on_read: Callable[[int], None] = lambda _size: None
) -> int | None:
    """Where the next good record with this offset or a later one starts, from `place` up to `end`; None if there is
    none. What is short is found in windows; between them and what was found a longer one may be. `on_read` is told how
    many octets were read each time."""
    window = WINDOW_BYTES
    found = None
    while True:
        found_now = _sweep(fd, place, end, salt, offset, window, on_read)
        if found_now is not None:
            found = found_now
            # Only what is before it matters from now on, and ends there at the latest.
            end = found
        if window >= end - place or window >= WINDOW_BYTES_MAX:
            return found
        window *= 4


def _sweep(
    fd: int, place: int, end: int, salt: int, offset: int, window: int, on_read: Callable[[int], None]
) -> int | None:
    """Windows overlap by half, so that one of at most that length is seen wherever it is."""
    while place + RECORD_HEAD_BYTES <= end:
        # Sectors that cannot be read are zeros, which are no record.
        data = bytes(read_around(fd, min(window, end - place), place)[0])
        on_read(len(data))
        at: int = RecordSearch(data, salt).find(0, offset)
        if at >= 0:
            return place + at
        if len(data) < window:
            return None
        place += window // 2
    return None
