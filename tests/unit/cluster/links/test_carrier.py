"""Carriers: what is packed comes out, everything else is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.links.carrier import PAYLOADS_MAX, pack_carrier, unpack_carrier
from leveret.cluster.links.frames import FrameError


@given(st.binary(max_size=100), st.lists(st.binary(max_size=50), max_size=10))
def test_what_is_packed_comes_out(frame: bytes, payloads: list[bytes]) -> None:
    assert unpack_carrier(pack_carrier(frame, payloads)) == (frame, payloads)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_packs_to_itself(octets: bytes) -> None:
    try:
        frame, payloads = unpack_carrier(octets)
    except FrameError:
        return
    assert pack_carrier(frame, payloads) == octets


@given(st.binary(max_size=30), st.lists(st.binary(max_size=20), max_size=4), st.data())
def test_a_carrier_that_is_cut_or_longer_is_refused(frame: bytes, payloads: list[bytes], data: st.DataObject) -> None:
    whole = pack_carrier(frame, payloads)
    with pytest.raises(FrameError):
        unpack_carrier(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(FrameError):
        unpack_carrier(whole + b"x")


def test_a_count_out_of_bounds_sizes_nothing() -> None:
    with pytest.raises(FrameError, match=str(PAYLOADS_MAX + 1)):
        unpack_carrier(struct.pack("!I", PAYLOADS_MAX + 1) + bytes(4 * (PAYLOADS_MAX + 2)))
    with pytest.raises(FrameError):
        unpack_carrier(struct.pack("!I", 0xFFFFFFFF) + bytes(100))
