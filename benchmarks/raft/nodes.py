"""Nodes for the benchmark of the consensus engine: the engine alone, and the engine under its driver, both in
memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leveret.cluster.consensus.descriptor import describe
from leveret.cluster.consensus.driver import Driver, Offer, StoredGroup
from leveret.cluster.consensus.engine import Members, make_engine, replica_id
from leveret.cluster.consensus.entry_log import EntryLog

VOTERS = [replica_id(node, 0) for node in (1, 2, 3)]
TIMEOUT, HEARTBEAT = 8, 2
Packet = tuple[int, bytes, Sequence[bytes] | None]


class EngineNode:
    """Syncs in no time; hands packets to `exchange`."""

    def __init__(self, number: int, groups: int) -> None:
        self.number = number
        self.engine = make_engine(number)
        self.committed = 0
        self.octets = 0
        self.descriptor = describe(bytes(1024), 1)
        for group in range(1, groups + 1):
            self.engine.add_group(group, VOTERS[number - 1], VOTERS, [], (1, 0, 1), (1, 1), [], 1, TIMEOUT, HEARTBEAT)

    def propose(self, group: int) -> None:
        assert self.engine.propose(group, self.descriptor)[1]

    def turn(self) -> list[Packet]:
        ready = self.engine.ready()
        self.committed += len(ready.committed)
        packets: list[Packet] = [(node, frame, None) for node, frame in ready.frames.items()]
        packets += [(node, frame, ()) for node, _, _, _, frame in ready.carriers]
        packets += [(node, frame, None) for node, frame in self.engine.persisted(ready.numbers).items()]
        return packets

    def receive(self, sender: int, frame: bytes, payloads: Sequence[bytes] | None) -> None:
        self.engine.step(sender, frame, payloads is not None)

    def forget(self, groups: int) -> None:
        """Entries that all have, but for some."""
        for group in range(1, groups + 1):
            self.engine.compact(group, max(0, self.engine.status(group).applied - 8))


class DriverNode(EngineNode):
    """With payloads, through the driver."""

    def __init__(self, number: int, groups: int) -> None:
        super().__init__(number, 0)
        self.payload = bytes(1024)
        self.payloads: list[bytes] = []
        self.packets: list[Packet] = []
        self.ticket = 0
        self.driver = Driver(self.engine, EntryLog(self), self, self)
        for group in range(1, groups + 1):
            stored = StoredGroup(group, VOTERS[number - 1], VOTERS, [], (1, 0, 1), (1, 1), [], 1)
            self.driver.add_group(stored, TIMEOUT, HEARTBEAT)

    def propose(self, group: int) -> None:
        assert self.driver.propose(group, self.payload)[1]

    def turn(self) -> list[Packet]:
        self.driver.turn()
        if self.ticket:
            ticket, self.ticket = self.ticket, 0
            self.driver.synced(ticket)
        packets, self.packets = self.packets, []
        return packets

    def receive(self, sender: int, frame: bytes, payloads: Sequence[bytes] | None) -> None:
        if payloads is None:
            self.driver.received(sender, frame)
        else:
            self.driver.received_carrier(sender, frame, payloads)

    def forget(self, groups: int) -> None:
        for group in range(1, groups + 1):
            self.driver.raise_floor(group)

    # ---- what the driver is given

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> int:
        return index

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None: ...

    def write_floor(
        self, group: int, index: int, term: int, voters: Sequence[int], learners: Sequence[int], anew: bool
    ) -> None: ...

    def read(self, group: int, index: int, term: int, place: int, length: int) -> bytes | None:
        return self.payload

    def release(self, places: Sequence[int]) -> None: ...

    def sync(self, ticket: int) -> None:
        self.ticket = ticket

    def send(self, node: int, frame: bytes) -> None:
        self.packets.append((node, frame, None))

    def send_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        self.packets.append((node, frame, payloads))

    def apply(self, group: int, index: int, term: int, payload: bytes) -> None:
        self.committed += 1

    def configured(self, group: int, index: int, members: Members) -> None: ...

    def led(self, group: int, leader: int, term: int, here: bool) -> None: ...

    def offered(self, offer: Offer) -> None: ...

    def installed(self, group: int, index: int) -> None: ...


def exchange(nodes: Mapping[int, EngineNode]) -> None:
    """Carries packets until there are none."""
    busy = True
    while busy:
        busy = False
        for node in nodes.values():
            for to, frame, payloads in node.turn():
                busy = True
                node.octets += len(frame) + sum(map(len, payloads or ()))
                nodes[to].receive(node.number, frame, payloads)


def elect(nodes: Mapping[int, EngineNode], groups: int) -> None:
    for group in range(1, groups + 1):
        nodes[1].engine.campaign(group)
    exchange(nodes)
