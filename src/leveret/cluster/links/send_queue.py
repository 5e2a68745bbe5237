"""What waits to be sent on one connection: heartbeats before everything, the rest in its order, within a bound.

Pure: `fill` moves frames into a write buffer while that has room. A long message goes in parts, so that a heartbeat
waits for what the write buffer holds and no longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from leveret.cluster.links.frames import PART_BYTES, parts

# What a waiting message costs beside its octets.
OVERHEAD_BYTES = 100
# Heartbeats that may wait: one that is not read sends no more.
BEATS_MAX = 16
# Parts that are shorter are copied into the write buffer, others are referred to.
COPIED_BYTES = 4096


class SendQueue:
    def __init__(self, bytes_max: int, part_bytes: int = PART_BYTES) -> None:
        self.bytes_max = bytes_max
        self._part_bytes = part_bytes
        self._beats: deque[bytes] = deque()
        self._waiting: deque[tuple[int, int, bytes]] = deque()
        # The frames of the message that is being sent, which is the first of those that wait.
        self._current: Iterator[tuple[bytes, int, int]] | None = None
        # Of whole messages: one counts until its last part is moved.
        self.octets = 0
        self.frames_total = 0

    def __bool__(self) -> bool:
        return bool(self._beats or self._waiting)

    def has_room(self, size: int) -> bool:
        """A message that is larger than the bound goes alone."""
        return not self._waiting or self.octets + size + OVERHEAD_BYTES <= self.bytes_max

    def put(self, kind: int, subject: int, octets: bytes) -> bool:
        """False, and nothing is put, if there is no room."""
        if not self.has_room(len(octets)):
            return False
        self._waiting.append((kind, subject, octets))
        self.octets += len(octets) + OVERHEAD_BYTES
        return True

    def put_beat(self, frame: bytes) -> bool:
        """False if too many wait: nothing is sent any more, and the other side goes on."""
        if len(self._beats) >= BEATS_MAX:
            return False
        self._beats.append(frame)
        return True

    def fill(self, write_buffer: Any) -> None:
        """Moves what the write buffer (core.codec.write_buffer.WriteBuffer) takes until it is congested."""
        while self._beats:
            write_buffer.write(self._beats.popleft())
            self.frames_total += 1
        while self._waiting and not write_buffer.congested:
            kind, subject, octets = self._waiting[0]
            if self._current is None:
                self._current = parts(kind, subject, octets, self._part_bytes)
            following = next(self._current, None)
            if following is None:
                self._current = None
                self._waiting.popleft()
                self.octets -= len(octets) + OVERHEAD_BYTES
                continue
            head, start, end = following
            self.frames_total += 1
            write_buffer.write(head)
            if end - start < COPIED_BYTES:
                write_buffer.write(octets[start:end])
            else:
                write_buffer.refer(octets, start, end)
