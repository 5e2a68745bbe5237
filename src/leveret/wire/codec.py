"""Methods to octets and back: one packer and one unpacker per method, derived at import from its fields.

Owns the method table, the packing of bits into octets, reserved fields, and what is refused as malformed. Never
splits content and never sees a socket. Called by session/ for every control method and by client/ for all of them."""

import re
import struct
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from leveret.core.codec.field_types import Table
from leveret.core.codec.names import name_octets
from leveret.core.codec.tables import decode_table, encode_table
from leveret.core.codec.wording import shown_octets
from leveret.errors import HardError
from leveret.wire import (
    access_methods,
    basic_methods,
    channel_methods,
    confirm_methods,
    connection_methods,
    exchange_methods,
    queue_methods,
    tx_methods,
)
from leveret.wire.channel_methods import ChannelOpenOk
from leveret.wire.constants import CLASS_CONNECTION, FRAME_END, FRAME_METHOD
from leveret.wire.limits import SHORTSTR_BYTES_MAX
from leveret.wire.method import Method

__all__ = ["METHODS", "decode_method", "encode_method", "encode_open_ok_of_0_8", "method_name"]

# Reads a field, or a run of bits, at a position: appends the values, gives the position after them.
Reader = Callable[[bytes, int, list[Any]], int]
# Appends a field, or a run of bits, of a method.
Writer = Callable[[bytearray, Method], None]

_UINT_BYTES: Final = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8}
_FRAME_HEAD: Final = struct.Struct(">BHII")
_FRAME_SIZE: Final = struct.Struct(">I")
_MODULES: Final[tuple[ModuleType, ...]] = (
    connection_methods,
    channel_methods,
    access_methods,
    exchange_methods,
    queue_methods,
    basic_methods,
    tx_methods,
    confirm_methods,
)


class _Malformed(Exception):
    """Why a payload cannot be read; becomes a HardError that names the method."""


class _Layout(NamedTuple):
    cls: type[Method]
    name: str
    readers: tuple[Reader, ...]
    writers: tuple[Writer, ...]


class _Field(NamedTuple):
    # None if the field is reserved: read and forgotten, written as zero or empty.
    name: str | None
    kind: str


def decode_method(method: int, payload: bytes) -> Method:
    """The method with this id from the octets after its id. Raises HardError: 503 if there is no such method, 501 if
    the fields do not fill the payload exactly, 501 or 502 if one of them is malformed."""
    layout = _LAYOUTS.get(method)
    if layout is None:
        raise HardError(503, f"unknown method {method & 0xFFFF} of class {method >> 16}", method)
    values: list[Any] = []
    at = 0
    try:
        for read in layout.readers:
            at = read(payload, at, values)
        if at != len(payload):
            raise _Malformed(f"{len(payload) - at} bytes are left over after its last field")
    except UnicodeDecodeError:
        raise HardError(501, "Malformed UTF-8 in shortstr") from None
    except (_Malformed, HardError) as problem:
        # RabbitMQ's words; what exactly is wrong goes into the log with the cause.
        # A malformed login must not put its password there.
        shown = shown_octets(b"" if method >> 16 == CLASS_CONNECTION else payload)
        raise HardError(501, f"cannot decode {shown}", method) from problem
    return layout.cls(*values)


def encode_method(channel: int, method: Method) -> bytes:
    """The complete method frame. Raises ValueError or TypeError naming the field that does not fit."""
    layout = _LAYOUTS[method.METHOD]
    out = bytearray(_FRAME_HEAD.pack(FRAME_METHOD, channel, 0, method.METHOD))
    for write in layout.writers:
        write(out, method)
    # The size counts from the method id, which the head holds too, to before the end octet.
    _FRAME_SIZE.pack_into(out, 3, len(out) - 7)
    out.append(FRAME_END)
    return bytes(out)


def encode_open_ok_of_0_8(channel: int) -> bytes:
    """channel.open-ok for a client that speaks 0-8: the one method that has a field less there."""
    return _FRAME_HEAD.pack(FRAME_METHOD, channel, 4, ChannelOpenOk.METHOD) + bytes([FRAME_END])


def method_name(method: int) -> str:
    """As the specification says it: `queue.declare-ok`. For logs and errors, so any number has a name."""
    layout = _LAYOUTS.get(method)
    return layout.name if layout is not None else f"{method >> 16}.{method & 0xFFFF}"


# Deriving. Everything below runs at import and leaves closures behind.


def _describe(cls: type[Method]) -> _Layout:
    first, *rest = re.findall("[A-Z][a-z]*", cls.__name__)
    name = f"{first}.{'-'.join(rest)}".lower()
    readers: list[Reader] = []
    writers: list[Writer] = []
    for run in _group_bits(_list_fields(cls)):
        if run[0].kind == "bit":
            reader, writer = _bits(run)
        else:
            reader, writer = _whole(cls, name, run[0])
        readers.append(reader)
        writers.append(writer)
    return _Layout(cls, name, tuple(readers), tuple(writers))


def _list_fields(cls: type[Method]) -> list[_Field]:
    fields = [_Field(None, kind) for kind in cls.RESERVED_BEFORE]
    for name in cls.__struct_fields__:
        annotation = cls.__annotations__[name]
        fields.append(_Field(name, "table" if annotation == Table else annotation.__metadata__[0]))
    return fields + [_Field(None, kind) for kind in cls.RESERVED_AFTER]


def _group_bits(fields: list[_Field]) -> Iterator[list[_Field]]:
    """Each field by itself, but bits that follow one another together: up to eight share an octet."""
    run: list[_Field] = []
    for field in fields:
        if run and not (field.kind == run[0].kind == "bit" and len(run) < 8):
            yield run
            run = []
        run.append(field)
    if run:
        yield run


def _bits(run: list[_Field]) -> tuple[Reader, Writer]:
    named = [(field.name, 1 << place) for place, field in enumerate(run) if field.name is not None]
    masks = [mask for _, mask in named]

    def read(payload: bytes, at: int, values: list[Any]) -> int:
        if at >= len(payload):
            raise _Malformed("it ends before its bits")
        octet = payload[at]
        for mask in masks:
            values.append(octet & mask != 0)
        return at + 1

    def write(out: bytearray, method: Method) -> None:
        octet = 0
        for name, mask in named:
            if getattr(method, name):
                octet |= mask
        out.append(octet)

    return read, write


def _whole(cls: type[Method], method: str, field: _Field) -> tuple[Reader, Writer]:
    where = f"{method}: {field.name}"
    if field.kind == "shortstr":
        errors = "strict" if cls.TEXT_IS_UTF8 else "surrogateescape"
        return _read_shortstr(field.name, errors), _write_shortstr(field.name, where, field.name in cls.CUT_TO_FIT)
    if field.kind == "longstr":
        return _read_longstr(field.name), _write_longstr(field.name, where)
    if field.kind == "table":
        assert field.name is not None
        return _read_table, _write_table(field.name, where)
    return _read_uint(field.name, _UINT_BYTES[field.kind]), _write_uint(field.name, where, _UINT_BYTES[field.kind])


def _read_shortstr(name: str | None, errors: str) -> Reader:
    def read(payload: bytes, at: int, values: list[Any]) -> int:
        if at >= len(payload):
            raise _Malformed(f"it ends before {name or 'a reserved field'}")
        end = at + 1 + payload[at]
        if end > len(payload):
            raise _Malformed(f"{name or 'a reserved field'} of {payload[at]} bytes reaches past the end")
        text = payload[at + 1 : end].decode("utf-8", errors)
        if name is not None:
            values.append(text)
        return end

    return read


def _write_shortstr(name: str | None, where: str, cut: bool) -> Writer:
    if name is None:
        return lambda out, method: out.append(0)

    def write(out: bytearray, method: Method) -> None:
        octets = name_octets(getattr(method, name))
        if len(octets) > SHORTSTR_BYTES_MAX:
            if not cut:
                raise ValueError(f"{where} has {len(octets)} bytes of at most {SHORTSTR_BYTES_MAX}")
            octets = _cut_text(octets)
        out.append(len(octets))
        out += octets

    return write


def _cut_text(octets: bytes) -> bytes:
    """What fits of a text, with dots for the rest; no character is torn."""
    end = SHORTSTR_BYTES_MAX - 3
    # A character has at most three octets after its first.
    for _ in range(3):
        if octets[end] & 0xC0 == 0x80:
            end -= 1
    return octets[:end] + b"..."


def _read_longstr(name: str | None) -> Reader:
    def read(payload: bytes, at: int, values: list[Any]) -> int:
        start = at + 4
        if start > len(payload):
            raise _Malformed(f"it ends within the length of {name or 'a reserved field'}")
        end = start + int.from_bytes(payload[at:start], "big")
        if end > len(payload):
            raise _Malformed(f"{name or 'a reserved field'} of {end - start} bytes reaches past the end")
        if name is not None:
            values.append(payload[start:end])
        return end

    return read


def _write_longstr(name: str | None, where: str) -> Writer:
    if name is None:
        return lambda out, method: out.extend(b"\x00\x00\x00\x00")

    def write(out: bytearray, method: Method) -> None:
        octets = getattr(method, name)
        if not isinstance(octets, bytes):
            raise TypeError(f"{where} must be bytes, not {type(octets).__name__}")
        out += len(octets).to_bytes(4, "big")
        out += octets

    return write


def _read_table(payload: bytes, at: int, values: list[Any]) -> int:
    table, end = decode_table(payload, at)
    values.append(table)
    return end


def _write_table(name: str, where: str) -> Writer:
    def write(out: bytearray, method: Method) -> None:
        try:
            out += encode_table(getattr(method, name))
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    return write


def _read_uint(name: str | None, size: int) -> Reader:
    def read(payload: bytes, at: int, values: list[Any]) -> int:
        end = at + size
        if end > len(payload):
            raise _Malformed(f"it ends before {name or 'a reserved field'}")
        if name is not None:
            values.append(int.from_bytes(payload[at:end], "big"))
        return end

    return read


def _write_uint(name: str | None, where: str, size: int) -> Writer:
    if name is None:
        return lambda out, method: out.extend(bytes(size))

    def write(out: bytearray, method: Method) -> None:
        value = getattr(method, name)
        try:
            out += value.to_bytes(size, "big")
        except OverflowError:
            raise ValueError(f"{where} is {value}, which does not fit in {size} bytes without a sign") from None

    return write


def _collect() -> Iterator[type[Method]]:
    for module in _MODULES:
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Method) and item is not Method:
                yield item


# Every method class by its id.
METHODS: Final[dict[int, type[Method]]] = {cls.METHOD: cls for cls in _collect()}
_LAYOUTS: Final[dict[int, _Layout]] = {number: _describe(cls) for number, cls in METHODS.items()}
assert len(METHODS) == sum(1 for _ in _collect()), "two methods share an id"
