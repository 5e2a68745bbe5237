"""The queue without rules: order, turns, requeue to the old place, single active consumers, counts, and its end.

Where a disk is behind it, it is a classic queue that has no rules, which leaves all of it to this machine."""

from __future__ import annotations

import random

from leveret.core.queue.leveled_queue import LeveledQueue
from leveret.core.queue.plain_queue import PlainQueue
from tests.unit.core.fake_disk import COUNTED, HANDED, PLACED, SETTLED, FakeDisk
from tests.unit.core.takers import Taker, ready_bodies
from tests.unit.queues.dataplane import Workbench, message


def new_queue(single_active: bool = False) -> PlainQueue:
    """Without priorities the next class does nothing but answer questions about the whole."""
    return LeveledQueue(b"q", None, single_active, None, None, False, 0)


def publish(queue: PlainQueue, *bodies: bytes) -> None:
    for body in bodies:
        assert queue.publish(message(body)) == 0


def totals(queue: PlainQueue) -> dict[str, int]:
    names = ("published", "delivered", "redelivered", "settled", "requeued", "discarded")
    return {name: getattr(queue, f"{name}_total") for name in names if getattr(queue, f"{name}_total")}


def test_messages_wait_in_order_while_nobody_consumes() -> None:
    queue = new_queue()
    publish(queue, b"1", b"22", b"333")
    assert ready_bodies(queue) == [b"1", b"22", b"333"]
    assert (queue.ready_count(), queue.ready_bytes(), queue.unacked_count) == (3, 6, 0)


def test_a_subscriber_gets_what_waits_and_what_comes() -> None:
    queue, taker = new_queue(), Taker()
    publish(queue, b"1")
    queue.subscribe(taker)
    publish(queue, b"2")
    assert taker.bodies() == [b"1", b"2"]
    assert (queue.ready_count(), queue.unacked_count, queue.unacked_bytes) == (0, 2, 2)


def test_nobody_overtakes_what_waits() -> None:
    queue, taker = new_queue(), Taker(capacity=1)
    queue.subscribe(taker)
    publish(queue, b"1", b"2", b"3")
    assert (taker.bodies(), ready_bodies(queue)) == ([b"1"], [b"2", b"3"])
    taker.capacity = 2
    publish(queue, b"4")
    queue.wake(taker)
    queue.dispatch()
    assert (taker.bodies(), ready_bodies(queue)) == ([b"1", b"2"], [b"3", b"4"])


def test_a_new_message_does_not_overtake_one_that_has_just_come_back() -> None:
    queue, taker = new_queue(), Taker()
    queue.subscribe(taker)
    publish(queue, b"1")
    queue.requeue(taker.held.pop())
    publish(queue, b"2")
    queue.dispatch()
    assert taker.bodies() == [b"1", b"2"]


def test_waking_one_hands_out_nothing_by_itself() -> None:
    """Others may be woken at the same moment, and a higher priority must not come too late."""
    queue, taker = new_queue(), Taker(capacity=0)
    queue.subscribe(taker)
    publish(queue, b"1")
    taker.capacity = 1
    queue.wake(taker)
    assert taker.held == []
    queue.dispatch()
    assert taker.bodies() == [b"1"]


def test_waking_one_that_waits_already_gives_it_no_second_turn() -> None:
    queue, one, two = new_queue(), Taker(), Taker()
    queue.subscribe(one)
    queue.subscribe(two)
    publish(queue, b"1")
    queue.wake(two)
    publish(queue, b"2", b"3", b"4")
    assert (one.bodies(), two.bodies()) == ([b"1", b"3"], [b"2", b"4"])


def test_a_full_subscriber_is_not_asked_until_it_is_woken() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.consume(channel, queue, prefetch_count=1)
    publish(queue, b"1", b"2")
    assert bench.sent_bodies() == [b"1"]
    channel.settle(1, False, 0, 0)
    assert bench.sent_bodies() == [b"2"]


def test_messages_go_round_among_subscribers() -> None:
    queue, one, two = new_queue(), Taker(), Taker()
    queue.subscribe(one)
    queue.subscribe(two)
    publish(queue, b"1", b"2", b"3", b"4")
    assert (one.bodies(), two.bodies()) == ([b"1", b"3"], [b"2", b"4"])


def test_settled_messages_are_gone() -> None:
    queue, taker = new_queue(), Taker()
    queue.subscribe(taker)
    publish(queue, b"12")
    queue.settle(taker.held.pop())
    assert (queue.unacked_count, queue.unacked_bytes, queue.ready_count()) == (0, 0, 0)
    assert totals(queue) == {"published": 1, "delivered": 1, "settled": 1}


def test_requeued_messages_go_back_to_their_places() -> None:
    queue, taker = new_queue(), Taker(capacity=3)
    queue.subscribe(taker)
    publish(queue, b"1", b"2", b"3", b"4")
    queue.requeue(taker.held[2])
    queue.requeue(taker.held[0])
    assert ready_bodies(queue) == [b"1", b"3", b"4"]
    assert [entry.delivery_count for entry in queue.ready_entries()] == [1, 1, 0]
    assert (queue.unacked_count, queue.unacked_bytes) == (1, 1)


def test_requeue_alone_hands_nothing_out_and_dispatch_does() -> None:
    queue, taker = new_queue(), Taker()
    queue.subscribe(taker)
    publish(queue, b"1")
    queue.requeue(taker.held.pop())
    assert taker.held == []
    queue.dispatch()
    assert taker.bodies() == [b"1"]
    assert totals(queue) == {"published": 1, "delivered": 2, "redelivered": 1, "requeued": 1}


def test_discarded_messages_are_gone() -> None:
    queue, taker = new_queue(), Taker()
    queue.subscribe(taker)
    publish(queue, b"1")
    queue.discard(taker.held.pop())
    assert (queue.unacked_count, queue.ready_count()) == (0, 0)
    assert totals(queue) == {"published": 1, "delivered": 1, "discarded": 1}


def test_get_takes_the_oldest_or_nothing() -> None:
    queue, getter = new_queue(), Taker()
    assert queue.get(getter) == 0
    publish(queue, b"1", b"2")
    assert queue.get(getter) == 1
    assert getter.bodies() == [b"1"]
    assert ready_bodies(queue) == [b"2"]


def test_what_a_consumer_without_acks_gets_is_settled_at_once() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    publish(queue, b"1")
    bench.consume(channel, queue, no_ack=True)
    publish(queue, b"2")
    assert bench.sent_bodies() == [b"1", b"2"]
    assert (queue.unacked_count, queue.ready_count(), channel.unacked.count) == (0, 0, 0)
    assert totals(queue) == {"published": 2, "delivered": 2, "settled": 2}


def test_purge_drops_what_is_ready_and_leaves_what_is_held() -> None:
    queue, taker = new_queue(), Taker(capacity=1)
    queue.subscribe(taker)
    publish(queue, b"1", b"2", b"3")
    assert queue.purge() == 2
    assert (queue.ready_count(), queue.ready_bytes(), queue.unacked_count) == (0, 0, 1)
    queue.requeue(taker.held.pop())
    assert ready_bodies(queue) == [b"1"]


def test_a_deleted_queue_takes_nothing_back() -> None:
    queue, taker = new_queue(), Taker(capacity=2)
    queue.subscribe(taker)
    publish(queue, b"1", b"2", b"3")
    queue.close()
    assert (queue.deleted, queue.ready_count()) == (True, 0)
    queue.requeue(taker.held[0])
    queue.settle(taker.held[1])
    queue.dispatch()
    queue.wake(taker)
    assert (queue.ready_count(), queue.unacked_count, len(taker.held)) == (0, 0, 2)


def test_an_unsubscribed_one_gets_nothing_more() -> None:
    queue, gone, left = new_queue(), Taker(), Taker()
    queue.subscribe(gone)
    queue.subscribe(left)
    assert queue.subscriber_count() == 2
    queue.unsubscribe(gone)
    publish(queue, b"1", b"2")
    assert (gone.bodies(), left.bodies()) == ([], [b"1", b"2"])
    queue.unsubscribe(left)
    assert queue.subscriber_count() == 0
    publish(queue, b"3")
    assert ready_bodies(queue) == [b"3"]


def test_of_several_only_the_single_active_consumer_gets_messages() -> None:
    queue, first, second = new_queue(single_active=True), Taker(capacity=1), Taker()
    queue.subscribe(first)
    queue.subscribe(second)
    publish(queue, b"1", b"2")
    assert (first.active, second.active) == (True, False)
    assert (first.bodies(), second.bodies(), ready_bodies(queue)) == ([b"1"], [], [b"2"])
    # One that stands by is not woken by its channel either.
    queue.wake(second)
    queue.dispatch()
    assert second.held == []


def test_the_single_active_consumer_hears_nothing_when_one_that_stands_by_leaves() -> None:
    changes = []

    class Listening(Taker):
        def activity_changed(self, active: bool) -> None:
            changes.append(active)

    queue, first, second = new_queue(single_active=True), Listening(), Listening()
    queue.subscribe(first)
    queue.subscribe(second)
    queue.unsubscribe(second)
    assert changes == []


def test_the_next_in_line_takes_over_from_the_single_active_consumer() -> None:
    queue, first, second, third = new_queue(single_active=True), Taker(), Taker(), Taker()
    for taker in (first, second, third):
        queue.subscribe(taker)
    queue.unsubscribe(second)
    assert (first.active, third.active) == (True, False)
    publish(queue, b"1")
    queue.unsubscribe(first)
    assert third.active
    publish(queue, b"2")
    assert (first.bodies(), third.bodies()) == ([b"1"], [b"2"])


def test_equal_calls_give_equal_state() -> None:
    """A pure machine: what one did, another does in the same way."""

    def run(seed: int) -> list[object]:
        rolls, queue = random.Random(seed), new_queue()
        takers = [Taker(capacity=3) for _ in range(3)]
        for number in range(300):
            choice, taker = rolls.randrange(6), takers[rolls.randrange(3)]
            if choice < 2:
                publish(queue, b"%d" % number)
            elif choice == 2 and taker not in (queue.subscribers or ()):
                queue.subscribe(taker)
            elif choice == 3 and taker.held:
                queue.settle(taker.held.pop(0))
                queue.dispatch()
            elif choice == 4 and taker.held:
                queue.requeue(taker.held.pop())
                queue.dispatch()
            elif taker in (queue.subscribers or ()):
                queue.unsubscribe(taker)
        return [ready_bodies(queue), [taker.bodies() for taker in takers], totals(queue), queue.unacked_count]

    assert run(1) == run(1)
    assert run(1) != run(2)


# ---- durable


def keep(queue: PlainQueue, *bodies: bytes) -> None:
    for body in bodies:
        assert queue.publish(message(body, delivery_mode=2)) == 0


def noted(disk: FakeDisk) -> list[tuple[int, int, int]]:
    """(kind, position, count or times) of every note, after a commit."""
    disk.commit()
    return [(note.kind, note.first, note.a if note.kind in (SETTLED, COUNTED) else 0) for note in disk.notes()]


def test_a_durable_queue_keeps_persistent_messages_and_no_others() -> None:
    disk = FakeDisk()
    queue = disk.queue()
    keep(queue, b"1")
    publish(queue, b"transient")
    keep(queue, b"3")
    assert noted(disk) == [(PLACED, 1, 0), (PLACED, 3, 0)]
    assert (queue.queue_log.live, disk.live()) == (2, 2)


def test_a_queue_without_a_ledger_keeps_nothing() -> None:
    disk = FakeDisk()
    queue, taker = disk.queue(None), Taker()
    keep(queue, b"1")
    queue.get(taker)
    queue.settle(taker.held.pop())
    assert noted(disk) == []


def test_deliveries_and_acks_are_noted() -> None:
    disk = FakeDisk()
    queue, taker = disk.queue(), Taker()
    queue.subscribe(taker)
    keep(queue, b"1", b"2")
    assert noted(disk) == [(PLACED, 1, 0), (PLACED, 2, 0), (HANDED, 2, 0)]
    queue.settle(taker.held.pop(0))
    queue.discard(taker.held.pop(0))
    assert noted(disk)[3:] == [(SETTLED, 1, 2)]
    assert (queue.queue_log.live, disk.live()) == (0, 0)


def test_a_second_delivery_is_counted() -> None:
    disk = FakeDisk()
    queue, taker = disk.queue(), Taker()
    keep(queue, b"1")
    for _ in range(3):
        queue.get(taker)
        queue.requeue(taker.held.pop())
    assert noted(disk) == [(PLACED, 1, 0), (COUNTED, 1, 2), (COUNTED, 1, 3), (HANDED, 1, 0)]
    assert (queue.queue_log.live, disk.live()) == (1, 1), "a requeue settles nothing"


def test_what_nobody_will_acknowledge_is_settled_at_once_or_not_even_written() -> None:
    disk = FakeDisk()
    bench = Workbench(journal=disk.journal)
    queue = bench.add_queue(paging_context=disk.paging_context, queue_log=disk.queue_log())
    keep(queue, b"waited")
    bench.consume(bench.open_channel(), queue, no_ack=True)
    keep(queue, b"straight through")
    assert bench.sent_bodies() == [b"waited", b"straight through"]
    assert noted(disk) == [(PLACED, 1, 0), (SETTLED, 1, 1)]
    assert queue.ready.next_position == 3


def test_a_purge_is_noted_and_a_deletion_is_not() -> None:
    disk = FakeDisk()
    queue, taker = disk.queue(), Taker()
    keep(queue, b"1", b"2", b"3")
    queue.get(taker)
    assert queue.purge() == 2
    assert noted(disk)[3:] == [(SETTLED, 2, 2), (HANDED, 1, 0)]
    keep(queue, b"4")
    queue.close()
    assert disk.live() == 1, "somebody still holds the first"
    queue.requeue(taker.held.pop())
    assert disk.live() == 0
    assert noted(disk)[5:] == [(PLACED, 4, 0)]


def test_a_get_of_what_is_on_disk_comes_later() -> None:
    disk = FakeDisk()
    queue, taker, called = disk.queue(lazy=True), Taker(), list[int]()
    keep(queue, b"1", b"2")
    assert queue.get(taker) == 2
    queue.await_load(lambda: called.append(queue.get(taker)))
    assert (disk.wanting, called) == ([queue], [])
    assert not disk.load(queue), "it is not written yet"
    disk.commit()
    assert disk.load(queue)
    assert (called, taker.bodies()) == ([1], [b"1"])
    assert queue.get(taker) == 1


def test_who_waits_for_the_disk_is_called_when_there_is_nothing_more_to_wait_for() -> None:
    def waiting() -> tuple[FakeDisk, PlainQueue, list[int]]:
        disk, called = FakeDisk(), list[int]()
        queue = disk.queue(lazy=True)
        keep(queue, b"only one")
        disk.commit()
        assert queue.get(Taker()) == 2
        queue.await_load(lambda: called.append(queue.get(Taker())))
        return disk, queue, called

    disk, queue, called = waiting()
    queue.purge()
    assert called == [0]
    disk, queue, called = waiting()
    queue.close()
    assert called == [0]
    # A consumer took what was loaded.
    disk, queue, called = waiting()
    queue.subscribe(Taker())
    disk.load(queue)
    assert called == [0]
    # What was loaded is damaged.
    disk, queue, called = waiting()
    disk.images[1][100] ^= 1
    disk.load(queue)
    assert (called, queue.ready_count(), disk.live()) == ([0], 0, 0)


def test_who_waits_for_the_disk_is_called_when_something_came_back_meanwhile() -> None:
    disk = FakeDisk(window_bytes=1)
    queue, taker, called = disk.queue(), Taker(), list[int]()
    keep(queue, b"1", b"2")
    assert [queue.get(taker), queue.get(taker)] == [1, 2]
    queue.await_load(lambda: called.append(queue.get(taker)))
    queue.requeue(taker.held.pop())
    disk.commit()
    disk.load(queue)
    assert (called, taker.bodies()) == ([1], [b"1"])


def test_consumers_get_what_comes_from_disk() -> None:
    disk = FakeDisk()
    queue, taker = disk.queue(lazy=True), Taker()
    keep(queue, b"1", b"2")
    disk.commit()
    queue.subscribe(taker)
    assert (taker.held, disk.wanting) == ([], [queue])
    disk.load(queue)
    assert taker.bodies() == [b"1", b"2"]


def test_a_transient_message_does_not_overtake_what_is_being_loaded() -> None:
    disk = FakeDisk(window_bytes=1)
    queue, taker = disk.queue(), Taker()
    keep(queue, b"1", b"2")
    publish(queue, b"3")
    disk.commit()
    queue.get(taker)
    load = queue.take_load(disk.journal)
    queue.subscribe(taker)
    assert taker.bodies() == [b"1"]
    disk.read(load)
    queue.finish_load(load)
    assert taker.bodies() == [b"1", b"2", b"3"]


def test_bodies_of_what_is_lent_are_let_go_when_memory_is_short() -> None:
    disk = FakeDisk()
    queue, taker = disk.queue(lazy=True), Taker()
    keep(queue, b"1")
    publish(queue, b"2")
    disk.commit()
    disk.load(queue)
    disk.paging_context.pressed = True
    queue.get(taker)
    queue.get(taker)
    assert taker.bodies() == [None, b"2"], "a transient message has nowhere else to be"
    assert queue.unacked_bytes == 2
    queue.settle(taker.held[0])
    assert (queue.unacked_bytes, disk.live()) == (1, 0)


def test_a_paused_queue_hands_out_to_gets_alone() -> None:
    queue = new_queue()
    first, late = Taker(), Taker()
    queue.subscribe(first)
    queue.pause(True)
    assert queue.paused
    publish(queue, b"1", b"2", b"3")
    queue.subscribe(late)
    queue.dispatch()
    assert (first.held, late.held, queue.published_total) == ([], [], 3)
    getter = Taker()
    assert queue.get(getter)
    assert getter.bodies() == [b"1"]
    queue.pause(False)
    assert sorted(first.bodies() + late.bodies()) == [b"2", b"3"]


def test_a_pause_outlives_the_consumers() -> None:
    queue = new_queue()
    queue.pause(True)
    publish(queue, b"1")
    taker = Taker()
    queue.subscribe(taker)
    queue.unsubscribe(taker)
    queue.subscribe(taker)
    assert taker.held == []
    queue.pause(False)
    assert taker.bodies() == [b"1"]
