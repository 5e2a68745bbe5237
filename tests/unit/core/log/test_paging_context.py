"""The paging context: what all queues of a node share to keep bodies out of memory."""

from __future__ import annotations

from leveret.core.log.journal import Journal
from leveret.core.log.paging_context import PagingContext
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import message


def test_a_shelf_starts_without_pressure() -> None:
    pager = Journal({}, 1000, lambda _urgent: None, True)
    paging_context = PagingContext(pager, 4096, lambda _queue: None)
    assert paging_context.pager is pager
    assert (paging_context.window_bytes, paging_context.pressed) == (4096, False)


def test_the_window_may_change_at_any_time() -> None:
    disk = FakeDisk(window_bytes=100)
    queue = disk.queue()
    for _ in range(5):
        queue.publish(message(bytes(60), delivery_mode=2))
    assert len(queue.ready_entries()) == 2, "the third would have been beyond the window"
    disk.paging_context.window_bytes = 1000
    queue.publish(message(bytes(60), delivery_mode=2))
    assert len(queue.ready_entries()) == 2, "what waits on disk goes first"


def test_the_shelf_is_asked_for_what_is_on_disk() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    queue.publish(message(b"x", delivery_mode=2))
    assert disk.wanting == []
    queue.fetch()
    assert disk.wanting == [queue]
