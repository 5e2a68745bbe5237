"""What the load publishes: bodies that say who sent them and that show every damaged octet.

A body opens with its publisher, its sequence, its size and a checksum. The rest is cut out of a pool that
also holds what stores have mistaken for their own structures: runs of NUL and 0xFF and words that look like magics."""

import random
import struct
import zlib
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">2sHIII")
_MARK: Final = b"lv"
BODY_BYTES_MIN: Final = _HEADER.size
BODY_BYTES_MAX: Final = 8 * 1024
LARGE_BODY_BYTES: Final = 200 * 1024
# One message in so many is large: larger than a frame, and than a good part of a small segment.
_LARGE_EVERY: Final = 500


def _pool() -> bytes:
    dice = random.Random(19)
    pieces = [dice.randbytes(2000), bytes(3000), b"\xff" * 3000, b"LVRT LEVERET SEGMENT lv" * 40]
    return b"".join(dice.choice(pieces) for _ in range(180))


_POOL: Final = _pool()


class MessageId(NamedTuple):
    """A message of the load: the number of its publisher and its place among what that one published."""

    publisher: int
    sequence: int


def body_of(message: MessageId, size: int) -> bytes:
    """The body of this message, with so many octets."""
    at = (message.sequence * 977 + message.publisher) % (len(_POOL) - size)
    filler = _POOL[at : at + size - BODY_BYTES_MIN]
    return _HEADER.pack(_MARK, message.publisher, message.sequence, size, _checksum(message, filler)) + filler


def _checksum(message: MessageId, filler: bytes) -> int:
    return zlib.crc32(filler, message.publisher << 20 ^ message.sequence)


def id_of(body: bytes) -> MessageId | None:
    """Which message this is; None if it is not, to the last octet, what a publisher sent."""
    if len(body) < BODY_BYTES_MIN:
        return None
    mark, publisher, sequence, size, checksum = _HEADER.unpack_from(body)
    message = MessageId(publisher, sequence)
    if mark != _MARK or size != len(body) or checksum != _checksum(message, body[BODY_BYTES_MIN:]):
        return None
    return message


def random_size(dice: random.Random) -> int:
    """Mostly small, up to 8 KiB, now and then large."""
    if dice.randrange(_LARGE_EVERY) == 0:
        return LARGE_BODY_BYTES
    return BODY_BYTES_MIN + int((BODY_BYTES_MAX - BODY_BYTES_MIN) * dice.random() ** 3)
