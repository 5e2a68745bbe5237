"""Records as octets: sealed and checked."""

from __future__ import annotations

import struct

import pytest

from leveret.core.log.record_check import checked_length
from leveret.core.log.records import RECORD_KINDS, checksum, command_record, sealed

SALT = 0x1234
HEAD = struct.Struct(">IIQB15x")


def record(sequence: int, payload: bytes = b"payload", salt: int = SALT) -> bytes:
    return bytes(sealed(command_record(sequence, sequence - 1, payload), salt))


def test_a_record_is_laid_out_as_documented() -> None:
    octets = record(7, b"0123456789")
    check, length, sequence, kind = HEAD.unpack(octets[:32])
    assert (length, sequence, RECORD_KINDS[kind]) == (42, 7, "command")
    assert struct.unpack(">Q", octets[24:32]) == (6,)
    assert octets[32:42] == b"0123456789"
    assert len(octets) == 48 and octets[42:] == bytes(6), "it is padded to a multiple of eight with zeros"
    assert check != 0


def test_a_command_record_without_a_command_only_says_how_far_all_is_synced() -> None:
    octets = record(9, b"")
    assert RECORD_KINDS[octets[16]] == "notes"
    assert (struct.unpack(">Q", octets[24:32]), struct.unpack(">I", octets[20:24])) == ((8,), (0,))


def test_the_checksum_is_crc_32c() -> None:
    """The check value that the algorithm's catalogues give."""
    assert checksum(b"123456789") == 0xE3069283
    assert checksum(b"") == 0
    assert checksum(bytes(32)) == 0x8A9136AA


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_a_sealed_record_is_found_whole(size: int) -> None:
    octets = record(1, bytes(size))
    assert checked_length(octets, 0, len(octets), SALT) == 32 + size


def test_the_salt_keeps_a_record_from_being_taken_for_one_elsewhere() -> None:
    octets = record(1)
    assert checked_length(octets, 0, len(octets), SALT + 1) == 0


def test_any_flipped_bit_is_noticed() -> None:
    octets = record(5)
    for bit in range(39 * 8):
        damaged = bytearray(octets)
        damaged[bit // 8] ^= 1 << bit % 8
        assert checked_length(bytes(damaged), 0, len(damaged), SALT) == 0, f"bit {bit}"


def test_a_record_that_ends_early_is_none() -> None:
    octets = record(5)
    for end in range(39):
        assert checked_length(octets, 0, end, SALT) == 0
    assert checked_length(octets, 0, 39, SALT) == 39, "padding is no part of it"


@pytest.mark.parametrize("length", [0, 1, 31, 0xFFFFFFFF])
def test_a_length_that_cannot_be_reads_nothing(length: int) -> None:
    octets = bytearray(record(5))
    octets[4:8] = struct.pack(">I", length)
    assert checked_length(bytes(octets), 0, len(octets), SALT) == 0


def test_several_records_are_sealed_at_once() -> None:
    both = command_record(1, 0, b"one") + command_record(2, 1, b"the second")
    octets = bytes(sealed(both, SALT))
    assert octets == record(1, b"one") + record(2, b"the second")
