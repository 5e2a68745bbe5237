"""Frames of the stream protocol: every command comes back as it was, and no octets make the codec fail."""

from __future__ import annotations

import typing
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.errors import HardError
from leveret.wire.stream_codec import decode_command, encode_command
from leveret.wire.stream_codes import OffsetType
from leveret.wire.stream_commands import COMMANDS, Command, OffsetSpec

short = st.text(max_size=20)
numbers = {kind: st.integers(0, 2**bits - 1) for kind, bits in (("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64))}
offsets = st.one_of(
    st.sampled_from(range(4)).map(OffsetSpec),
    st.integers(0, 2**64 - 1).map(lambda value: OffsetSpec(OffsetType.OFFSET, value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: OffsetSpec(OffsetType.TIMESTAMP, value)),
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    **numbers,
    "string": short,
    "octets": st.binary(max_size=50),
    "strings": st.lists(short, max_size=5),
    "pairs": st.dictionaries(short, short, max_size=5),
    "offset_spec": offsets,
    "last_offset_spec": offsets,
    "u64s": st.lists(numbers["u64"], max_size=5),
    "errors": st.lists(st.tuples(numbers["u64"], numbers["u16"]), max_size=5),
    "versions": st.lists(st.tuples(numbers["u16"], numbers["u16"], numbers["u16"]), max_size=5),
    "statistics": st.dictionaries(short, st.integers(-(2**63), 2**63 - 1), max_size=5),
    "brokers": st.lists(st.tuples(numbers["u16"], short, numbers["u32"]), max_size=5),
    "streams": st.lists(
        st.tuples(short, numbers["u16"], numbers["u16"], st.lists(numbers["u16"], max_size=3)), max_size=4
    ),
}


def commands_of(kind: type[Command]) -> st.SearchStrategy[Command]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: KINDS[hints[name].__metadata__[0]] for name in kind.__struct_fields__})


commands = st.one_of([commands_of(kind) for kind in COMMANDS.values()])


@given(commands)
def test_every_command_comes_back_as_it_was(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


@given(commands, st.data())
def test_a_damaged_command_is_refused_or_another(command: Command, data: st.DataObject) -> None:
    octets = bytearray(encode_command(command))
    if data.draw(st.booleans()):
        octets = octets[: data.draw(st.integers(0, len(octets) - 1))]
    else:
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_command(bytes(octets))
    except HardError as error:
        assert error.code in (501, 503)
    else:
        assert isinstance(decoded, Command)


@given(st.sampled_from(sorted(COMMANDS)), st.binary(max_size=100))
def test_no_octets_make_it_fail(key: int, content: bytes) -> None:
    try:
        decode_command(key.to_bytes(2, "big") + b"\x00\x01" + content)
    except HardError as error:
        assert error.code == 501
