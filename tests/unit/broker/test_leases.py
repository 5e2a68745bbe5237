"""x-expires: a queue that nobody uses goes after its time, one that is used does not."""

from __future__ import annotations

from leveret.broker.agenda import Agenda
from leveret.broker.leases import Leases
from leveret.core.contract import Queue
from leveret.core.queue import ClassicQueue
from tests.unit.broker.turns import NOW, HandClock, HandLoop
from tests.unit.core.takers import Taker


class Bench:
    def __init__(self) -> None:
        self.clock, self.loop = HandClock(), HandLoop()
        self.agenda = Agenda(self.clock.now_ms, lambda: None, lambda: None)
        self.agenda.start(self.loop.as_loop())
        self.deleted: list[Queue] = []
        self.leases = Leases(self.agenda, self.clock.now_ms, self.delete)

    def delete(self, queue: Queue) -> None:
        self.deleted.append(queue)
        self.leases.remove(queue)
        queue.close()

    def queue(self, expires_ms: int | None = 100) -> ClassicQueue:
        queue = ClassicQueue(b"q", None)
        self.leases.put(queue, expires_ms)
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
    assert (bench.deleted, bench.leases.expired_total, len(bench.leases)) == ([queue], 1, 0)


def test_a_queue_without_a_lease_stays() -> None:
    bench = Bench()
    bench.queue(None)
    assert (len(bench.leases), len(bench.agenda), bench.at(10**9)) == (0, 0, 0)


def test_a_queue_that_was_used_lives_on_from_then() -> None:
    bench = Bench()
    queue = bench.queue(100)
    bench.at(60)
    bench.leases.renew(queue)
    assert bench.at(100) == 0
    assert bench.at(159) == 0
    assert bench.at(160) == 1


def test_a_queue_with_a_consumer_stays_as_long_as_that_does() -> None:
    bench, taker = Bench(), Taker()
    queue = bench.queue(100)
    queue.subscribe(taker)
    assert bench.at(100) == bench.at(250) == 0
    queue.unsubscribe(taker)
    bench.leases.renew(queue)
    assert bench.at(349) == 0
    assert bench.at(350) == 1


def test_another_time_counts_from_the_last_use() -> None:
    bench = Bench()
    queue = bench.queue(100)
    bench.at(50)
    bench.leases.put(queue, 70)
    assert len(bench.leases) == 1
    assert bench.at(69) == 0
    assert bench.at(70) == 1


def test_a_lease_that_is_taken_away_lets_the_queue_stay() -> None:
    bench = Bench()
    queue = bench.queue(100)
    bench.leases.put(queue, None)
    assert (len(bench.leases), len(bench.agenda), bench.at(100)) == (0, 0, 0)


def test_a_queue_that_is_gone_is_not_deleted_again() -> None:
    bench = Bench()
    bench.queue(100).close()
    assert bench.at(100) == 0


def test_using_a_queue_without_a_lease_is_nothing() -> None:
    bench = Bench()
    bench.leases.renew(ClassicQueue(b"q", None))
    assert len(bench.leases) == 0


def test_without_a_clock_nothing_expires() -> None:
    leases = Leases.without_clock()
    leases.put(ClassicQueue(b"q", None), 1)
    assert (len(leases), leases.now_ms()) == (1, 0)
