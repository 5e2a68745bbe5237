"""Reading a stream from disk: filters over segments, damage on the way, retention underneath, memory."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from leveret.core.stream.cursor import Cursor
from leveret.core.stream.segment import make_bloom
from leveret.storage.stream import search as stream_search
from tests.unit.storage.stream_bench import ENTRY, Reader, Record, StreamBench, records_in

Make = Callable[..., StreamBench]


def entries_of(bench: StreamBench, file: int = 0) -> list[Record]:
    return [record for record in records_in(bench.files()[file].read_bytes()) if record.kind == ENTRY]


def spoil(bench: StreamBench, record: Record, at: int = 50, file: int = 0) -> None:
    with bench.files()[file].open("r+b") as opened:
        opened.seek(record.place + at)
        octet = opened.read(1)[0]
        opened.seek(record.place + at)
        opened.write(bytes([octet ^ 0xFF]))


def offsets(reader: Reader) -> list[int]:
    return [message.offset for message in reader.got]


def test_a_cold_reader_gets_all_segments_in_order(make_bench: Make) -> None:
    bench = make_bench(8192)
    for number in range(100):
        bench.append(b"%d" % number * 50)
    bench.commit()
    assert [message.body for message in bench.read_all()] == [b"%d" % number * 50 for number in range(100)]
    assert [message.offset for message in bench.read_all(73)] == list(range(73, 100))


def test_a_filter_goes_on_in_the_next_segment(make_bench: Make) -> None:
    """Whole segments have nothing for the reader: they are passed over, and what follows is not."""
    bench = make_bench(8192)
    for number in range(100):
        bench.append(b"x" * 500, b"b" if 30 <= number < 60 or number > 95 else b"a")
        bench.commit()

    def only_b(cursor: Cursor) -> None:
        cursor.blooms = [make_bloom(b"b")]

    found = [message.offset for message in bench.read_all(0, only_b) if message.filter_value == b"b"]
    assert found == [*range(30, 60), *range(96, 100)]


def test_a_filter_spares_what_cannot_match(make_bench: Make) -> None:
    bench = make_bench(1 << 22)
    for number in range(200):
        bench.append(b"x" * 10_000, b"rare" if number == 150 else b"usual")
    bench.commit()
    reader = Reader(bench, 0, credit=0)
    reader.cursor.blooms = [make_bloom(b"rare")]
    reader.give(1000)
    bench.wait(lambda: reader.cursor.waiting)
    assert 150 in offsets(reader) and len(reader.got) < 20
    assert reader.cursor.blocks_skipped_total > 20


def test_a_damaged_message_is_passed_over_alone(make_bench: Make) -> None:
    bench = make_bench()
    for number in range(50):
        bench.append(b"%d" % number * 40)
    bench.commit()
    spoil(bench, entries_of(bench)[20])
    assert [message.offset for message in bench.read_all()] == [number for number in range(50) if number != 20]
    assert bench.streams._loader.damaged_total == 1
    assert bench.log.segments[0].damaged


def test_damage_that_is_met_ahead_costs_nothing_else(make_bench: Make) -> None:
    """The reader has credit for a few, the next stretch is read ahead and starts with damage."""
    bench = make_bench()
    for number in range(400):
        bench.append(b"%04d" % number * 250)
    bench.commit()
    entries = entries_of(bench)
    # Nothing is read ahead of the first stretch, but of the second, which is twice as long.
    second = next(i for i, record in enumerate(entries) if record.end > 64 + 32768)
    first_not_read = next(i for i, record in enumerate(entries) if record.end > entries[second].place + 65536)
    spoil(bench, entries[first_not_read])
    reader = Reader(bench, 0, credit=second + 10)
    reader.take()
    bench.wait(lambda: bench.streams._loader.damaged_total == 1 and not bench.tasks)
    assert len(reader.got) == second + 10
    reader.give(1000)
    bench.wait(lambda: reader.cursor.waiting)
    assert offsets(reader) == [number for number in range(400) if number != first_not_read]


def test_a_long_message_behind_damage_is_found(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_search, "WINDOW_BYTES", 65536)
    bench = make_bench(1 << 25)
    for body in (b"a" * 1000, b"b" * 300_000, b"c"):
        bench.append(body)
    bench.commit()
    spoil(bench, entries_of(bench)[0])
    assert [message.offset for message in bench.read_all()] == [1, 2]


def test_a_damaged_length_asks_for_no_memory(make_bench: Make) -> None:
    bench = make_bench(1 << 25)
    for number in range(300):
        bench.append(b"%d" % number * 3_000)
    bench.commit()
    spoil(bench, entries_of(bench)[1], at=5)
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: reader.cursor.waiting)
    assert offsets(reader) == [0, *range(2, 300)]
    assert reader.cursor.read_bytes <= 524288


def test_a_long_message_does_not_make_all_reads_long(make_bench: Make) -> None:
    bench = make_bench(1 << 25)
    bench.append(b"x" * 1_500_000)
    for _ in range(20):
        bench.append(b"y" * 100_000)
    bench.commit()
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: reader.cursor.waiting)
    assert len(reader.got) == 21
    assert reader.cursor.read_bytes <= 524288


def test_damage_at_the_end_hides_nothing_that_comes_later(make_bench: Make) -> None:
    bench = make_bench()
    for _ in range(3):
        bench.append(b"x" * 100)
    bench.commit()
    spoil(bench, entries_of(bench)[2])
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: reader.cursor.waiting)
    assert offsets(reader) == [0, 1]
    bench.append(b"later")
    bench.commit()
    bench.wait(lambda: len(reader.got) == 3)
    assert offsets(reader) == [0, 1, 3]
    # Damage, and one more message while the next good record is looked for.
    other = Reader(bench, 2)
    other.take()
    bench.append(b"last")
    bench.commit()
    bench.wait(lambda: other.cursor.waiting)
    assert offsets(other) == [3, 4]


def test_a_reader_at_a_lost_end_waits(make_bench: Make) -> None:
    """The offsets are given, the messages are lost: nothing to read, and no reason to look for it again and again."""
    bench = make_bench()
    for _ in range(10):
        bench.append(b"x" * 100)
        bench.commit()
    bench.commit(evidence=True)
    bench.checkpoint()
    bench.die()
    os.truncate(bench.files()[0], entries_of(bench)[8].place)
    bench.open()
    assert (bench.log.committed_offset, len(bench.report.found)) == (10, 1)
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: reader.cursor.waiting)
    assert offsets(reader) == list(range(8))
    assert bench.streams._loader.reads_total < 5
    bench.append(b"next")
    bench.commit()
    bench.wait(lambda: len(reader.got) == 9)
    assert offsets(reader)[-1] == 10


def test_a_reader_may_be_moved_while_it_reads(make_bench: Make) -> None:
    bench = make_bench(65536)
    for number in range(1000):
        bench.append(b"%d" % number * 100)
    bench.commit()
    reader = Reader(bench, 500, credit=0)
    assert not reader.cursor.ready()
    # On a quick disk it may be there already; then it is moved with something in hand.
    bench.wait(lambda: bool(bench.streams._loader._job) or not reader.cursor.loading)
    reader.cursor.seek(0)
    reader.give(2000)
    bench.wait(lambda: reader.cursor.waiting)
    assert offsets(reader) == list(range(1000))
    # And while it waits at the tail.
    reader.got.clear()
    reader.cursor.seek(990)
    reader.give(5)
    bench.append(b"more")
    bench.commit()
    reader.give(100)
    bench.wait(lambda: reader.cursor.waiting)
    assert offsets(reader) == list(range(990, 1001))


def test_a_reader_jumps_over_what_retention_deleted(make_bench: Make) -> None:
    bench = make_bench(8192)
    for number in range(200):
        bench.append(b"%d" % number * 100)
    bench.commit()
    reader = Reader(bench, 0, credit=5)
    reader.take()
    bench.wait(lambda: len(reader.got) == 5)
    bench.retain(20_000)
    first = bench.log.first_offset()
    reader.give(1000)
    bench.wait(lambda: reader.cursor.waiting)
    got = offsets(reader)
    assert got[:5] == list(range(5)) and got == sorted(set(got))
    assert got[-(200 - first) :] == list(range(first, 200))
    assert len(got) < 200 and reader.cursor.missed_total > 0


def test_a_segment_that_somebody_deleted_is_passed_over(make_bench: Make) -> None:
    bench = make_bench(8192)
    for number in range(100):
        bench.append(b"%d" % number * 100)
    bench.commit()
    first, second = bench.log.segments[1].first_offset, bench.log.segments[2].first_offset
    bench.files()[1].unlink()
    assert [message.offset for message in bench.read_all()] == [*range(first), *range(second, 100)]
    assert bench.streams._loader.damaged_total == 1


class Broken(Reader):
    """An owner that fails when it is told."""

    def cursor_ready(self) -> None:
        super().cursor_ready()
        raise RuntimeError("broken")


def test_a_reader_that_fails_holds_up_nobody(make_bench: Make) -> None:
    bench = make_bench(8192)
    for number in range(100):
        bench.append(b"%d" % number * 100)
    bench.commit()
    told: list[object] = []
    bench.loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    readers = [(Broken if number % 3 == 0 else Reader)(bench, number) for number in range(20)]
    for reader in readers:
        reader.take()
    good = [reader for reader in readers if not isinstance(reader, Broken)]
    bench.wait(lambda: all(reader.cursor.waiting for reader in good))
    for reader in good:
        assert offsets(reader)[-1] == 99
    assert told


def test_one_that_another_closes_is_not_told(make_bench: Make) -> None:
    """Both wait at the tail; the first to be told closes the other."""
    bench = make_bench()
    first, second = Reader(bench, 0), Reader(bench, 0)
    first.take()
    second.take()

    class Closing(Reader):
        def cursor_ready(self) -> None:
            second.cursor.close()

    first.cursor.close()
    bench.log.waiting.reverse()
    closing = Closing(bench, 0)
    closing.take()
    bench.log.waiting.reverse()
    bench.append(b"x")
    bench.commit()
    assert second.got == [] and second.wakes == 0 and second.cursor.data is None
