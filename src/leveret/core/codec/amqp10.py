"""Messages between AMQP 0-9-1 and AMQP 1.0, the way RabbitMQ maps them.

Clients of the stream protocol read and write messages in the sections of AMQP 1.0; AMQP 0-9-1 clients of the same
stream see properties and a body. What has no counterpart is kept where RabbitMQ keeps it: the exchange, the routing
key, the type and headers that begin with x- as annotations, other headers as application properties, the app id as
group id. Never fails on a message from a stream: what is not AMQP 1.0 is a body and nothing else."""

import cython

from leveret.core.codec.amqp10_values import (
    Described,
    Malformed,
    Reader,
    Symbol,
    UInt64,
    Uuid,
    encode_list,
    encode_map,
    encode_value,
)
from leveret.core.codec.field_types import Timestamp, Typed, UInt8, UInt32
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u32, take

__all__ = ["data_head", "from_amqp10", "head_amqp10", "to_amqp10"]

# The type of a message whose body is sections of AMQP 1.0 as they stand.
ENCODED_TYPE = "amqp-1.0"
NO_PROPERTIES = b"\x00\x00"
SHORT_STRING_MAX = NAME_OCTETS_MAX
URN = "urn:uuid:"

HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = 0x70, 0x71, 0x72, 0x73, 0x74
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78
SECTION_NAMES = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}
# Annotations that say what no header should.
INTERNAL = ("x-basic-", "x-exchange", "x-routing-key")


# ---- 0-9-1 to 1.0


def to_amqp10(properties: bytes, body: bytes, exchange: bytes, key: bytes) -> bytes:
    """The message as sections. `properties` are in their raw form."""
    head, encoded = head_amqp10(properties, exchange, key)
    if encoded and _is_body(body):
        return head + body
    return head + data_head(len(body)) + body


def head_amqp10(properties: bytes, exchange: bytes, key: bytes) -> "tuple[bytes, bool]":
    """The sections before the body, and whether the body calls itself encoded already. The same for every message
    with these properties and this address, so callers keep it."""
    parsed = parse_properties(properties)
    fields = parsed.fields()
    headers = fields.get("headers") or {}
    kind = fields.get("type")
    annotations = [(Symbol("x-exchange"), _text(exchange)), (Symbol("x-routing-key"), _text(key))]
    application = []
    for name, value in headers.items():
        if name.startswith("x-"):
            annotations.append((Symbol(name), value))
        elif name == "CC" and isinstance(value, list):
            annotations.append((Symbol("x-cc"), value))
        elif not isinstance(value, list | dict) and _is_text(name):
            application.append((name, value))
    if kind is not None and kind != ENCODED_TYPE and _is_text(kind):
        annotations.append((Symbol("x-basic-type"), kind))
    parts = [_header(fields, parsed.ttl_ms), _section(ANNOTATIONS, encode_map(annotations)), _properties(fields)]
    if application:
        parts.append(_section(APPLICATION_PROPERTIES, encode_map(application)))
    return b"".join(parts), kind == ENCODED_TYPE


def data_head(size):
    """What stands before a body of `size` octets in its data section."""
    if size < 256:
        return bytes((0x00, 0x53, DATA, 0xA0, size))
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big")


def _section(number, octets):
    return bytes((0x00, 0x53, number)) + octets


def _list_section(number, values):
    """A section whose trailing fields may be left out."""
    while values and values[len(values) - 1] is None:
        values.pop()
    return _section(number, encode_list([encode_value(value) for value in values])) if values else b""


def _header(fields, ttl_ms):
    mode = fields.get("delivery_mode")
    priority = fields.get("priority")
    return _list_section(
        HEADER,
        [
            None if mode is None else mode == 2,
            None if priority is None else UInt8(priority),
            UInt32(ttl_ms) if 0 <= ttl_ms < 1 << 32 else None,
        ],
    )


def _properties(fields):
    user = fields.get("user_id")
    return _list_section(
        PROPERTIES,
        [
            _id(fields.get("message_id")),
            None if user is None else user.encode("utf-8", "surrogateescape"),
            None,
            None,
            _clean(fields.get("reply_to")),
            _id(fields.get("correlation_id")),
            _symbol(fields.get("content_type")),
            _symbol(fields.get("content_encoding")),
            None,
            fields.get("timestamp"),
            _clean(fields.get("app_id")),
        ],
    )


def _id(text):
    if text is not None and text.startswith(URN):
        # Only what comes back as it was.
        return Uuid.read(text[len(URN) :]) or text
    return text


def _symbol(text):
    return None if text is None else Symbol(text)


def _clean(text):
    """Text that is no UTF-8 has no form in AMQP 1.0."""
    return text if text is not None and _is_text(text) else None


def _is_text(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(octets):
    """A name as text, or as the octets it is."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


# ---- 1.0 to 0-9-1


def from_amqp10(data: bytes) -> "tuple[bytes, bytes]":
    """The raw properties and the body."""
    p = data
    size = len(data)
    # Most messages of stream clients are one data section and nothing else.
    if size >= 5 and p[0] == 0 and p[1] == 0x53 and p[2] == DATA:
        if p[3] == 0xA0 and p[4] + 5 == size:
            return NO_PROPERTIES, take(p, 5, size)
        if p[3] == 0xB0 and size >= 8 and read_u32(p, 4) == size - 8:
            return NO_PROPERTIES, take(p, 8, size)
    if size == 0 or p[0] != 0:
        return NO_PROPERTIES, data
    return _from_sections(data)


def _from_sections(data):
    try:
        sections, body_at, body_end = _sections(data)
        fields = _fields(dict(reversed(sections)))
        if any(number in (SEQUENCE, VALUE) for number, _ in sections):
            fields["type"] = ENCODED_TYPE
            return encode_properties(**fields), data[body_at:body_end]
        return encode_properties(**fields), b"".join([value for number, value in sections if number == DATA])
    except (Malformed, ValueError, TypeError, OverflowError, HardError):
        return NO_PROPERTIES, data


def _sections(data):
    """The sections as (number, value), and where the body's begin and end."""
    reader = Reader(data)
    sections = []
    body_at = body_end = -1
    while reader.at < reader.end:
        start = reader.at
        section = reader.value()
        number = _number(section)
        if number == FOOTER:
            continue
        if number >= DATA:
            if number == DATA and not isinstance(section.value, bytes):
                raise Malformed("a data section without octets")
            body_at = start if body_at < 0 else body_at
            body_end = reader.at
        elif body_at >= 0:
            raise Malformed("a body in the midst of other sections")
        sections.append((number, section.value))
    return sections, body_at, body_end


def _number(section):
    if not isinstance(section, Described):
        raise Malformed("a value where a section should be")
    number = section.descriptor
    if isinstance(number, Symbol):
        number = SECTION_NAMES.get(number, 0)
    if not isinstance(number, UInt64 | int) or not HEADER <= number <= FOOTER:
        raise Malformed("an unknown section")
    return int(number)


def _is_body(data):
    """Whether these octets are sections of a body and nothing else."""
    try:
        sections, body_at, _ = _sections(data)
    except Malformed:
        return False
    return body_at == 0 and bool(sections)


def _fields(sections):
    """Properties by name, from the sections by number."""
    header = _fill(sections.get(HEADER), 5)
    known = _fill(sections.get(PROPERTIES), 13)
    annotations = _map(sections.get(ANNOTATIONS))
    application = _map(sections.get(APPLICATION_PROPERTIES))
    headers = {}
    for name, value in annotations.items():
        if name == "x-cc":
            headers["CC"] = _field(value)
        elif name.startswith("x-") and not name.startswith(INTERNAL) and _fits(name):
            headers[name] = _field(value)
    for name, value in application.items():
        if _fits(name):
            headers.setdefault(str(name), _field(value))
    fields = {
        "content_type": _short(known[6]),
        "content_encoding": _short(known[7]),
        "delivery_mode": _octet(annotations.get("x-basic-delivery-mode") if header[0] is None else 1 + bool(header[0])),
        "priority": _octet(annotations.get("x-basic-priority") if header[1] is None else header[1]),
        "correlation_id": _message_id(known[5], "x-correlation-id", headers),
        "reply_to": _short(known[4]),
        "expiration": _short(annotations.get("x-basic-expiration") if header[2] is None else str(header[2])),
        "message_id": _message_id(known[0], "x-message-id", headers),
        "timestamp": known[9] if isinstance(known[9], Timestamp) else None,
        "type": _short(annotations.get("x-basic-type")),
        "user_id": _short(_text(known[1]) if isinstance(known[1], bytes) else None),
        "app_id": _short(known[10]),
    }
    # After the ids, which may have added one.
    fields["headers"] = headers or None
    return fields


def _fill(values, count):
    """A list's fields, with None for those that were left out."""
    if values is None:
        values = []
    if not isinstance(values, list):
        raise Malformed("a section that should be a list is none")
    return values[:count] + [None] * (count - len(values))


def _map(value):
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed("a section that should be a map is none")
    # Keys by number are of nobody's vocabulary that we know.
    return {str(key): item for key, item in value.items() if isinstance(key, str)}


def _fits(name):
    return len(name.encode("utf-8", "surrogateescape")) <= SHORT_STRING_MAX


def _short(value):
    """Text that a short string can hold, or None."""
    return str(value) if isinstance(value, str) and _fits(value) else None


def _octet(value):
    return int(value) if isinstance(value, int) and 0 <= value <= 255 else None


def _message_id(value, header, headers):
    """An id as a short string; what cannot be one goes into this header."""
    if isinstance(value, Uuid):
        return URN + str(value)
    if isinstance(value, UInt64):
        return str(int(value))
    if isinstance(value, bytes) or (isinstance(value, str) and not _fits(value)):
        headers.setdefault(header, _field(value))
        return None
    return _short(value)


def _field(value):
    """A value as a field of a table can hold it."""
    if isinstance(value, UInt64):
        number = int(value)
        return number if number < 1 << 63 else str(number)
    if value is None or isinstance(value, bool | Typed | int | float | bytes):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Uuid):
        return URN + str(value)
    if isinstance(value, Described):
        return _field(value.value)
    if isinstance(value, list):
        return [_field(item) for item in value]
    return {name: _field(item) for name, item in _map(value).items() if _fits(name)}
