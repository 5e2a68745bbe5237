"""The index of a stream's segment against a plain list: no message is ever looked for behind where it is, and a Bloom
filter never says no to what is there."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.stream.segment import (
    StreamSegment,
    find_offset,
    find_place,
    find_stamp,
    make_bloom,
    may_match,
    place_of,
)
from tests.fuzz.effort import effort

BLOCK_BYTES, BLOCK_SPAN, HEAD_BYTES = 40, 65536, 64

VALUES = st.none() | st.sampled_from([b"a", b"b", b"\x00", b"x" * 255]) | st.binary(min_size=1, max_size=12)
# Octets of the record, milliseconds since the one before, messages in it, filter value.
RECORDS = st.lists(
    st.tuples(st.integers(5, 16_000).map(lambda words: 8 * words), st.integers(0, 3), st.integers(1, 3), VALUES),
    min_size=1,
    max_size=60,
)
Placed = tuple[int, int, int, bytes | None]


def indexed(records: list[tuple[int, int, int, bytes | None]]) -> tuple[StreamSegment, bytes, list[Placed]]:
    """A segment with these records, its index, and (offset, stamp, place, value) of each."""
    segment = StreamSegment(1, 1, None, 10, HEAD_BYTES)
    offset, stamp, placed = 10, 1000, []
    for size, later, count, value in records:
        stamp += later
        placed.append((offset, stamp, segment.end, value))
        segment.note(offset, stamp, value)
        segment.end += size
        offset += count
    return segment, segment.copy_index(), placed


@effort(40)
@given(RECORDS)
def test_every_block_starts_at_a_record_and_has_its_span(records: list[tuple[int, int, int, bytes | None]]) -> None:
    segment, index, placed = indexed(records)
    places = [place_of(index, at) for at in range(0, len(index), BLOCK_BYTES)]
    assert places[0] == HEAD_BYTES and places == sorted(places) and set(places) <= {place for _, _, place, _ in placed}
    # A block ends with the record that makes it full.
    for before, after in itertools.pairwise(places):
        inside = [place for _, _, place, _ in placed if before <= place < after]
        assert after - before >= BLOCK_SPAN > inside[-1] - before
    assert (segment.first_stamp, segment.last_stamp) == (placed[0][1], placed[-1][1])


@effort(40)
@given(RECORDS, st.integers(-2, 2))
def test_an_offset_is_found_in_its_block(records: list[tuple[int, int, int, bytes | None]], delta: int) -> None:
    _, index, placed = indexed(records)
    for offset, _, place, _ in placed:
        at = find_offset(index, len(index), offset)
        following = place_of(index, at + BLOCK_BYTES) if at + BLOCK_BYTES < len(index) else 1 << 62
        assert place_of(index, at) <= place < following
        # One inside of a record, or from before the segment, is not looked for behind where it is.
        wanted = max(0, offset + delta)
        behind = [placed_at for found, _, placed_at, _ in placed if found <= wanted]
        assert place_of(index, find_offset(index, len(index), wanted)) <= (behind[-1] if behind else HEAD_BYTES)


@effort(40)
@given(RECORDS)
def test_a_moment_is_not_found_too_late(records: list[tuple[int, int, int, bytes | None]]) -> None:
    _, index, placed = indexed(records)
    for _, stamp, _, _ in placed:
        for moment in (stamp - 1, stamp, stamp + 1):
            first = next((place for _, arrived, place, _ in placed if arrived >= moment), None)
            at = find_stamp(index, len(index), moment)
            assert at % BLOCK_BYTES == 0 and 0 <= at < len(index)
            assert first is None or place_of(index, at) <= first
            # Nor needlessly early: the next block would be too late.
            if at + BLOCK_BYTES < len(index) and first is not None:
                assert place_of(index, at + BLOCK_BYTES) >= first


@effort(40)
@given(RECORDS)
def test_a_place_is_found_in_its_block(records: list[tuple[int, int, int, bytes | None]]) -> None:
    segment, index, placed = indexed(records)
    starts = [place_of(index, at) for at in range(0, len(index), BLOCK_BYTES)]
    for place in [0, segment.end, *(place for _, _, place, _ in placed), *(place + 8 for _, _, place, _ in placed)]:
        expected = max((i for i, start in enumerate(starts) if start <= place), default=0)
        assert find_place(index, len(index), place) == expected * BLOCK_BYTES


@effort(40)
@given(RECORDS)
def test_a_filter_never_says_no_to_what_is_there(records: list[tuple[int, int, int, bytes | None]]) -> None:
    _, index, placed = indexed(records)
    for offset, _, _, value in placed:
        at = find_offset(index, len(index), offset)
        if value is None:
            assert may_match(index, at, [], True)
        else:
            assert may_match(index, at, [make_bloom(value)], False)
            assert may_match(index, at, [make_bloom(b"other"), make_bloom(value)], False)


@effort(20)
@given(RECORDS)
def test_unfiltered_ones_are_only_where_they_are(records: list[tuple[int, int, int, bytes | None]]) -> None:
    _, index, placed = indexed(records)
    having = {find_offset(index, len(index), offset) for offset, _, _, value in placed if value is None}
    for at in range(0, len(index), BLOCK_BYTES):
        assert may_match(index, at, [], True) == (at in having)
        assert not may_match(index, at, [], False)


def test_most_filters_say_no_to_what_is_not_there() -> None:
    """Three bits of 128: with one value in a block, hardly any other matches."""
    segment = StreamSegment(1, 1, None, 0, HEAD_BYTES)
    segment.note(0, 1, b"here")
    index = segment.copy_index()
    wrong = sum(may_match(index, 0, [make_bloom(b"not %d" % number)], False) for number in range(1000))
    assert wrong < 20


def test_an_index_that_goes_on_is_the_same() -> None:
    """A segment that takes over the blocks of its file's index notes what follows as if it had never stopped."""
    records = [(30_000, 1, 1, b"v%d" % (number % 3)) for number in range(20)]
    whole, index, _ = indexed(records)
    half, first_half, _ = indexed(records[:9])
    resumed = StreamSegment(1, 1, None, 10, HEAD_BYTES)
    resumed.use_index(first_half)
    resumed.end = half.end
    stamp = half.last_stamp
    for number in range(9, 20):
        stamp += 1
        resumed.note(10 + number, stamp, b"v%d" % (number % 3))
        resumed.end += 30_000
    assert resumed.copy_index() == index and resumed.end == whole.end
