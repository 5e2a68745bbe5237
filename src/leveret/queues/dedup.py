"""Deduplication as it is asked for: x-message-deduplication, x-cache-size and x-cache-ttl of a queue or an exchange."""

from __future__ import annotations

from leveret.catalog.records import Arguments
from leveret.core.dedup import Window
from leveret.queues.queue_type import Stock

ARGUMENT = "x-message-deduplication"
# Keys that are remembered unless the declaration says otherwise.
SIZE_DEFAULT = 100_000
SIZE_DEFAULT_WITH_TTL = 1_000_000


def is_wanted(arguments: Arguments) -> bool:
    return arguments.get(ARGUMENT) is True


def make_window(arguments: Arguments, id: int, stock: Stock | None) -> Window:
    """`id` names it in the log; 0 if it does not survive."""
    ttl_ms = arguments.get("x-cache-ttl", 0)
    size = arguments.get("x-cache-size", SIZE_DEFAULT_WITH_TTL if ttl_ms else SIZE_DEFAULT)
    return Window(id, stock.journal if stock is not None and id else None, size, ttl_ms)
