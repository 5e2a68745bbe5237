"""Entries of consensus groups in the node's own log: what a start finds, what a crash leaves, and which segments go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from leveret.cluster.consensus.entry_log import EntryLog
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.groups.found_groups import FoundGroup
from leveret.storage.store import Store, StoreSettings

SEGMENT_BYTES = 65536
VOTERS = (1 << 32, 2 << 32, 3 << 32)


class Opened:
    """A store that runs, with the groups' entries as the consensus sees them."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root, StoreSettings(SEGMENT_BYTES), lambda: 7)
        self.store.take_commands()
        # A catalog without a command would be taken for a lost one.
        self.store.snapshot = lambda: [b"command"]
        self.store.restore(0)
        self.found = self.store.groups
        self.log = EntryLog(self.store.entries, 0)
        self._tickets = 0
        self._synced: dict[int, asyncio.Future[None]] = {}
        self.store.entries.on_synced = lambda ticket: self._synced.pop(ticket).set_result(None)
        self.store.entries.on_read = self._read
        self.reads: list[tuple[int, int, int, bytes]] = []

    def _read(self, *entry: object) -> None:
        self.reads.append(entry)  # type: ignore[arg-type]

    def start(self) -> None:
        self.store.rewrite_catalog_now()
        self.store.start(asyncio.get_running_loop())
        for number, found in self.found.items():
            if found.entries:
                self.log.open_group(number, found.floor, [], found.floor[0])
                group = self.log.groups[number]
                for entry in found.entries:
                    group.terms.append(entry.term)
                    group.places.append(entry.place)
                    group.lengths.append(entry.length)
                    group.octets += entry.length

    async def sync(self) -> None:
        self._tickets += 1
        future = self._synced[self._tickets] = asyncio.get_running_loop().create_future()
        self.store.entries.sync(self._tickets)
        await asyncio.wait_for(future, 30)


def run(root: Path, work: Callable[[Opened], Awaitable[None]], orderly: bool = True) -> None:
    async def whole() -> None:
        opened = Opened(root)
        opened.start()
        try:
            await work(opened)
        finally:
            if orderly:
                await opened.store.close()
            else:
                opened.store.abandon()

    asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited 30 s")


def found_in(root: Path) -> dict[int, FoundGroup]:
    opened = Opened(root)
    opened.store.abandon()
    assert opened.store.damages == []
    return opened.found


def shape(found: FoundGroup) -> tuple[object, ...]:
    assert found.damage == ""
    entries = [(entry.index, entry.term, entry.kind, entry.descriptor, entry.length) for entry in found.entries]
    return found.hard, found.floor, found.voters, found.learners, entries


@pytest.mark.parametrize("orderly", [True, False])
def test_a_group_is_found_again(tmp_path: Path, orderly: bool) -> None:
    async def work(opened: Opened) -> None:
        entries = opened.store.entries
        entries.write_floor(3, 10, 2, VOTERS, (4 << 32,), anew=True)
        opened.log.open_group(3, (10, 2), [], 10)
        for index in range(11, 15):
            opened.log.append(3, index, 2, 0, b"descriptor-%d" % index, b"payload" * index)
        opened.log.append(3, 13, 3, 1, b"", b"")
        entries.write_state(3, 2, VOTERS[0], 10)
        entries.write_state(3, 3, VOTERS[1], 12)
        await opened.sync()

    run(tmp_path, work, orderly)
    ((number, found),) = found_in(tmp_path).items()
    expected = [
        (11, 2, 0, b"descriptor-11", 77),
        (12, 2, 0, b"descriptor-12", 84),
        (13, 3, 1, b"", 0),
    ]
    assert number == 3
    assert shape(found) == ((3, VOTERS[1], 12), (10, 2), VOTERS, (4 << 32,), expected)


def test_payloads_are_read_back(tmp_path: Path) -> None:
    async def write(opened: Opened) -> None:
        opened.store.entries.write_floor(1, 1, 1, VOTERS, (), anew=True)
        opened.log.open_group(1, (1, 1), [], 1)
        for index in range(2, 40):
            opened.log.append(1, index, 1, 0, b"d" * 16, b"%d" % index * 1000)
        await opened.sync()

    async def read(opened: Opened) -> None:
        group = opened.log.groups[1]
        for index in (2, 39, 20):
            place, length = group.places[index - 2], group.lengths[index - 2]
            assert opened.store.entries.read(1, index, 1, place, length) is None
            assert opened.store.entries.read(1, index, 1, place, length) is None, "asked for twice, read once"
        await until(lambda: len(opened.reads) == 3)
        assert sorted(opened.reads) == [(1, index, 1, b"%d" % index * 1000) for index in (2, 20, 39)]
        assert opened.store.entries.reads_total == 3

    run(tmp_path, write)
    run(tmp_path, read)


def test_an_entry_that_is_damaged_on_disk_is_reported(tmp_path: Path) -> None:
    async def work(opened: Opened) -> None:
        entries = opened.store.entries
        entries.write_floor(1, 1, 1, VOTERS, (), anew=True)
        place = entries.append(1, 2, 1, 0, b"d", b"payload" * 100)
        await opened.sync()
        path = opened.store.journal.segments[place >> 32].path
        with path.open("r+b") as file:
            file.seek((place & 0xFFFFFFFF) + 100)
            file.write(b"?")
        damaged: list[tuple[int, int]] = []
        entries.on_damage = lambda *entry: damaged.append(entry)
        assert entries.read(1, 2, 1, place, 700) is None
        await until(lambda: bool(damaged))
        assert damaged == [(1, 2)] and entries.damaged_total == 1 and opened.reads == []

    run(tmp_path, work, orderly=False)


def test_segments_go_when_floors_rise(tmp_path: Path) -> None:
    async def work(opened: Opened) -> None:
        entries, log = opened.store.entries, opened.log
        segments = opened.store.journal.segments
        # Two groups: one whose floor follows, and one that is idle and keeps nothing but its state and floor.
        for group in (1, 2):
            entries.write_floor(group, 1, 1, VOTERS, (), anew=True)
            entries.write_state(group, 1, VOTERS[0], 1)
            log.open_group(group, (1, 1), [], 1)
        for index in range(2, 600):
            log.append(1, index, 1, 0, b"d" * 16, b"x" * 4000)
            if index % 5 == 0:
                await opened.sync()
        assert len([one for one in segments.values() if not one.paging]) > 8
        log.applied(1, 599)
        log.raise_floor(1, 590, 1, (VOTERS, ()))
        entries.write_state(1, 1, VOTERS[0], 599)
        # The reclaimer looks after commits; the last of what is left moves when it is seen to be sparse.
        for _ in range(3000):
            await opened.sync()
            if len([one for one in segments.values() if not one.paging]) <= 6:
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError(f"{sorted(segments)} are still there")

    run(tmp_path, work)
    found = found_in(tmp_path)
    assert shape(found[1])[:3] == ((1, VOTERS[0], 599), (590, 1), VOTERS)
    assert [entry.index for entry in found[1].entries] == list(range(591, 600))
    assert shape(found[2]) == ((1, VOTERS[0], 1), (1, 1), VOTERS, (), [])


def test_a_voided_entry_does_not_come_back_with_its_floor(tmp_path: Path) -> None:
    """Entries of term 1 were voided by one of term 2, whose record has gone: the floor's term tells."""

    async def work(opened: Opened) -> None:
        entries, log = opened.store.entries, opened.log
        entries.write_floor(1, 1, 1, VOTERS, (), anew=True)
        log.open_group(1, (1, 1), [], 1)
        for index in range(2, 6):
            log.append(1, index, 1, 0, b"d", b"old")
        log.append(1, 2, 2, 0, b"d", b"new")
        log.applied(1, 2)
        log.raise_floor(1, 2, 2, (VOTERS, ()))
        await opened.sync()

    run(tmp_path, work)
    assert shape(found_in(tmp_path)[1])[1:] == ((2, 2), VOTERS, (), [])


def test_a_missing_entry_makes_the_group_damaged(tmp_path: Path) -> None:
    async def work(opened: Opened) -> None:
        entries = opened.store.entries
        entries.write_floor(1, 1, 1, VOTERS, (), anew=True)
        entries.append(1, 2, 1, 0, b"d", b"x")
        entries.append(1, 4, 1, 0, b"d", b"x")
        entries.write_floor(2, 1, 1, VOTERS, (), anew=True)
        entries.append(2, 2, 1, 0, b"d", b"x")
        entries.write_state(2, 1, VOTERS[0], 3)
        await opened.sync()

    run(tmp_path, work)
    found = found_in(tmp_path)
    assert found[1].damage == "entry 3 is missing"
    assert found[2].damage == "entries 3 to 3 were committed and are missing"


@pytest.mark.parametrize("seed", range(12))
def test_any_history_survives(tmp_path: Path, seed: int) -> None:
    """Random appends, overwrites, states and floors of several groups, over kills, orderly stops and torn ends."""
    dice = Random(seed)
    groups: dict[int, tuple[list[tuple[int, int, bytes]], tuple[int, int], tuple[int, int, int]]] = {}

    def act(opened: Opened) -> None:
        group = dice.randrange(1, 5)
        log, entries = opened.log, opened.store.entries
        if group not in groups or dice.random() < 0.02:
            index, term = dice.randrange(1, 100), dice.randrange(1, 5)
            if group in groups:
                index, term = groups[group][1][0] + 200, groups[group][2][0]
                if group in log.groups:
                    log.restart_group(group, index, term, (VOTERS, ()))
                else:
                    entries.write_floor(group, index, term, VOTERS, (), anew=True)
                    log.open_group(group, (index, term), [], index)
            else:
                entries.write_floor(group, index, term, VOTERS, (), anew=True)
                log.open_group(group, (index, term), [], index)
            hard = (max(term, groups[group][2][0] if group in groups else 0), 0, index)
            entries.write_state(group, *hard)
            groups[group] = [], (index, term), hard
            return
        held, floor, hard = groups[group]
        if group not in log.groups:
            log.open_group(group, floor, [], floor[0])
        what = dice.random()
        if what < 0.7:
            index = held[-1][0] + 1 if held else floor[0] + 1
            uncommitted = [entry for entry in held if entry[0] > max(hard[2], log.groups[group].applied)]
            term = hard[0]
            if uncommitted and dice.random() < 0.1:
                index, term = dice.choice(uncommitted)[0], hard[0] + 1
                hard = term, 0, hard[2]
                entries.write_state(group, *hard)
            payload = dice.randbytes(dice.choice((0, 10, 500, 5000)))
            log.append(group, index, term, 0, b"d" * 16, payload)
            held = [entry for entry in held if entry[0] < index] + [(index, term, payload)]
        elif what < 0.85 and held:
            hard = hard[0], VOTERS[0], max(hard[2], dice.choice(held)[0])
            entries.write_state(group, *hard)
        elif held:
            index, term, _ = dice.choice([entry for entry in held if entry[0] <= hard[2]] or [(*floor, b"")])
            if index > floor[0]:
                log.applied(group, max(index, log.groups[group].applied))
                log.raise_floor(group, index, term, (VOTERS, ()))
                floor = index, term
                held = [entry for entry in held if entry[0] > index]
        groups[group] = held, floor, hard

    async def work(opened: Opened) -> None:
        for number, found in opened.found.items():
            held, floor, hard = groups[number]
            assert shape(found)[:2] == (hard, floor)
            assert [(entry.index, entry.term, entry.length) for entry in found.entries] == [
                (index, term, len(payload)) for index, term, payload in held
            ]
        assert opened.found.keys() == groups.keys()
        for _ in range(dice.randrange(1, 150)):
            act(opened)
            if dice.random() < 0.1:
                await opened.sync()
        await opened.sync()

    for _ in range(6):
        orderly = dice.random() < 0.5
        run(tmp_path, work, orderly)
        if not orderly:
            tear(tmp_path)


def tear(root: Path) -> None:
    """Behind what was synced something was being written when the power went."""
    last = sorted((root / "log").glob("*.segment"))[-1]
    data = last.read_bytes()
    end = len(data.rstrip(b"\0"))
    assert end >= HEAD_BYTES
    with last.open("r+b") as file:
        file.seek((end + 15) & ~7)
        file.write(b"\x01\x02\x03 torn")
