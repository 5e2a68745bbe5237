"""Hellos and their answers as octets."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.links.frames import FrameError
from leveret.cluster.links.hello import (
    MAGIC,
    NODE_MAX,
    TEXT_BYTES_MAX,
    Hello,
    Purpose,
    Welcome,
    pack_hello,
    pack_refusal,
    pack_welcome,
    unpack_hello,
    unpack_refusal,
    unpack_welcome,
)

numbers = st.integers(0, (1 << 64) - 1)
names = st.text(st.characters(categories=["L", "N"]), max_size=30)
hellos = st.builds(
    Hello, st.binary(min_size=16, max_size=16), st.integers(1, NODE_MAX), st.integers(0, NODE_MAX), numbers, numbers,
    st.tuples(st.integers(1, 9), st.integers(9, 65535)), st.sampled_from(Purpose), names,
)  # fmt: skip


@given(hellos, st.binary(max_size=20))
def test_a_hello_is_read_as_it_was_written(hello: Hello, of_a_later_level: bytes) -> None:
    assert unpack_hello(pack_hello(hello) + of_a_later_level) == hello


@given(st.binary(min_size=16, max_size=16), st.integers(1, NODE_MAX), numbers, st.integers(0, 65535), names)
def test_a_welcome_is_read_as_it_was_written(cluster: bytes, node: int, life: int, level: int, name: str) -> None:
    welcome = Welcome(cluster, node, life, level, name)
    assert unpack_welcome(pack_welcome(welcome)) == welcome


@given(st.binary(max_size=120), st.booleans())
def test_garbage_is_a_frame_error_or_a_value(octets: bytes, with_magic: bool) -> None:
    octets = MAGIC + octets if with_magic else octets
    for read in (unpack_hello, unpack_welcome, unpack_refusal):
        with suppress(FrameError):
            read(octets)


@given(hellos, st.data())
def test_a_hello_that_is_cut_is_refused(hello: Hello, data: st.DataObject) -> None:
    octets = pack_hello(hello)
    with pytest.raises(FrameError):
        unpack_hello(octets[: data.draw(st.integers(0, len(octets) - 1))])


def test_a_refusal_is_cut_to_its_bound() -> None:
    reason, text = unpack_refusal(pack_refusal(9, "ä" * 2000))
    assert reason == 9 and text.startswith("ää") and len(text.encode()) <= TEXT_BYTES_MAX + 2
