"""x-expires: a queue that nobody uses is deleted after a while.

Used means: it has a consumer, was declared again, or somebody asked it for a message. One lease a queue that has such
an argument or policy; a start of the broker renews all of them."""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.agenda import Agenda
from leveret.core.contract import Queue


class Lease:
    def __init__(self, queue: Queue, expires_ms: int, leases: Leases) -> None:
        self.queue = queue
        self.expires_ms = expires_ms
        self.used_at = leases.now_ms()
        self._leases = leases

    def ring(self) -> None:
        if self.queue.deleted:
            return
        if self.queue.subscriber_count() > 0:
            self.used_at = self._leases.now_ms()
        if self.used_at + self.expires_ms <= self._leases.now_ms():
            self._leases.expire(self)
        else:
            self._leases.watch(self)


class Leases:
    """`delete` deletes an unused queue."""

    def __init__(self, agenda: Agenda, now_ms: Callable[[], int], delete: Callable[[Queue], None]) -> None:
        self._agenda = agenda
        self.now_ms = now_ms
        self._delete = delete
        self._leases: dict[Queue, Lease] = {}
        self.expired_total = 0

    @classmethod
    def without_clock(cls) -> Leases:
        """For virtual hosts that live outside a broker, as in tests: nothing ever expires."""
        return cls(Agenda(lambda: 0, lambda: None, lambda: None), lambda: 0, lambda _queue: None)

    def __len__(self) -> int:
        return len(self._leases)

    def put(self, queue: Queue, expires_ms: int | None) -> None:
        """The queue's lease from now on; None for a queue that stays."""
        if expires_ms is None:
            self.remove(queue)
            return
        lease = self._leases.get(queue)
        if lease is None:
            lease = self._leases[queue] = Lease(queue, expires_ms, self)
        lease.expires_ms = expires_ms
        self.watch(lease)

    def remove(self, queue: Queue) -> None:
        lease = self._leases.pop(queue, None)
        if lease is not None:
            self._agenda.forget(lease)

    def renew(self, queue: Queue) -> None:
        """Somebody uses it."""
        lease = self._leases.get(queue)
        if lease is not None:
            lease.used_at = self.now_ms()

    def watch(self, lease: Lease) -> None:
        self._agenda.put(lease, lease.used_at + lease.expires_ms)

    def expire(self, lease: Lease) -> None:
        self.expired_total += 1
        self._delete(lease.queue)
