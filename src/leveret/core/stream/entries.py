"""What the stream protocol put into a stream, as AMQP 0-9-1 messages.

Its messages are AMQP 1.0 encoded, one a record or many in a sub-batch, which may be compressed. Plain Python: one that
is read by the other protocol's clients is the exception."""

import zlib

from leveret.core.amqp10 import from_amqp10
from leveret.core.message import make_message
from leveret.core.properties import parse_properties

HEAD_BYTES = 40
SUBBATCH = 2
UNCOMPRESSED = 0
GZIP = 1
# Nothing that says it is larger is taken apart: a few octets can ask for gigabytes.
EXPANDED_BYTES_MAX = 64 * 1024 * 1024


def expand(data, at):
    """The messages of the entry at data[at] as (offset, message). One that cannot be taken apart, because it is damaged
    or compressed in a way that we cannot read, is one message with the octets as they are."""
    offset = int.from_bytes(data[at + 8 : at + 16], "big")
    count = int.from_bytes(data[at + 20 : at + 24], "big")
    address_end = at + HEAD_BYTES + int.from_bytes(data[at + 18 : at + 20], "big")
    body_at = address_end + int.from_bytes(data[at + 24 : at + 28], "big")
    body = bytes(data[body_at : body_at + int.from_bytes(data[at + 28 : at + 32], "big")])
    address = bytes(data[at + HEAD_BYTES : address_end])
    stamp = int.from_bytes(data[at + 32 : at + 40], "big")
    parts = [body]
    if data[at + 17] & SUBBATCH:
        parts = split(body, data[address_end], int.from_bytes(data[address_end + 1 : address_end + 5], "big"), count)
    return [(offset + i, foreign_message(address, part, stamp)) for i, part in enumerate(parts)]


def split(body, codec, size, count):
    if codec == GZIP and size <= EXPANDED_BYTES_MAX:
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, size + 1)
        except zlib.error:
            return [body]
    elif codec != UNCOMPRESSED:
        return [body]
    parts = []
    at = 0
    while len(body) - at >= 4 and len(parts) < count:
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        parts.append(body[at + 4 : end])
        at = end
    return parts if len(parts) == count and at <= len(body) else [body]


def foreign_message(address, encoded, stamp):
    raw, body = from_amqp10(encoded)
    message = make_message(address, parse_properties(raw), body)
    message.stamp = stamp
    return message
