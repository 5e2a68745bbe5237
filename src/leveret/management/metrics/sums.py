"""What only a walk over all queues can tell: the oldest message, and queues that nobody looks after.

Takes its time, see table.Pace; what it finds is of different moments, a few milliseconds apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from leveret.broker.broker import Broker
from leveret.core.stream.queue import StreamQueue
from leveret.management.metrics.queue_columns import QueueView
from leveret.management.metrics.table import Pace, Row


@dataclass(slots=True)
class QueueSums:
    """Over all classic queues, but for the lag, which is of streams."""

    oldest_age_s: float = 0.0
    # Queues with ready messages and without a consumer.
    stranded: int = 0
    ram: int = 0
    ram_bytes: int = 0
    persistent: int = 0
    persistent_bytes: int = 0
    paged_out: int = 0
    paged_out_bytes: int = 0
    stream_lag: int = 0

    def add(self, view: QueueView) -> None:
        tally = view.tally
        if view.ram is None or view.persistent is None:
            return
        self.oldest_age_s = max(self.oldest_age_s, view.age_s or 0.0)
        self.stranded += tally.ready > 0 and tally.consumers == 0
        self.ram += view.ram[0] + tally.unacked
        self.ram_bytes += view.ram[1] + tally.unacked_bytes
        self.persistent += view.persistent[0]
        self.persistent_bytes += view.persistent[1]
        self.paged_out += tally.ready - view.ram[0]
        self.paged_out_bytes += tally.ready_bytes - view.ram[1]


async def views_of(rows: Iterable[Row], now_ms: int, pace: Pace) -> list[Row]:
    """The rows with a look inside each queue."""
    found = []
    for labels, queue in rows:
        found.append((labels, QueueView(queue, now_ms)))
        await pace.rest()
    return found


async def stream_lags(broker: Broker, rows: Iterable[Row], pace: Pace) -> list[Row]:
    """How far the slowest consumer of each stream is behind what is committed; streams without consumers have none."""
    behind: dict[Any, int] = {}
    labels_of = {queue: labels for labels, queue in rows if isinstance(queue, StreamQueue)}
    for queue in labels_of:
        for consumer in queue.subscribers or ():
            _note(behind, queue, consumer.cursor)
        await pace.rest()
    if labels_of:
        for session in list(broker.connections.values()):
            for subscription in getattr(session, "subscriptions", {}).values():
                _note(behind, subscription.core.stream, subscription.core.cursor)
            await pace.rest()
    return [(labels_of[queue], lag) for queue, lag in behind.items() if queue in labels_of]


def _note(behind: dict[Any, int], queue: Any, cursor: Any) -> None:
    # One that has no place yet waits for it to be looked up.
    if cursor is not None:
        behind[queue] = max(behind.get(queue, 0), queue.committed_offset - cursor.offset)
