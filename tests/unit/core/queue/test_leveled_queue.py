"""The classic queue with priorities: who goes first, and what the disk and the limits make of it."""

from __future__ import annotations

from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.core.fake_disk import COUNTED, HANDED, FakeDisk
from tests.unit.core.rule_bench import Bench
from tests.unit.core.takers import Taker


def test_higher_priorities_go_first_and_equal_ones_as_they_came() -> None:
    bench, taker = Bench(features={"priority_max": 5}), Taker()
    for body, priority in ((b"a", 0), (b"b", 3), (b"c", 9), (b"d", 5), (b"e", 3)):
        bench.publish(body, priority=priority)
    bench.publish(b"f")
    assert (bench.queue.ready_count(), bench.queue.ready_bytes()) == (6, 6)
    bench.queue.subscribe(taker)
    assert taker.bodies() == [b"c", b"d", b"b", b"e", b"a", b"f"]


def test_a_message_that_came_back_keeps_its_priority() -> None:
    bench, taker = Bench(features={"priority_max": 5}), Taker()
    bench.publish(b"low")
    bench.publish(b"high", priority=5)
    bench.queue.get(taker)
    bench.queue.requeue(taker.held.pop())
    assert bench.ready() == [b"high", b"low"]


def test_deliveries_by_priority_are_counted_each() -> None:
    disk, taker = FakeDisk(), Taker()
    bench = Bench(disk, {"priority_max": 5})
    bench.keep(b"low")
    bench.keep(b"high", priority=5)
    bench.queue.get(taker)
    disk.commit()
    assert [note[1:3] for note in disk.noted(HANDED, COUNTED)] == [(2, 1)], "position 1 was not handed out"


def test_a_purge_and_a_deletion_empty_all_priorities() -> None:
    for empty in (ClassicQueue.purge, ClassicQueue.close):
        disk = FakeDisk()
        bench = Bench(disk, {"priority_max": 5})
        bench.keep(b"low")
        bench.keep(b"high", priority=5)
        empty(bench.queue)
        assert (bench.queue.ready_count(), bench.queue.ready_bytes(), disk.live()) == (0, 0, 0)


def test_a_queue_becomes_lazy_and_ceases_to_be_for_what_comes_from_then_on() -> None:
    for features in ({}, {"priority_max": 5}):
        bench = Bench(FakeDisk(), features)
        bench.keep(b"a")
        bench.queue.set_lazy(True)
        bench.keep(b"b")
        # A list that only comes to be now.
        bench.keep(b"c", priority=5)
        assert (bench.queue.in_memory()[0], bench.queue.ready_count()) == (1, 3)
        bench.queue.purge()
        bench.queue.set_lazy(False)
        bench.keep(b"d", priority=5)
        assert (bench.queue.in_memory()[0], bench.queue.ready_count()) == (1, 1)


def test_limits_are_of_all_priorities_together() -> None:
    bench = Bench(features={"priority_max": 5}, length_max=2)
    bench.publish(b"a")
    bench.publish(b"b", priority=5)
    bench.publish(b"c")
    assert bench.ready() == [b"a", b"c"], "the head is the highest"


def waiting_get(disk: FakeDisk, bench: Bench) -> list[int]:
    """A get that must wait for the disk: the answers it gets when it is called again."""
    called: list[int] = []
    assert bench.queue.get(Taker()) == 2
    bench.queue.await_load(lambda: called.append(bench.queue.get(Taker())))
    return called


def test_a_get_that_waits_for_the_disk_is_called_when_something_higher_came_meanwhile() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk, {"priority_max": 5})
    bench.keep(b"low")
    disk.commit()
    called = waiting_get(disk, bench)
    load = bench.queue.take_load(disk.journal)
    bench.publish(b"high", priority=5)
    disk.read(load)
    bench.queue.finish_load(load)
    assert (called, bench.ready()) == ([1], [b"low"])


def test_what_is_below_a_message_that_cannot_be_read_is_handed_out() -> None:
    disk, taker = FakeDisk(window_bytes=0), Taker()
    bench = Bench(disk, {"priority_max": 5})
    bench.keep(b"damaged", priority=5)
    disk.commit()
    disk.images[1][100] ^= 1
    bench.publish(b"low")
    bench.queue.subscribe(taker)
    disk.load(bench.queue)
    assert taker.bodies() == [b"low"]


def test_every_priority_gives_back_memory() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk, {"priority_max": 5})
    for priority in (0, 5):
        bench.publish(b"12345", b"67890", priority=priority)
    assert bench.queue.page_out(1000) == 2 * (128 + 5), "one stays at the head of each"
