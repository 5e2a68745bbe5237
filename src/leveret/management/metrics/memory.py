"""What memory is used for, as far as the broker knows: bodies that wait, and output that clients have not taken.

The rest is the interpreter, indexes of queues and streams, and what the C library keeps."""

from __future__ import annotations

from typing import Final

from leveret.broker.broker import Broker
from leveret.management.metrics.exposition import Family
from leveret.management.metrics.source import Watched
from leveret.management.metrics.sums import QueueSums
from leveret.management.metrics.table import Pace

HELP: Final = "What memory is used for; other is the rest of what the process holds"


async def memory_families(broker: Broker, sums: QueueSums, watched: Watched | None, pace: Pace) -> list[Family]:
    outboxes = 0
    for session in list(broker.connections.values()):
        outboxes += getattr(session, "outbox").pending()  # noqa: B009 - a session's type is of a sister's room
        await pace.rest()
    family = Family("leveret_memory_bytes", "gauge", HELP)
    family.add(sums.ram_bytes, (("component", "message_bodies"),))
    family.add(outboxes, (("component", "outboxes"),))
    if watched is not None:
        rest = max(0, watched.resident_bytes - sums.ram_bytes - outboxes)
        family.add(rest, (("component", "other"),))
    return [family]
