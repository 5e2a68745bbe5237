"""Messages in the hands of somebody without a channel: counted as delivered, settled by their tags."""

from __future__ import annotations

from leveret.core.office import Office
from leveret.core.pickup import Pickup
from leveret.core.queue import ClassicQueue
from leveret.core.rules import Rules
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.takers import ready_bodies
from tests.unit.core.test_plain_queue import publish
from tests.unit.queues.dataplane import message


def filled(*bodies: bytes) -> ClassicQueue:
    queue = ClassicQueue(b"q", None)
    publish(queue, *bodies)
    return queue


def test_what_is_fetched_is_shown_and_held() -> None:
    queue = filled(b"1", b"22")
    pickup = Pickup(queue, False)
    assert pickup.fetch(7)
    assert (pickup.message.body_size, pickup.body, pickup.redelivered) == (1, b"1", False)
    assert pickup.fetch(8)
    assert (pickup.body, list(pickup.held)) == (b"22", [7, 8])
    assert (pickup.unacked_count, pickup.unacked_bytes) == (2, 3)
    assert (queue.unacked_count, queue.unacked_bytes, queue.delivered_total, queue.got_total) == (2, 3, 2, 2)
    assert pickup.fetch(9) is False
    assert list(pickup.held) == [7, 8]


def test_each_is_settled_given_back_or_rejected_once() -> None:
    queue = filled(b"1", b"2", b"3")
    pickup = Pickup(queue, False)
    for tag in (1, 2, 3):
        pickup.fetch(tag)
    assert pickup.settle(1)
    assert pickup.requeue(3)
    assert pickup.discard(2)
    assert [pickup.settle(1), pickup.requeue(3), pickup.discard(2), pickup.settle(99)] == [False] * 4
    assert (queue.unacked_count, pickup.unacked_count, pickup.unacked_bytes) == (0, 0, 0)
    assert (queue.settled_total, queue.requeued_total, queue.discarded_total) == (1, 1, 1)
    assert ready_bodies(queue) == [b"3"]
    pickup.fetch(4)
    assert pickup.redelivered


def test_without_acks_nothing_is_held() -> None:
    queue = filled(b"1")
    pickup = Pickup(queue, True)
    assert pickup.fetch(1)
    assert (pickup.body, pickup.held, queue.unacked_count, queue.got_no_ack_total) == (b"1", {}, 0, 1)


def test_what_is_not_for_clients_is_not_shown() -> None:
    queue = ClassicQueue(b"q", None)
    for _ in range(2):
        queue.publish(message(b"x", headers={"BCC": ["secret"], "CC": ["open"]}))
    for no_ack in (False, True):
        pickup = Pickup(queue, no_ack)
        pickup.fetch(1)
        assert pickup.message.properties.headers() == {"CC": ["open"]}


def test_rejected_ones_become_letters() -> None:
    office = Office()
    queue = ClassicQueue(b"q", None, office=office)
    queue.set_rules(Rules(dead_letter_exchange=b"dlx"))
    publish(queue, b"1")
    pickup = Pickup(queue, False)
    pickup.fetch(1)
    pickup.discard(1)
    assert [letter.message.body for letter in office.take_letters()] == [b"1"]


def test_the_body_stays_with_the_pickup_when_memory_is_short() -> None:
    disk = FakeDisk()
    disk.shelf.pressed = True
    queue = disk.queue()
    Office(journal=disk.journal).deliver(persistent(b"body"), (queue,))
    disk.commit()
    pickup = Pickup(queue, False)
    assert pickup.fetch(1)
    assert (pickup.body, pickup.held[1].message.body) == (b"body", None)


def test_what_is_on_disk_comes_later() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    queue.publish(persistent(b"1"))
    disk.commit()
    pickup = Pickup(queue, False)
    assert pickup.fetch(1) is None
    assert disk.load(queue)
    assert pickup.fetch(1)
    assert pickup.body == b"1"


def test_compaction_finds_what_is_held() -> None:
    disk = FakeDisk()
    queue = disk.queue()
    queue.publish(persistent(b"1"))
    pickup = Pickup(queue, False)
    pickup.fetch(1)
    found: dict[tuple[int, int], object] = {}
    pickup.collect_located(disk.log_numbers()[0], found)
    assert found == {(1, 1): (pickup.held[1].message, 1)}
    nothing: dict[tuple[int, int], object] = {}
    pickup.collect_located(99, nothing)
    Pickup(ClassicQueue(b"q", None), False).collect_located(1, nothing)
    assert nothing == {}
