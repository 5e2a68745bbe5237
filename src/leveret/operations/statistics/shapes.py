"""What is sampled of each kind of object, and how long it is kept: RabbitMQ's numbers and its retention."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.core.tally import CHANNEL_VALUES, QUEUE_VALUES
from leveret.operations.statistics.series import Shape, levels
from leveret.operations.statistics.views import DELIVER_GET

# Kept for so many seconds, so many seconds apart.
BASIC = ((605, 5), (3660, 60))
GLOBAL = (*BASIC, (29400, 600), (86400, 1800))

MESSAGES = {"messages": ("messages_ready", "messages_unacknowledged")}
SUMS = {"deliver_get": DELIVER_GET, **MESSAGES}
LENGTHS = ("messages_ready", "messages_unacknowledged")
OCTETS = ("recv_oct", "recv_cnt", "send_oct", "send_cnt")


@dataclass(frozen=True)
class Shapes:
    queue: Shape
    exchange: Shape
    channel: Shape
    connection: Shape
    overview: Shape
    node: Shape


def shapes(interval_s: float, overview: tuple[str, ...], counters: tuple[str, ...], gauges: tuple[str, ...]) -> Shapes:
    """`overview` are counters of the whole node that are sampled beside the lengths of all queues; the other two are
    what is known of the process and its disk."""
    first = (BASIC[0][0], interval_s)
    basic = levels(interval_s, (first, *BASIC[1:]))
    whole = levels(interval_s, (first, *GLOBAL[1:]))
    of_queue = tuple(name for name in QUEUE_VALUES if name not in LENGTHS)
    return Shapes(
        Shape(of_queue, LENGTHS, basic, SUMS),
        Shape(("publish_in", "publish_out"), (), basic, {}),
        Shape(CHANNEL_VALUES, (), basic, {"deliver_get": DELIVER_GET}),
        Shape(OCTETS, (), basic, {}, wide=True),
        Shape(overview, LENGTHS, whole, MESSAGES, wide=True),
        Shape(counters, gauges, whole, {}, wide=True),
    )
