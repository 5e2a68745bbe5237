"""What the node's process and its disk are doing, by RabbitMQ's names where it has something of the kind."""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.runtime import process
from leveret.runtime.memory import ResidentMemory
from leveret.storage.store_totals import IoTotals

COUNTERS = (
    *("gc_num", "gc_objects_collected", "context_switches", "io_read_count", "io_read_bytes", "io_write_count"),
    *("io_write_bytes", "io_sync_count"),
)
GAUGES = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free", "run_queue")


class NodeNumbers:
    def __init__(self, broker: Broker, disk_free: Callable[[], int | None]) -> None:
        self._broker = broker
        self._disk_free = disk_free
        # Keeps a file open: made with the first question.
        self._memory: ResidentMemory | None = None

    def now(self) -> dict[str, int]:
        """All of them. Threads stand in for processes, and publishers that are held up for the run queue."""
        if self._memory is None:
            self._memory = ResidentMemory()
        store = self._broker.store
        io = IoTotals() if store is None else store.io_totals()
        return {
            "gc_num": process.garbage_collections(),
            "gc_objects_collected": process.garbage_collected(),
            "context_switches": process.context_switches(),
            "io_read_count": io.reads,
            "io_read_bytes": io.read_bytes,
            "io_write_count": io.writes,
            "io_write_bytes": io.written_bytes,
            "io_sync_count": io.syncs,
            "mem_used": self._memory.resident_bytes(),
            "fd_used": process.descriptors_used(),
            "sockets_used": len(self._broker.connections),
            "proc_used": process.threads_used(),
            "disk_free": self._disk_free() or 0,
            "run_queue": self._broker.blocked_connections.count,
        }

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def values(self) -> tuple[int, ...]:
        now = self.now()
        return tuple(now[name] for name in COUNTERS + GAUGES)
