"""What only a look into all queues can tell: the oldest message, queues without consumers, bodies in memory."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.management.metrics.queue_columns import QueueView


@dataclass(slots=True)
class QueueSums:
    """Over all classic queues, but for the lag, which is of streams."""

    oldest_age_s: float = 0.0
    # Queues with ready messages and without a consumer.
    stranded: int = 0
    ready_ram: int = 0
    ram: int = 0
    ram_bytes: int = 0
    persistent: int = 0
    persistent_bytes: int = 0
    paged_out: int = 0
    paged_out_bytes: int = 0
    stream_lag: int = 0

    def add(self, view: QueueView) -> None:
        if view.ram is None or view.persistent is None:
            return
        tally = view.tally
        self.oldest_age_s = max(self.oldest_age_s, view.age_s or 0.0)
        self.stranded += tally.ready > 0 and tally.consumers == 0
        self.ready_ram += view.ram[0]
        self.ram += view.ram[0] + tally.unacked
        self.ram_bytes += view.ram[1] + tally.unacked_bytes
        self.persistent += view.persistent[0]
        self.persistent_bytes += view.persistent[1]
        self.paged_out += tally.ready - view.ram[0]
        self.paged_out_bytes += tally.ready_bytes - view.ram[1]
