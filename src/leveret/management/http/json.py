"""JSON in and out. In: bounded in depth, with the reason of a refusal. Out: whatever clients of AMQP may have put into
names and tables, which is more than JSON can say."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from leveret.core.codec.names import name_octets
from leveret.management.http.errors import bad_request

DEPTH_MAX = 64
PARTS_BYTES_MAX = 256 * 1024


def decode(octets: bytes, kind: Any = Any) -> Any:
    """The value, checked against a msgspec type. Raises HttpError."""
    if isinstance(kind, type) and issubclass(kind, Parts):
        return _decode_parts(octets, kind)
    try:
        value = msgspec.json.decode(octets)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("not_json") from None
    _check_depth(value)
    if kind is Any or kind is None:
        return value
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from None


class Parts(msgspec.Struct):
    """An object of which one field, `LARGE`, may be a long text, while all others together are small: values of JSON
    become many times as large in memory as they were on the wire. Fields that a subclass does not name are passed over
    unread."""

    LARGE: ClassVar[str] = ""

    def read(self) -> dict[str, Any]:
        """The fields that came, decoded. Raises HttpError."""
        came = {name: bytes(getattr(self, name)) for name in self.__struct_fields__}
        small = sum(len(part) for name, part in came.items() if name != self.LARGE or part[:1] != b'"')
        if small > PARTS_BYTES_MAX:
            raise bad_request(f"all but {self.LARGE} together have more than {PARTS_BYTES_MAX} bytes")
        return {name: decode(part) for name, part in came.items() if part}


def _decode_parts(octets: bytes, kind: type[Parts]) -> Any:
    try:
        return msgspec.json.decode(octets, type=kind).read()
    except msgspec.ValidationError:
        if len(octets) > PARTS_BYTES_MAX:
            raise bad_request("not_json") from None
        # Something else than an object: the handler that reads it reports the error.
        return decode(octets)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("not_json") from None


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise bad_request(f"nested deeper than {DEPTH_MAX}")


def _foreign(value: Any) -> Any:
    """The kinds of numbers that tables of AMQP have."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} is nothing for JSON")


_encoder = msgspec.json.Encoder(enc_hook=_foreign, decimal_format="number")


def encode(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError):
        # A name that is not UTF-8: rare, so it is checked only after an error.
        return _encoder.encode(printable(value))


def printable(value: Any) -> Any:
    """The same with everything replaced that JSON cannot hold; for tables of AMQP, whose octets are mostly text."""
    if isinstance(value, str):
        return name_octets(value).decode("utf-8", "replace")
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dict):
        return {printable(key): printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable(inner) for inner in value]
    return value
