"""MurmurHash3 with 32 bits, which stream clients and super streams spread keys by.

Owns the arithmetic and nothing else; the result is the same on every machine and never changes. Called by the super
stream's matcher for each key whose route is not known yet."""

from __future__ import annotations

__all__ = ["murmur3_32"]

_32_BITS = 0xFFFFFFFF
# The algorithm's own numbers: two that mix each word in, one that is added to the sum, two for the end.
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_ADDED = 0xE6546B64
_LAST_BUT_ONE, _LAST = 0x85EBCA6B, 0xC2B2AE35


def murmur3_32(octets: bytes, seed: int) -> int:
    """The hash of these octets. Numbers are cut to 32 bits by hand, so that one text does for C and for Python."""
    p = octets
    size = len(octets)
    whole = size - size % 4
    number = seed & _32_BITS
    at = 0
    while at < size:
        # Four octets, the lowest first; fewer at the end.
        word = p[at]
        if at + 1 < size:
            word |= p[at + 1] << 8
        if at + 2 < size:
            word |= p[at + 2] << 16
        if at + 3 < size:
            # C would take an octet for a signed number here.
            word |= (p[at + 3] & _32_BITS) << 24
        word = (word * _FIRST) & _32_BITS
        word = ((word << 15) | (word >> 17)) & _32_BITS
        number ^= (word * _SECOND) & _32_BITS
        if at < whole:
            number = ((number << 13) | (number >> 19)) & _32_BITS
            number = (number * 5 + _ADDED) & _32_BITS
        at += 4
    number ^= size
    number = ((number ^ (number >> 16)) * _LAST_BUT_ONE) & _32_BITS
    number = ((number ^ (number >> 13)) * _LAST) & _32_BITS
    return number ^ (number >> 16)
