"""The ring of messages that were never handed out: first in first out, newest taken back, positions kept."""

from __future__ import annotations

import random
from typing import Any

from leveret.core.queue.fresh import FreshRing
from tests.unit.queues.dataplane import message


def filled(count: int) -> FreshRing:
    ring = FreshRing()
    for number in range(1, count + 1):
        ring.push(message(b"%d" % number), number * 10)
    return ring


def popped(ring: FreshRing) -> tuple[bytes, int]:
    found = ring.pop()
    return found.body, ring.popped_position


def test_messages_leave_as_they_came_with_their_positions() -> None:
    ring = filled(3)
    assert [popped(ring) for _ in range(3)] == [(b"1", 10), (b"2", 20), (b"3", 30)]
    assert (ring.count, ring.bytes) == (0, 0)


def test_the_newest_can_be_taken_back() -> None:
    ring = filled(3)
    assert (ring.pop_last().body, ring.popped_position) == (b"3", 30)
    ring.push(message(b"4"), 40)
    assert [popped(ring) for _ in range(3)] == [(b"1", 10), (b"2", 20), (b"4", 40)]


def test_what_waits_can_be_looked_at() -> None:
    ring = filled(5)
    ring.pop()
    assert [ring.message_at(i).body for i in range(4)] == [b"2", b"3", b"4", b"5"]
    assert [ring.position_at(i) for i in range(4)] == [20, 30, 40, 50]
    assert (ring.count, ring.bytes) == (4, 4)


def test_positions_may_be_as_large_as_they_get() -> None:
    ring = FreshRing()
    ring.push(message(), (1 << 64) - 1)
    ring.pop()
    assert ring.popped_position == (1 << 64) - 1


def test_a_cleared_ring_starts_anew() -> None:
    ring = filled(2000)
    ring.clear()
    assert (ring.count, ring.bytes) == (0, 0)
    ring.push(message(b"x"), 7)
    assert popped(ring) == (b"x", 7)


def test_a_large_ring_that_ran_empty_is_used_again() -> None:
    ring = filled(5000)
    for _ in range(5000):
        ring.pop()
    ring.push(message(b"x"), 1)
    assert (popped(ring), ring.count) == ((b"x", 1), 0)


def test_any_coming_and_going_is_that_of_a_deque() -> None:
    rolls, ring, model = random.Random(4), FreshRing(), list[tuple[Any, int]]()
    for position in range(5000):
        # Long stretches of growth and of decline, so that it wraps at many sizes.
        roll = rolls.random() * (1.6 if position // 500 % 2 else 1.0)
        if roll < 0.6:
            note = message(bytes(position % 7))
            ring.push(note, position)
            model.append((note, position))
        elif model:
            at = -1 if roll < 0.7 else 0
            found = ring.pop_last() if at else ring.pop()
            assert (found, ring.popped_position) == model.pop(at)
        assert (ring.count, ring.bytes) == (len(model), sum(note.body_size for note, _ in model))
    assert [ring.position_at(i) for i in range(ring.count)] == [position for _, position in model]
