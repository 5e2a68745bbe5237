"""What a store has done since it was opened, as plain numbers for statistics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IoTotals:
    """What the disk had to do for messages; streams read by other ways."""

    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0
    syncs: int = 0


@dataclass(frozen=True, slots=True)
class ReadTotals:
    """`quarantined` records were given up since the start, reads were tried again so often, and so many wait now."""

    quarantined: int = 0
    retries: int = 0
    waiting: int = 0
