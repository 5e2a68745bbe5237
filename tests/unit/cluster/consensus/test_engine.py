"""The binding: what it gives out, what it refuses, and that nothing from a peer ends the process."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.consensus.descriptor import describe
from leveret.cluster.consensus.engine import MISSING, Change, Engine, make_engine, node_of, replica_id
from leveret.errors import StartupError
from tests.simulation.engine_needed import engine_marks

pytestmark = engine_marks()

GROUP = 7
ALL = [replica_id(node, 0) for node in (1, 2, 3)]
DESCRIPTOR = describe(b"payload", 1)


def cluster(*groups: int) -> dict[int, Engine]:
    engines = {node: make_engine(node) for node in (1, 2, 3)}
    for node, engine in engines.items():
        for group in groups or (GROUP,):
            engine.add_group(group, replica_id(node, 0), ALL, [], (1, 0, 1), (1, 1), [], 1, 8, 2)
    return engines


def settle(
    engines: dict[int, Engine], committed: dict[int, list[Any]] | None = None, frames: list[Any] | None = None
) -> None:
    """Carries everything between the engines, whose disks are fast, until nothing moves."""
    moved = True
    while moved:
        moved = False
        for node, engine in engines.items():
            ready = engine.ready()
            out = [(to, frame, False) for to, frame in ready.frames.items()]
            out += [(to, frame, True) for to, _, _, _, frame in ready.carriers]
            if committed is not None:
                committed.setdefault(node, []).extend(ready.committed)
            out += [(to, frame, False) for to, frame in engine.persisted(ready.numbers).items()]
            moved = moved or bool(out or ready.more or ready.numbers)
            for to, frame, opened in out:
                if frames is not None:
                    frames.append((node, to, frame, opened))
                if to in engines:
                    engines[to].step(node, frame, opened)


def leading(*groups: int) -> dict[int, Engine]:
    engines = cluster(*groups)
    for group in groups or (GROUP,):
        engines[1].campaign(group)
    settle(engines)
    return engines


def test_an_entry_is_committed_on_all_nodes() -> None:
    engines, committed = leading(), {}
    term, index = engines[1].propose(GROUP, DESCRIPTOR)
    assert (term, index) == (2, 3)
    settle(engines, committed)
    assert committed == {node: [(GROUP, 3, 2, 0, DESCRIPTOR)] for node in engines}
    assert engines[2].propose(GROUP, DESCRIPTOR) == (0, 0)
    status = engines[1].status(GROUP)
    assert status.leads and status.role == "leader" and status.committed == 3 and status.leader == ALL[0]
    assert [row[:3] for row in status.progress] == [(replica, 3, "replicate") for replica in ALL]


def test_what_a_follower_says_waits_for_its_disk() -> None:
    engines = leading()
    engines[1].propose(GROUP, DESCRIPTOR)
    [carrier] = [carrier for carrier in engines[1].ready().carriers if carrier[0] == 2]
    assert carrier[1:4] == (GROUP, 0, [(3, 2)])
    assert engines[2].open(1, carrier[4]) == (GROUP, 0, [(3, 2, 0, DESCRIPTOR)])
    engines[2].step(1, carrier[4], True)
    ready = engines[2].ready()
    assert ready.appends == [(GROUP, 3, 2, 0, DESCRIPTOR)] and not ready.frames and len(ready.numbers) == 1
    assert list(engines[2].persisted(ready.numbers)) == [1]
    with pytest.raises(ValueError, match="not handed out, or was reported before"):
        engines[2].persisted(ready.numbers)


def test_many_groups_share_a_frame() -> None:
    engines = leading(1, 2, 3)
    for _ in range(2):
        engines[1].tick()
    ready = engines[1].ready()
    assert sorted(ready.frames) == [2, 3] and engines[2].step(1, ready.frames[2]) == 3


def test_entries_never_come_without_their_payloads() -> None:
    engines = leading()
    engines[1].propose(GROUP, DESCRIPTOR)
    frame = engines[1].ready().carriers[0][4]
    with pytest.raises(ValueError, match="without what travels along"):
        engines[2].step(1, frame)


def test_members_come_and_go() -> None:
    engines, new = leading(), replica_id(4, 1)
    engines[4] = make_engine(4)
    engines[4].add_group(GROUP, new, [], [], (0, 0, 0), (0, 0), [], 0, 8, 2)
    assert engines[1].propose_conf_change(GROUP, Change.ADD_LEARNER, new) != (0, 0)
    assert engines[1].propose_conf_change(GROUP, Change.ADD_VOTER, new) == (0, 0), "one at a time"
    for _ in range(6):
        settle(engines)
        engines[1].tick()
    # It has nothing, so it is offered state; `settle` takes it as if it had been fetched.
    status = engines[4].status(GROUP)
    assert status.role == "learner" and status.floor > 1 and list(status.learners) == [new]
    engines[1].propose_conf_change(GROUP, Change.ADD_VOTER, new)
    settle(engines)
    assert engines[4].status(GROUP).role == "follower"
    engines[1].propose_conf_change(GROUP, Change.REMOVE, ALL[2])
    settle(engines)
    assert list(engines[2].status(GROUP).voters) == [*ALL[:2], new]
    with pytest.raises(ValueError, match="transfer its leadership first"):
        engines[1].propose_conf_change(GROUP, Change.REMOVE, ALL[0])


def test_leadership_is_transferred() -> None:
    engines = leading()
    assert not engines[1].transfer_leader(GROUP, replica_id(9, 9)) and not engines[2].transfer_leader(GROUP, ALL[1])
    assert engines[1].transfer_leader(GROUP, ALL[1])
    settle(engines)
    assert engines[2].status(GROUP).leads and not engines[1].status(GROUP).leads


def test_a_restart_takes_members_from_floor_and_entries() -> None:
    engine = make_engine(1)
    change = bytes([0x10, 2, 0x18, 9])  # adds replica 9 as a learner
    engine.add_group(1, 5, [5], [], (2, 5, 3), (1, 1), [(2, 1, 1, change), (3, 2, 0, b"")], 2, 8, 2)
    status = engine.status(1)
    assert (list(status.voters), list(status.learners), list(status.floor_learners)) == ([5], [9], [])
    assert engine.compact(1, 2) == (2, 1, ([5], [9]))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"entries": [(3, 1, 0, b"")]}, "entry 3 where 2 follows"),
        ({"entries": [(2, 9, 0, b"")]}, "term 9"),
        ({"entries": [(2, 1, 2, b"")]}, "kind 2"),
        ({"entries": [(2, 1, 0, b"short")]}, "5 octets"),
        ({"hard": (1, 0, 9)}, "committed 9"),
        ({"applied": 2}, "applied 2"),
        ({"voters": [1, 1]}, "each once"),
        ({"heartbeat": 0}, "heartbeat after 0"),
        ({"replica": 0}, "replica 0"),
    ],
)  # fmt: skip
def test_a_group_that_cannot_be_is_refused(changed: dict[str, Any], text: str) -> None:
    group = {
        "group": 1, "replica": 1, "voters": [1], "learners": [], "hard": (1, 0, 1), "floor": (1, 1), "entries": [],
        "applied": 1, "timeout": 8, "heartbeat": 2,
    }  # fmt: skip
    engine = make_engine(1)
    with pytest.raises(ValueError, match=text):
        engine.add_group(**{**group, **changed})
    assert engine.groups() == []
    with pytest.raises(KeyError, match="no group 1 here"):
        engine.status(1)


def test_a_replica_that_lost_entries_fails_its_engine() -> None:
    from leveret_raft import EngineFailed

    engines = leading()
    engines[1].propose(GROUP, DESCRIPTOR)
    settle(engines)
    # Node 2 comes back with the log that it had before.
    engines[2] = make_engine(2)
    engines[2].add_group(GROUP, ALL[1], ALL, [], (2, ALL[0], 1), (1, 1), [], 1, 8, 2)
    for _ in range(2):
        engines[1].tick()
    frame = engines[1].ready().frames[2]
    with pytest.raises(EngineFailed, match=r"group 7: .*synced entries are lost") as failure:
        engines[2].step(1, frame)
    assert failure.value.group == GROUP
    with pytest.raises(EngineFailed, match="group 7"):
        engines[2].ready()


def recorded() -> list[tuple[int, int, bytes, bool]]:
    """Frames of every kind, as an election, entries, a change of members and a transfer make them."""
    engines, frames = cluster(1, 2), []
    for group in (1, 2):
        engines[1].campaign(group)
    settle(engines, frames=frames)
    for _ in range(3):
        engines[1].propose(1, DESCRIPTOR)
        engines[1].tick()
        settle(engines, frames=frames)
    engines[1].propose_conf_change(2, Change.ADD_LEARNER, replica_id(4, 1))
    settle(engines, frames=frames)
    engines[1].transfer_leader(1, ALL[2])
    settle(engines, frames=frames)
    return frames


def test_no_mutated_frame_ends_the_process() -> None:
    """Flipped, cut, joined and spliced frames are refused or taken; an engine that fails says of which group."""
    from leveret_raft import EngineFailed

    frames, dice = [frame for frame in recorded() if frame[1] in (1, 2, 3)], random.Random(5)
    engines, refused, taken, failed = cluster(1, 2), 0, 0, 0
    for round in range(6000):
        source, target, frame, _ = dice.choice(frames)
        octets = bytearray(frame)
        for _ in range(dice.randint(1, 4)):
            what = dice.random()
            if what < 0.6 and octets:
                octets[dice.randrange(len(octets))] ^= 1 << dice.randrange(8)
            elif what < 0.8:
                del octets[dice.randrange(len(octets) + 1) :]
            else:
                octets += dice.choice(frames)[2]
        try:
            engines[target].step(source, bytes(octets), True)
            taken += 1
        except ValueError:
            refused += 1
        except EngineFailed as failure:
            assert failure.group in (1, 2)
            failed += 1
            engines = cluster(1, 2)
        if round % 20 == 0:
            try:
                for engine in engines.values():
                    engine.tick()
                    engine.persisted(engine.ready().numbers)
            except EngineFailed:
                engines = cluster(1, 2)
    assert refused > 2000 and taken > 300, (refused, taken, failed)


@given(st.binary(max_size=300))
def test_no_octets_end_the_process(octets: bytes) -> None:
    engine = make_engine(1)
    engine.add_group(GROUP, ALL[0], ALL, [], (1, 0, 1), (1, 1), [], 1, 8, 2)
    for frame in (octets, struct.pack(">QI", GROUP, len(octets)) + octets):
        try:
            engine.step(2, frame, True)
        except ValueError:
            continue
        assert engine.status(GROUP).term == 1 or octets


def test_replicas_know_their_node() -> None:
    assert node_of(replica_id(5, 9)) == 5 and replica_id(5, 9) != replica_id(5, 8)


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "leveret_raft", None)
    with pytest.raises(StartupError, match="make engine"):
        make_engine(1)
    assert "cargo" in MISSING and "pip install" in MISSING
