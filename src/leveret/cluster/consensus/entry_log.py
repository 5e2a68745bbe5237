"""The entries of a node's groups: where each is stored, which are still needed, and the payloads of the latest.

Owns no file: a LogStore (the node's journal) writes and reads. Called by the driver alone."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

CACHE_BYTES_MAX = 32 << 20


class LogStore(Protocol):
    """What is written counts in the order of the calls, and is on disk when a later `sync` is reported."""

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> int:
        """Where the entry is, for `read`; places only grow. It voids what the group has at this index and above."""

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None: ...

    def write_floor(
        self, group: int, index: int, term: int, voters: Sequence[int], learners: Sequence[int], anew: bool
    ) -> None:
        """The group's log begins above this entry; `anew` if everything that was there before is void."""

    def read(self, group: int, index: int, term: int, place: int, length: int) -> bytes | None:
        """The payload, or None while it is being read: then `EntryLog.keep` brings it."""

    def release(self, places: Sequence[int]) -> None:
        """Entries at these places are needed no more."""

    def sync(self, ticket: int) -> None:
        """Begins to sync; Driver.synced(ticket) is the answer."""


@dataclass(slots=True)
class StoredEntry:
    """An entry that a start has found. Its payload may stay on disk."""

    index: int
    term: int
    kind: int
    data: bytes
    place: int
    length: int


class GroupLog:
    """One group's entries above its floor, as columns."""

    __slots__ = ("applied", "floor", "floor_term", "lengths", "octets", "payloads", "places", "terms")

    def __init__(self, floor: int, floor_term: int) -> None:
        self.floor = floor
        self.floor_term = floor_term
        self.applied = floor
        self.terms = array("Q")
        self.places = array("Q")
        self.lengths = array("Q")
        # Of all payloads.
        self.octets = 0
        # Those in memory, by index.
        self.payloads: dict[int, bytes] = {}

    @property
    def last(self) -> int:
        return self.floor + len(self.terms)

    def term(self, index: int) -> int:
        """0 if the entry is not here."""
        if index == self.floor:
            return self.floor_term
        return self.terms[index - self.floor - 1] if self.floor < index <= self.last else 0

    def cut(self, index: int) -> int:
        """Drops the entries from this one on; octets of their payloads that were in memory."""
        freed = 0
        at = index - self.floor - 1
        for gone in range(index, self.last + 1):
            freed += len(self.payloads.pop(gone, b""))
        self.octets -= sum(self.lengths[at:])
        del self.terms[at:], self.places[at:], self.lengths[at:]
        return freed

    def raise_floor(self, index: int, term: int) -> int:
        """Drops the entries up to this one; octets of their payloads that were in memory."""
        count = index - self.floor
        freed = 0
        for gone in range(self.floor + 1, index + 1):
            freed += len(self.payloads.pop(gone, b""))
        self.octets -= sum(self.lengths[:count])
        del self.terms[:count], self.places[:count], self.lengths[:count]
        self.floor, self.floor_term = index, term
        return freed

    def behind(self, octets: int) -> int:
        """The largest applied index above which at least `octets` of payloads are kept; the floor if there are
        fewer."""
        spare = self.octets - octets
        index = self.floor
        while index < self.applied and self.lengths[index - self.floor] <= spare:
            spare -= self.lengths[index - self.floor]
            index += 1
        return index


class EntryLog:
    def __init__(self, store: LogStore, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.store = store
        self.groups: dict[int, GroupLog] = {}
        self.cache_bytes_max = cache_bytes_max
        self.cached_bytes = 0
        # Payloads in memory, oldest first: (group, index, term). What is not applied stays.
        self._cached: deque[tuple[int, int, int]] = deque()

    def open_group(self, group: int, floor: tuple[int, int], entries: Sequence[StoredEntry], applied: int) -> None:
        """What a start has found of a group; nothing is written."""
        assert group not in self.groups, f"group {group} is open"
        log = self.groups[group] = GroupLog(*floor)
        log.applied = applied
        for entry in entries:
            assert entry.index == log.last + 1, f"group {group}: entry {entry.index} after {log.last}"
            log.terms.append(entry.term)
            log.places.append(entry.place)
            log.lengths.append(entry.length)
            log.octets += entry.length

    def close_group(self, group: int) -> None:
        log = self.groups.pop(group, None)
        if log is not None:
            self.cached_bytes -= sum(map(len, log.payloads.values()))

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> None:
        log = self.groups[group]
        assert log.floor < index <= log.last + 1, f"group {group}: entry {index} after {log.last}, floor {log.floor}"
        assert index > log.applied, f"group {group}: entry {index} is applied and cannot be replaced"
        if index <= log.last:
            self.store.release(log.places[index - log.floor - 1 :])
            self.cached_bytes -= log.cut(index)
        log.places.append(self.store.append(group, index, term, kind, data, payload))
        log.terms.append(term)
        log.lengths.append(len(payload))
        log.octets += len(payload)
        self._cache(log, group, index, term, payload)

    def _cache(self, log: GroupLog, group: int, index: int, term: int, payload: bytes) -> None:
        if payload and index not in log.payloads:
            log.payloads[index] = payload
            self.cached_bytes += len(payload)
            self._cached.append((group, index, term))

    def keep(self, group: int, index: int, term: int, payload: bytes) -> None:
        """A payload that was read from disk, if the entry is still the one that it was read for."""
        log = self.groups.get(group)
        if log is not None and log.floor < index and log.term(index) == term:
            self._cache(log, group, index, term, payload)

    def payload(self, group: int, index: int, term: int) -> bytes | None:
        """None if it is being read, or if the entry is not here any more."""
        log = self.groups[group]
        if index <= log.floor or log.term(index) != term:
            return None
        found = log.payloads.get(index)
        if found is not None:
            return found
        at = index - log.floor - 1
        if log.lengths[at] == 0:
            return b""
        return self.store.read(group, index, term, log.places[at], log.lengths[at])

    def applied(self, group: int, index: int) -> None:
        self.groups[group].applied = index

    def trim_cache(self) -> None:
        """Lets go of payloads that every machine has seen, the oldest first, while there are too many."""
        while self.cached_bytes > self.cache_bytes_max and self._cached:
            group, index, term = self._cached[0]
            log = self.groups.get(group)
            if log is not None and log.term(index) == term and index in log.payloads:
                if index > log.applied:
                    return
                self.cached_bytes -= len(log.payloads.pop(index))
            self._cached.popleft()

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None:
        self.store.write_state(group, term, vote, commit)

    def restart_group(self, group: int, index: int, term: int, members: tuple[Sequence[int], Sequence[int]]) -> None:
        """State up to `index` was installed: the log goes on above it."""
        log = self.groups[group]
        self.store.release(log.places)
        self.cached_bytes -= log.cut(log.floor + 1)
        log.floor, log.floor_term, log.applied = index, term, index
        self.store.write_floor(group, index, term, *members, anew=True)

    def raise_floor(self, group: int, index: int, term: int, members: tuple[Sequence[int], Sequence[int]]) -> None:
        """Entries up to `index` are needed no more."""
        log = self.groups[group]
        assert log.floor <= index <= log.applied, f"group {group}: floor {index}, applied {log.applied}"
        if index > log.floor:
            self.store.release(log.places[: index - log.floor])
            self.cached_bytes -= log.raise_floor(index, term)
            self.store.write_floor(group, index, term, *members, anew=False)

    def place_floor(self) -> int | None:
        """No entry before this place is needed; None if there is no entry at all."""
        return min((log.places[0] for log in self.groups.values() if log.places), default=None)
