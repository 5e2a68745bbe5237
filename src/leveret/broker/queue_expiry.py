"""x-expires: a queue that nobody uses is deleted after a while.

Used means: it has a consumer, was declared again, or somebody asked it for a message. One lease a queue that has such
an argument or policy; a start of the broker renews all of them."""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.timer_queue import TimerQueue
from leveret.core.queue.contract import Queue


class Lease:
    def __init__(self, queue: Queue, expires_ms: int, queue_expiry: QueueExpiry) -> None:
        self.queue = queue
        self.expires_ms = expires_ms
        self.used_at = queue_expiry.now_ms()
        self._queue_expiry = queue_expiry

    def ring(self) -> None:
        if self.queue.deleted:
            return
        if self.queue.subscriber_count() > 0:
            self.used_at = self._queue_expiry.now_ms()
        if self.used_at + self.expires_ms <= self._queue_expiry.now_ms():
            self._queue_expiry.expire(self)
        else:
            self._queue_expiry.watch(self)


class QueueExpiry:
    """`delete` deletes an unused queue."""

    def __init__(self, timers: TimerQueue, now_ms: Callable[[], int], delete: Callable[[Queue], None]) -> None:
        self._timers = timers
        self.now_ms = now_ms
        self._delete = delete
        self._queue_expiry: dict[Queue, Lease] = {}
        self.expired_total = 0

    @classmethod
    def without_clock(cls) -> QueueExpiry:
        """For virtual hosts that live outside a broker, as in tests: nothing ever expires."""
        return cls(TimerQueue(lambda: 0, lambda: None, lambda: None), lambda: 0, lambda _queue: None)

    def __len__(self) -> int:
        return len(self._queue_expiry)

    def put(self, queue: Queue, expires_ms: int | None) -> None:
        """The queue's lease from now on; None for a queue that stays."""
        if expires_ms is None:
            self.remove(queue)
            return
        lease = self._queue_expiry.get(queue)
        if lease is None:
            lease = self._queue_expiry[queue] = Lease(queue, expires_ms, self)
        lease.expires_ms = expires_ms
        self.watch(lease)

    def remove(self, queue: Queue) -> None:
        lease = self._queue_expiry.pop(queue, None)
        if lease is not None:
            self._timers.forget(lease)

    def renew(self, queue: Queue) -> None:
        """Somebody uses it."""
        lease = self._queue_expiry.get(queue)
        if lease is not None:
            lease.used_at = self.now_ms()

    def watch(self, lease: Lease) -> None:
        self._timers.put(lease, lease.used_at + lease.expires_ms)

    def expire(self, lease: Lease) -> None:
        self.expired_total += 1
        self._delete(lease.queue)
