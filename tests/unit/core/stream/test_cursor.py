"""A reader's place in a stream: from memory at the tail, from disk elsewhere, ahead of its owner, over gaps."""

from __future__ import annotations

from typing import Any

from leveret.core.stream.cursor import Cursor
from leveret.core.stream.segment import make_bloom
from tests.unit.core.stream_client_bench import StreamBench


class Owner:
    """Takes what there is, as long as it has credit."""

    def __init__(self, bench: StreamBench, offset: int = 0, credit: int = 1 << 30) -> None:
        self.credit = credit
        self.offsets: list[int] = []
        self.calls = 0
        self.cursor: Any = Cursor(bench.log, self)
        self.cursor.seek(offset)

    def cursor_ready(self) -> None:
        self.calls += 1
        self.take()

    def take(self) -> None:
        while self.credit > 0 and self.cursor.ready():
            at = self.cursor.at
            self.offsets.append(int.from_bytes(self.cursor.data[at + 8 : at + 16], "big"))
            self.cursor.step()
            self.credit -= 1


def publish(bench: StreamBench, count: int, size: int = 100, value: bytes | None = None) -> None:
    for _ in range(count):
        bench.log.append(b"\x00\x00", b"\x00\x00", b"x" * size, 1, 0, value, 5)
    bench.sync()


def test_what_is_not_synced_is_not_seen() -> None:
    bench = StreamBench()
    owner = Owner(bench)
    bench.log.append(b"\x00\x00", b"\x00\x00", b"x", 1, 0, None, 5)
    owner.take()
    assert owner.offsets == [] and owner.cursor.waiting and not bench.stream_store.wanting
    bench.sync()
    assert owner.offsets == [0]


def test_old_messages_come_from_disk_and_new_ones_from_memory() -> None:
    bench = StreamBench()
    publish(bench, 10)
    owner = Owner(bench, 3)
    owner.take()
    assert owner.cursor.loading and owner.offsets == []
    bench.stream_store.read()
    assert owner.offsets == list(range(3, 10)) and owner.cursor.waiting
    publish(bench, 2)
    assert owner.offsets == list(range(3, 12)) and not bench.stream_store.wanting


def test_one_that_is_just_behind_needs_no_disk() -> None:
    bench = StreamBench()
    slow, quick = Owner(bench, credit=0), Owner(bench)
    quick.take()
    publish(bench, 5)
    slow.credit = 100
    slow.take()
    assert slow.offsets == quick.offsets == list(range(5)) and not bench.stream_store.wanting


def test_an_offset_that_is_still_to_come_is_waited_for() -> None:
    bench = StreamBench()
    publish(bench, 2)
    owner = Owner(bench, 5)
    owner.take()
    for _ in range(3):
        publish(bench, 1)
        assert owner.offsets == []
    publish(bench, 2)
    assert owner.offsets == [5, 6]


def test_a_seek_before_the_first_starts_at_the_first() -> None:
    bench = StreamBench(segment_bytes=1000)
    publish(bench, 50)
    del bench.log.segments[:3]
    owner = Owner(bench, 0)
    assert owner.cursor.offset == bench.log.first_offset() > 0


def test_reading_goes_on_over_segments() -> None:
    bench = StreamBench(segment_bytes=1000)
    publish(bench, 50)
    assert len(bench.log.segments) > 5
    owner = Owner(bench)
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == list(range(50))


def test_the_next_stretch_is_read_while_one_is_handed_out() -> None:
    bench = StreamBench(segment_bytes=10_000)
    publish(bench, 300)
    owner = Owner(bench, credit=5)
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == list(range(5)) and not owner.cursor.loading
    reads = owner.calls
    owner.credit = 1000
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == list(range(300)) and owner.calls > reads


def test_a_filter_passes_over_segments_without_its_values() -> None:
    bench = StreamBench(segment_bytes=1000)
    for value in (b"a", b"b", None, b"a", b"b"):
        publish(bench, 20, value=value)
    for values, unfiltered, expected in (
        ([b"b"], False, {*range(20, 40), *range(80, 100)}),
        ([b"b"], True, set(range(20, 60)) | set(range(80, 100))),
        ([b"none"], False, set()),
    ):
        owner = Owner(bench)
        owner.cursor.blooms = [make_bloom(value) for value in values]
        owner.cursor.unfiltered = unfiltered
        owner.take()
        bench.stream_store.read()
        assert owner.cursor.waiting and owner.cursor.offset == 100
        assert expected <= set(owner.offsets) and owner.offsets == sorted(owner.offsets)
        assert len(owner.offsets) < len(expected) + 40
        assert owner.cursor.blocks_skipped_total > 0
        assert owner.cursor.missed_total == 0, "what a filter passes over is not missed"
        publish(bench, 0)


def test_retention_moves_a_reader_to_what_is_left() -> None:
    bench = StreamBench(segment_bytes=1000)
    publish(bench, 50)
    owner = Owner(bench, credit=0)
    for segment in bench.log.segments[:4]:
        segment.gone = True
    del bench.log.segments[:4]
    first = bench.log.first_offset()
    owner.credit = 1000
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == list(range(first, 50)) and owner.cursor.missed_total == first


def test_what_cannot_be_read_is_passed_over_and_counted() -> None:
    bench = StreamBench()
    publish(bench, 10)
    owner = Owner(bench)
    owner.take()
    cursor = owner.cursor
    bench.stream_store.wanting.clear()
    assert cursor.next_read() is None
    cursor.found(bench.log.segment, 64)
    # Records of 144 octets behind the first of 32: damage up to the fourth message.
    cursor.pass_over(3, 64 + 32 + 3 * 144)
    bench.stream_store.wanting.append(cursor)
    bench.stream_store.read()
    assert owner.offsets == list(range(3, 10)) and cursor.missed_total == 3


def test_damage_ahead_leaves_what_is_in_memory() -> None:
    bench = StreamBench()
    publish(bench, 10)
    owner = Owner(bench, credit=2)
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == [0, 1]
    owner.cursor.pass_over(99, bench.log.segment.synced)
    owner.credit = 100
    owner.take()
    assert owner.offsets == list(range(10))


def test_an_end_that_is_lost_is_waited_at() -> None:
    """The stream says that there are more than can be found."""
    bench = StreamBench()
    publish(bench, 5)
    bench.log.resume(bench.log.segments, 8, 5, 0, True)
    owner = Owner(bench)
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == list(range(5)) and owner.cursor.waiting
    assert (owner.cursor.offset, owner.cursor.missed_total) == (8, 3)


def test_a_long_record_makes_one_read_long() -> None:
    bench = StreamBench()
    publish(bench, 1, size=2_000_000)
    owner = Owner(bench, credit=0)
    owner.cursor.ready()
    owner.cursor.need(2_000_048)
    assert owner.cursor.read_bytes == 2_000_048
    owner.credit = 10
    bench.stream_store.read()
    assert owner.offsets == [0] and owner.cursor.read_bytes <= 524_288


def test_one_that_is_moved_forgets_what_was_read_for_it() -> None:
    bench = StreamBench()
    publish(bench, 10)
    owner = Owner(bench, 8)
    owner.take()
    (cursor,) = bench.stream_store.wanting
    bench.stream_store.wanting.clear()
    cursor.seek(2)
    cursor.loaded(bytearray(64), 0, 0)
    assert owner.offsets == [] and cursor.loading
    bench.stream_store.read()
    assert owner.offsets == list(range(2, 10))
    # One that waits at the tail as well.
    owner.credit = 0
    cursor.seek(5)
    publish(bench, 1)
    assert bench.log.waiting == []
    owner.credit = 100
    owner.take()
    bench.stream_store.read()
    assert owner.offsets == [*range(2, 10), *range(5, 11)]


def test_one_that_is_closed_gets_nothing_more() -> None:
    bench = StreamBench()
    owner, other = Owner(bench), Owner(bench)
    owner.take()
    other.take()
    assert bench.log.cursors == 2
    owner.cursor.close()
    owner.cursor.close()
    assert bench.log.cursors == 1
    publish(bench, 1)
    assert (owner.offsets, other.offsets) == ([], [0])
    reading = Owner(bench, 0)
    reading.cursor.ready()
    reading.cursor.close()
    bench.stream_store.read()
    assert reading.calls == 0
