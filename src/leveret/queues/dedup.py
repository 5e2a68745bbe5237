"""Deduplication as it is asked for: x-message-deduplication, x-cache-size and x-cache-ttl of a queue or an exchange,
and for queues by a policy."""

from __future__ import annotations

from leveret.catalog.records import Arguments
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.dedup import DedupWindow
from leveret.queues.queue_type import QueueStorage

ARGUMENT = "x-message-deduplication"
# Keys that are remembered unless the declaration says otherwise.
SIZE_DEFAULT = 100_000
SIZE_DEFAULT_WITH_TTL = 1_000_000


def is_wanted(arguments: Arguments) -> bool:
    return arguments.get(ARGUMENT) is True


def make_window(arguments: Arguments, id: int, queue_storage: QueueStorage | None) -> DedupWindow:
    """`id` names it in the log; 0 if it does not survive."""
    return DedupWindow(id, queue_storage.journal if queue_storage is not None and id else None, *_bounds(arguments))


def _bounds(arguments: Arguments) -> tuple[int, int]:
    """How many keys are remembered, and for how many milliseconds; 0 for as long as there is room."""
    ttl_ms = arguments.get("x-cache-ttl", 0)
    return arguments.get("x-cache-size", SIZE_DEFAULT_WITH_TTL if ttl_ms else SIZE_DEFAULT), ttl_ms


def govern_window(queue: ClassicQueue, arguments: Arguments) -> bool:
    """Gives the queue a window, takes it away or changes its bounds, as these arguments say: whether it has one more or
    one less than before."""
    window = queue.window
    if not is_wanted(arguments):
        if window is None:
            return False
        window.close()
        queue.window = None
        return True
    if window is not None:
        window.resize(*_bounds(arguments))
        return False
    queue_log = queue.queue_log
    # A queue without a queue log loses its messages at the end, and their keys with them.
    journal, id = (None, 0) if queue_log is None else (queue_log.journal, queue.record.id)
    queue.window = DedupWindow(id, journal, *_bounds(arguments))
    return True
