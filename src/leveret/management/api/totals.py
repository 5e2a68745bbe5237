"""What virtual hosts hold and have seen, all in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leveret.broker.vhost import LiveVhost
from leveret.core.tally import QueueTally, add_queues
from leveret.operations.statistics.views import DELIVER_GET, DELIVER_GROUP, PUBLISH_GROUP


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
    counts = dict.fromkeys((*DELIVER_GROUP, *PUBLISH_GROUP), 0)
    for tally in (classic, stream):
        for name in ("publish", *DELIVER_GROUP):
            counts[name] += 0 if name == "deliver_get" else getattr(tally, name)
    counts["deliver_get"] = sum(counts[name] for name in DELIVER_GET)
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
