"""The classic queue with rules: cases that random histories brought to light, each small enough to read."""

from __future__ import annotations

from leveret.core.codec.message import Message
from leveret.core.log.rebuild import Rebuild
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.dedup import DedupWindow
from leveret.core.queue.office import Office
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import HEAD_BYTES, PLACED, FakeDisk, read_notes
from tests.unit.core.queue.test_classic_queue import Taker, ready_bodies
from tests.unit.queues.dataplane import message

NOW = 1_800_000_000_000
REJECT = 1
REJECTED = 1
EMPTY, GIVEN, LATER = 0, 1, 2


def fill(queue: ClassicQueue) -> None:
    """More that expires than leaves in one go, and one that stays."""
    for _ in range(600):
        old = message(b"old", expiration="10")
        old.stamp = queue.office.now
        queue.publish(old)
    queue.publish(message(b"new"))


def delayed(body: bytes, delay_ms: int = 10) -> Message:
    later = message(body, delivery_mode=2, headers={"x-delay": -delay_ms})
    later.stamp = NOW + delay_ms
    return later


def test_a_queue_that_refuses_drops_nothing_for_what_comes_back() -> None:
    queue, taker = ClassicQueue(b"q", None), Taker()
    queue.set_rules(Rules(length_max=1, overflow=REJECT))
    assert queue.publish(message(b"1")) == 0
    assert queue.get(taker) == 1
    assert queue.publish(message(b"2")) == 0
    queue.requeue(taker.held[0])
    queue.dispatch()
    assert ready_bodies(queue) == [b"1", b"2"]
    queue.set_rules(Rules(length_max=0, overflow=REJECT))
    assert (ready_bodies(queue), queue.dropped_total) == ([b"1", b"2"], 0)


def test_nobody_gets_what_must_leave_while_the_rest_of_it_has_to_wait() -> None:
    office, taker = Office(1000), Taker()
    queue = ClassicQueue(b"q", None, office=office)
    fill(queue)
    office.now = 2000
    queue.subscribe(taker)
    assert (taker.held, queue.expired_total) == ([], 512)
    for worker in office.take_unfinished():
        worker.go_on()
    assert (taker.bodies(), queue.expired_total) == ([b"new"], 600)


def test_a_get_waits_until_what_must_leave_has_left() -> None:
    office, taker = Office(1000), Taker()
    queue = ClassicQueue(b"q", None, office=office)
    fill(queue)
    office.now = 2000
    answers = [queue.get(taker)]
    queue.await_load(lambda: answers.append(queue.get(taker)))
    for worker in office.take_unfinished():
        worker.go_on()
    assert (answers, taker.bodies()) == ([LATER, GIVEN], [b"new"])


def test_a_get_that_waits_for_the_disk_hears_that_all_was_dropped_unread() -> None:
    disk, taker = FakeDisk(), Taker()
    queue = disk.queue(lazy=True)
    queue.publish(message(b"1", delivery_mode=2))
    answers = [queue.get(taker)]
    queue.await_load(lambda: answers.append(queue.get(taker)))
    queue.set_rules(Rules(length_max=0))
    disk.commit()
    assert not disk.load(queue)
    assert answers == [LATER, EMPTY]


def test_a_get_that_waits_for_the_disk_gets_what_came_with_a_higher_priority() -> None:
    disk, taker = FakeDisk(window_bytes=1), Taker()
    queue = ClassicQueue(b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), priority_max=5)
    for body in (b"1", b"2", b"3"):
        queue.publish(message(body, delivery_mode=2))
    disk.commit()
    assert queue.get(taker) == GIVEN
    answers = [queue.get(taker)]
    queue.await_load(lambda: answers.append(queue.get(taker)))
    load = queue.take_load(disk.journal)
    queue.publish(message(b"urgent", priority=5))
    disk.read(load)
    queue.finish_load(load)
    assert (answers, taker.bodies()) == ([LATER, GIVEN], [b"1", b"urgent"])


def test_what_has_a_lower_priority_goes_out_when_what_was_first_cannot_be_read() -> None:
    disk, taker = FakeDisk(window_bytes=1), Taker()
    queue = ClassicQueue(
        b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), lazy=True, priority_max=5
    )
    queue.publish(message(b"urgent", delivery_mode=2, priority=5))
    disk.commit()
    queue.publish(message(b"other", delivery_mode=2))
    disk.commit()
    queue.subscribe(taker)
    (segment,) = [disk.images[number] for number in disk.log_numbers()]
    segment[HEAD_BYTES + 50] ^= 1
    while disk.load(queue):
        pass
    assert taker.bodies() == [b"other"]


def test_what_comes_with_a_higher_priority_goes_out_while_the_rest_is_on_disk() -> None:
    disk, taker = FakeDisk(window_bytes=1), Taker()
    queue = ClassicQueue(b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), priority_max=5)
    queue.publish(message(b"1", delivery_mode=2))
    queue.publish(message(b"2", delivery_mode=2))
    queue.subscribe(taker)
    queue.publish(message(b"urgent", delivery_mode=2, priority=5))
    assert taker.bodies() == [b"1", b"urgent"]
    disk.commit()
    disk.load(queue)
    assert taker.bodies() == [b"1", b"urgent", b"2"]


def test_a_released_message_has_a_record_with_room_for_its_one_queue() -> None:
    """Whatever the journal made room for last: nothing, because a message had nowhere to go, or thousands of queues."""
    for room in (0, 1000):
        disk = FakeDisk()
        office = Office(NOW, journal=disk.journal)
        queue = ClassicQueue(b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), office=office)
        queue.publish(delayed(b"later"))
        office.deliver(message(b"transient"), [ClassicQueue(b"other", None) for _ in range(room)])
        office.now = NOW + 10
        queue.delays.ring()
        queue.publish(message(b"next", delivery_mode=2))
        disk.commit()
        scan = disk.scan(1)
        placed = [note for note in read_notes(scan.notes) if note.kind & 0xFF == PLACED]
        assert scan.gaps == []
        assert [(note.queue, note.first) for note in placed[1:]] == [(1, 1), (1, 2)]
        assert placed[1].b < 200


def test_what_was_rejected_while_only_the_disk_had_it_leaves_as_rejected_from_a_full_queue() -> None:
    disk, office, taker = FakeDisk(), Office(NOW), Taker()
    queue = ClassicQueue(
        b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), lazy=True, office=office
    )
    queue.set_rules(Rules(length_max=1, dead_letter_exchange=b"x"))
    disk.paging_context.pressed = True
    queue.publish(message(b"1", delivery_mode=2))
    disk.commit()
    disk.load(queue)
    queue.get(taker)
    queue.publish(message(b"2", delivery_mode=2))
    queue.discard(taker.held[0])
    disk.commit()
    while disk.load(queue):
        pass
    assert [(letter.message.body, letter.reason) for letter in office.letters] == [(b"1", REJECTED)]
    assert (queue.ready_count(), queue.dropped_total) == (1, 0)


def test_a_key_that_was_forgotten_and_seen_again_comes_back_as_the_newest() -> None:
    window = DedupWindow(1, None, 2, 0)
    keys = [bytes([number]) * 16 for number in range(3)]
    window.restore([(1, keys[0], 1, 0), (2, keys[1], 1, 0), (3, keys[2], 1, 0), (4, keys[0], 1, 0)], NOW)
    assert list(window.keys) == [keys[2], keys[0]]


def test_after_a_start_what_comes_goes_behind_what_waits_for_the_same_moment() -> None:
    disk, office = FakeDisk(), Office(NOW)
    first, second = [
        ClassicQueue(b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), office=office)
        for _ in "12"
    ]
    first.publish(delayed(b"1", 5))
    first.publish(delayed(b"2"))
    disk.commit()
    rebuild, notes = Rebuild(), disk.scan(1).notes
    rebuild.add_notes(notes, 0, len(notes), 1, {1}, set())
    rebuild.books[1].finish({}, set())
    second.restore(rebuild.books[1], True)
    second.publish(delayed(b"3"))
    disk.commit()
    office.now = NOW + 10
    second.delays.ring()
    disk.load(second.delays)
    assert ready_bodies(second) == [b"1", b"2", b"3"]


def test_what_may_have_been_delivered_before_a_crash_says_so_and_counts_as_one_delivery() -> None:
    for priority_max in (0, 5):
        disk = FakeDisk()
        queue = ClassicQueue(
            b"q", None, paging_context=disk.paging_context, queue_log=disk.queue_log(), priority_max=priority_max
        )
        queue.publish(message(b"1", delivery_mode=2))
        assert queue.receive_again(message(b"2", delivery_mode=2)) == 0
        taker = Taker()
        assert (queue.get(taker), queue.get(taker)) == (GIVEN, GIVEN)
        assert {(entry.message.body, entry.seen, entry.delivery_count) for entry in taker.held} == {
            (b"1", False, 0),
            (b"2", True, 1),
        }
        disk.commit()
        # The delivery of the second says nothing of the first, which may still wait.
        assert [note.first for note in disk.notes() if note.kind == PLACED] == [1, 2]


def test_a_full_queue_refuses_also_what_may_have_been_delivered_before() -> None:
    queue = ClassicQueue(b"q", None)
    queue.set_rules(Rules(length_max=1, overflow=REJECT))
    assert queue.receive_again(message(b"1")) == 0
    assert queue.receive_again(message(b"2")) == 1
    assert (ready_bodies(queue), queue.refused_total) == ([b"1"], 1)
