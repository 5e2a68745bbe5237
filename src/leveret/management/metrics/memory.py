"""What memory is used for, as far as the broker knows: bodies that wait, and output that clients have not taken.

The rest is the interpreter, indexes of queues and streams, and what the C library keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leveret.management.metrics.exposition import Family
from leveret.management.metrics.sums import QueueSums
from leveret.management.metrics.table import Row
from leveret.management.services import Watched

HELP: Final = "What memory is used for; other is the rest of what the process holds"


def memory_families(sums: QueueSums, connections: Iterable[Row], watched: Watched | None) -> list[Family]:
    write_buffers = sum(connection.pending_bytes for _, connection in connections)
    family = Family("leveret_memory_bytes", "gauge", HELP)
    family.add(sums.ram_bytes, (("component", "message_bodies"),))
    family.add(write_buffers, (("component", "outboxes"),))
    if watched is not None:
        family.add(max(0, watched.resident_bytes - sums.ram_bytes - write_buffers), (("component", "other"),))
    return [family]
