"""Frames of the stream protocol: commands as objects <-> octets.

A command class (stream_commands.py) lists its fields in the order of the wire, each with the name of its kind; this
module knows the kinds. A frame here is what follows its four octets of size. Every length and count is compared with
what is left of the frame before anything is made of it. Publishing, confirms and chunks do not come this way: the data
plane reads and writes them itself (core/stream/publish_path.py, core/stream/chunk.py)."""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from leveret.errors import HardError
from leveret.wire.limits import STREAM_ITEMS_MAX
from leveret.wire.stream_codes import RESPONSE_BIT, OffsetType
from leveret.wire.stream_commands import COMMANDS, Command, OffsetSpec

__all__ = ["decode_command", "encode_command", "frame_of"]

_HEAD = struct.Struct(">HH")
_NUMBERS = {name: struct.Struct(form) for name, form in (("u8", ">B"), ("u16", ">H"), ("u32", ">I"), ("u64", ">Q"))}
_SIGNED64 = struct.Struct(">q")


class _Reader:
    """The octets of one frame, from its head on."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.end = len(data)

    def take(self, count: int) -> int:
        """Passes over `count` octets, which must be there, and says where they begin."""
        at = self.at
        if count > self.end - at:
            raise malformed(f"it ends within a field of {count} bytes at byte {at}")
        self.at = at + count
        return at

    def number(self, form: struct.Struct) -> int:
        value: int = form.unpack_from(self.data, self.take(form.size))[0]
        return value

    def string(self) -> str:
        size = self.number(_NUMBERS["u16"])
        if size == 0xFFFF:
            return ""
        if size > 0x7FFF:
            raise malformed(f"a string has a negative length at byte {self.at}")
        at = self.take(size)
        try:
            return self.data[at : self.at].decode()
        except UnicodeDecodeError:
            raise malformed(f"a string at byte {at} is not UTF-8") from None

    def octets(self) -> bytes:
        size = self.number(_NUMBERS["u32"])
        if size == 0xFFFFFFFF:
            return b""
        at = self.take(size)
        return self.data[at : self.at]

    def count(self, item_bytes: int) -> int:
        """How many items follow, each of at least so many octets."""
        count = self.number(_NUMBERS["u32"])
        if count > STREAM_ITEMS_MAX or count * item_bytes > self.end - self.at:
            raise malformed(f"a list of {count} items does not fit at byte {self.at}")
        return count

    def pairs(self) -> dict[str, str]:
        # Clients of the first version send no properties at all.
        if self.at == self.end:
            return {}
        return {self.string(): self.string() for _ in range(self.count(4))}

    def offset_spec(self) -> OffsetSpec:
        kind = self.number(_NUMBERS["u16"])
        if kind == OffsetType.OFFSET:
            return OffsetSpec(kind, self.number(_NUMBERS["u64"]))
        if kind == OffsetType.TIMESTAMP:
            return OffsetSpec(kind, self.number(_SIGNED64))
        if kind > OffsetType.TIMESTAMP:
            raise malformed(f"unknown kind of offset {kind}")
        return OffsetSpec(kind)

    def last_offset_spec(self) -> OffsetSpec:
        """The same at a frame's end, where some clients send a value with every kind."""
        spec = self.offset_spec()
        if spec.kind not in (OffsetType.OFFSET, OffsetType.TIMESTAMP) and self.end - self.at == 8:
            self.take(8)
        return spec


_READERS: dict[str, Callable[[_Reader], Any]] = {
    "string": _Reader.string,
    "octets": _Reader.octets,
    "pairs": _Reader.pairs,
    "offset_spec": _Reader.offset_spec,
    "last_offset_spec": _Reader.last_offset_spec,
    "strings": lambda reader: [reader.string() for _ in range(reader.count(2))],
    "u64s": lambda reader: [reader.number(_NUMBERS["u64"]) for _ in range(reader.count(8))],
    "errors": lambda reader: [
        (reader.number(_NUMBERS["u64"]), reader.number(_NUMBERS["u16"])) for _ in range(reader.count(10))
    ],
    "versions": lambda reader: [
        struct.unpack_from(">HHH", reader.data, reader.take(6)) for _ in range(reader.count(6))
    ],
    "statistics": lambda reader: {reader.string(): reader.number(_SIGNED64) for _ in range(reader.count(10))},
    "brokers": lambda reader: [
        (reader.number(_NUMBERS["u16"]), reader.string(), reader.number(_NUMBERS["u32"]))
        for _ in range(reader.count(8))
    ],
    "streams": lambda reader: [_read_stream(reader) for _ in range(reader.count(10))],
    **{name: lambda reader, form=form: reader.number(form) for name, form in _NUMBERS.items()},  # type: ignore[misc]
}


def _read_stream(reader: _Reader) -> tuple[str, int, int, list[int]]:
    name, code, leader = reader.string(), reader.number(_NUMBERS["u16"]), reader.number(_NUMBERS["u16"])
    return name, code, leader, [reader.number(_NUMBERS["u16"]) for _ in range(reader.count(2))]


def _string(value: str) -> bytes:
    octets = value.encode()
    if len(octets) > 0x7FFF:
        octets = octets[:0x7FFF].decode(errors="ignore").encode()
    return struct.pack(">H", len(octets)) + octets


def _listed(items: list[bytes]) -> bytes:
    return struct.pack(">I", len(items)) + b"".join(items)


def _offset_spec(spec: OffsetSpec) -> bytes:
    if spec.kind == OffsetType.OFFSET:
        return struct.pack(">HQ", spec.kind, spec.value)
    if spec.kind == OffsetType.TIMESTAMP:
        return struct.pack(">Hq", spec.kind, spec.value)
    return struct.pack(">H", spec.kind)


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "string": _string,
    "octets": lambda value: struct.pack(">I", len(value)) + value,
    "pairs": lambda value: _listed([_string(key) + _string(item) for key, item in value.items()]),
    "offset_spec": _offset_spec,
    "last_offset_spec": _offset_spec,
    "strings": lambda value: _listed([_string(item) for item in value]),
    "u64s": lambda value: _listed([struct.pack(">Q", item) for item in value]),
    "errors": lambda value: _listed([struct.pack(">QH", *item) for item in value]),
    "versions": lambda value: _listed([struct.pack(">HHH", *item) for item in value]),
    "statistics": lambda value: _listed([_string(key) + _SIGNED64.pack(item) for key, item in value.items()]),
    "brokers": lambda value: _listed(
        [struct.pack(">H", number) + _string(host) + struct.pack(">I", port) for number, host, port in value]
    ),
    "streams": lambda value: _listed(
        [
            _string(name) + struct.pack(">HH", code, leader) + _listed([struct.pack(">H", item) for item in replicas])
            for name, code, leader, replicas in value
        ]
    ),
    **{name: form.pack for name, form in _NUMBERS.items()},
}


def malformed(text: str) -> HardError:
    return HardError(501, f"malformed stream frame: {text}")


@cache
def _kinds(command: type[Command]) -> list[tuple[str, str]]:
    """The command's fields with their kinds."""
    hints = typing.get_type_hints(command, include_extras=True)
    return [(name, hints[name].__metadata__[0]) for name in command.__struct_fields__]


def decode_command(frame: bytes) -> Command:
    """Raises HardError: 503 if there is no such command or version, 501 if it is malformed."""
    if len(frame) < _HEAD.size:
        raise malformed(f"it has {len(frame)} bytes")
    key, version = _HEAD.unpack_from(frame)
    kind = COMMANDS.get(key)
    if kind is None or version != 1:
        raise HardError(503, f"unknown command {key & ~RESPONSE_BIT} of version {version} in a stream frame")
    reader = _Reader(frame, _HEAD.size)
    fields = {name: _READERS[field](reader) for name, field in _kinds(kind)}
    if reader.at != reader.end:
        raise malformed(f"{reader.end - reader.at} bytes follow the last field of {kind.__name__}")
    return kind(**fields)


def encode_command(command: Command) -> bytes:
    """The frame without its size."""
    parts = [_WRITERS[field](getattr(command, name)) for name, field in _kinds(type(command))]
    return _HEAD.pack(command.KEY, 1) + b"".join(parts)


def frame_of(command: Command) -> bytes:
    """The whole frame, ready to be sent."""
    octets = encode_command(command)
    return struct.pack(">I", len(octets)) + octets
