"""A declared queue under whatever name it has now.

Owns the name that can change: a queue that the broker named has another one after a reconnect, if it could not live
on. Whoever refers to the handle instead of the name is always right. Made and renamed by the manager alone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leveret.client.topology.records import Queue

__all__ = ["QueueCounts", "QueueHandle"]

# Names that a handle had are remembered for those who wrote one down; not for ever.
FORMER_NAMES_MAX = 64


class QueueCounts(NamedTuple):
    message_count: int
    consumer_count: int


class QueueHandle:
    """`counts` is what the broker said when the queue was declared last; Topology.counts asks again."""

    __slots__ = ("_former", "_name", "counts", "queue")

    def __init__(self, queue: Queue, name: str, counts: QueueCounts) -> None:
        self.queue = queue
        self.counts = counts
        self._name = name
        self._former: deque[str] = deque(maxlen=FORMER_NAMES_MAX)

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_server_named(self) -> bool:
        return not self.queue.name

    def knows(self, name: str) -> bool:
        """Whether this is, or was, the queue's name."""
        return name == self._name or name in self._former

    def rename(self, name: str) -> None:
        """For the manager, when the broker gave the queue another name."""
        self._former.append(self._name)
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"QueueHandle({self._name!r})"
