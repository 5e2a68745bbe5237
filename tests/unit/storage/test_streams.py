"""The streams of a store: retention, moments, and what becomes of those that nobody knows any more."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.storage.stream_bench import ENTRY, StreamBench, records_in

Make = Callable[..., StreamBench]


def since(bench: StreamBench, stamp: int) -> int:
    return bench.loop.run_until_complete(bench.streams.offset_since(bench.log, stamp))


def minutes(bench: StreamBench, count: int, size: int = 300) -> int:
    """A message a minute; when the first came."""
    first = bench.now + 60_000
    for number in range(count):
        bench.now += 60_000
        bench.append(b"%d" % number * (size // 2))
        bench.commit()
    return first


def test_retention_by_size_keeps_the_newest(make_bench: Make) -> None:
    bench = make_bench(4096)
    minutes(bench, 100)
    bench.retain(max_bytes=12_000)
    assert bench.log.size_bytes() <= 12_000
    assert [message.offset for message in bench.read_all()] == list(range(bench.log.first_offset(), 100))
    first = bench.log.first_offset()
    bench.restart()
    assert (bench.log.first_offset(), bench.log.next_offset) == (first, 100)
    bench.retain(max_bytes=1)
    assert len(bench.log.segments) == 1, "never the one that grows"


def test_retention_by_age_goes_by_the_last_message_of_a_segment(make_bench: Make) -> None:
    bench = make_bench(4096)
    start = minutes(bench, 100)
    bench.retain(max_age_ms=20 * 60_000)
    oldest = start + bench.log.first_offset() * 60_000
    last = bench.log.segments[0].last_stamp
    assert oldest <= bench.now - 20 * 60_000 <= last, "one message of the segment is young enough"
    bench.now += 1000 * 60_000
    bench.retain(max_age_ms=20 * 60_000)
    assert len(bench.log.segments) == 1


def test_what_is_not_synced_is_not_deleted(make_bench: Make) -> None:
    bench = make_bench(4096)
    for _ in range(20):
        bench.append(b"x" * 500)
    segments = len(bench.log.segments)
    assert segments > 2
    bench.log.max_bytes = 1
    bench.streams.retain(bench.log)
    assert len(bench.log.segments) == segments
    bench.commit()
    bench.streams.retain(bench.log)
    bench.settle()
    assert len(bench.log.segments) == 1


def test_a_moment_is_found_in_any_segment(make_bench: Make) -> None:
    bench = make_bench(20_000)
    start = minutes(bench, 300)
    assert len(bench.log.segments) > 3
    for number in (0, 1, 57, 58, 150, 298, 299):
        stamp = start + number * 60_000
        assert (since(bench, stamp - 1), since(bench, stamp), since(bench, stamp + 1)) == (number, number, number + 1)
    assert since(bench, 0) == 0
    assert since(bench, bench.now + 1) == 300


def test_a_moment_is_found_in_spite_of_damage(make_bench: Make) -> None:
    """A length that cannot be: what follows is found all the same, and nothing is skipped."""
    bench = make_bench()
    start = minutes(bench, 100)
    path = bench.files()[0]
    records = [record for record in records_in(path.read_bytes()) if record.kind == ENTRY]
    with path.open("r+b") as file:
        for place in (records[10].place + 4, records[20].place + 7):
            file.seek(place)
            file.write(b"\x7f")
    for number in (5, 11, 21, 50, 99):
        assert since(bench, start + number * 60_000) == number
    assert since(bench, start + 10 * 60_000) == 11


def test_a_clock_that_goes_back_does_not_reorder_moments(make_bench: Make) -> None:
    bench = make_bench()
    start = minutes(bench, 10)
    bench.now -= 5 * 60_000
    bench.append(b"late")
    bench.commit()
    stamps = [message.stamp for message in bench.read_all()]
    assert stamps == sorted(stamps) and since(bench, start + 9 * 60_000) == 9


def test_a_directory_that_nobody_knows_is_deleted(make_bench: Make) -> None:
    bench = make_bench()
    alien = bench.layout.streams / "0000000099"
    alien.mkdir()
    (alien / "0000000001.segment").write_bytes(b"old")
    bench.restart()
    assert not alien.exists()


def test_a_stream_that_is_deleted_leaves_nothing(make_bench: Make) -> None:
    bench = make_bench(4096)
    minutes(bench, 30)
    # Something is on its way to the disk while it goes.
    bench.append(b"x")
    batch = bench.write()
    bench.log.close()
    bench.streams.remove(bench.log)
    bench.settle()
    bench.journal.batch_synced(batch)
    bench.commit()
    assert not (bench.layout.streams / "0000000007").exists()
    assert bench.streams.logs == {} and not bench.failures
