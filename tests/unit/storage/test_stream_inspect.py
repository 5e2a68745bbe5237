"""Looking into the files of streams: what a check finds where, what it takes for a torn end, and what is listed.
Nothing is changed by it."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.storage.inspect_report import KnownIds, Report
from leveret.storage.layout import Layout
from leveret.storage.stream.inspect import StreamsInspection
from leveret.storage.stream.survey import LOST_END, LOST_SEGMENT
from tests.unit.storage.stream_bench import ENTRY, SALT, STREAM_ID, TRACK, StreamBench, records_in

KNOWN = KnownIds(set(), set(), STREAM_ID + 1, {STREAM_ID})
SEGMENT = f"streams/{STREAM_ID:010}/{{:010}}.segment"
INDEX = f"streams/{STREAM_ID:010}/{{:010}}.index"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StreamBench]:
    made = StreamBench(tmp_path / "data", segment_bytes=20_000)
    yield made
    made.close()


def filled(bench: StreamBench, count: int = 100) -> None:
    """Messages in parts of five, so that there are a few segments."""
    for number in range(count):
        bench.log.take_id(b"shop", number + 1)
        bench.append(b"%04d" % number + b"x" * 500, filter_value=b"f%d" % (number % 3) if number % 2 else None)
        bench.now += 1000
        if number % 5 == 4:
            bench.commit()
    bench.log.store_offset(b"ledger", count // 2)
    bench.commit(evidence=True)


def contents_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def inspected(layout: Layout, known: KnownIds = KNOWN) -> tuple[StreamsInspection, Report]:
    """A check; the directory is as it was."""
    before = contents_of(layout.root)
    report = Report()
    inspection = StreamsInspection(layout, SALT, report, lambda done, total: None)
    inspection.survey()
    inspection.check(known, inspection.lost(known, False))
    assert contents_of(layout.root) == before
    return inspection, report


def places(report: Report) -> list[tuple[str, str]]:
    return [(damage.path.name, damage.what) for damage in report.damages]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def entry_of(path: Path, offset: int) -> int:
    """Where the record of this offset is."""
    return next(r.place for r in records_in(path.read_bytes()) if r.kind == ENTRY and r.sequence == offset)


# ---- what there is


def test_a_whole_stream_is_all_good(bench: StreamBench) -> None:
    filled(bench)
    bench.stop_cleanly()
    inspection, report = inspected(bench.layout)
    assert (report.damages, report.notes) == ([], [])
    assert (report.streams, report.stream_messages) == (1, 100)
    files = {file.name: file for file in report.files}
    assert len(bench.files()) == 3
    assert list(files) == [form.format(number) for number in (1, 2, 3) for form in (SEGMENT, INDEX)]
    for path in bench.files():
        file = files[str(path.relative_to(bench.layout.root))]
        assert (file.records, file.size) == (len(records_in(path.read_bytes())), path.stat().st_size)
    found = inspection.contents(STREAM_ID)
    assert (found.segments, found.first_offset, found.next_offset) == (3, 0, 100)
    assert found.size == sum(segment.end for segment in bench.log.segments)
    assert (found.first_ms, found.last_ms) == (1_800_000_000_000, 1_800_000_099_000)
    assert (found.producers, found.consumers) == ({b"shop": 100}, {b"ledger": 50})


def test_beside_a_broker_that_has_not_stopped(bench: StreamBench) -> None:
    """The last segment has room that is reserved, and no index."""
    filled(bench)
    inspection, report = inspected(bench.layout)
    assert (report.damages, report.notes, report.stream_messages) == ([], [], 100)
    assert inspection.contents(STREAM_ID).next_offset == 100
    # What is written and not synced is there, but the next start may find less of it.
    bench.append(b"late")
    bench.write()
    inspection, report = inspected(bench.layout)
    assert (report.damages, inspection.contents(STREAM_ID).next_offset) == ([], 101)


def test_after_retention(bench: StreamBench) -> None:
    filled(bench)
    bench.retain(max_bytes=30_000)
    inspection, report = inspected(bench.layout)
    assert (report.damages, report.notes) == ([], [])
    first = inspection.contents(STREAM_ID).first_offset
    assert 0 < first == bench.log.first_offset()
    assert [entry.offset for entry in inspection.entries(STREAM_ID)] == list(range(first, 100))


def test_a_stream_without_a_message(bench: StreamBench) -> None:
    inspection, report = inspected(bench.layout)
    assert (report.files, report.damages, report.notes, report.streams) == ([], [], [], 1)
    assert inspection.contents(STREAM_ID).next_offset == 0
    assert list(inspection.entries(STREAM_ID)) == []


# ---- damage


@pytest.mark.parametrize("clean", [True, False])
def test_damage_is_found_wherever_it_is(bench: StreamBench, clean: bool) -> None:
    """Also before a checkpoint and in a sealed segment, which no start would read."""
    filled(bench)
    bench.checkpoint()
    if clean:
        bench.stop_cleanly()
    first, _, last = bench.files()
    flip(first, entry_of(first, 7) + 60)
    lost = records_in(last.read_bytes())[1].sequence
    flip(last, entry_of(last, lost) + 20)
    _, report = inspected(bench.layout)
    assert places(report) == [
        (first.name, "messages of a stream are lost from offset 7 on"),
        (last.name, f"messages of a stream are lost from offset {lost} on"),
    ]
    assert report.damages[0].offset == entry_of(first, 7)
    assert report.stream_messages == 98
    inspection, _ = inspected(bench.layout)
    damaged = [(entry.offset, entry.segment) for entry in inspection.entries(STREAM_ID) if entry.damaged]
    assert damaged == [(7, SEGMENT.format(1)), (lost, SEGMENT.format(3))]
    assert len([entry for entry in inspection.entries(STREAM_ID) if not entry.damaged]) == 98


def test_the_lost_end_of_a_sealed_segment(bench: StreamBench) -> None:
    filled(bench)
    first = bench.files()[0]
    last = [record for record in records_in(first.read_bytes()) if record.kind == ENTRY][-1]
    data = first.read_bytes()
    first.write_bytes(data[: last.place] + bytes(len(data) - last.place))
    _, report = inspected(bench.layout)
    assert places(report) == [(first.name, f"{LOST_END}: the messages from offset {last.sequence} on")]


def test_what_a_start_has_told_is_still_told(bench: StreamBench) -> None:
    """It is still missing; only a start does not speak of it twice."""
    filled(bench)
    bench.stop_cleanly()
    last = bench.files()[-1]
    with last.open("r+b") as file:
        file.truncate(records_in(last.read_bytes())[-4].place)
    _, report = inspected(bench.layout)
    assert places(report) == [(last.name, LOST_END)]
    bench.open()
    assert [damage.what for damage in bench.report.found] == [LOST_END]
    bench.die()
    inspection, report = inspected(bench.layout)
    assert [(name, what.split(":")[0]) for name, what in places(report)] == [(last.name, LOST_END)]
    assert inspection.contents(STREAM_ID).next_offset == 100
    bench.open()
    bench.append(b"goes on")
    bench.commit()
    assert bench.report.found == []
    inspection, report = inspected(bench.layout)
    assert [(name, what.split(":")[0]) for name, what in places(report)] == [(last.name, LOST_END)]
    assert [entry.offset for entry in inspection.entries(STREAM_ID, 90)][-1] == 100


def test_lost_and_missing_segments(bench: StreamBench) -> None:
    filled(bench)
    bench.stop_cleanly()
    first, second, last = bench.files()
    second.write_bytes(second.read_bytes()[:64] + bytes(5000))
    _, report = inspected(bench.layout)
    assert places(report) == [(second.name, LOST_SEGMENT)]
    second.unlink()
    _, report = inspected(bench.layout)
    assert places(report) == [(second.name, "the segment is missing: it held the messages from offset 36 up to 71")]
    assert f"{INDEX.format(2)}: left over from a crash; the next start removes it" in report.notes
    last.unlink()
    assert first.exists()


def test_a_missing_last_segment_is_known_by_its_index(bench: StreamBench) -> None:
    filled(bench)
    bench.stop_cleanly()
    last = bench.files()[-1]
    last.unlink()
    inspection, report = inspected(bench.layout)
    assert places(report) == [(last.name, "the segment is missing: what it held is not known")]
    assert inspection.contents(STREAM_ID).next_offset == 100
    bench.open()
    assert bench.report.found == report.damages
    assert not last.with_suffix(".index").exists()
    assert bench.append(b"its offsets are not given again") == 100
    bench.commit()
    bench.restart()
    assert bench.report.found == []
    assert [message.offset for message in bench.read_all()][-1] == 100


def test_a_damaged_head_costs_nothing(bench: StreamBench) -> None:
    filled(bench)
    flip(bench.files()[0], 30)
    _, report = inspected(bench.layout)
    assert places(report) == [(bench.files()[0].name, "the head is damaged; nothing is lost by that")]
    assert report.stream_messages == 100


# ---- a torn end


def test_a_torn_end_is_a_note(bench: StreamBench) -> None:
    filled(bench)
    last = bench.files()[-1]
    end = bench.log.segment.end
    bench.append(b"torn" * 100)
    bench.append(b"and more")
    bench.write()
    flip(last, end + 50)
    inspection, report = inspected(bench.layout)
    assert report.damages == []
    assert report.notes == [f"{SEGMENT.format(3)} at {end}: the torn end of a stream; the next start cuts it off"]
    assert inspection.contents(STREAM_ID).next_offset == 100 == report.stream_messages
    bench.restart()
    assert bench.report.found == [] and bench.log.next_offset == 100


def test_a_segment_behind_a_torn_end_and_one_that_was_not_used(bench: StreamBench) -> None:
    filled(bench, 30)
    before = bench.files()[-1]
    bench.append(b"x" * 30_000)
    bench.append(b"in the next segment")
    bench.write()
    assert len(bench.files()) == 2
    place = next(record for record in records_in(before.read_bytes()) if record.length > 30_000).place
    flip(before, place + 100)
    inspection, report = inspected(bench.layout)
    assert report.damages == [] and inspection.contents(STREAM_ID).next_offset == 30
    assert f"{SEGMENT.format(2)}: behind the torn end of a stream; the next start drops it" in report.notes
    behind = bench.files()[-1]
    behind.write_bytes(behind.read_bytes()[:64])
    _, report = inspected(bench.layout)
    assert report.damages == []
    assert f"{SEGMENT.format(2)}: made and not used; the next start drops it" in report.notes


@pytest.mark.parametrize("seed", range(25))
def test_a_check_finds_what_a_start_finds(tmp_path: Path, seed: int) -> None:
    """Whatever happened to the files: the same damage, the same end, the same names."""
    dice = random.Random(seed)
    bench = StreamBench(tmp_path / "data", segment_bytes=20_000)
    filled(bench, dice.randrange(5, 120))
    if dice.random() < 0.5:
        bench.checkpoint()
    for _ in range(dice.randrange(4)):
        bench.append(b"late" * dice.randrange(2000))
    bench.write()
    bench.die()
    for _ in range(dice.randrange(1, 4)):
        path = dice.choice([*bench.files(), *bench.indexes()])
        size = path.stat().st_size
        fate = dice.random()
        if fate < 0.6:
            flip(path, dice.randrange(size))
        elif fate < 0.8:
            path.write_bytes(path.read_bytes()[: dice.randrange(size)])
        else:
            path.unlink()
    inspection, report = inspected(bench.layout)
    found = inspection.contents(STREAM_ID)
    before = inspection.damages
    bench.open()
    assert bench.report.found == before
    assert set(before) <= set(report.damages)
    assert (found.first_offset, found.next_offset) == (bench.log.first_offset(), bench.log.next_offset)
    assert found.segments == len(bench.log.segments)
    assert found.producers == bench.log.tracking.producers
    assert found.consumers == bench.log.tracking.consumers
    listed = [entry.offset for entry in inspection.entries(STREAM_ID) if not entry.damaged]
    assert listed == [message.offset for message in bench.read_all()]
    bench.close()


# ---- indexes, and what else lies there


def test_an_index_that_is_missing_or_damaged_is_no_damage(bench: StreamBench) -> None:
    filled(bench)
    bench.stop_cleanly()
    first, second, last = (path.with_suffix(".index") for path in bench.files())
    ends = [segment.end for segment in bench.log.segments]
    first.unlink()
    flip(second, 100)
    flip(last, 100)
    inspection, report = inspected(bench.layout)
    assert report.damages == []
    assert report.notes == [
        f"{INDEX.format(1)}: the index is missing; the next start reads {ends[0] - 64} octets of the segment "
        "and makes it anew",
        f"{INDEX.format(2)}: the index is damaged; the next start reads {ends[1] - 64} octets of the segment "
        "and makes it anew",
        f"{INDEX.format(3)}: the index is damaged; the next start reads {ends[2] - 64} octets of the segment "
        "and makes it anew",
    ]
    found = inspection.contents(STREAM_ID)
    assert (found.next_offset, found.producers, report.stream_messages) == (100, {b"shop": 100}, 100)


def test_an_index_from_before_its_segment_was_full(bench: StreamBench) -> None:
    filled(bench, 20)
    bench.checkpoint()
    old = bench.indexes()[0].read_bytes()
    end = bench.log.segment.end
    filled(bench, 80)
    bench.indexes()[0].write_bytes(old)
    _, report = inspected(bench.layout)
    assert report.damages == []
    rest = bench.log.segments[0].end - end
    assert report.notes == [
        f"{INDEX.format(1)}: the index is older than the end of the segment; the next start reads {rest} octets of "
        "the segment"
    ]


@pytest.mark.parametrize("number", [0, 2])
def test_an_index_that_does_not_say_what_is_there(bench: StreamBench, number: int) -> None:
    """A start believes it, so readers would be misled."""
    from dataclasses import replace

    from leveret.storage.stream.index import encode_stream_index, read_stream_index

    filled(bench)
    bench.stop_cleanly()
    path = bench.files()[number].with_suffix(".index")
    index = read_stream_index(path, number + 1)
    assert index is not None
    blocks = bytearray(index.blocks)
    blocks[-1] ^= 0xFF
    path.write_bytes(encode_stream_index(replace(index, blocks=bytes(blocks))))
    _, report = inspected(bench.layout)
    assert places(report) == [(path.name, "the index does not say what is in the segment")]
    path.write_bytes(encode_stream_index(replace(index, last_stamp=index.last_stamp + 1)))
    _, report = inspected(bench.layout)
    assert places(report) == [(path.name, "the index does not say what is in the segment")]


def test_streams_that_the_catalog_does_not_know(bench: StreamBench) -> None:
    filled(bench)
    nothing = KnownIds(set(), set(), STREAM_ID + 1)
    inspection, report = inspected(bench.layout, nothing)
    size = inspection.contents(STREAM_ID).size
    assert (report.damages, report.files, report.streams) == ([], [], 0)
    assert report.notes == [
        f"streams/{STREAM_ID:010}: of a stream that was deleted, 3 segments, {size} octets; the next start removes it"
    ]
    # If its removal was cut off, much of it may be gone.
    for path in (bench.files()[0], bench.files()[1], bench.indexes()[0]):
        path.unlink()
    _, report = inspected(bench.layout, nothing)
    assert report.damages == [] and "of a stream that was deleted, 1 segments" in report.notes[0]
    # An id that was never given, or a catalog that is damaged: then it was not deleted.
    assert inspection.lost(KnownIds(set(), set(), STREAM_ID), False) == {STREAM_ID}
    assert inspection.lost(nothing, True) == {STREAM_ID}
    assert inspection.lost(nothing, False) == set()


def test_a_stream_whose_declaration_a_crash_undid(bench: StreamBench) -> None:
    """Its file is made before the catalog has it, and has no record before that."""
    bench.append(b"never written")
    bench.open_files()
    nothing = KnownIds(set(), set(), STREAM_ID)
    inspection, report = inspected(bench.layout, nothing)
    assert len(bench.files()) == 1 and inspection.lost(nothing, False) == set()
    assert report.notes == [
        f"streams/{STREAM_ID:010}: left over from a crash, 0 segments, 0 octets; the next start removes it"
    ]
    assert not bench.streams.has_records(STREAM_ID)
    bench.commit()
    assert bench.streams.has_records(STREAM_ID)


def test_leftovers_and_strangers(bench: StreamBench) -> None:
    filled(bench)
    directory = bench.files()[0].parent
    for name in ("0000000002.new", "0000000002.index.new", "mine.txt"):
        (directory / name).write_bytes(b"x")
    (bench.layout.streams / "notes").write_bytes(b"x")
    _, report = inspected(bench.layout)
    assert report.damages == []
    assert report.notes == [
        f"streams/{STREAM_ID:010}/0000000002.index.new: left over from a crash; the next start removes it",
        f"streams/{STREAM_ID:010}/0000000002.new: left over from a crash; the next start removes it",
        f"streams/{STREAM_ID:010}/mine.txt: not a file of Leveret's",
        "streams/notes: not a file of Leveret's",
    ]
    bench.restart()
    assert sorted(path.name for path in directory.iterdir() if path.suffix not in (".segment", ".index")) == [
        "mine.txt"
    ]


# ---- messages


def test_entries_from_an_offset(bench: StreamBench) -> None:
    filled(bench)
    inspection, _ = inspected(bench.layout)
    for offset in (0, 1, 36, 37, 38, 99, 100, 5000):
        found = list(inspection.entries(STREAM_ID, offset))
        assert [entry.offset for entry in found] == list(range(offset, 100))
    first, second = list(inspection.entries(STREAM_ID))[:2]
    assert (first.body[:5], first.size, first.exchange, first.routing_key) == (b"0000x", 504, b"", b"s")
    assert (first.filter_value, second.filter_value, second.stamp_ms) == (None, b"f1", 1_800_000_001_000)
    assert (first.kind, first.count, first.place) == ("message", 1, entry_of(bench.files()[0], 0))


def test_entries_of_the_stream_protocol(bench: StreamBench) -> None:
    bench.append(b"\x00\x53\x75\xa0\x01x", flags=1, properties=b"")
    bench.append(b"zipped", count=10, flags=2, properties=b"\x01\x00\x00\x00\x64")
    bench.append(b"y" * 3_000_000)
    bench.commit()
    inspection, report = inspected(bench.layout)
    raw, batch, long = inspection.entries(STREAM_ID)
    assert (raw.kind, raw.count, raw.properties) == ("amqp 1.0", 1, {})
    assert (batch.kind, batch.offset, batch.count, batch.body) == ("sub-batch", 1, 10, b"zipped")
    assert (long.offset, long.size) == (11, 3_000_000), "longer than a window"
    assert report.stream_messages == 12
    # One in the middle of a batch is found with it.
    assert [entry.offset for entry in inspection.entries(STREAM_ID, 5)] == [1, 11]


def test_a_segment_goes_away_meanwhile(bench: StreamBench) -> None:
    filled(bench)
    report = Report()
    inspection = StreamsInspection(bench.layout, SALT, report, lambda done, total: None)
    inspection.survey()
    bench.retain(max_bytes=40_000)
    inspection.check(KNOWN, set())
    assert report.damages == []
    assert {entry.segment for entry in inspection.entries(STREAM_ID)} == {SEGMENT.format(2), SEGMENT.format(3)}


# ---- long ones


def test_memory_does_not_grow_with_a_segment_and_progress_is_told(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path / "data", segment_bytes=48 << 20)
    body = random.Random(1).randbytes(60_000)
    while bench.log.next_offset < 1000:
        for _ in range(50):
            bench.append(body)
        bench.commit()
    bench.stop_cleanly()
    told: list[tuple[int, int]] = []
    inspection = StreamsInspection(bench.layout, SALT, Report(), lambda done, total: told.append((done, total)))
    tracemalloc.start()
    try:
        inspection.survey()
        inspection.check(KNOWN, set())
        assert sum(1 for _ in inspection.entries(STREAM_ID)) == 1000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20, f"{peak >> 20} MiB for {bench.log.size_bytes() >> 20}"
    assert len(told) >= 10 and told == sorted(told)
    done, total = told[-1]
    assert total - 128 * 1024 < done <= total
    assert TRACK in {record.kind for record in records_in(bench.files()[0].read_bytes())}
    bench.close()
