"""A node of the simulation: the real engine and driver on a fake disk and network, and a machine that keeps a digest of
all it applied. It crashes and starts again; what it then knows is what its disk has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leveret.cluster.consensus.driver import Driver, Limits, Offer
from leveret.cluster.consensus.engine import Members, make_engine, replica_id
from leveret.cluster.consensus.entry_log import EntryLog
from tests.simulation.disk import Disk

if TYPE_CHECKING:
    from tests.simulation.checkers import Call
    from tests.simulation.world import World

ELECTION_TICKS, HEARTBEAT_TICKS = 8, 2
# Small, so that installs, reads from disk and turns that do not end happen all the time.
LIMITS = Limits(uncommitted_bytes_max=400, apply_entries_max=4, apply_bytes_max=200, lag_bytes_max=300)
CACHE_BYTES = 150
State = tuple[int, bytes]


class Node:
    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.disk = Disk(world.dice, world.faults.slow_disk, world.at, lambda: world.now)
        self.disk.on_synced = self._synced
        self.disk.on_append = self._appended
        self.disk.machine_state = lambda group, index: self._state_at(group, index)
        self.disk.lies = "ack_before_sync" in world.mistakes
        self.up = False
        self.paused_until = 0
        self.incarnation = 0
        # Ticks come a little faster or slower than on other nodes.
        self.period = world.dice.randint(9, 11)
        self.states: dict[int, State] = {}
        self.replicas: dict[int, int] = {}
        self.leads: dict[int, int] = {}
        self.waiting: dict[tuple[int, int, int], Call] = {}
        self.members: dict[int, Members] = {}
        self.inbox: list[tuple[int, bytes, Sequence[bytes] | None]] = []

    # ---- life

    def start(self) -> None:
        self.incarnation += 1
        self.up = True
        self.states, self.leads, self.waiting, self.members, self.inbox = {}, {}, {}, {}, []
        # State that was fetched for an offer.
        self.staged: dict[int, State] = {}
        engine = make_engine(self.world.dice.getrandbits(64))
        self.log = EntryLog(self.disk, CACHE_BYTES)
        self.driver = Driver(engine, self.log, self, self, LIMITS)
        self.replicas = {}
        for group, on_disk in self.disk.groups().items():
            self.states[group] = on_disk.state
            self.replicas[group] = on_disk.replica
            stored = self.disk.stored(group, on_disk, "votes_twice" in self.world.mistakes)
            self.driver.add_group(stored, ELECTION_TICKS, HEARTBEAT_TICKS)
        self.world.at(self.world.now + self.world.dice.randint(1, 10), self._tick, self.incarnation)

    def crash(self) -> None:
        self.up = False
        self.incarnation += 1
        self.disk.crash()

    def create(self, group: int, serial: int, floor: tuple[int, int], voters: Sequence[int]) -> int:
        """A replica that has nothing, or what the group began with."""
        replica = replica_id(self.number, serial)
        self.disk.create(group, replica, floor, voters, (floor[1], 0, floor[0]))
        if self.up:
            self.states[group] = (floor[0], b"")
            self.replicas[group] = replica
            stored = self.disk.stored(group, self.disk.groups()[group])
            self.driver.add_group(stored, ELECTION_TICKS, HEARTBEAT_TICKS)
        return replica

    def destroy(self, group: int) -> None:
        self.disk.destroy(group)
        self.replicas.pop(group, None)
        self.leads.pop(group, None)
        if self.up:
            self.driver.remove_group(group)

    # ---- what happens to it

    def _tick(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        self.world.at(self.world.now + self.period, self._tick, incarnation)
        if self.world.now >= self.paused_until:
            self.driver.tick()
            if self.world.dice.random() < 0.2:
                for group in self.replicas:
                    self.driver.raise_floor(group)
            self._turn()

    def receive(self, source: int, packet: tuple[bytes, Sequence[bytes] | None]) -> None:
        if self.up:
            self.inbox.append((source, *packet))
            self._turn()

    def _synced(self, ticket: int) -> None:
        if self.up:
            self.driver.synced(ticket)
            self._turn()

    def link_lost(self, node: int) -> None:
        if self.up:
            self.driver.lost(node)

    def propose(self, call: Call) -> bool:
        term, index = self.driver.propose(call.group, call.payload)
        if index:
            self.waiting[call.group, index, term] = call
        self._turn()
        return bool(index)

    def _turn(self) -> None:
        if self.world.now < self.paused_until:
            return
        inbox, self.inbox = self.inbox, []
        for source, frame, payloads in inbox:
            if payloads is None:
                self.driver.received(source, frame)
            else:
                self.driver.received_carrier(source, frame, payloads)
        while self.driver.turn():
            pass

    def _appended(self, group: int, index: int, term: int, data: bytes, payload: bytes) -> None:
        before = self.log.groups[group].term(index - 1)
        self.world.checkers.appended(group, index, term, data, payload, before)
        if "applies_uncommitted" in self.world.mistakes:
            self._check_applied(group, index, term, payload, b"")

    # ---- Links

    def send(self, node: int, frame: bytes) -> None:
        self.world.network.send(self.number, node, (frame, None))

    def send_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        self.world.network.send(self.number, node, (frame, tuple(payloads)))

    # ---- Machine

    def apply(self, group: int, index: int, term: int, payload: bytes) -> None:
        self._apply(group, index, term, payload)
        call = self.waiting.pop((group, index, term), None)
        if call is not None:
            self.world.answer(call, index)

    def _apply(self, group: int, index: int, term: int, payload: bytes) -> None:
        if "applies_uncommitted" in self.world.mistakes:
            self.states[group] = (index, b"")
            return
        applied, digest = self.states[group]
        if index <= applied:
            # An install has brought the state of a later index.
            return
        assert index == applied + 1, f"entry {index} of group {group} after {applied}"
        digest = hashlib.blake2b(digest + payload, digest_size=8).digest()
        self.states[group] = (index, digest)
        self._check_applied(group, index, term, payload, digest)

    def _check_applied(self, group: int, index: int, term: int, payload: bytes, digest: bytes) -> None:
        now_in = self.driver.groups[group].term
        self.world.checkers.applied(group, self.replicas[group], now_in, index, term, payload, digest)

    def _state_at(self, group: int, index: int) -> State:
        """What a restart begins with: the state of the floor, or a later one that was installed."""
        applied, digest = self.states[group]
        return (
            (index, self.world.checkers.history(group).digests.get(index, b""))
            if index < applied
            else (applied, digest)
        )

    def configured(self, group: int, index: int, members: Members) -> None:
        self.members[group] = members
        self.world.configured(group, index, members)

    def led(self, group: int, leader: int, term: int, here: bool) -> None:
        self.leads.pop(group, None)
        # What became of earlier proposals nobody says any more.
        self.waiting = {key: call for key, call in self.waiting.items() if key[0] != group or (here and key[2] == term)}
        if here:
            self.leads[group] = term
            self.world.checkers.elected(group, term, self.replicas[group])
            log = self.log.groups[group]
            terms = {index: log.term(index) for index in range(log.floor + 1, log.last + 1)}
            self.world.checkers.has_log(group, term, self.replicas[group], log.floor, terms)

    def offered(self, offer: Offer) -> None:
        """Asks the one that offers for its state, and has it after a while, if both live."""
        self.world.at(self.world.now + self.world.dice.randint(5, 60), self._fetch, self.incarnation, offer)

    def _fetch(self, incarnation: int, offer: Offer) -> None:
        source = self.world.nodes[offer.sender]
        if incarnation != self.incarnation or not source.up or offer.group not in self.replicas:
            return
        state = source.states.get(offer.group, (0, b""))
        if state[0] < offer.index:
            self.world.at(self.world.now + 10, self._fetch, incarnation, offer)
            return
        self.staged[offer.group] = max(state, self.states[offer.group])
        self.driver.accept(offer)
        self._turn()

    def installed(self, group: int, index: int) -> None:
        self.world.installs += 1
        self.states[group] = self.staged.pop(group)
        assert self.states[group][0] >= index, f"group {group}: {self.states[group][0]} where {index} was offered"
