"""What only a look into all queues can tell: the oldest message, queues that nobody looks after, bodies in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leveret.management.metrics.table import Pace, Row


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


async def sum_up(queues: Iterable[Row], lags: Iterable[Row], pace: Pace) -> QueueSums:
    """`queues` are rows of QueueView, `lags` of figures."""
    sums = QueueSums(stream_lag=max((lag for _, lag in lags), default=0))
    for _, view in queues:
        await pace.rest()
        if view.ram is None:
            continue
        tally = view.tally
        sums.oldest_age_s = max(sums.oldest_age_s, view.age_s or 0.0)
        sums.stranded += tally.ready > 0 and tally.consumers == 0
        sums.ready_ram += view.ram[0]
        sums.ram += view.ram[0] + tally.unacked
        sums.ram_bytes += view.ram[1] + tally.unacked_bytes
        sums.persistent += view.persistent[0]
        sums.persistent_bytes += view.persistent[1]
        sums.paged_out += tally.ready - view.ram[0]
        sums.paged_out_bytes += tally.ready_bytes - view.ram[1]
    return sums
