"""The disk of the simulation: records in one order, a sync that takes its time, and crashes that lose what it had not
reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from leveret.cluster.consensus.driver import StoredGroup
from leveret.cluster.consensus.entry_log import StoredEntry


@dataclass(slots=True)
class DiskGroup:
    """A group as its records say."""

    replica: int = 0
    floor: tuple[int, int] = (0, 0)
    voters: Sequence[int] = ()
    learners: Sequence[int] = ()
    hard: tuple[int, int, int] = (0, 0, 0)
    # The machine's state: of the floor, or later if it was installed.
    state: tuple[int, bytes] = (0, b"")
    entries: dict[int, StoredEntry] = field(default_factory=dict)


class Disk:
    """What survives of a node. As the driver's LogStore it writes; `groups` reads everything back."""

    def __init__(self, dice: Random, slow: float, at: Callable[..., None], now: Callable[[], int]) -> None:
        self.dice = dice
        self.slow = slow
        self.at = at
        self.now = now
        self.records: list[tuple[Any, ...]] = []
        self.synced = 0
        self.incarnation = 0
        # The state of the node's machine, asked for when a floor is written.
        self.machine_state: Callable[[int, int], tuple[int, bytes]] = lambda group, index: (index, b"")
        self.on_synced: Callable[[int], None] = lambda ticket: None
        self.on_append: Callable[[int, int, int, bytes, bytes], None] = lambda *entry: None
        # A mistake of the node: it says that it has synced when it has only begun.
        self.lies = False

    # ---- LogStore

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> int:
        self.records.append(("entry", group, index, term, kind, data, payload))
        self.on_append(group, index, term, data, payload)
        return len(self.records)

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None:
        self.records.append(("state", group, (term, vote, commit)))

    def write_floor(
        self, group: int, index: int, term: int, voters: Sequence[int], learners: Sequence[int], anew: bool
    ) -> None:
        state = self.machine_state(group, index)
        self.records.append(("floor", group, (index, term), tuple(voters), tuple(learners), anew, state))

    def release(self, places: Sequence[int]) -> None:
        """Everything is kept: a record is judged by what came after it."""

    def read(self, group: int, index: int, term: int, place: int, length: int) -> bytes | None:
        record = self.records[place - 1]
        assert record[:4] == ("entry", group, index, term), f"{record[:4]} where entry {index} of group {group} was"
        payload: bytes = record[6]
        assert len(payload) == length
        return payload

    def sync(self, ticket: int) -> None:
        delay = self.dice.randint(50, 200) if self.dice.random() < self.slow else self.dice.randint(1, 12)
        # The one that lies is told soon, but the disk is as slow as disks can be.
        self.at(self.now() + (1 if self.lies else delay), self._answer, self.incarnation, ticket, len(self.records))
        if self.lies:
            self.at(self.now() + 10 * delay, self._reach, self.incarnation, len(self.records))

    def _reach(self, incarnation: int, upto: int) -> None:
        if incarnation == self.incarnation:
            self.synced = max(self.synced, upto)

    def _answer(self, incarnation: int, ticket: int, upto: int) -> None:
        if incarnation == self.incarnation:
            if not self.lies:
                self.synced = max(self.synced, upto)
            self.on_synced(ticket)

    # ---- groups that come and go; on disk at once, as the catalog that they follow from

    def create(
        self, group: int, replica: int, floor: tuple[int, int], voters: Sequence[int], hard: tuple[int, int, int]
    ) -> None:
        self.records.append(("create", group, replica, floor, tuple(voters), hard))
        self.synced = len(self.records)

    def destroy(self, group: int) -> None:
        self.records.append(("destroy", group))

    def crash(self) -> None:
        """Unsynced records are lost, all of them or those behind some point."""
        self.incarnation += 1
        kept = self.synced
        if self.dice.random() < 0.5:
            kept = self.dice.randint(self.synced, len(self.records))
        del self.records[kept:]
        self.synced = len(self.records)

    def groups(self) -> dict[int, DiskGroup]:
        found: dict[int, DiskGroup] = {}
        for place, record in enumerate(self.records, 1):
            match record:
                case ("create", group, replica, floor, voters, hard):
                    found[group] = DiskGroup(replica, floor, voters, (), hard, (floor[0], b""))
                case ("destroy", group):
                    found.pop(group, None)
                case ("state", group, hard):
                    found[group].hard = hard
                case ("floor", group, floor, voters, learners, anew, state):
                    on_disk = found[group]
                    on_disk.floor, on_disk.voters, on_disk.learners, on_disk.state = floor, voters, learners, state
                    on_disk.entries = {} if anew else {i: e for i, e in on_disk.entries.items() if i > floor[0]}
                case ("entry", group, index, term, kind, data, payload):
                    entries = found[group].entries
                    for later in [later for later in entries if later >= index]:
                        del entries[later]
                    entries[index] = StoredEntry(index, term, kind, data, place, len(payload))
        return found

    @staticmethod
    def stored(group: int, on_disk: DiskGroup, forget_vote: bool = False) -> StoredGroup:
        term, vote, commit = on_disk.hard
        commit = max(commit, on_disk.floor[0])
        entries = [on_disk.entries[index] for index in sorted(on_disk.entries)]
        hard = (max(term, on_disk.floor[1]), 0 if forget_vote else vote, commit)
        voters, learners = on_disk.voters, on_disk.learners
        return StoredGroup(group, on_disk.replica, voters, learners, hard, on_disk.floor, entries, on_disk.floor[0])
