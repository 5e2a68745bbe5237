"""A node's turn: what is written, sent and applied, and what of a peer's is refused."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from leveret.cluster.consensus.driver import NOWHERE, Driver, Limits, Offer, StoredGroup
from leveret.cluster.consensus.engine import Change, Members, make_engine, replica_id
from leveret.cluster.consensus.entry_log import EntryLog
from tests.simulation.engine_needed import engine_marks

pytestmark = engine_marks()

GROUP = 4
ALL = [replica_id(node, 0) for node in (1, 2, 3)]


class Node:
    """A driver whose disk syncs when it is told to, and whose packets lie in a list."""

    def __init__(self, number: int, limits: Limits | None = None) -> None:
        self.number = number
        self.payloads: list[bytes] = []
        self.readable = True
        self.tickets: list[int] = []
        self.sent: list[tuple[int, bytes, Sequence[bytes] | None]] = []
        self.applied: list[tuple[int, int, bytes]] = []
        self.roles: list[tuple[int, int, bool]] = []
        self.offers: list[Offer] = []
        self.members: list[Members] = []
        self.driver = Driver(make_engine(number), EntryLog(self, 0), self, self, limits)
        stored = StoredGroup(GROUP, replica_id(number, 0), ALL, [], (1, 0, 1), (1, 1), [], 1)
        self.driver.add_group(stored, 8, 2)

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> int:
        self.payloads.append(payload)
        return len(self.payloads) - 1

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None: ...

    def write_floor(self, *floor: object, anew: bool) -> None: ...

    def release(self, places: Sequence[int]) -> None: ...

    def read(self, group: int, index: int, term: int, place: int, length: int) -> bytes | None:
        return self.payloads[place] if self.readable else None

    def sync(self, ticket: int) -> None:
        self.tickets.append(ticket)

    def send(self, node: int, frame: bytes) -> None:
        self.sent.append((node, frame, None))

    def send_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        self.sent.append((node, frame, payloads))

    def apply(self, group: int, index: int, term: int, payload: bytes) -> None:
        self.applied.append((group, index, payload))

    def configured(self, group: int, index: int, members: Members) -> None:
        self.members.append(members)

    def led(self, group: int, leader: int, term: int, here: bool) -> None:
        self.roles.append((leader, term, here))

    def offered(self, offer: Offer) -> None:
        self.offers.append(offer)

    def installed(self, group: int, index: int) -> None: ...


def carry(nodes: dict[int, Node], turns: int = 60) -> None:
    for _ in range(turns):
        for node in nodes.values():
            node.driver.turn()
            while node.tickets:
                node.driver.synced(node.tickets.pop(0))
            sent, node.sent = node.sent, []
            for to, frame, payloads in sent:
                if to in nodes and payloads is None:
                    nodes[to].driver.received(node.number, frame)
                elif to in nodes and payloads is not None:
                    nodes[to].driver.received_carrier(node.number, frame, payloads)


def led_by_1(limits: Limits | None = None) -> dict[int, Node]:
    nodes = {number: Node(number, limits) for number in (1, 2, 3)}
    nodes[1].driver.engine.campaign(GROUP)
    carry(nodes)
    assert nodes[1].driver.groups[GROUP].leads
    return nodes


def test_payloads_travel_beside_the_engine_and_are_applied_everywhere() -> None:
    nodes = led_by_1()
    assert nodes[1].driver.propose(GROUP, b"hello") == (2, 3) and nodes[2].driver.propose(GROUP, b"no") == NOWHERE
    carry(nodes)
    for node in nodes.values():
        assert node.applied == [(GROUP, 2, b""), (GROUP, 3, b"hello")]
    assert nodes[1].driver.counters.proposed == 1 and nodes[2].driver.counters.refused == 1


def test_nothing_is_acknowledged_before_its_sync() -> None:
    nodes = led_by_1()
    nodes[1].driver.propose(GROUP, b"hello")
    nodes[1].driver.turn()
    [(_, frame, payloads)] = [packet for packet in nodes[1].sent if packet[0] == 2]
    nodes[2].sent.clear()
    nodes[2].driver.received_carrier(1, frame, payloads or [])
    nodes[2].driver.turn()
    assert nodes[2].sent == [] and len(nodes[2].tickets) == 1
    with pytest.raises(AssertionError, match="not the one that is running"):
        nodes[2].driver.synced(99)
    nodes[2].driver.synced(nodes[2].tickets.pop())
    assert [packet[0] for packet in nodes[2].sent] == [1]


def test_payloads_that_are_not_what_they_say_are_refused() -> None:
    nodes = led_by_1()
    nodes[1].driver.propose(GROUP, b"hello")
    nodes[1].driver.turn()
    frame = next(frame for to, frame, _ in nodes[1].sent if to == 2)
    for payloads in ([b"hellO"], [b"hello "], [], [b"hello", b"more"]):
        with pytest.raises(ValueError, match="payload"):
            nodes[2].driver.received_carrier(1, frame, payloads)
    with pytest.raises(ValueError, match="over the link of node 3"):
        nodes[2].driver.received_carrier(3, frame, [b"hello"])
    nodes[2].driver.turn()
    assert nodes[2].driver.log.groups[GROUP].last == 2


def test_a_leader_takes_so_much_and_no_more() -> None:
    nodes = led_by_1(Limits(uncommitted_bytes_max=10))
    driver = nodes[1].driver
    assert driver.propose(GROUP, b"a" * 30) != NOWHERE, "a large one goes alone"
    assert driver.propose(GROUP, b"b") == NOWHERE and driver.room(GROUP) == 0
    carry(nodes)
    assert driver.room(GROUP) == 10 and driver.propose(GROUP, b"b") != NOWHERE


def test_a_turn_applies_within_its_budget() -> None:
    nodes = led_by_1(Limits(apply_entries_max=2))
    driver = nodes[1].driver
    for number in range(7):
        driver.propose(GROUP, b"%d" % number)
    before = len(nodes[1].applied)
    seen = []
    for _ in range(40):
        carry(nodes, 1)
        seen.append(len(nodes[1].applied) - before)
    assert seen[-1] == 7 and all(later - earlier <= 2 for earlier, later in itertools.pairwise(seen))


def test_an_append_waits_until_its_payload_was_read() -> None:
    nodes = led_by_1()
    nodes[1].driver.propose(GROUP, b"hello")
    carry({number: nodes[number] for number in (1, 2)})
    nodes[1].readable = False
    carry(nodes, 4)
    nodes[1].driver.lost(3)
    for _ in range(4):
        nodes[1].driver.tick()
        carry(nodes, 4)
    assert nodes[1].driver.counters.carriers_postponed > 0 and (GROUP, 3, b"hello") not in nodes[3].applied
    nodes[1].readable = True
    for _ in range(6):
        nodes[1].driver.tick()
        carry(nodes, 4)
    assert (GROUP, 3, b"hello") in nodes[3].applied


def test_floors_follow_the_slowest_replica() -> None:
    nodes = led_by_1()
    nodes[1].driver.propose(GROUP, b"hello")
    carry(nodes)
    assert nodes[1].driver.raise_floor(GROUP) == 3
    nodes[1].driver.propose(GROUP, b"again")
    carry({number: nodes[number] for number in (1, 2)})
    assert nodes[1].driver.raise_floor(GROUP) == 3
    # A follower does not know who is behind: it keeps as much as may be wanted.
    assert nodes[2].driver.raise_floor(GROUP) == 1


def test_a_group_that_is_removed_and_made_anew_is_another_one() -> None:
    nodes = led_by_1()
    nodes[1].driver.propose(GROUP, b"hello")
    nodes[1].driver.turn()
    nodes[1].driver.remove_group(GROUP)
    stored = StoredGroup(GROUP, replica_id(1, 1), [], [], (0, 0, 0), (0, 0), [], 0)
    nodes[1].driver.add_group(stored, 8, 2)
    nodes[1].driver.turn()
    nodes[1].driver.synced(nodes[1].tickets.pop())
    assert nodes[1].driver.groups[GROUP].leads is False


def test_members_are_told() -> None:
    nodes = led_by_1()
    assert nodes[1].driver.change_members(GROUP, Change.REMOVE, ALL[2]) != NOWHERE
    carry(nodes)
    assert nodes[2].members == [(ALL[:2], [])]
