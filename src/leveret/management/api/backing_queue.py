"""`backing_queue_status`: where the messages of a classic queue are, in the words of RabbitMQ 3.x, for tools that read
them. Says nothing that a queue here has no equivalent of."""

from __future__ import annotations

from typing import Any

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.management.api.numbers import Described, moves
from leveret.management.http.request import Request

# What RabbitMQ averages over, and the counters of ours that are the same.
RATES = {
    "avg_ingress_rate": ("publish",),
    "avg_egress_rate": ("deliver_get",),
    "avg_ack_ingress_rate": ("deliver", "get"),
    "avg_ack_egress_rate": ("ack",),
}
AT_REST = dict.fromkeys(RATES, 0.0)
# Of messages whose place is not in memory either: there are none.
NO_DELTA = ["delta", "undefined", 0, 0, "undefined"]
STORAGE_VERSION = 2


def backing_queue_status(request: Request, queue: ClassicQueue, sizes: dict[str, int | None]) -> Described:
    """`q4` is what is in memory at the head, `q3` what is behind it on disk alone, with its place in memory."""
    return {
        "mode": mode_of(queue),
        "version": STORAGE_VERSION,
        "len": sizes["messages_ready"],
        "q1": 0,
        "q2": 0,
        "q3": sizes["messages_paged_out"],
        "q4": sizes["messages_ready_ram"],
        "delta": NO_DELTA,
        # Not the number of messages in memory is bounded, but their octets.
        "target_ram_count": "infinity",
        "next_seq_id": queue.tail_position(),
        **_rates(request, queue),
    }


def mode_of(queue: Any) -> str:
    return "lazy" if queue.record.arguments.get("x-queue-mode") == "lazy" else "default"


def _rates(request: Request, queue: ClassicQueue) -> dict[str, float]:
    if not moves(queue):
        return AT_REST
    rate = request.services.statistics.rate
    return {name: sum(rate(queue, counter) for counter in counters) for name, counters in RATES.items()}
