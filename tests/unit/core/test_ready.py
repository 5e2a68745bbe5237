"""The ready list: every message is handed out from its original place, and the counts are right."""

from __future__ import annotations

import random

from leveret.core.contract import Entry
from leveret.core.ready import ReadyList
from tests.unit.queues.dataplane import message


def filled(count: int) -> ReadyList:
    ready = ReadyList()
    for _ in range(count):
        ready.push(message(b"x"))
    return ready


def positions(ready: ReadyList) -> list[int]:
    return [waiting.position for waiting in ready.entries()]


def test_an_empty_list_gives_nothing() -> None:
    ready = ReadyList()
    assert ready.pop() is None
    assert ready.pop_message() is None
    assert (ready.count, ready.bytes, ready.entries()) == (0, 0, [])


def test_messages_leave_in_order_of_arrival() -> None:
    ready, notes = ReadyList(), [message(b"%d" % number) for number in range(10)]
    for note in notes:
        ready.push(note)
    taken = [ready.pop() for _ in range(10)]
    assert [entry.message for entry in taken] == notes
    assert [entry.position for entry in taken] == list(range(1, 11))


def test_a_message_that_nobody_will_acknowledge_needs_no_entry() -> None:
    ready, note = ReadyList(), message(b"12")
    ready.push(note)
    ready.push(message())
    assert ready.pop_message() is note
    assert (ready.count, ready.bytes) == (1, 0)
    assert ready.pop().position == 2


def test_what_came_back_is_not_skipped_for_want_of_an_entry() -> None:
    ready = filled(2)
    first = ready.pop()
    ready.put_back(first)
    assert ready.pop_message() is None
    assert ready.count == 2
    assert ready.pop() is first
    assert ready.pop_message() is not None


def test_a_message_that_went_past_the_list_leaves_its_position_out() -> None:
    ready = filled(1)
    ready.pop()
    assert ready.skip() == 2
    ready.push(message())
    assert positions(ready) == [3]


def test_what_comes_back_goes_before_what_never_left() -> None:
    ready = filled(3)
    first = ready.pop()
    ready.put_back(first)
    assert positions(ready) == [1, 2, 3]
    assert ready.pop() is first


def test_what_comes_back_in_any_order_leaves_in_order_of_position() -> None:
    ready = filled(200)
    away = [ready.pop() for _ in range(150)]
    random.Random(3).shuffle(away)
    for returned in away:
        ready.put_back(returned)
    assert positions(ready) == list(range(1, 201))
    assert [ready.pop().position for _ in range(200)] == list(range(1, 201))


def test_comings_and_goings_keep_the_lowest_position_first() -> None:
    ready, away = filled(60), list[Entry]()
    rolls = random.Random(11)
    for _ in range(2000):
        if away and rolls.random() < 0.5:
            ready.put_back(away.pop(rolls.randrange(len(away))))
        elif ready.count:
            lowest = min(positions(ready))
            taken = ready.pop()
            assert taken.position == lowest
            away.append(taken)
        if rolls.random() < 0.05:
            ready.push(message())


def test_count_and_bytes_follow_every_move() -> None:
    ready = ReadyList()
    ready.push(message(bytes(10)))
    ready.push(message(bytes(5)))
    assert (ready.count, ready.bytes) == (2, 15)
    first = ready.pop()
    assert (ready.count, ready.bytes) == (1, 5)
    ready.put_back(first)
    assert (ready.count, ready.bytes) == (2, 15)
    ready.clear()
    assert (ready.count, ready.bytes, ready.pop()) == (0, 0, None)


def test_clear_also_drops_what_came_back_and_counts_positions_on() -> None:
    ready = filled(2)
    ready.put_back(ready.pop())
    ready.clear()
    ready.push(message())
    assert positions(ready) == [3]


def test_entries_is_a_copy() -> None:
    ready = filled(2)
    ready.entries().clear()
    assert positions(ready) == [1, 2]
