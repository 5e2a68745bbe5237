"""A segment's counts, and the index that grows with it."""

from __future__ import annotations

from leveret.core.log.segment import Segment
from tests.unit.core.fake_disk import PLACED, FakeDisk, read_notes
from tests.unit.queues.dataplane import message


def test_a_new_segment_is_empty() -> None:
    segment = Segment(3, 99, None, 64)
    assert (segment.id, segment.salt, segment.end, segment.written) == (3, 99, 64, 64)
    assert (segment.live, segment.placed, segment.sealed, segment.paging, segment.damaged) == (
        0,
        0,
        False,
        False,
        False,
    )
    assert (segment.settles, segment.noted_by, segment.index, segment.index_bytes) == (set(), set(), None, 0)


def test_a_fresh_index_has_nothing_in_it() -> None:
    segment = Segment(1, 0, None, 64)
    segment.start_index()
    assert segment.copy_index() == b""


def test_the_index_grows_as_far_as_needed() -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log(5)
    for position in range(1, 1001):
        disk.journal.keep(queue_log, message(b"x", delivery_mode=2), position)
    segment = disk.journal.segment
    notes = read_notes(segment.copy_index())
    assert [(note.queue, note.first, note.kind) for note in notes] == [(5, n, PLACED) for n in range(1, 1001)]
    assert (segment.index_bytes, segment.placed, segment.live) == (32_000, 1000, 1000)


def test_a_copy_of_the_index_leaves_it_where_it_is() -> None:
    disk = FakeDisk()
    disk.journal.keep(disk.queue_log(), message(b"x", delivery_mode=2), 1)
    segment = disk.journal.segment
    copy = segment.copy_index()
    assert segment.index is not None
    assert segment.copy_index() == copy


def test_pages_have_no_index() -> None:
    disk = FakeDisk()
    assert disk.pager.segment.paging
    assert disk.pager.segment.index is None
    assert disk.journal.segment.index is not None
