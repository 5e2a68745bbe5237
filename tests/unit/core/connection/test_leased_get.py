"""Messages in the hands of somebody without a channel: counted as delivered, settled by their tags."""

from __future__ import annotations

from leveret.core.connection.leased_get import LeasedGet
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import Office
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import FakeDisk, persistent
from tests.unit.core.queue.test_plain_queue import publish
from tests.unit.core.takers import ready_bodies
from tests.unit.queues.dataplane import message


def filled(*bodies: bytes) -> ClassicQueue:
    queue = ClassicQueue(b"q", None)
    publish(queue, *bodies)
    return queue


def test_what_is_fetched_is_shown_and_held() -> None:
    queue = filled(b"1", b"22")
    leased_get = LeasedGet(queue, False)
    assert leased_get.fetch(7)
    assert (leased_get.message.body_size, leased_get.body, leased_get.redelivered) == (1, b"1", False)
    assert leased_get.fetch(8)
    assert (leased_get.body, list(leased_get.held)) == (b"22", [7, 8])
    assert (leased_get.unacked_count, leased_get.unacked_bytes) == (2, 3)
    assert (queue.unacked_count, queue.unacked_bytes, queue.delivered_total, queue.got_total) == (2, 3, 2, 2)
    assert leased_get.fetch(9) is False
    assert list(leased_get.held) == [7, 8]


def test_each_is_settled_given_back_or_rejected_once() -> None:
    queue = filled(b"1", b"2", b"3")
    leased_get = LeasedGet(queue, False)
    for tag in (1, 2, 3):
        leased_get.fetch(tag)
    assert leased_get.settle(1)
    assert leased_get.requeue(3)
    assert leased_get.discard(2)
    assert [leased_get.settle(1), leased_get.requeue(3), leased_get.discard(2), leased_get.settle(99)] == [False] * 4
    assert (queue.unacked_count, leased_get.unacked_count, leased_get.unacked_bytes) == (0, 0, 0)
    assert (queue.settled_total, queue.requeued_total, queue.discarded_total) == (1, 1, 1)
    assert ready_bodies(queue) == [b"3"]
    leased_get.fetch(4)
    assert leased_get.redelivered


def test_without_acks_nothing_is_held() -> None:
    queue = filled(b"1")
    leased_get = LeasedGet(queue, True)
    assert leased_get.fetch(1)
    assert (leased_get.body, leased_get.held, queue.unacked_count, queue.got_no_ack_total) == (b"1", {}, 0, 1)


def test_what_is_not_for_clients_is_not_shown() -> None:
    queue = ClassicQueue(b"q", None)
    for _ in range(2):
        queue.publish(message(b"x", headers={"BCC": ["secret"], "CC": ["open"]}))
    for no_ack in (False, True):
        leased_get = LeasedGet(queue, no_ack)
        leased_get.fetch(1)
        assert leased_get.message.properties.headers() == {"CC": ["open"]}


def test_rejected_ones_become_letters() -> None:
    office = Office()
    queue = ClassicQueue(b"q", None, office=office)
    queue.set_rules(Rules(dead_letter_exchange=b"dlx"))
    publish(queue, b"1")
    leased_get = LeasedGet(queue, False)
    leased_get.fetch(1)
    leased_get.discard(1)
    assert [letter.message.body for letter in office.take_letters()] == [b"1"]


def test_the_body_stays_with_the_pickup_when_memory_is_short() -> None:
    disk = FakeDisk()
    disk.paging_context.pressed = True
    queue = disk.queue()
    Office(journal=disk.journal).deliver(persistent(b"body"), (queue,))
    disk.commit()
    leased_get = LeasedGet(queue, False)
    assert leased_get.fetch(1)
    assert (leased_get.body, leased_get.held[1].message.body) == (b"body", None)


def test_what_is_on_disk_comes_later() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    queue.publish(persistent(b"1"))
    disk.commit()
    leased_get = LeasedGet(queue, False)
    assert leased_get.fetch(1) is None
    assert disk.load(queue)
    assert leased_get.fetch(1)
    assert leased_get.body == b"1"


def test_compaction_finds_what_is_held() -> None:
    disk = FakeDisk()
    queue = disk.queue()
    queue.publish(persistent(b"1"))
    leased_get = LeasedGet(queue, False)
    leased_get.fetch(1)
    found: dict[tuple[int, int], object] = {}
    leased_get.collect_located(disk.log_numbers()[0], found)
    assert found == {(1, 1): (leased_get.held[1].message, 1)}
    nothing: dict[tuple[int, int], object] = {}
    leased_get.collect_located(99, nothing)
    LeasedGet(ClassicQueue(b"q", None), False).collect_located(1, nothing)
    assert nothing == {}
