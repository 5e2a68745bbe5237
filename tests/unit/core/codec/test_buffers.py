"""Buffers that are used again: which are kept, and how many."""

from leveret.core.codec.buffers import Buffers, grow

MIB = 1 << 20


def test_one_that_was_given_back_is_taken_again() -> None:
    buffers = Buffers()
    first = buffers.take(0)
    assert len(first) == 65536
    buffers.give(first)
    assert buffers.kept_bytes == 65536
    assert buffers.take(0) is first
    assert buffers.kept_bytes == 0
    assert buffers.take(0) is not first


def test_a_new_one_has_the_size_that_is_wanted() -> None:
    assert len(Buffers().take(3 * MIB)) == 3 * MIB


def test_a_few_are_kept() -> None:
    buffers = Buffers()
    for _ in range(9):
        buffers.give(bytearray(100))
    assert buffers.kept_bytes == 400


def test_no_more_octets_are_kept_than_a_node_can_spare() -> None:
    buffers = Buffers()
    buffers.give(bytearray(20 * MIB))
    buffers.give(bytearray(20 * MIB))
    assert buffers.kept_bytes == 20 * MIB
    buffers.give(bytearray(12 * MIB))
    assert buffers.kept_bytes == 32 * MIB


def test_one_that_is_too_short_grows_with_what_is_used_of_it() -> None:
    data = bytearray(b"used" + b"-" * 12)
    assert grow(data, 4, 17) == b"used" + bytes(28)
    assert len(grow(data, 4, 32)) == 32
    assert len(grow(data, 16, 33)) == 64
    assert data == b"used" + b"-" * 12
