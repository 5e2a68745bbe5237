"""A stream's segment: its index grows block by block, and filters say what can be in one."""

from __future__ import annotations

from leveret.core.stream.segment import StreamSegment, find_offset, find_stamp, make_bloom, may_match, place_of

BLOCK_BYTES = 40


def grown(count: int, size: int = 30_000) -> StreamSegment:
    """A message each 10 ms, the first at offset 5."""
    segment = StreamSegment(3, 99, None, 5, 64)
    for number in range(count):
        segment.note(5 + number, 1000 + 10 * number, b"v%d" % number)
        segment.end += size
    return segment


def test_a_new_one_is_empty() -> None:
    segment = StreamSegment(3, 99, None, 5, 64)
    assert (segment.number, segment.salt, segment.first_offset, segment.next_offset) == (3, 99, 5, 5)
    assert (segment.end, segment.synced, segment.first_stamp, segment.last_stamp) == (64, 64, 0, 0)
    assert segment.copy_index() == b""


def test_a_block_for_every_stretch() -> None:
    segment = grown(7)
    index = segment.copy_index()
    assert [place_of(index, at) for at in range(0, len(index), BLOCK_BYTES)] == [64, 64 + 90_000, 64 + 180_000]
    assert [int.from_bytes(index[at : at + 8], "big") for at in range(0, len(index), BLOCK_BYTES)] == [5, 8, 11]
    assert (segment.first_stamp, segment.last_stamp) == (1000, 1060)


def test_the_index_grows_beyond_its_first_room() -> None:
    segment = grown(100, 70_000)
    index = segment.copy_index()
    assert len(index) == 100 * BLOCK_BYTES
    for number in range(100):
        assert find_offset(index, len(index), 5 + number) == number * BLOCK_BYTES
        assert find_stamp(index, len(index), 1001 + 10 * number) == number * BLOCK_BYTES


def test_what_is_before_all_is_in_the_first_block() -> None:
    index = grown(100, 70_000).copy_index()
    assert find_offset(index, len(index), 0) == find_stamp(index, len(index), 0) == 0
    assert find_offset(index, len(index), 10**9) == find_stamp(index, len(index), 10**9) == 99 * BLOCK_BYTES
    assert find_offset(b"", 0, 7) == 0


def test_filters_know_what_is_in_their_block() -> None:
    segment = StreamSegment(1, 1, None, 0, 64)
    segment.note(0, 1, b"red")
    segment.note(1, 1, b"blue")
    index = segment.copy_index()
    assert may_match(index, 0, [make_bloom(b"red")], False)
    assert may_match(index, 0, [make_bloom(b"green"), make_bloom(b"blue")], False)
    assert not may_match(index, 0, [make_bloom(b"green")], True)
    segment.note(2, 1, None)
    assert may_match(segment.copy_index(), 0, [make_bloom(b"green")], True)
    assert not may_match(segment.copy_index(), 0, [make_bloom(b"green")], False)
    assert place_of(segment.copy_index(), 0) == 64, "the mark is no part of the place"


def test_an_empty_value_of_a_filter_is_a_value() -> None:
    assert make_bloom(b"") != bytes(16)
    assert sum(bin(octet).count("1") for octet in make_bloom(b"something")) <= 3


def test_an_index_goes_into_a_file_and_comes_back() -> None:
    segment = grown(7)
    index = segment.copy_index()
    segment.drop_index()
    assert segment.index is None and segment.index_bytes == 0
    segment.use_index(index)
    assert segment.copy_index() == index
    segment.note(12, 2000, None)
    assert len(segment.copy_index()) == len(index), "it is in the last block"
    segment.end += 70_000
    segment.note(13, 2000, None)
    assert len(segment.copy_index()) == len(index) + BLOCK_BYTES
    segment.use_index(b"")
    segment.note(14, 2000, None)
    assert len(segment.copy_index()) == BLOCK_BYTES
