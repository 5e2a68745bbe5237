"""The office: letters and unfinished work wait in order, and whoever carries them is woken once."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import REASONS, Office
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import PLACED, FakeDisk, persistent
from tests.unit.core.takers import ready_bodies
from tests.unit.queues.dataplane import message

NOW = 1_700_000_000_000
REJECTED = 1
# As core.queue.office has it.
LETTERS_MAX = 1024


class Worker:
    def go_on(self) -> None:
        raise AssertionError("nobody is to be called here")


def post(office: Office, body: bytes = b"", **details: Any) -> None:
    queue = details.get("queue") or ClassicQueue(b"q", None)
    office.post(queue, Rules(), details.get("message") or message(body), details.get("position", 0), REJECTED, 2)


def woken() -> tuple[Office, list[bool]]:
    wakes: list[bool] = []
    return Office(5, lambda: wakes.append(True)), wakes


def test_a_letter_says_where_it_comes_from_and_why() -> None:
    office, queue, rules, one = Office(), ClassicQueue(b"q", None), Rules(ttl_ms=5), message(b"x")
    office.post(queue, rules, one, 7, REJECTED, 3)
    (letter,) = office.letters
    assert (letter.queue, letter.rules, letter.message) == (queue, rules, one)
    assert (letter.position, REASONS[letter.reason], letter.deliveries) == (7, "rejected", 3)


def test_the_first_letter_wakes_and_those_behind_it_do_not() -> None:
    office, wakes = woken()
    post(office)
    post(office)
    office.go_on_later(Worker())
    assert wakes == [True]
    office.take_letters()
    post(office)
    assert wakes == [True], "there is unfinished work, so it was woken"
    office.take_letters()
    office.take_unfinished()
    office.go_on_later(Worker())
    assert wakes == [True, True]


def test_letters_are_taken_in_order_and_once() -> None:
    office = Office()
    for body in (b"1", b"2", b"3"):
        post(office, body)
    assert [letter.message.body for letter in office.take_letters()] == [b"1", b"2", b"3"]
    assert office.take_letters() == []


def test_letters_that_are_put_back_go_before_those_that_came_meanwhile() -> None:
    office = Office()
    post(office, b"1")
    post(office, b"2")
    taken = office.take_letters()
    post(office, b"3")
    office.put_back(taken[1:])
    assert [letter.message.body for letter in office.take_letters()] == [b"2", b"3"]


def test_unfinished_work_is_kept_once_each_and_in_order() -> None:
    office, one, two = Office(), Worker(), Worker()
    for worker in (one, two, one):
        office.go_on_later(worker)
    assert office.take_unfinished() == [one, two]
    assert office.take_unfinished() == []


def test_a_queue_stops_when_so_many_letters_wait_and_goes_on_later() -> None:
    office = Office()
    queue = ClassicQueue(b"q", None, office=office)
    for _ in range(LETTERS_MAX):
        post(office)
    for _ in range(3):
        queue.publish(message())
    queue.set_rules(Rules(length_max=1, dead_letter_exchange=b"x"))
    assert (len(office.letters), queue.ready_count(), list(office.unfinished)) == (LETTERS_MAX, 3, [queue])
    office.take_letters()
    for worker in office.take_unfinished():
        worker.go_on()
    assert (len(office.letters), queue.ready_count(), list(office.unfinished)) == (2, 1, [])


@pytest.mark.parametrize(("position", "durable", "found"), [(3, True, True), (0, True, False), (3, False, False)])
def test_letters_with_a_record_in_a_segment_are_found(position: int, durable: bool, found: bool) -> None:
    disk, office, one = FakeDisk(), Office(), persistent()
    queue = disk.queue(8 if durable else None)
    disk.journal.keep(disk.queue_log(8), one, 3)
    post(office, queue=queue, message=one, position=position)
    located: dict[tuple[int, int], object] = {}
    office.collect_located(1, located)
    assert located == ({(8, 3): (one, 2)} if found else {})
    located.clear()
    office.collect_located(2, located)
    assert located == {}


# ---- what the broker sends on


def test_what_is_delivered_is_stamped_and_counted_where_it_was_taken() -> None:
    office, one = Office(500), message(b"x")
    full, gone, free = (ClassicQueue(name, None, office=office) for name in (b"full", b"gone", b"free"))
    full.set_rules(Rules(length_max=0, overflow=1))
    gone.close()
    assert office.deliver(one, [full, gone, free]) == 1
    assert (one.stamp, one.lone, ready_bodies(free)) == (500, False, [b"x"])


def test_what_goes_to_one_queue_is_its_alone() -> None:
    office, one = Office(), message(b"x")
    assert office.deliver(one, [ClassicQueue(b"q", None)]) == 1
    assert one.lone


def test_several_durable_queues_share_one_record() -> None:
    disk = FakeDisk()
    office, one = Office(journal=disk.journal), persistent()
    assert office.deliver(one, [disk.queue(1), disk.queue(2)]) == 2
    disk.commit()
    assert [(note.queue, note.first) for note in disk.noted(PLACED)] == [(1, 1), (2, 1)]
    assert disk.scan(1).records == 2


def test_what_is_delivered_later_waits_in_the_queue() -> None:
    disk = FakeDisk()
    office, one = Office(NOW, journal=disk.journal), persistent()
    queue = disk.queue(office=office)
    office.deliver_later(one, queue, 50)
    assert (queue.ready_count(), queue.delayed_count(), one.stamp, one.lone) == (0, 1, NOW + 50, True)
    disk.commit()
    assert len(disk.noted(PLACED)) == 1


def test_what_goes_nowhere_leaves_room_in_the_log_for_what_is_kept_next() -> None:
    """Else the next record would have none for its target, which would be written over what follows."""
    disk = FakeDisk()
    office = Office(NOW, journal=disk.journal)
    queue, waiting = disk.queue(office=office), persistent(b"delayed")
    office.deliver_later(waiting, queue, 50)
    assert office.deliver(message(), []) == 0
    office.now += 50
    queue.delays.ring()
    disk.commit()
    assert [note.first < 1 << 63 for note in disk.noted(PLACED)] == [False, True]
    assert disk.book().count == 1
