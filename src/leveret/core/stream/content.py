"""A stream's entry as basic.deliver sends it: straight from the octets of its record, with one header more, which says
where in the stream it is, and another that says when it came, for whoever asked for that."""

import cython

from leveret.core.codec.field_types import Int64
from leveret.core.codec.message import HIDDEN_HEADERS, make_message
from leveret.core.codec.properties import parse_properties

if not cython.compiled:
    from leveret.core.codec.content import write_deliver
    from leveret.core.codec.method_ids import BASIC
    from leveret.core.codec.pure_octets import (
        copy_octets,
        read_u16,
        read_u32,
        read_u64,
        take,
        write_u16,
        write_u32,
        write_u64,
    )
    from leveret.core.log.records import MESSAGE_HEAD_BYTES
    from leveret.core.stream.log import REWRITE

    HEADERS_BIT = 0x2000
    CONTENT_TYPE_BIT = 0x8000
    CONTENT_ENCODING_BIT = 0x4000

OFFSET_HEADER = "x-stream-offset"
# The field in a table: its name, its type (a signed number of 64 bits); the offset follows.
OFFSET_FIELD = b"\x0fx-stream-offsetl"
OFFSET_FIELD_BYTES = 25
# The same with the moment, in milliseconds since 1970.
STAMP_HEADER = "x-stream-timestamp"
STAMP_FIELD = b"\x12x-stream-timestampl"
STAMP_FIELD_BYTES = 28


def write_entry(out, channel, prefix, tag, data, at, payload_max, stamped):
    """Writes a delivery of the entry at data[at], which is an AMQP 0-9-1 message."""
    p = data
    if p[at + 17] & REWRITE or read_u32(p, at + 28) > payload_max:
        return write_slowly(out, channel, prefix, tag, data, at, payload_max, stamped)
    prefix_size = len(prefix)
    address_size = read_u16(p, at + 18)
    properties_size = read_u32(p, at + 24)
    size = read_u32(p, at + 28)
    out.reserve(108 + prefix_size + address_size + properties_size + size)
    q = out.p
    to = out.end
    q[to] = 1
    write_u16(q, to + 1, channel)
    write_u32(q, to + 3, prefix_size + 9 + address_size)
    source = prefix
    copy_octets(q, to + 7, source, 0, prefix_size)
    to += 7 + prefix_size
    write_u64(q, to, tag)
    q[to + 8] = 0
    from_ = at + MESSAGE_HEAD_BYTES
    copy_octets(q, to + 9, p, from_, address_size)
    from_ += address_size
    to += 9 + address_size
    q[to] = 0xCE
    q[to + 1] = 2
    write_u16(q, to + 2, channel)
    length_at = to + 4
    write_u32(q, to + 8, BASIC)
    write_u64(q, to + 12, size)
    to = write_properties(q, to + 20, p, from_, properties_size, read_u64(p, at + 8), stamped, read_u64(p, at + 32))
    write_u32(q, length_at, to - length_at - 4)
    from_ += properties_size
    q[to] = 0xCE
    to += 1
    if size > 0:
        q[to] = 3
        write_u16(q, to + 1, channel)
        write_u32(q, to + 3, size)
        copy_octets(q, to + 7, p, from_, size)
        to += 7 + size
        q[to] = 0xCE
        to += 1
    return out.wrote(to - out.end)


def write_properties(q, to, p, at, size, offset, stamped, stamp):
    """Copies properties with the offset as one header more; where they end. They were checked when they came."""
    flags = read_u16(p, at)
    headers_at = at + 2
    if flags & CONTENT_TYPE_BIT:
        headers_at += 1 + p[headers_at]
    if flags & CONTENT_ENCODING_BIT:
        headers_at += 1 + p[headers_at]
    copy_octets(q, to, p, at, headers_at - at)
    write_u16(q, to, flags | HEADERS_BIT)
    to += headers_at - at
    table_size = 0
    rest = headers_at
    if flags & HEADERS_BIT:
        table_size = read_u32(p, headers_at)
        rest = headers_at + 4 + table_size
    write_u32(q, to, table_size + OFFSET_FIELD_BYTES + (STAMP_FIELD_BYTES if stamped else 0))
    to += 4
    copy_octets(q, to, p, rest - table_size, table_size)
    to += table_size
    field = OFFSET_FIELD
    copy_octets(q, to, field, 0, 17)
    write_u64(q, to + 17, offset)
    to += OFFSET_FIELD_BYTES
    if stamped:
        field = STAMP_FIELD
        copy_octets(q, to, field, 0, 20)
        write_u64(q, to + 20, stamp)
        to += STAMP_FIELD_BYTES
    copy_octets(q, to, p, rest, at + size - rest)
    return to + at + size - rest


def write_slowly(out, channel, prefix, tag, data, at, payload_max, stamped):
    """The same for one whose headers are not for clients as they are, or whose body needs several frames."""
    message = message_at(data, at)
    p = data
    dressed = with_offset(message, read_u64(p, at + 8), stamped)
    return write_deliver(out, channel, prefix, tag, False, dressed, payload_max)


def message_at(data, at):
    """The message of the entry at data[at], which is an AMQP 0-9-1 message, as it was published."""
    p = data
    properties_at = at + MESSAGE_HEAD_BYTES + read_u16(p, at + 18)
    body_at = properties_at + read_u32(p, at + 24)
    properties = parse_properties(take(p, properties_at, body_at))
    body = take(p, body_at, body_at + read_u32(p, at + 28))
    message = make_message(take(p, at + MESSAGE_HEAD_BYTES, properties_at), properties, body)
    message.stamp = read_u64(p, at + 32)
    return message


def with_offset(message, offset, stamped):
    """The message as a consumer is to see it: with its offset, whatever it had, and without what is not for clients."""
    ours = (*HIDDEN_HEADERS, OFFSET_HEADER, STAMP_HEADER) if stamped else (*HIDDEN_HEADERS, OFFSET_HEADER)
    headers = {name: value for name, value in message.properties.headers().items() if name not in ours}
    headers[OFFSET_HEADER] = Int64(offset)
    if stamped:
        headers[STAMP_HEADER] = Int64(message.stamp)
    return make_message(message.address, message.properties.replace({"headers": headers}), message.body)
