"""What nodes say to each other as octets: frames of a bounded size, longer messages in parts, heartbeats in between.

A frame is a head (u32 length of what follows the head, u8 kind, u64 subject, all big-endian) and its octets. The
subject is a group, a pipe or the number of a question. All frames of a message but the last have MORE in their kind;
only heartbeats may come between them, because they go before everything else. Pure. Whatever is unknown or out of
bounds is a FrameError, which ends the connection."""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterator

HEAD = struct.Struct("!IBQ")
HEAD_BYTES = HEAD.size
FRAME_BYTES_MAX = 1 << 20
# The largest payload of an entry, with the message of the engine that it travels with.
MESSAGE_BYTES_MAX = 40 << 20
# What is sent in one frame: a heartbeat waits for no more than a few of these.
PART_BYTES = 64 << 10
MORE = 0x80
STAMP = struct.Struct("!Q")


class FrameError(ValueError):
    """Octets that no node of ours would send."""


class Kind(enum.IntEnum):
    # The handshake.
    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    # The time at which it was sent, by the clock of the one that dialled, and the same back.
    HEARTBEAT = 4
    ECHO = 5
    # Joining, without a certificate.
    ASK_AUTHORITY = 8
    AUTHORITY = 9
    JOIN = 10
    JOINED = 11
    # Messages of the engine, and one of them with the payloads of its entries.
    CONSENSUS = 16
    CARRIER = 17
    # Of a pipe.
    TRAFFIC = 32
    QUESTION = 33
    ANSWER = 34
    NO_ANSWER = 35


BEATS = frozenset((Kind.HEARTBEAT, Kind.ECHO))
Message = tuple[int, int, bytes]  # kind, subject, octets


def frame(kind: int, subject: int, octets: bytes | memoryview = b"") -> bytes:
    """One frame; for what is known to be short."""
    assert len(octets) <= FRAME_BYTES_MAX, f"frame of {len(octets)} octets"
    return HEAD.pack(len(octets), kind, subject) + octets


def beat(kind: Kind, stamp: int) -> bytes:
    return frame(kind, 0, STAMP.pack(stamp))


def parts(kind: int, subject: int, octets: bytes, part_bytes: int = PART_BYTES) -> Iterator[tuple[bytes, int, int]]:
    """The frames of a message: the head of each, and from where to where in the octets it goes."""
    size = len(octets)
    assert size <= MESSAGE_BYTES_MAX, f"message of {size} octets"
    start = 0
    while size - start > part_bytes:
        yield HEAD.pack(part_bytes, kind | MORE, subject), start, start + part_bytes
        start += part_bytes
    yield HEAD.pack(size - start, kind, subject), start, size


class FrameReader:
    """Cuts messages out of chunks. Holds at most one frame and one message that have not come completely."""

    def __init__(
        self,
        allowed: Collection[int],
        frame_bytes_max: int = FRAME_BYTES_MAX,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        self._allowed = frozenset(allowed)
        self._frame_bytes_max = frame_bytes_max
        self._message_bytes_max = message_bytes_max
        # A frame whose end has not come.
        self._rest = bytearray()
        # A message whose last part has not come: its kind and subject, and what has come.
        self._begun: tuple[int, int] | None = None
        self._gathered = bytearray()
        self.frames_total = 0

    def feed(self, chunk: memoryview | bytes | bytearray) -> list[Message]:
        """The messages that this chunk completes, in order."""
        found: list[Message] = []
        view = memoryview(chunk)
        if self._rest:
            view = self._complete(view, found)
        while len(view) >= HEAD_BYTES:
            length, kind, subject = self._head(view)
            if len(view) < HEAD_BYTES + length:
                break
            self._take(kind, subject, view[HEAD_BYTES : HEAD_BYTES + length], found)
            view = view[HEAD_BYTES + length :]
        self._rest += view
        return found

    def _complete(self, view: memoryview, found: list[Message]) -> memoryview:
        """The frame that began in earlier chunks; what is left of this one."""
        rest = self._rest
        if len(rest) < HEAD_BYTES:
            missing = HEAD_BYTES - len(rest)
            rest += view[:missing]
            view = view[missing:]
            if len(rest) < HEAD_BYTES:
                return view
        length, kind, subject = self._head(rest)
        missing = HEAD_BYTES + length - len(rest)
        rest += view[:missing]
        if len(rest) < HEAD_BYTES + length:
            return view[:0]
        self._rest = bytearray()
        self._take(kind, subject, memoryview(rest)[HEAD_BYTES:], found)
        return view[missing:]

    def _head(self, octets: memoryview | bytearray) -> tuple[int, int, int]:
        length, kind, subject = HEAD.unpack_from(octets)
        if kind & ~MORE not in self._allowed:
            raise FrameError(f"a frame of kind {kind & ~MORE}, which does not belong here")
        if length > self._frame_bytes_max:
            raise FrameError(f"a frame of {length} octets, at most {self._frame_bytes_max}")
        if kind in BEATS and length != STAMP.size:
            raise FrameError(f"a heartbeat of {length} octets")
        return length, kind, subject

    def _take(self, kind: int, subject: int, octets: memoryview, found: list[Message]) -> None:
        self.frames_total += 1
        if kind in BEATS:
            found.append((kind, subject, bytes(octets)))
            return
        if self._begun is None and not kind & MORE:
            found.append((kind, subject, bytes(octets)))
            return
        self._gather(kind, subject, octets, found)

    def _gather(self, kind: int, subject: int, octets: memoryview, found: list[Message]) -> None:
        plain = kind & ~MORE
        if plain in BEATS or (kind & MORE and not octets):
            raise FrameError(f"a part of kind {plain} with {len(octets)} octets")
        if self._begun is None:
            self._begun = plain, subject
        elif self._begun != (plain, subject):
            raise FrameError(f"kind {plain} of {subject} within a message of kind {self._begun[0]} of {self._begun[1]}")
        if len(self._gathered) + len(octets) > self._message_bytes_max:
            raise FrameError(f"a message of more than {self._message_bytes_max} octets")
        self._gathered += octets
        if not kind & MORE:
            found.append((plain, subject, bytes(self._gathered)))
            self._begun = None
            self._gathered = bytearray()
