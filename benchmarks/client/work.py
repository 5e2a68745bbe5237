"""What every client library is asked to do, and how it tells its figures.

Each library has a file that implements these with its own means, as its documentation advises."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Protocol

QUEUE = "bench"


@dataclass(frozen=True)
class Task:
    case: str
    url: str
    messages: int
    size: int
    # Publishes under way at once.
    concurrency: int
    prefetch: int
    # Whether a confirm waits for the disk.
    persistent: bool

    @property
    def body(self) -> bytes:
        return b"x" * self.size


class Library(Protocol):
    def publish(self, task: Task) -> list[float]:
        """Publishes with confirms, so many at once; the seconds of each."""

    def consume(self, task: Task) -> float:
        """Takes and acknowledges each of the messages that are there; the seconds for all, from the first delivery."""

    def batch(self, task: Task) -> float:
        """Publishes all with confirms as the library is fastest at it; the seconds for all."""

    def round_trip(self, task: Task) -> list[float]:
        """Publishes one, receives it, and only then the next; the seconds of each."""


def percentile(values: list[float], part: float) -> float:
    return statistics.quantiles(values, n=1000)[round(part * 10) - 1] if len(values) > 1 else values[0]
