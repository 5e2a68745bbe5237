"""A stream's part of a batch that has records in the node's log as well: it counts if the log has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.storage.stream_bench import StreamBench

Make = Callable[..., StreamBench]
NOTE = (1, 1, 1, 0, 0, 3)


def offsets(bench: StreamBench) -> list[int]:
    return [message.offset for message in bench.read_all()]


def filled(bench: StreamBench, count: int) -> StreamBench:
    for _ in range(count):
        bench.append(b"x" * 100)
        bench.commit()
    return bench


def write_together(bench: StreamBench, bodies: int = 2) -> int:
    """A batch with these messages, and a note for the log: its first sequence there."""
    first: int = bench.journal.batch_sequence
    for _ in range(bodies):
        bench.append(b"y" * 100)
    bench.journal.add_note(*NOTE)
    bench.write()
    assert bench.journal.sequence > first
    return first


def test_a_part_whose_batch_the_log_lacks_is_cut(make_bench: Make) -> None:
    bench = filled(make_bench(), 3)
    assert bench.log.take_id(b"producer", 7)
    bench.log.store_offset(b"consumer", 2)
    first = write_together(bench)
    bench.die()
    bench.open(first)
    assert (bench.log.next_offset, offsets(bench)) == (3, [0, 1, 2])
    assert (bench.log.tracking.producers, bench.log.tracking.consumers) == ({}, {})
    assert not bench.report.found
    assert bench.append(b"again") == 3
    bench.commit()
    bench.restart()
    assert offsets(bench) == [0, 1, 2, 3]


def test_it_counts_if_the_log_has_it(make_bench: Make) -> None:
    bench = filled(make_bench(), 3)
    first = write_together(bench)
    bench.die()
    bench.open(first + 1)
    assert offsets(bench) == [0, 1, 2, 3, 4]


def test_a_log_that_lost_what_was_synced_says_nothing(make_bench: Make) -> None:
    """Damage of the log must not cost a stream what was confirmed."""
    bench = filled(make_bench(), 3)
    assert bench.journal.synced_sequence > 1
    write_together(bench)
    bench.die()
    bench.open(bench.journal.synced_sequence - 1)
    assert offsets(bench) == [0, 1, 2, 3, 4]


def test_what_is_known_to_be_synced_is_never_cut(make_bench: Make) -> None:
    bench = filled(make_bench(), 3)
    first = bench.journal.batch_sequence
    bench.append(b"y")
    bench.journal.add_note(*NOTE)
    bench.commit()
    bench.commit(evidence=True)
    bench.die()
    bench.open(first)
    assert offsets(bench) == [0, 1, 2, 3]


def test_one_batch_over_several_segments_counts_as_a_whole(make_bench: Make) -> None:
    bench = filled(make_bench(1000), 3)
    first = write_together(bench, 20)
    files = len(bench.files())
    assert files > 3
    bench.die()
    bench.open(first)
    assert (bench.log.next_offset, offsets(bench)) == (3, [0, 1, 2])
    assert len(bench.files()) < files
    assert not bench.report.found
    assert [bench.append(b"z" * 100) for _ in range(20)] == list(range(3, 23))
    bench.commit()
    bench.restart()
    assert offsets(bench) == list(range(23))


@pytest.mark.parametrize("kept", range(1, 4))
def test_the_first_segments_of_a_batch_do_not_count_without_its_last(make_bench: Make, kept: int) -> None:
    """Without anything in the log: then the part's own end decides."""
    bench = filled(make_bench(1000), 3)
    before = bench.files()
    for _ in range(20):
        bench.append(b"y" * 100)
    first = bench.journal.batch_sequence
    bench.write()
    assert bench.journal.sequence == first or bench.journal.logged
    bench.die()
    for path in bench.files()[len(before) - 1 + kept :]:
        path.unlink()
    bench.open(first)
    assert (bench.log.next_offset, offsets(bench)) == (3, [0, 1, 2])
    assert not bench.report.found


def test_a_batch_of_one_stream_alone_counts_for_itself(make_bench: Make) -> None:
    bench = filled(make_bench(), 3)
    bench.commit()
    bench.journal.want_evidence()
    bench.write()
    first = bench.journal.batch_sequence
    bench.append(b"y")
    bench.write()
    assert not bench.journal.logged and bench.journal.batch_sequence == first
    bench.die()
    bench.open(first)
    assert offsets(bench) == [0, 1, 2, 3]
