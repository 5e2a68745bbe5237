"""What queues and subscribers promise each other, as far as the bare contract says it."""

from __future__ import annotations

import pytest

from leveret.core.queue.contract import Queue, Subscriber, make_entry
from tests.unit.queues.dataplane import message


def test_a_new_entry_is_held_by_nobody_and_was_never_delivered() -> None:
    note = message(b"body")
    entry = make_entry(note, 7)
    assert entry.message is note
    assert (entry.position, entry.tag, entry.delivery_count, entry.holder) == (7, 0, 0, None)


def test_a_bare_subscriber_takes_nothing() -> None:
    subscriber = Subscriber()
    assert not subscriber.can_take()
    with pytest.raises(AssertionError):
        subscriber.take(make_entry(message(), 1))
    with pytest.raises(AssertionError):
        subscriber.hand(message(), False)


def test_a_subscriber_is_active_unless_told_otherwise() -> None:
    subscriber = Subscriber()
    assert subscriber.active
    subscriber.activity_changed(False)
    assert not subscriber.active


def test_a_bare_queue_takes_neither_messages_nor_subscribers() -> None:
    queue = Queue(b"q", None)
    with pytest.raises(AssertionError):
        queue.publish(message())
    with pytest.raises(AssertionError):
        queue.subscribe(Subscriber())
    with pytest.raises(AssertionError):
        queue.unsubscribe(Subscriber())


def test_a_bare_queue_is_empty_and_its_close_is_remembered() -> None:
    queue = Queue(b"q", "record")
    assert (queue.name, queue.record, queue.deleted) == (b"q", "record", False)
    assert (queue.ready_count(), queue.purge(), queue.get(Subscriber()), queue.subscriber_count()) == (0, 0, 0, 0)
    queue.close()
    assert queue.deleted
