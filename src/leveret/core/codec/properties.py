"""A message's properties: the flags and values of its content header.

Keeps the octets as they came, since they go out again unchanged, and reads at once only what the broker acts on:
delivery mode, priority, expiration, user id, reply-to and whether there are CC or BCC headers. The rest is decoded
when somebody asks. Never judges a value (a bad expiration is the queue's business). Made by
core.connection.publish_path for every published message, hence the C scan; changed copies are made by dead-lettering,
CC and direct reply-to."""

import calendar
from datetime import datetime
from typing import Any

import cython

from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.tables import encode_table
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u16, read_u32, read_u64, take
    from leveret.core.codec.tables import (
        NOTED_BLIND,
        NOTED_COPIES,
        NOTED_DEATH,
        NOTED_DELAY,
        NOTED_STREAM,
        check_table,
        read_table,
    )

    CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE = 0x8000, 0x4000, 0x2000, 0x1000
    PRIORITY, CORRELATION_ID, REPLY_TO, EXPIRATION = 0x0800, 0x0400, 0x0200, 0x0100
    MESSAGE_ID, TIMESTAMP, TYPE, USER_ID = 0x0080, 0x0040, 0x0020, 0x0010
    APP_ID, CLUSTER_ID, UNUSED, MORE_FLAGS = 0x0008, 0x0004, 0x0002, 0x0001

__all__ = ["PROPERTY_BITS", "Properties", "encode_properties", "parse_properties"]

# Every property by name with its bit, in the order of the values on the wire.
PROPERTY_BITS: "dict[str, int]" = {
    "content_type": CONTENT_TYPE,
    "content_encoding": CONTENT_ENCODING,
    "headers": HEADERS,
    "delivery_mode": DELIVERY_MODE,
    "priority": PRIORITY,
    "correlation_id": CORRELATION_ID,
    "reply_to": REPLY_TO,
    "expiration": EXPIRATION,
    "message_id": MESSAGE_ID,
    "timestamp": TIMESTAMP,
    "type": TYPE,
    "user_id": USER_ID,
    "app_id": APP_ID,
    "cluster_id": CLUSTER_ID,
}


# Cython heeds these here alone: on the class in the .pxd it drops freelist and no_gc without a word. cclass comes last.
@cython.final
@cython.no_gc
@cython.freelist(2048)
@cython.cclass
class Properties:
    """One message's properties. Never changes; `replace` gives a changed copy.

    What the data plane needs stands ready as fields: `raw` (the octets), `flags`, `persistent`, `priority` (0 if
    absent), `expiration`, `user_id`, `reply_to` (bytes, None if absent), `ttl_ms` (the expiration as a number, -1 if
    absent), `has_cc` (CC or BCC), `has_bcc`, `has_delay`, `has_stream` (perhaps a header that streams heed) and
    `special` (it may expire or wait for its time). The other attributes are decoded at each reading and are None if
    absent; `fields()` has all that are present, by name."""

    raw: bytes
    flags: int
    persistent: bool
    priority: int
    expiration: "bytes | None"
    user_id: "bytes | None"
    reply_to: "bytes | None"
    has_cc: bool
    has_bcc: bool
    has_delay: bool
    has_death: bool
    has_stream: bool
    special: bool
    ttl_ms: int
    # Where the headers' fields start and end in `raw`, and the table once decoded.
    headers_at: int
    headers_end: int
    cached_headers: "dict[str, Any] | None"

    __slots__ = (
        "cached_headers",
        "expiration",
        "flags",
        "has_bcc",
        "has_cc",
        "has_death",
        "has_delay",
        "has_stream",
        "headers_at",
        "headers_end",
        "persistent",
        "priority",
        "raw",
        "reply_to",
        "special",
        "ttl_ms",
        "user_id",
    )

    def headers(self) -> "dict[str, Any]":
        """The headers table, {} if there is none. Decoded once and then shared: callers must not change it."""
        if self.cached_headers is None:
            if self.flags & HEADERS:
                p = self.raw
                self.cached_headers = read_table(p, self.headers_at, self.headers_end, 0)
            else:
                self.cached_headers = {}
        return self.cached_headers

    def fields(self) -> "dict[str, Any]":
        """All properties that are present, by name; text as str, the timestamp as Timestamp."""
        return {name: self.value(bit) for name, bit in PROPERTY_BITS.items() if self.flags & bit}

    def replace(self, changes: "dict[str, Any]") -> "Properties":
        """A copy with these properties set, or removed where the value is None; the others keep their octets."""
        unknown = changes.keys() - PROPERTY_BITS.keys()
        if unknown:
            raise ValueError(f"unknown message property: {', '.join(sorted(map(str, unknown)))}")
        raw = self.raw
        flags = self.flags & UNUSED
        at = 2
        parts = []
        for name, bit in PROPERTY_BITS.items():
            field_end = _value_end(raw, at, bit) if self.flags & bit else at
            if name not in changes:
                flags |= self.flags & bit
                parts.append(raw[at:field_end])
            elif changes[name] is not None:
                flags |= bit
                parts.append(_encode_value(name, bit, changes[name]))
            at = field_end
        return parse_properties(flags.to_bytes(2, "big") + b"".join(parts))

    def find(self, wanted):
        """Where the value of the property with this bit starts, -1 if it is absent."""
        if not self.flags & wanted:
            return -1
        p = self.raw
        at = 2
        bit = CONTENT_TYPE
        while bit != wanted:
            if self.flags & bit:
                at = _value_end(p, at, bit)
            bit >>= 1
        return at

    def value(self, bit):
        """The decoded value of the property with this bit, None if it is absent."""
        if bit == HEADERS:
            return self.headers() if self.flags & HEADERS else None
        at = self.find(bit)
        if at < 0:
            return None
        p = self.raw
        if bit in (DELIVERY_MODE, PRIORITY):
            return p[at]
        if bit == TIMESTAMP:
            return Timestamp(read_u64(p, at))
        return p[at + 1 : at + 1 + p[at]].decode("utf-8", "surrogateescape")

    @property
    def content_type(self) -> "str | None":
        return self.value(CONTENT_TYPE)

    @property
    def content_encoding(self) -> "str | None":
        return self.value(CONTENT_ENCODING)

    @property
    def delivery_mode(self) -> "int | None":
        return self.value(DELIVERY_MODE)

    @property
    def correlation_id(self) -> "str | None":
        return self.value(CORRELATION_ID)

    @property
    def message_id(self) -> "str | None":
        return self.value(MESSAGE_ID)

    @property
    def timestamp(self) -> "Timestamp | None":
        return self.value(TIMESTAMP)

    @property
    def type(self) -> "str | None":
        return self.value(TYPE)

    @property
    def app_id(self) -> "str | None":
        return self.value(APP_ID)

    @property
    def cluster_id(self) -> "str | None":
        return self.value(CLUSTER_ID)

    def __repr__(self) -> str:
        return f"Properties({self.fields()})"


def parse_properties(raw: bytes) -> Properties:
    """The properties in their raw form: flags and values, nothing before and nothing after."""
    return scan_properties(raw, 0, len(raw))


def encode_properties(**fields: Any) -> bytes:
    """The raw form of these properties; None means absent. Raises ValueError or TypeError naming the property."""
    return parse_properties(b"\x00\x00").replace(fields).raw


def scan_properties(p, start, end):
    if end - start < 2:
        raise HardError(501, f"a content header's property flags have {end - start} of 2 bytes")
    flags = read_u16(p, start)
    if flags & MORE_FLAGS:
        raise HardError(501, "a content header announces a second word of property flags, which AMQP 0-9-1 has not")
    made = Properties.__new__(Properties)
    made.flags = flags
    made.persistent = False
    made.priority = 0
    made.expiration = made.user_id = made.reply_to = made.cached_headers = None
    made.has_cc = made.has_bcc = made.has_delay = made.has_death = made.has_stream = made.special = False
    made.ttl_ms = -1
    made.headers_at = made.headers_end = 0
    at = start + 2
    if flags & CONTENT_TYPE:
        at = _shortstr_end(p, at, end)
    if flags & CONTENT_ENCODING:
        at = _shortstr_end(p, at, end)
    if flags & HEADERS:
        at = _scan_headers(made, p, start, at, end)
    if flags & DELIVERY_MODE:
        if at >= end:
            raise HardError(501, "a content header ends before its delivery mode")
        made.persistent = p[at] == 2
        at += 1
    if flags & PRIORITY:
        if at >= end:
            raise HardError(501, "a content header ends before its priority")
        made.priority = p[at]
        at += 1
    if flags & CORRELATION_ID:
        at = _shortstr_end(p, at, end)
    if flags & REPLY_TO:
        value_end = _shortstr_end(p, at, end)
        made.reply_to = take(p, at + 1, value_end)
        at = value_end
    if flags & EXPIRATION:
        value_end = _shortstr_end(p, at, end)
        made.expiration = take(p, at + 1, value_end)
        made.ttl_ms = _milliseconds(p, at + 1, value_end)
        made.special = made.special or made.ttl_ms >= 0
        at = value_end
    if flags & MESSAGE_ID:
        at = _shortstr_end(p, at, end)
    if flags & TIMESTAMP:
        if end - at < 8:
            raise HardError(501, "a content header ends within its timestamp")
        at += 8
    if flags & TYPE:
        at = _shortstr_end(p, at, end)
    if flags & USER_ID:
        value_end = _shortstr_end(p, at, end)
        made.user_id = take(p, at + 1, value_end)
        at = value_end
    if flags & APP_ID:
        at = _shortstr_end(p, at, end)
    if flags & CLUSTER_ID:
        at = _shortstr_end(p, at, end)
    if at != end:
        raise HardError(501, f"a content header has {end - at} bytes after its last property")
    made.raw = take(p, start, end)
    return made


def _shortstr_end(p, at, end):
    """Where the short string whose length stands at `at` ends, checked against the header's end."""
    if at >= end or p[at] >= end - at:
        raise HardError(501, f"a content header of {end} bytes ends within a short string at byte {at}")
    return at + 1 + p[at]


def _scan_headers(made, p, start, at, end):
    """Checks the headers table whose length stands at `at`, notes its place, and gives its end."""
    if end - at < 4:
        raise HardError(501, "a content header ends within the length of its headers")
    size = read_u32(p, at)
    at += 4
    if size > end - at:
        raise HardError(501, f"a content header's headers of {size} bytes reach past its end by {size - (end - at)}")
    noted = check_table(p, at, at + size, 0)
    made.has_cc = noted & NOTED_COPIES != 0
    made.has_bcc = noted & NOTED_BLIND != 0
    made.has_delay = made.special = noted & NOTED_DELAY != 0
    made.has_death = noted & NOTED_DEATH != 0
    made.has_stream = noted & NOTED_STREAM != 0
    made.headers_at = at - start
    made.headers_end = at + size - start
    return at + size


def _milliseconds(p, at, end):
    """The number in decimal digits, perhaps with a sign; -1 if there is none or it is out of all range. Whether the
    text is a valid expiration is checked elsewhere, before anything with it is taken."""
    if at < end and (p[at] == 43 or p[at] == 45):
        at += 1
    if at == end:
        return -1
    while at < end - 1 and p[at] == 48:
        at += 1
    if end - at > 18:
        return -1
    value = 0
    while at < end:
        if p[at] < 48 or p[at] > 57:
            return -1
        value = value * 10 + p[at] - 48
        at += 1
    return value


def _value_end(p, at, bit):
    """Where a value that the scan has passed ends."""
    if bit == HEADERS:
        return at + 4 + read_u32(p, at)
    if bit in (DELIVERY_MODE, PRIORITY):
        return at + 1
    if bit == TIMESTAMP:
        return at + 8
    return at + 1 + p[at]


def _encode_value(name, bit, value):
    try:
        if bit == HEADERS:
            return encode_table(value)
        if bit in (DELIVERY_MODE, PRIORITY):
            return value.to_bytes(1, "big")
        if bit == TIMESTAMP:
            seconds = calendar.timegm(value.utctimetuple()) if isinstance(value, datetime) else value
            return seconds.to_bytes(8, "big")
        octets = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        return len(octets).to_bytes(1, "big") + octets
    except (AttributeError, TypeError) as error:
        raise TypeError(f"message property {name}: {value!r} is of no use here: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"message property {name}: {error}") from None
