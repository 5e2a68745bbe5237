"""What an exchange keeps: messages that wait for their time before they are routed, and the keys it has seen.

To the data plane it is a queue that nobody consumes from; it is in no list of queues and no binding leads to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.message import Message
from leveret.core.codec.names import name_octets
from leveret.core.queue.contract import Queue
from leveret.core.queue.dedup import DedupWindow
from leveret.core.queue.delays import Delays
from leveret.core.queue.office import Office
from leveret.queues.queue_type import QueueStorage

ACCEPTED = 0


class ExchangeHolder(Queue):
    """`route` takes a message whose time has come, and whether it may have been routed before a crash."""

    def __init__(
        self,
        record: ExchangeRecord,
        queue_storage: QueueStorage | None,
        office: Office,
        window: DedupWindow | None,
        route: Callable[[Message, bool], None],
    ) -> None:
        queue_log = queue_storage.queue_log(record.id) if queue_storage is not None and record.id else None
        Queue.__init__(self, name_octets(record.name), None, False, queue_log)
        self.window = window
        self.delays = Delays(self, None if queue_storage is None else queue_storage.paging_context, queue_log, office)
        self._route = route

    def publish(self, message: Message) -> int:
        self.delays.add(message)
        return ACCEPTED

    def arrive(self, message: Message) -> int:
        self._route(message, False)
        return ACCEPTED

    def arrive_again(self, message: Message) -> int:
        self._route(message, True)
        return ACCEPTED

    def ready_count(self) -> int:
        return 0

    def page_out(self, bytes_max: int) -> int:
        freed: int = self.delays.page_out(bytes_max)
        return freed

    def restore(self, book: Any, all_seen: bool) -> None:
        assert self.queue_log is not None
        self.queue_log.live = book.count
        self.delays.restore(book.slots, 0, book.count, book.delay_sequence, all_seen)
        self.queue_log.live_bytes = self.delays.bytes

    def has_load(self) -> bool:
        loading: bool = self.delays.has_load()
        return loading

    def find_stored(self, position: int, location: int) -> bool:
        found: bool = self.delays.find_stored(position, location)
        return found

    def move_stored(self, position: int, location: int, to: int, length: int) -> int:
        times: int = self.delays.move_stored(position, to, length)
        return times

    def close(self) -> None:
        Queue.close(self)
        if self.queue_log is not None:
            self.queue_log.close()
        self.delays.close()
        # It knows the exchange, which has this.
        self._route = _nowhere
        if self.window is not None:
            self.window.close()


def _nowhere(_message: Message, _again: bool) -> None:
    """The exchange is deleted."""
