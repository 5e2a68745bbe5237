"""x-expires: a queue that nobody uses goes after its time, one that is used does not."""

from __future__ import annotations

from leveret.broker.queue_expiry import QueueExpiry
from leveret.broker.timer_queue import TimerQueue
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from tests.unit.broker.turns import NOW, HandClock, HandLoop
from tests.unit.core.takers import Taker


class Bench:
    def __init__(self) -> None:
        self.clock, self.loop = HandClock(), HandLoop()
        self.timers = TimerQueue(self.clock.now_ms, lambda: None, lambda: None)
        self.timers.start(self.loop.as_loop())
        self.deleted: list[Queue] = []
        self.queue_expiry = QueueExpiry(self.timers, self.clock.now_ms, self.delete)

    def delete(self, queue: Queue) -> None:
        self.deleted.append(queue)
        self.queue_expiry.remove(queue)
        queue.close()

    def queue(self, expires_ms: int | None = 100) -> ClassicQueue:
        queue = ClassicQueue(b"q", None)
        self.queue_expiry.put(queue, expires_ms)
        return queue

    def at(self, after_ms: int) -> int:
        """How many queues were deleted by this moment."""
        self.clock.ms = NOW + after_ms
        self.loop.turn()
        return len(self.deleted)


def test_a_queue_that_nobody_uses_goes_when_its_time_is_over() -> None:
    bench = Bench()
    queue = bench.queue(100)
    assert bench.at(99) == 0
    assert bench.at(100) == 1
    assert (bench.deleted, bench.queue_expiry.expired_total, len(bench.queue_expiry)) == ([queue], 1, 0)


def test_a_queue_without_a_lease_stays() -> None:
    bench = Bench()
    bench.queue(None)
    assert (len(bench.queue_expiry), len(bench.timers), bench.at(10**9)) == (0, 0, 0)


def test_a_queue_that_was_used_lives_on_from_then() -> None:
    bench = Bench()
    queue = bench.queue(100)
    bench.at(60)
    bench.queue_expiry.renew(queue)
    assert bench.at(100) == 0
    assert bench.at(159) == 0
    assert bench.at(160) == 1


def test_a_queue_with_a_consumer_stays_as_long_as_that_does() -> None:
    bench, taker = Bench(), Taker()
    queue = bench.queue(100)
    queue.subscribe(taker)
    assert bench.at(100) == bench.at(250) == 0
    queue.unsubscribe(taker)
    bench.queue_expiry.renew(queue)
    assert bench.at(349) == 0
    assert bench.at(350) == 1


def test_another_time_counts_from_the_last_use() -> None:
    bench = Bench()
    queue = bench.queue(100)
    bench.at(50)
    bench.queue_expiry.put(queue, 70)
    assert len(bench.queue_expiry) == 1
    assert bench.at(69) == 0
    assert bench.at(70) == 1


def test_a_lease_that_is_taken_away_lets_the_queue_stay() -> None:
    bench = Bench()
    queue = bench.queue(100)
    bench.queue_expiry.put(queue, None)
    assert (len(bench.queue_expiry), len(bench.timers), bench.at(100)) == (0, 0, 0)


def test_a_queue_that_is_gone_is_not_deleted_again() -> None:
    bench = Bench()
    bench.queue(100).close()
    assert bench.at(100) == 0


def test_using_a_queue_without_a_lease_is_nothing() -> None:
    bench = Bench()
    bench.queue_expiry.renew(ClassicQueue(b"q", None))
    assert len(bench.queue_expiry) == 0


def test_without_a_clock_nothing_expires() -> None:
    queue_expiry = QueueExpiry.without_clock()
    queue_expiry.put(ClassicQueue(b"q", None), 1)
    assert (len(queue_expiry), queue_expiry.now_ms()) == (1, 0)
