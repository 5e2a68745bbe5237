"""Consensus groups as a start finds them in the log: state, floor, and the entries above it.

Notes say where the records are; the later record of an index wins. An entry of an earlier term than the floor's, or
than the entry before it, was voided by a record that has gone with its segment, and is left out. An entry that is
missing although a later one, or the commit index, says that it was here makes the group damaged: a replica that lost
synced entries must not vote under its old identity. Blocks."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from leveret.core.log.record_check import checked_length
from leveret.runtime.read_errors import read_around
from leveret.storage.survey import FoundSegment

SHARED, STATE, FLOOR = 8, 9, 10
GROUP_HEAD_BYTES = 48
_HEAD = struct.Struct(">IIQBBHIQQQ")
_KIND_MASK = 0xFF

# (location, group, index, length, kind and flags), see core.log.rebuild
Note = tuple[int, int, int, int, int]


@dataclass(slots=True)
class GroupEntry:
    """An entry whose payload of `length` octets stays on disk, at `place`."""

    index: int
    term: int
    kind: int
    descriptor: bytes
    place: int
    length: int


@dataclass(slots=True)
class FoundGroup:
    group: int
    # Term, vote, commit index.
    hard: tuple[int, int, int] = (0, 0, 0)
    # Index and term; the members are those of this moment.
    floor: tuple[int, int] = (0, 0)
    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    entries: list[GroupEntry] = field(default_factory=list)
    # Where the records of state and floor are; 0 if there is none.
    state_at: int = 0
    floor_at: int = 0
    # What is lost of it; empty if nothing is.
    damage: str = ""

    def places(self) -> Iterator[int]:
        """Of all records that are needed."""
        yield from (at for at in (self.state_at, self.floor_at) if at)
        yield from (entry.place for entry in self.entries)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A record of a group, as octets say it."""

    kind: int
    flags: int
    count: int
    more: int
    group: int
    term: int
    index: int
    rest: bytes


def decode_group_record(octets: bytes, salt: int) -> GroupRecord | None:
    """None if this is not one whole, good record of a group."""
    length = checked_length(octets, 0, len(octets), salt)
    if length < GROUP_HEAD_BYTES:
        return None
    _, _, _, kind, flags, count, more, group, term, index = _HEAD.unpack_from(octets)
    if not SHARED <= kind <= FLOOR:
        return None
    return GroupRecord(kind, flags, count, more, group, term, index, octets[GROUP_HEAD_BYTES:length])


def find_groups(notes: Iterable[Note], segments: dict[int, FoundSegment]) -> dict[int, FoundGroup]:
    """All groups of the log. Raises OSError where a segment cannot be opened."""
    drafts: dict[int, _Draft] = {}
    # Locations grow with the sequence of records.
    for location, group, index, length, what in sorted(notes):
        draft = drafts.setdefault(group, _Draft())
        draft.note(location, index, length, what)
    with _Records(segments) as records:
        return {group: draft.finish(group, records) for group, draft in drafts.items()}


class _Draft:
    """What the notes say of a group: (location, length) of the records that count."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[int, int]] = {}
        self.state: tuple[int, int] | None = None
        self.floor: tuple[int, int] | None = None
        self.floor_index = 0

    def note(self, location: int, index: int, length: int, what: int) -> None:
        kind = what & _KIND_MASK
        if kind == STATE:
            self.state = location, length
        elif kind == FLOOR:
            self.floor, self.floor_index = (location, length), index
            anew = what > _KIND_MASK
            self.entries = {} if anew else {at: record for at, record in self.entries.items() if at > index}
        else:
            for later in [at for at in self.entries if at >= index] if index in self.entries else ():
                del self.entries[later]
            self.entries[index] = location, length

    def finish(self, group: int, records: _Records) -> FoundGroup:
        found = FoundGroup(group)
        if self.state is not None:
            record = records.read(*self.state, group)
            if record is None:
                found.damage = "its term and vote cannot be read"
            else:
                (commit,) = struct.unpack(">Q", record.rest)
                found.hard, found.state_at = (record.term, record.index, commit), self.state[0]
        if self.floor is not None:
            record = records.read(*self.floor, group)
            if record is None:
                found.damage = "where its entries begin cannot be read"
                return found
            members = struct.unpack(f">{len(record.rest) // 8}Q", record.rest)
            found.floor, found.floor_at = (record.index, record.term), self.floor[0]
            found.voters, found.learners = members[: record.count], members[record.count :]
        self._take_entries(found, records)
        return found

    def _take_entries(self, found: FoundGroup, records: _Records) -> None:
        index, term = found.floor
        for at in sorted(self.entries):
            record = records.read(*self.entries[at], found.group)
            if record is None:
                found.damage = f"entry {at} cannot be read"
                return
            if record.term < term:
                # Voided: every later one is of the same or an earlier term.
                break
            if at != index + 1:
                found.damage = f"entry {index + 1} is missing"
                return
            index, term = at, record.term
            descriptor = record.rest[: record.count]
            length = len(record.rest) - record.count
            found.entries.append(GroupEntry(at, term, record.flags, descriptor, self.entries[at][0], length))
        if found.hard[2] > index:
            found.damage = f"entries {index + 1} to {found.hard[2]} were committed and are missing"


class _Records:
    """Reads single records; each segment is opened once."""

    def __init__(self, segments: dict[int, FoundSegment]) -> None:
        self._segments = segments
        self._fd = -1
        self._open = 0

    def __enter__(self) -> _Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, location: int, length: int, group: int) -> GroupRecord | None:
        number, offset = location >> 32, location & 0xFFFFFFFF
        segment = self._segments[number]
        if self._fd < 0 or self._open != number:
            self._close()
            self._fd, self._open = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC), number
        octets, holes = read_around(self._fd, length, offset)
        record = None if holes else decode_group_record(bytes(octets), segment.salt)
        return record if record is not None and record.group == group else None
