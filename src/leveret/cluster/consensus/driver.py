"""A turn of the node for all its groups: proposals into the engine, what it asks for to log, links and machines.

Pure: time comes in as ticks, frames by `received`, the end of a sync by `synced`; everything else is said to the links,
the log and the machine that were given. Nothing is sent that speaks of what is not on disk, because the engine holds it
back until `persisted`; no entry gets into the engine whose payload is not here and checked, so an acknowledged entry is
a stored one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leveret.cluster.consensus.descriptor import DESCRIPTOR_BYTES, describe, describes
from leveret.cluster.consensus.engine import Change, Engine, EntryKind, Members, Place, Ready
from leveret.cluster.consensus.entry_log import EntryLog, StoredEntry

NOWHERE: Place = (0, 0)


class Links(Protocol):
    """The way to other nodes. In order per node, or lost together with everything after it. When a connection to or
    from a node is made anew, what was sent or awaited may be lost: `Driver.lost`. What an older connection brings is
    dropped."""

    def send(self, node: int, frame: bytes) -> None: ...

    def send_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        """One message, and the payloads of its entries in order."""


class Machine(Protocol):
    """What becomes of committed entries."""

    def apply(self, group: int, index: int, term: int, payload: bytes) -> None:
        """An entry; an empty payload is a leader's first entry and says nothing."""

    def configured(self, group: int, index: int, members: Members) -> None: ...

    def led(self, group: int, leader: int, term: int, here: bool) -> None: ...

    def offered(self, offer: Offer) -> None:
        """A leader has forgotten what this replica lacks. To be answered by `Driver.accept` once the group's state up
        to the offer's index, or a later one, is here and on disk."""

    def installed(self, group: int, index: int) -> None:
        """The log goes on above this index: what the machine has must be the state that was offered."""


@dataclass(frozen=True, slots=True)
class Offer:
    group: int
    index: int
    sender: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Limits:
    # Payloads of one group that its leader has proposed and that are not committed.
    uncommitted_bytes_max: int = 8 << 20
    # What one turn applies; the rest waits for the next one.
    apply_entries_max: int = 1024
    apply_bytes_max: int = 1 << 20
    # Payloads that are kept for a replica that is behind; one that is further behind gets an install.
    lag_bytes_max: int = 64 << 20


@dataclass(slots=True)
class Counters:
    """What a driver has done, for operators."""

    turns: int = 0
    proposed: int = 0
    refused: int = 0
    appended: int = 0
    appended_bytes: int = 0
    committed: int = 0
    applied: int = 0
    syncs: int = 0
    carriers_sent: int = 0
    # Appends that were not sent because their payloads were not in memory.
    carriers_postponed: int = 0
    installs: int = 0


@dataclass(slots=True)
class GroupState:
    """What the driver knows of a group."""

    leader: int = 0
    term: int = 0
    leads: bool = False
    # Payloads proposed here and not committed, by index.
    uncommitted: dict[int, int] = field(default_factory=dict)
    uncommitted_bytes: int = 0
    # Committed entries that the machine has not seen: (index, term, kind).
    to_apply: deque[tuple[int, int, int]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as a start has found it; members are those of the floor."""

    group: int
    replica: int
    voters: Sequence[int]
    learners: Sequence[int]
    hard: tuple[int, int, int]
    floor: Place  # index, term
    entries: Sequence[StoredEntry]
    applied: int


class Driver:
    def __init__(
        self, engine: Engine, log: EntryLog, links: Links, machine: Machine, limits: Limits | None = None
    ) -> None:
        self.engine = engine
        self.log = log
        self.links = links
        self.machine = machine
        self.limits = limits or Limits()
        self.counters = Counters()
        self.groups: dict[int, GroupState] = {}
        # Payloads of entries that the engine was given since its last ready, by (group, index, term).
        self._arriving: dict[tuple[int, int, int], bytes] = {}
        # Readys whose entries are written: those that wait for the next sync, and those that the running one covers.
        self._written: list[tuple[int, int]] = []
        self._syncing: list[tuple[int, int]] | None = None
        self._ticket = 0

    def add_group(self, stored: StoredGroup, timeout: int, heartbeat: int) -> None:
        entries = [(entry.index, entry.term, entry.kind, entry.data) for entry in stored.entries]
        self.engine.add_group(
            stored.group, stored.replica, stored.voters, stored.learners, stored.hard, stored.floor, entries,
            stored.applied, timeout, heartbeat,
        )  # fmt: skip
        self.log.open_group(stored.group, stored.floor, stored.entries, stored.applied)
        self.groups[stored.group] = GroupState()

    def remove_group(self, group: int) -> None:
        self.engine.remove_group(group)
        self.log.close_group(group)
        self.groups.pop(group, None)
        # A group of this id that is made anew counts its readys from the beginning.
        self._written = [number for number in self._written if number[0] != group]
        if self._syncing is not None:
            self._syncing = [number for number in self._syncing if number[0] != group]

    # ---- what comes in

    def tick(self) -> None:
        self.engine.tick()

    def room(self, group: int) -> int:
        """Octets of payloads that may be proposed now."""
        return max(0, self.limits.uncommitted_bytes_max - self.groups[group].uncommitted_bytes)

    def propose(self, group: int, payload: bytes, level: int = 1) -> Place:
        """Term and index of the entry, or NOWHERE if this node does not lead the group or has too much uncommitted."""
        assert payload, "an empty payload would be taken for a leader's first entry"
        state = self.groups[group]
        # A payload that is larger than the limit goes alone.
        place = NOWHERE
        if not state.uncommitted or len(payload) <= self.room(group):
            place = self.engine.propose(group, describe(payload, level))
        if place == NOWHERE:
            self.counters.refused += 1
            return NOWHERE
        term, index = place
        self._arriving[group, index, term] = payload
        state.uncommitted[index] = len(payload)
        state.uncommitted_bytes += len(payload)
        self.counters.proposed += 1
        return place

    def change_members(self, group: int, change: Change, replica: int) -> Place:
        """One change at a time: NOWHERE until the one before is applied."""
        return self.engine.propose_conf_change(group, change, replica)

    def received(self, sender: int, frame: bytes) -> None:
        """Messages that nothing travels with; a ValueError says that the link must be closed."""
        self.engine.step(sender, frame)

    def received_carrier(self, sender: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        """A message with what travels with it; a ValueError says that the link must be closed."""
        group, offered, entries = self.engine.open(sender, frame)
        carried = [entry for entry in entries if entry[2] == EntryKind.NORMAL and len(entry[3]) == DESCRIPTOR_BYTES]
        if len(carried) != len(payloads):
            raise ValueError(f"group {group}: {len(carried)} entries with {len(payloads)} payloads from node {sender}")
        for (index, _, _, data), payload in zip(carried, payloads, strict=True):
            if not describes(data, payload):
                raise ValueError(f"group {group}: payload of entry {index} from node {sender} is not what it says")
        if group not in self.groups:
            return
        if offered > self.engine.status(group).committed:
            self.machine.offered(Offer(group, offered, sender, frame))
            return
        for (index, term, _, _), payload in zip(carried, payloads, strict=True):
            self._arriving[group, index, term] = payload
        self.engine.step(sender, frame, opened=True)

    def accept(self, offer: Offer) -> None:
        """The state that was offered is here."""
        if offer.group in self.groups:
            self.engine.step(offer.sender, offer.frame, opened=True)

    def lost(self, node: int) -> None:
        """What was sent to a node may not have arrived, or not its answer."""
        self.engine.unreachable(node)

    def synced(self, ticket: int) -> None:
        """Everything that was written before this sync began is on disk."""
        assert ticket == self._ticket and self._syncing is not None, f"sync {ticket} is not the one that is running"
        numbers, self._syncing = self._syncing, None
        for node, frame in self.engine.persisted(numbers).items():
            self.links.send(node, frame)

    # ---- a turn

    def turn(self) -> bool:
        """Does what the engine asks for; True if there is more to do at once."""
        self.counters.turns += 1
        ready = self.engine.ready()
        self._write(ready)
        self._send(ready)
        self._note_roles(ready)
        self._take_committed(ready)
        if self._syncing is None and self._written:
            self._syncing, self._written = self._written, []
            self._ticket += 1
            self.counters.syncs += 1
            self.log.store.sync(self._ticket)
        behind = self._apply()
        self.log.trim_cache()
        return behind or ready.more

    def _write(self, ready: Ready) -> None:
        for group, index, term, members in ready.installs:
            self.counters.installs += 1
            self.groups[group].to_apply.clear()
            self.machine.installed(group, index)
            self.log.restart_group(group, index, term, members)
        for group, index, term, kind, data in ready.appends:
            payload = b""
            if kind == EntryKind.NORMAL and data:
                payload = self._arriving[group, index, term]
            self.log.append(group, index, term, kind, data, payload)
            self.counters.appended += 1
            self.counters.appended_bytes += len(payload)
        # The engine has handed out every entry that it took; what is left was there before, or was refused.
        self._arriving.clear()
        for state in ready.states:
            self.log.write_state(*state)
        self._written += ready.numbers

    def _send(self, ready: Ready) -> None:
        for node, frame in ready.frames.items():
            self.links.send(node, frame)
        for node, group, _, places, frame in ready.carriers:
            payloads = [self.log.payload(group, index, term) for index, term in places]
            found = [payload for payload in payloads if payload is not None]
            if len(found) < len(payloads):
                self.counters.carriers_postponed += 1
                self.engine.unreachable(node, group)
                continue
            self.counters.carriers_sent += 1
            self.links.send_carrier(node, frame, found)

    def _note_roles(self, ready: Ready) -> None:
        for group, leader, term, leads in ready.roles:
            state = self.groups[group]
            if not leads or term != state.term:
                state.uncommitted.clear()
                state.uncommitted_bytes = 0
            state.leader, state.term, state.leads = leader, term, leads
            self.machine.led(group, leader, term, leads)

    def _take_committed(self, ready: Ready) -> None:
        self.counters.committed += len(ready.committed)
        for group, index, term, kind, _ in ready.committed:
            state = self.groups[group]
            state.to_apply.append((index, term, kind))
            state.uncommitted_bytes -= state.uncommitted.pop(index, 0)
        for group, index, members in ready.configurations:
            self.machine.configured(group, index, members)

    def _apply(self) -> bool:
        """Brings committed entries to the machine within the budget of a turn; True if some are left that could go
        on."""
        entries, octets = self.limits.apply_entries_max, self.limits.apply_bytes_max
        for group, state in self.groups.items():
            while state.to_apply:
                if entries <= 0 or octets <= 0:
                    return True
                index, term, kind = state.to_apply[0]
                payload = self.log.payload(group, index, term) if kind == EntryKind.NORMAL else b""
                if payload is None:
                    break
                state.to_apply.popleft()
                self.machine.apply(group, index, term, payload)
                self.log.applied(group, index)
                self.counters.applied += 1
                entries, octets = entries - 1, octets - len(payload)
        return False

    # ---- floors

    def raise_floor(self, group: int) -> int:
        """Forgets entries that every replica has, or that are too far back; the floor."""
        log = self.log.groups[group]
        floor = log.behind(self.limits.lag_bytes_max)
        progress = self.engine.status(group).progress
        if progress:
            floor = max(floor, min(matched for _, matched, _, _ in progress))
        floor = min(floor, log.applied)
        if floor > log.floor:
            index, term, members = self.engine.compact(group, floor)
            self.log.raise_floor(group, index, term, members)
        return log.floor
