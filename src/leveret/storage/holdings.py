"""What a data directory should hold, as its manifest says: every segment of the log and of streams. Pure: no file is
touched here; storage.manifest reads and writes the events, storage.missing compares them with what is there.

An event is 56 octets:

    0  u8   kind                                 24 u64  where it ends (SEALED, SYNCED)
    8  u64  stream, 0 for the log                32 u64  first sequence or offset (SEALED)
    16 u64  number of the segment, 0 for         40 u64  last sequence, or next offset of a stream (SEALED, SYNCED)
            all of a stream (REMOVED)            48 u64  messages (SEALED)

STARTED has the identity of the directory in 8 and 16 instead."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

CREATED = 1
SEALED = 2
# On its way out: recorded before its file is deleted or moved to quarantine.
REMOVED = 3
# Everything of the segment up to `end` and `last` was synced.
SYNCED = 4
# It was missing at a start, which has reported it.
LOST = 5
STARTED = 6
STOPPED = 7
THE_LOG = 0
# The number that stands for all segments of a stream.
ALL = 0
_EVENT = struct.Struct(">B7xQQQQQQ")


@dataclass(frozen=True, slots=True)
class Event:
    kind: int
    stream: int = THE_LOG
    number: int = 0
    end: int = 0
    first: int = 0
    last: int = 0
    messages: int = 0

    def encode(self) -> bytes:
        return _EVENT.pack(self.kind, self.stream, self.number, self.end, self.first, self.last, self.messages)


def decode_event(payload: bytes) -> Event | None:
    """None if it is nothing that this version knows."""
    if len(payload) != _EVENT.size:
        return None
    event = Event(*_EVENT.unpack(payload))
    return event if CREATED <= event.kind <= STOPPED else None


@dataclass(slots=True)
class Held:
    """One segment, as far as the manifest knows it: `last` is 0 as long as nothing is known to have been synced."""

    sealed: bool = False
    end: int = 0
    first: int = 0
    last: int = 0
    messages: int = 0
    lost: bool = False


@dataclass(slots=True)
class Holdings:
    # By stream, 0 for the log, and number.
    segments: dict[int, dict[int, Held]] = field(default_factory=dict)
    # Of the log the last sequence, of a stream the next offset, up to which everything was synced.
    synced: dict[int, int] = field(default_factory=dict)
    # The identity of the directory in which a broker started, until it stops in good order.
    running_in: tuple[int, int] | None = None
    # The highest number that a segment of the log ever had.
    last_number: int = 0

    def of(self, stream: int) -> dict[int, Held]:
        return self.segments.get(stream, {})

    def apply(self, event: Event) -> None:
        if event.kind == SYNCED and event.stream != THE_LOG and event.stream not in self.segments:
            # The stream was deleted meanwhile.
            return
        known = self.segments.setdefault(event.stream, {}) if event.kind < STARTED else {}
        if event.stream == THE_LOG:
            self.last_number = max(self.last_number, event.number if event.kind < STARTED else 0)
        if event.kind == CREATED:
            known[event.number] = Held()
        elif event.kind == SEALED:
            known[event.number] = Held(True, event.end, event.first, event.last, event.messages)
            self._synced_to(event)
        elif event.kind == SYNCED:
            self._take_synced(event, known)
        elif event.kind == REMOVED:
            self._remove(event, known)
        elif event.kind == LOST:
            if event.number in known:
                known[event.number].lost = True
        elif event.kind == STARTED:
            self.running_in = (event.stream, event.number)
        else:
            self.running_in = None

    def _take_synced(self, event: Event, known: dict[int, Held]) -> None:
        held = known.get(event.number)
        if held is not None and not held.sealed and not held.lost:
            held.end, held.last = max(held.end, event.end), max(held.last, event.last)
        self._synced_to(event)

    def _synced_to(self, event: Event) -> None:
        self.synced[event.stream] = max(self.synced.get(event.stream, 0), event.last)

    def _remove(self, event: Event, known: dict[int, Held]) -> None:
        known.pop(event.number, None)
        if event.number == ALL and event.stream != THE_LOG:
            del self.segments[event.stream]
            self.synced.pop(event.stream, None)

    def events(self) -> Iterable[Event]:
        """The shortest list that comes to the same."""
        for stream, known in self.segments.items():
            for number, held in known.items():
                yield Event(CREATED, stream, number)
                if held.sealed:
                    yield Event(SEALED, stream, number, held.end, held.first, held.last, held.messages)
                elif held.last:
                    yield Event(SYNCED, stream, number, held.end, 0, held.last)
                if held.lost:
                    yield Event(LOST, stream, number)
        for stream, last in self.synced.items():
            yield Event(SYNCED, stream, 0, 0, 0, last)
        if self.last_number and self.last_number not in self.of(THE_LOG):
            yield Event(REMOVED, THE_LOG, self.last_number)
        if self.running_in is not None:
            yield Event(STARTED, *self.running_in)
