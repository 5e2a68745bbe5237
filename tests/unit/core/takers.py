"""Subscribers for tests of queues, without a channel behind them."""

from __future__ import annotations

from leveret.core.queue.contract import Entry, Subscriber
from leveret.core.queue.plain_queue import PlainQueue


class Taker(Subscriber):
    """Holds what it is given."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        super().__init__()
        self.capacity = capacity
        self.held: list[Entry] = []

    def can_take(self) -> bool:
        return len(self.held) < self.capacity

    def take(self, entry: Entry) -> int:
        self.held.append(entry)
        return 0

    def bodies(self) -> list[bytes]:
        return [entry.message.body for entry in self.held]


def ready_bodies(queue: PlainQueue) -> list[bytes]:
    return [entry.message.body for entry in queue.ready_entries()]
