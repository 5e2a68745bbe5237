"""The ring: first in, first out, through growth, wrap-around and emptying."""

from __future__ import annotations

import random
from collections import deque

from leveret.core.queue.ring import Ring


def filled(count: int) -> Ring:
    ring = Ring()
    for number in range(count):
        ring.push(number)
    return ring


def test_an_empty_ring_gives_nothing() -> None:
    ring = Ring()
    assert ring.count == 0
    assert ring.pop() is None
    assert ring.peek() is None
    assert ring.items() == []


def test_items_come_out_in_the_order_they_went_in() -> None:
    ring = filled(100)
    assert ring.count == 100
    assert [ring.pop() for _ in range(100)] == list(range(100))
    assert ring.pop() is None


def test_peek_shows_the_oldest_and_leaves_it() -> None:
    ring = filled(3)
    assert ring.peek() == 0
    assert ring.count == 3
    assert ring.pop() == 0


def test_growing_while_wrapped_around_keeps_the_order() -> None:
    ring = filled(4)
    assert [ring.pop(), ring.pop()] == [0, 1]
    # Fills the slots before the head, then needs more.
    for number in range(4, 9):
        ring.push(number)
    assert ring.items() == list(range(2, 9))


def test_items_is_a_copy() -> None:
    ring = filled(2)
    ring.items().clear()
    assert ring.items() == [0, 1]


def test_a_cleared_ring_can_be_used_again() -> None:
    ring = filled(5)
    ring.clear()
    assert (ring.count, ring.items()) == (0, [])
    ring.push("again")
    assert ring.pop() == "again"


def test_a_drained_backlog_can_be_used_again() -> None:
    ring = filled(5000)
    while ring.pop() is not None:
        pass
    assert ring.count == 0
    ring.push("after")
    assert ring.items() == ["after"]


def test_a_ring_is_a_deque_whatever_the_mix_of_pushes_and_pops() -> None:
    ring, model = Ring(), deque[int]()
    rolls = random.Random(7)
    for number in range(20_000):
        if rolls.random() < 0.5 + 0.3 * (number // 2500 % 2 or -1):
            ring.push(number)
            model.append(number)
        else:
            assert ring.pop() == (model.popleft() if model else None)
        assert ring.count == len(model)
    assert ring.items() == list(model)
