"""A stream's log: parts, rolls, what is committed when, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.stream.log import StreamLog
from leveret.core.stream.segment import StreamSegment
from tests.unit.core.stream_client_bench import FakeKeeper, StreamBench

ENTRY, TRACK = 6, 7


def kinds(data: bytes | bytearray, at: int = 64) -> list[tuple[int, int]]:
    """(kind, sequence) of all records."""
    found = []
    while at < len(data):
        found.append((data[at + 16], int.from_bytes(data[at + 8 : at + 16], "big")))
        at += int.from_bytes(data[at + 4 : at + 8], "big") + 7 & ~7
    return found


def append(log: StreamLog, body: bytes = b"x", count: int = 1, now: int = 5) -> int:
    offset: int = log.append(b"\x00\x00", b"\x00\x00", body, count, 0, None, now)
    return offset


def test_offsets_count_messages_and_are_committed_when_synced() -> None:
    bench = StreamBench()
    assert [append(bench.log, count=count) for count in (1, 3, 1)] == [0, 1, 4]
    assert (bench.log.first_offset(), bench.log.next_offset, bench.log.committed_offset) == (0, 5, 0)
    bench.sync()
    assert bench.log.committed_offset == 5
    assert (bench.log.appended_total, bench.log.appended_bytes_total) == (5, 3)


def test_a_part_ends_with_what_is_tracked() -> None:
    bench = StreamBench()
    append(bench.log)
    append(bench.log)
    bench.sync()
    append(bench.log)
    bench.sync()
    assert kinds(bench.stream_store.images[0]) == [
        (TRACK, 0),
        (ENTRY, 0),
        (ENTRY, 1),
        (TRACK, 2),
        (ENTRY, 2),
        (TRACK, 3),
    ]


def test_the_record_at_the_end_says_how_far_all_was_synced() -> None:
    bench = StreamBench()
    for _ in range(3):
        append(bench.log)
        bench.sync()
    image = bench.stream_store.images[0]
    at, said = 64, []
    while at < len(image):
        if image[at + 16] == TRACK:
            said.append(int.from_bytes(image[at + 24 : at + 32], "big"))
        at += int.from_bytes(image[at + 4 : at + 8], "big") + 7 & ~7
    assert said == [0, 0, 1, 2]
    bench.disk.journal.want_evidence()
    bench.sync()
    assert kinds(image)[-1] == (TRACK, 3) and int.from_bytes(image[-8:], "big") == 3
    bench.disk.journal.want_evidence()
    assert not bench.disk.journal.take_batch().beside, "said once is enough"


def test_a_full_segment_ends_its_part_and_the_next_starts_with_all_that_is_tracked() -> None:
    bench = StreamBench(segment_bytes=1000)
    for number in range(5):
        assert bench.log.take_id(b"p", number)
        append(bench.log, b"x" * 300)
    bench.log.store_offset(b"c", 3)
    bench.sync()
    assert [segment.first_offset for segment in bench.log.segments] == [0, 3]
    assert bench.log.segments[0].next_offset == 3
    assert kinds(bench.stream_store.images[0]) == [(TRACK, 0), (ENTRY, 0), (ENTRY, 1), (ENTRY, 2), (TRACK, 3)]
    assert kinds(bench.stream_store.images[1]) == [(TRACK, 3), (ENTRY, 3), (ENTRY, 4), (TRACK, 5)]
    whole = bytes(bench.stream_store.images[1])[64:]
    # Before it the item that says which batch it is part of.
    assert whole[17] == 1 and whole[20:24] == b"\0\0\0\2" and whole[32] == 3 and whole[50:52] == b"\x01\x01"
    assert whole[52:61] == (2).to_bytes(8, "big") + b"p", "the id of the last message before, not of one that follows"


def test_an_id_is_not_in_a_segment_before_its_message() -> None:
    bench = StreamBench()
    assert bench.log.take_id(b"producer", 1)
    append(bench.log)
    bench.sync()
    image = bytes(bench.stream_store.images[0])
    first_length = int.from_bytes(image[68:72], "big")
    assert first_length == 32, "nothing is tracked before the first message"
    assert b"producer" in image[64 + first_length :]


class Sealing(FakeKeeper):
    """Notes what is sealed."""

    def __init__(self) -> None:
        super().__init__()
        self.sealed: list[int] = []

    def seal(self, log: StreamLog, segment: StreamSegment) -> None:
        assert segment.synced == segment.end
        self.sealed.append(segment.number)


def sealing_bench() -> tuple[StreamBench, Sealing]:
    bench, stream_store = StreamBench(segment_bytes=1000), Sealing()
    bench.stream_store = stream_store
    bench.log = StreamLog(1, bench.disk.journal, stream_store, 1000)
    return bench, stream_store


def test_a_segment_is_sealed_once_all_of_it_is_safe() -> None:
    bench, stream_store = sealing_bench()
    append(bench.log, b"x" * 400)
    batch = bench.disk.journal.take_batch()
    # It fills up while its first part is on the way to disk.
    append(bench.log, b"x" * 600)
    bench.disk.journal.batch_written(batch)
    bench.disk.journal.batch_synced(batch)
    assert stream_store.sealed == [] and len(bench.log.segments) == 2
    for part in batch.beside:
        stream_store.write(part)
    bench.sync()
    assert stream_store.sealed == [0]


def test_time_does_not_go_back() -> None:
    bench = StreamBench()
    for now in (100, 50, 120):
        append(bench.log, now=now)
    bench.sync()
    image = bytes(bench.stream_store.images[0])
    assert (bench.log.last_stamp, bench.log.segment.first_stamp, bench.log.segment.last_stamp) == (120, 100, 120)
    assert image.count((100).to_bytes(8, "big")) == 2


def test_offsets_alone_are_written_but_nobody_waits() -> None:
    bench = StreamBench()
    bench.log.store_offset(b"c", 4)
    assert bench.disk.wakes == [False]
    (part,) = bench.disk.journal.take_batch().beside
    assert part.count == 0


def test_a_segment_is_there_before_the_batch_is_taken() -> None:
    """So that its file can be made before."""
    bench, _ = sealing_bench()
    bench.log.store_offset(b"c", 4)
    assert bench.log.unwritten_segments() == [bench.log.segment] and bench.log.segment is not None
    append(bench.log, b"x" * 1100)
    append(bench.log, b"x" * 100)
    assert bench.log.unwritten_segments() == bench.log.segments and len(bench.log.segments) == 2
    (part,) = bench.disk.journal.take_batch().beside
    assert [segment for segment, *_ in part.pieces] == bench.log.segments


def test_it_knows_whether_all_of_it_is_safe() -> None:
    bench = StreamBench()
    assert bench.log.is_settled()
    append(bench.log)
    assert not bench.log.is_settled()
    batch = bench.disk.journal.take_batch()
    assert not bench.log.is_settled()
    bench.disk.complete(batch, sync=False)
    assert not bench.log.is_settled()
    bench.disk.journal.batch_synced(batch)
    assert bench.log.is_settled()
    bench.log.store_offset(b"c", 4)
    assert not bench.log.is_settled()
    # Offsets alone are not synced for their own sake, but with what comes next, even if that is of others.
    bench.disk.commit(sync=False)
    assert not bench.log.is_settled()
    bench.disk.commit()
    assert bench.log.is_settled()


def test_nothing_comes_behind_the_last_record() -> None:
    bench = StreamBench()
    append(bench.log)
    bench.disk.journal.append_closed()
    for late in (
        lambda: append(bench.log),
        lambda: bench.log.take_id(b"producer", 1),
    ):
        with pytest.raises(AssertionError, match="closed"):
            late()
    batch = bench.disk.commit()
    assert [part.count for part in batch.beside] == [1]
    with pytest.raises(AssertionError, match="closed"):
        bench.log.store_offset(b"c", 1)
    assert bench.log.is_settled() and bench.log.tracking.consumers == {}


def test_a_deleted_stream_has_nothing_for_the_batch() -> None:
    bench = StreamBench()
    append(bench.log)
    bench.log.close()
    assert not bench.disk.journal.take_batch().beside
    assert bench.log.closed


def test_it_goes_on_where_recovery_found_the_end() -> None:
    bench = StreamBench()
    segment = StreamSegment(4, 0, None, 10, 500)
    bench.log.resume([segment], 20, 77, 300, False)
    bench.stream_store.images[4] = bytearray(500)
    assert (bench.log.first_offset(), bench.log.committed_offset, bench.log.checkpoint) == (10, 20, 300)
    assert append(bench.log, now=5) == 20
    assert bench.log.segment is segment and bench.log.last_stamp == 77
    fresh = StreamBench()
    fresh.log.resume([segment], 20, 77, 300, True)
    assert append(fresh.log) == 20
    assert fresh.log.segment is not segment and fresh.log.segments[0] is segment


class Owner:
    def __init__(self) -> None:
        self.calls = 0

    def cursor_ready(self) -> None:
        self.calls += 1


def test_who_waits_at_the_tail_is_given_the_part_and_the_rest_is_not_touched() -> None:
    bench = StreamBench()
    owners = [Owner(), Owner()]
    cursors: list[Any] = [bench.stream.open_cursor(owner) for owner in owners]
    cursors[1].seek(2)
    assert not cursors[0].ready() and not cursors[1].ready()
    append(bench.log)
    bench.sync()
    assert [owner.calls for owner in owners] == [1, 0], "the second wants one that is still to come"
    assert cursors[0].ready() and not bench.stream_store.wanting
    for _ in range(2):
        append(bench.log)
    bench.sync()
    assert owners[1].calls == 1 and cursors[1].ready()
    assert int.from_bytes(cursors[1].data[cursors[1].at + 8 : cursors[1].at + 16], "big") == 2
