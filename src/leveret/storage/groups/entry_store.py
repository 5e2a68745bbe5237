"""The entries of consensus groups on disk: the LogStore that cluster.consensus writes to, on top of the node's log.

Each record counts as live in its segment until it is voided, superseded or below its group's floor; so segments go as
they do for messages. A group's last state and floor are small and may be all that keeps a segment: they are written
again when the reclaimer asks for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from leveret.core.log.journal import Journal
from leveret.core.log.shared_log import SharedLog
from leveret.runtime.files import SHORTAGES
from leveret.runtime.log import get_logger
from leveret.runtime.read_errors import read_around
from leveret.storage.groups.found_groups import GROUP_HEAD_BYTES, FoundGroup, GroupRecord, decode_group_record
from leveret.storage.segment_files import SegmentFiles

log = get_logger(__name__)

OFFSET_MASK = 0xFFFFFFFF

State = tuple[int, int, int]
Floor = tuple[int, int, tuple[int, ...], tuple[int, ...]]


class EntryStore:
    """`on_synced` gets the ticket of a sync; `on_read` a payload that `read` asked for (group, index, term, payload);
    `on_damage` the group and index of an entry that the disk does not give back."""

    def __init__(self, journal: Journal, files: SegmentFiles, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._journal = journal
        self._files = files
        self._run = run
        self._shared = SharedLog(journal, lambda ticket: self.on_synced(ticket))
        self.on_synced: Callable[[int], None] = lambda _ticket: None
        self.on_read: Callable[[int, int, int, bytes], None] = lambda *_entry: None
        self.on_damage: Callable[[int, int], None] = lambda _group, _index: None
        # The last state and floor of each group, and where they are.
        self._states: dict[int, tuple[State, int]] = {}
        self._floors: dict[int, tuple[Floor, int]] = {}
        # How many entries each segment holds that are needed.
        self._entries: dict[int, int] = {}
        self._reading: set[int] = set()
        self.reads_total = 0
        self.damaged_total = 0

    def recovered(self, groups: Iterable[FoundGroup]) -> None:
        """What the log had at the start: every record of it counts as live."""
        for found in groups:
            if found.state_at:
                self._states[found.group] = found.hard, found.state_at
            if found.floor_at:
                self._floors[found.group] = (*found.floor, found.voters, found.learners), found.floor_at
            for place in found.places():
                self._journal.segments[place >> 32].live += 1
            for entry in found.entries:
                self._count(entry.place, 1)

    @property
    def entries_total(self) -> int:
        total: int = self._shared.entries_total
        return total

    @property
    def entry_bytes_total(self) -> int:
        total: int = self._shared.entry_bytes_total
        return total

    # ---- cluster.consensus.entry_log.LogStore

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> int:
        place: int = self._shared.append_entry(group, index, term, kind, data, payload)
        self._count(place, 1)
        return place

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None:
        _, before = self._states.get(group, (None, 0))
        self._states[group] = (term, vote, commit), self._shared.append_state(group, term, vote, commit)
        if before:
            self._shared.release(before)

    def write_floor(
        self, group: int, index: int, term: int, voters: Sequence[int], learners: Sequence[int], anew: bool
    ) -> None:
        _, before = self._floors.get(group, (None, 0))
        place = self._shared.append_floor(group, index, term, voters, learners, anew)
        self._floors[group] = (index, term, tuple(voters), tuple(learners)), place
        if before:
            self._shared.release(before)

    def release(self, places: Iterable[int]) -> None:
        for place in places:
            self._count(place, -1)
            self._shared.release(place)

    def sync(self, ticket: int) -> None:
        self._shared.sync(ticket)

    def read(self, group: int, index: int, term: int, place: int, length: int) -> bytes | None:
        """Always None: `on_read` brings it. What is not written yet is asked for again later."""
        if place not in self._reading and self._journal.is_written(place):
            self._reading.add(place)
            self._run(self._fetch(group, index, term, place, length))
        return None

    async def _fetch(self, group: int, index: int, term: int, place: int, length: int) -> None:
        segment = self._journal.segments.get(place >> 32)
        try:
            if segment is None:
                return
            fd = self._files.hold_reader(segment)
            try:
                record = await self._files.run(_read_record, fd, place & OFFSET_MASK, segment.salt)
            finally:
                self._files.release_reader(segment.id)
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            # Asked for again.
            return
        finally:
            self._reading.discard(place)
        self.reads_total += 1
        if record is None or (record.group, record.index, record.term) != (group, index, term):
            self.damaged_total += 1
            log.error("an entry cannot be read", file=str(segment.path), group=group, index=index)
            self.on_damage(group, index)
            return
        payload = record.rest[record.count :]
        assert len(payload) == length, f"entry {index} of group {group} has {len(payload)} octets, not {length}"
        self.on_read(group, index, term, payload)

    # ---- space

    def _count(self, place: int, change: int) -> None:
        number = place >> 32
        count = self._entries.get(number, 0) + change
        if count:
            self._entries[number] = count
        else:
            self._entries.pop(number, None)

    def has_entries(self, segment: int) -> bool:
        """Whether the segment must stay for entries, which are never moved: floors rise."""
        return segment in self._entries

    def move_from(self, segment: int) -> None:
        """Writes states and floors of this segment again, at the end of the log."""
        for group, (state, place) in list(self._states.items()):
            if place >> 32 == segment:
                self.write_state(group, *state)
        for group, (floor, place) in list(self._floors.items()):
            if place >> 32 == segment:
                self.write_floor(group, *floor, anew=False)


def _read_record(fd: int, offset: int, salt: int) -> GroupRecord | None:
    """Blocks."""
    head, holes = read_around(fd, GROUP_HEAD_BYTES, offset)
    length = int.from_bytes(head[4:8], "big")
    if holes or length < GROUP_HEAD_BYTES:
        return None
    octets, holes = read_around(fd, length, offset)
    return None if holes else decode_group_record(bytes(octets), salt)
