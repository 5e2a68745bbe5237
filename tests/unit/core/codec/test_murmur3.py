"""MurmurHash3: the published values, so that keys go where other people's clients send them."""

from __future__ import annotations

import pytest

from leveret.core.codec.murmur3 import murmur3_32

# Values that implementations of MurmurHash3_x86_32 agree on: the reference's own, and those that are handed around.
PUBLISHED = [
    (b"", 0, 0),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"\x21\x43\x65\x87", 0, 0xF55B516B),
    (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    (b"\x21\x43\x65", 0, 0x7E4A8634),
    (b"\x21\x43", 0, 0xA0F7B07A),
    (b"\x21", 0, 0x72661CF4),
    (b"\0\0\0\0", 0, 0x2362F9DE),
    (b"\0\0\0", 0, 0x85F0B427),
    (b"\0\0", 0, 0x30F4C306),
    (b"\0", 0, 0x514E28B7),
    (b"aaaa", 0x9747B28C, 0x5A97808A),
    (b"aaa", 0x9747B28C, 0x283E0130),
    (b"aa", 0x9747B28C, 0x5D211726),
    (b"a", 0x9747B28C, 0x7FA09EA6),
    (b"abcd", 0x9747B28C, 0xF0478627),
    (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ("\u03c0\u03c0\u03c0\u03c0\u03c0\u03c0\u03c0\u03c0".encode(), 0x9747B28C, 0xD58063C1),
]


@pytest.mark.parametrize(("octets", "seed", "expected"), PUBLISHED)
def test_published_values(octets: bytes, seed: int, expected: int) -> None:
    assert murmur3_32(octets, seed) == expected


def verification_value() -> int:
    """The reference's self-test: the hash of the hashes of 0, 0 1, 0 1 2 ... each with another seed."""
    hashes = b"".join(murmur3_32(bytes(range(size)), 256 - size).to_bytes(4, "little") for size in range(256))
    return murmur3_32(hashes, 0)


def test_the_references_verification_value() -> None:
    assert verification_value() == 0xB0F57EE3


def test_a_seed_has_32_bits() -> None:
    assert murmur3_32(b"key", 104729 + (1 << 32)) == murmur3_32(b"key", 104729)


def test_only_octets_are_hashed() -> None:
    with pytest.raises(TypeError):
        murmur3_32("text", 0)  # type: ignore[arg-type]
