"""What the publisher knows to be in the broker, and the comparison with what came out at another end.

Never looks at a broker or a lake itself: whoever has read one hands over the ids."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Difference", "Ledger"]

# Enough of them to find a pattern in.
SHOWN = 10


@dataclass(frozen=True)
class Difference:
    """Ids that are missing, ids with how often they are there if that is more than once, ids that nobody published."""

    missing: list[int]
    repeated: dict[int, int]
    unknown: list[int]

    def __bool__(self) -> bool:
        return bool(self.missing or self.repeated or self.unknown)

    def __str__(self) -> str:
        def some(ids: Iterable[object]) -> str:
            all_ids = list(ids)
            return f"{len(all_ids)} ({', '.join(map(str, all_ids[:SHOWN]))}{' ...' if len(all_ids) > SHOWN else ''})"

        parts = []
        if self.missing:
            parts.append(f"missing: {some(self.missing)}")
        if self.repeated:
            parts.append(f"more than once: {some(f'{one} {times}x' for one, times in self.repeated.items())}")
        if self.unknown:
            parts.append(f"never published: {some(self.unknown)}")
        return "; ".join(parts) or "no difference"


class Ledger:
    """Ids of messages by what the broker said about them. One thread writes, any may read."""

    def __init__(self, confirmed: Iterable[int] = ()) -> None:
        self._lock = threading.Lock()
        self._confirmed = set(confirmed)

    def confirm(self, ids: Iterable[int]) -> None:
        with self._lock:
            self._confirmed.update(ids)

    @property
    def count(self) -> int:
        with self._lock:
            return len(self._confirmed)

    @property
    def ids(self) -> set[int]:
        with self._lock:
            return set(self._confirmed)

    def compare(self, found: Iterable[int]) -> Difference:
        """Everything that was confirmed must be there, once, and nothing else."""
        times = Counter(found)
        confirmed = self.ids
        return Difference(
            missing=sorted(confirmed - times.keys()),
            repeated={one: count for one, count in sorted(times.items()) if count > 1},
            unknown=sorted(times.keys() - confirmed),
        )
