"""The classic queue with rules: cases that random histories brought to light, each small enough to read."""

from __future__ import annotations

from leveret.core.queue import ClassicQueue
from leveret.core.rules import Rules
from tests.unit.core.test_queue import Taker, ready_bodies
from tests.unit.queues.dataplane import message

REJECT = 1


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
