"""Bringing a stream back: torn ends are cut, damage is told, offsets are never given twice, ids and messages agree."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.storage.stream import search as stream_search
from leveret.storage.stream.index import read_stream_index
from tests.unit.storage.stream_bench import ENTRY, HEAD_BYTES, TRACK, Record, StreamBench, records_in

Make = Callable[..., StreamBench]


def filled(bench: StreamBench, count: int, size: int = 400) -> StreamBench:
    for number in range(count):
        bench.append(b"%03d" % number * (size // 3))
        bench.commit()
    bench.commit(evidence=True)
    return bench


def records_of(bench: StreamBench, file: int = -1) -> list[Record]:
    return records_in(bench.files()[file].read_bytes())


def spoil(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def offsets(bench: StreamBench, first: int = 0) -> list[int]:
    return [message.offset for message in bench.read_all(first)]


def test_a_clean_stop_leaves_an_index_and_no_room(make_bench: Make) -> None:
    bench = filled(make_bench(8192), 50)
    bench.log.store_offset(b"reader", 17)
    bench.stop_cleanly()
    assert len(bench.indexes()) == len(bench.files()) > 2
    bench.open()
    assert (bench.log.first_offset(), bench.log.next_offset, bench.log.committed_offset) == (0, 50, 50)
    assert bench.log.tracking.consumers == {b"reader": 17}
    assert offsets(bench) == list(range(50)) and not bench.report.found


@pytest.mark.parametrize("octets", [1, 8, 31, 40, 200, 441])
def test_a_torn_message_goes_with_its_part(make_bench: Make, octets: int) -> None:
    """Two messages and the id of their producer, of which only some octets are on disk."""
    bench = filled(make_bench(), 5)
    end = bench.log.segment.end
    bench.log.take_id(b"producer", 9)
    bench.append(b"a" * 100)
    bench.append(b"b" * 300)
    bench.write()
    bench.die()
    os.truncate(bench.files()[0], end + octets)
    bench.open()
    assert (bench.log.next_offset, dict(bench.log.tracking.producers)) == (5, {})
    assert not bench.report.found
    assert bench.log.take_id(b"producer", 9), "it is to be sent again"
    assert bench.append(b"a" * 100) == 5
    bench.commit()
    bench.restart()
    assert offsets(bench) == list(range(6)) and bench.log.tracking.producers == {b"producer": 9}


def test_an_id_is_not_there_before_its_message(make_bench: Make) -> None:
    """The very first message of a stream: its segment starts with what is tracked."""
    bench = make_bench()
    assert bench.log.take_id(b"producer", 1)
    bench.append(b"x" * 100)
    bench.write()
    bench.die()
    first = records_of(bench)[0]
    assert first.kind == TRACK
    os.truncate(bench.files()[0], first.end)
    bench.open()
    assert bench.log.next_offset == 0 and bench.log.take_id(b"producer", 1)


def test_what_a_kill_left_counts_and_cannot_be_lost_in_silence(make_bench: Make) -> None:
    """Written and not synced: a start takes it, and from then on it is as good as any other."""
    bench = filled(make_bench(), 5)
    for _ in range(3):
        bench.append(b"x" * 100)
    bench.write()
    bench.restart()
    assert bench.log.committed_offset == 8
    bench.die()
    entry = [record for record in records_of(bench) if record.kind == ENTRY][6]
    spoil(bench.files()[0], entry.place + 60)
    bench.open()
    assert bench.log.next_offset == 8, "its offset is not given again"
    assert offsets(bench) == [0, 1, 2, 3, 4, 5, 7]
    assert bench.report.found or bench.streams._loader.damaged_total


def test_damage_is_told_once_and_costs_one_message(make_bench: Make) -> None:
    bench = filled(make_bench(), 10)
    bench.die()
    entry = [record for record in records_of(bench) if record.kind == ENTRY][4]
    spoil(bench.files()[0], entry.place + 60)
    bench.open()
    assert [damage.offset for damage in bench.report.found] == [entry.place]
    assert len(list(bench.layout.quarantine.iterdir())) == 1
    assert bench.log.next_offset == 10 and offsets(bench) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    bench.restart()
    assert not bench.report.found, "it is known by now"
    assert bench.append(b"next") == 10


def test_a_lost_end_is_never_given_again(make_bench: Make) -> None:
    bench = filled(make_bench(), 10)
    bench.checkpoint()
    bench.die()
    os.truncate(bench.files()[0], [record for record in records_of(bench) if record.kind == ENTRY][6].place)
    bench.open()
    assert (bench.log.next_offset, len(bench.report.found)) == (10, 1)
    # Nothing was appended in between: the next start must know it all the same.
    bench.restart()
    assert (bench.log.next_offset, len(bench.report.found)) == (10, 0)
    assert bench.append(b"next") == 10
    bench.commit()
    bench.restart()
    assert offsets(bench) == [0, 1, 2, 3, 4, 5, 10] and not bench.report.found


def test_a_stream_that_lost_everything_goes_on_where_it_was(make_bench: Make) -> None:
    bench = filled(make_bench(), 10)
    bench.checkpoint()
    bench.die()
    os.truncate(bench.files()[0], HEAD_BYTES)
    bench.open()
    for _ in range(2):
        assert (bench.log.first_offset(), bench.log.next_offset, offsets(bench)) == (10, 10, [])
        bench.restart()
    assert bench.append(b"next") == 10


def test_lost_ids_are_told(make_bench: Make) -> None:
    """The record that ends a part has the producer's id; a flipped bit in it is no torn end."""
    bench = filled(make_bench(), 5)
    bench.log.take_id(b"producer", 3)
    bench.append(b"with an id")
    bench.commit()
    bench.commit(evidence=True)
    bench.die()
    records = records_of(bench)
    assert [record.kind for record in records[-3:]] == [ENTRY, TRACK, TRACK]
    spoil(bench.files()[0], records[-2].place + 33)
    bench.open()
    assert bench.report.found
    assert bench.log.next_offset == 6 and offsets(bench) == list(range(6))


def test_a_batch_over_two_segments_of_which_only_the_second_is_there(make_bench: Make) -> None:
    """Nothing of it was told to anybody: it goes, and is not taken for damage."""
    bench = filled(make_bench(4096), 3, 900)
    before, end = bench.files(), bench.log.segment.end
    for _ in range(8):
        bench.append(b"x" * 900)
    bench.write()
    bench.die()
    assert len(bench.files()) > len(before)
    os.truncate(before[-1], end)
    bench.open()
    assert (bench.log.next_offset, offsets(bench)) == (3, [0, 1, 2])
    assert bench.files() == before and not bench.report.found


def test_the_start_of_a_new_segment_is_torn(make_bench: Make) -> None:
    """Its first page is not there, others are."""
    bench = filled(make_bench(4096), 3, 900)
    count = len(bench.files())
    while len(bench.log.segments) == count:
        bench.append(b"x" * 900)
    last_of_old = bench.log.next_offset
    for _ in range(2):
        bench.append(b"y" * 1900)
    bench.write()
    bench.die()
    data = bytearray(bench.files()[count].read_bytes())
    data[HEAD_BYTES:2000] = bytes(2000 - HEAD_BYTES)
    bench.files()[count].write_bytes(data)
    bench.open()
    assert bench.log.next_offset == last_of_old and offsets(bench) == list(range(last_of_old))
    assert not bench.report.found


@pytest.mark.parametrize("number", [0, 2])
def test_a_segment_of_which_nothing_is_left(make_bench: Make, number: int) -> None:
    bench = filled(make_bench(4096), 60)
    bench.retain(20_000)
    expected, first = offsets(bench), bench.log.first_offset()
    gone = bench.log.segments[number]
    bench.die()
    path = bench.files()[number]
    path.write_bytes(bytes(path.stat().st_size))
    path.with_suffix(".index").unlink()
    bench.open()
    assert bench.report.found and bench.log.next_offset == 60
    assert bench.log.first_offset() == (first if number else gone.next_offset)
    left = [offset for offset in expected if not gone.first_offset <= offset < gone.next_offset]
    assert offsets(bench) == left
    assert offsets(bench, 50) == [offset for offset in left if offset >= 50]


def test_a_segment_that_is_missing_is_told(make_bench: Make) -> None:
    bench = filled(make_bench(4096), 60)
    gone = bench.log.segments[2]
    bench.die()
    bench.files()[2].with_suffix(".index").unlink()
    bench.files()[2].unlink()
    bench.open()
    assert [damage.path for damage in bench.report.found] == [gone.path]
    assert offsets(bench) == [*range(gone.first_offset), *range(gone.next_offset, 60)]


def test_an_index_that_is_lost_damaged_or_old_changes_nothing(make_bench: Make) -> None:
    bench = filled(make_bench(4096), 60)
    bench.checkpoint()
    old = {path: path.read_bytes() for path in bench.indexes()}
    for _ in range(3):
        bench.append(b"x" * 100)
    bench.commit()
    for fate in range(3):
        bench.die()
        for path in bench.indexes():
            if fate == 0:
                path.unlink()
            elif fate == 1:
                spoil(path, path.stat().st_size // 2)
            elif path in old:
                path.write_bytes(old[path])
        bench.open()
        assert (bench.log.next_offset, offsets(bench)) == (63, list(range(63)))
        assert not bench.report.found


def test_an_index_is_written_for_all_that_was_read(make_bench: Make) -> None:
    """If the log itself does not say that it was synced."""
    bench = filled(make_bench(), 29)
    bench.restart()
    assert bench.indexes() == []
    bench.append(b"x" * 100)
    bench.commit()
    bench.restart()
    index = read_stream_index(bench.indexes()[0], 1)
    assert index is not None and (index.next_offset, index.end) == (30, bench.log.segment.end)


def test_a_long_message_behind_damage_is_kept(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_search, "WINDOW_BYTES", 65536)
    bench = make_bench(1 << 25)
    for body in (b"a" * 1000, b"b" * 300_000, b"c"):
        bench.append(body)
    bench.commit()
    bench.commit(evidence=True)
    bench.die()
    spoil(bench.files()[0], records_of(bench)[1].place + 100)
    bench.open()
    assert len(bench.report.found) == 1 and offsets(bench) == [1, 2]


def test_ids_and_offsets_survive_rolls_and_restarts(make_bench: Make) -> None:
    bench = make_bench(4096)
    for number in range(100):
        assert bench.log.take_id(b"p%d" % (number % 3), number)
        bench.append(b"x" * 200)
        bench.log.store_offset(b"c", number)
        bench.commit()
    bench.restart()
    assert bench.log.tracking.producers == {b"p0": 99, b"p1": 97, b"p2": 98}
    assert bench.log.tracking.consumers == {b"c": 99}
    assert not bench.log.take_id(b"p2", 98)
    bench.retain(1)
    bench.restart()
    assert bench.log.tracking.producers == {b"p0": 99, b"p1": 97, b"p2": 98}


def test_the_log_itself_says_soon_that_what_was_found_is_synced(make_bench: Make) -> None:
    """An index may be lost: damage must not be taken for a torn end then."""
    bench = filled(make_bench(), 5)
    bench.append(b"x" * 100)
    bench.write()
    bench.restart()
    bench.commit(evidence=True)
    last = records_of(bench)[-1]
    assert (last.kind, last.sequence) == (TRACK, 6)
    assert int.from_bytes(bench.files()[0].read_bytes()[last.place + 24 : last.place + 32], "big") == 6
    end = bench.log.segment.end
    bench.restart()
    bench.commit(evidence=True)
    assert bench.log.segment.end == end, "once is enough"


def test_offsets_behind_a_damaged_one_are_kept(make_bench: Make) -> None:
    """Nobody can tell it from a torn end, and no message is missing: what stands behind it is good, and stays."""
    bench = filled(make_bench(), 5)
    for offset in (1, 2, 3):
        bench.log.store_offset(b"c%d" % offset, offset)
        bench.commit()
    bench.die()
    records = records_of(bench)
    assert [record.kind for record in records[-3:]] == [TRACK, TRACK, TRACK]
    spoil(bench.files()[0], records[-2].place + 34)
    bench.open()
    for _ in range(2):
        assert bench.log.tracking.consumers == {b"c1": 1, b"c3": 3}
        assert bench.log.next_offset == 5 and not bench.report.found
        bench.restart()
    bench.append(b"next")
    bench.commit()
    bench.restart()
    assert bench.log.tracking.consumers == {b"c1": 1, b"c3": 3} and offsets(bench) == list(range(6))
