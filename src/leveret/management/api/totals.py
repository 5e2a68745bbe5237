"""What virtual hosts hold and have seen, all in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leveret.broker.vhost import LiveVhost
from leveret.core.tally import QueueTally, add_queues
from leveret.management.api.numbers import CHANNEL_STATS, Described, queue_counts


@dataclass(frozen=True, slots=True)
class VhostTotals:
    queues: int
    consumers: int
    # messages, messages_ready, messages_unacknowledged
    lengths: dict[str, int]
    # What the queues have counted, by the names of message_stats; 0 for what only channels count.
    counts: dict[str, int]


def totals_in(vhosts: Iterable[LiveVhost]) -> VhostTotals:
    """Runs over all their queues, in compiled code: a millisecond for ten thousand."""
    classic, stream = QueueTally(), QueueTally()
    for vhost in vhosts:
        add_queues(vhost.queues, classic, stream)
    counts = {**dict.fromkeys(CHANNEL_STATS, 0), **queue_counts(classic)}
    for name, count in queue_counts(stream).items():
        counts[name] += count
    return VhostTotals(
        classic.queues + stream.queues,
        classic.consumers + stream.consumers,
        {
            "messages": classic.ready + classic.unacked + stream.ready,
            "messages_ready": classic.ready + stream.ready,
            "messages_unacknowledged": classic.unacked,
        },
        counts,
    )


def without_rates(values: dict[str, int]) -> Described:
    """For parts of a node that nobody samples: they stand still."""
    return {key: what for name, value in values.items() for key, what in ((name, value), (f"{name}_details", STILL))}


STILL = {"rate": 0.0}
