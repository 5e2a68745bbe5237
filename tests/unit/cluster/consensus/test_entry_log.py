"""Where entries are, what of them is kept, and where the floor may be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leveret.cluster.consensus.entry_log import EntryLog, StoredEntry

GROUP = 3


class Store:
    """Remembers what was written; reads as often as it is asked, or not at all."""

    def __init__(self) -> None:
        self.written: list[tuple[object, ...]] = []
        self.on_disk: dict[int, bytes] = {}
        self.reads = True
        self.released: list[int] = []

    def append(self, group: int, index: int, term: int, kind: int, data: bytes, payload: bytes) -> int:
        place = 100 * len(self.on_disk) + 100
        self.on_disk[place] = payload
        self.written.append(("entry", group, index, term))
        return place

    def write_state(self, group: int, term: int, vote: int, commit: int) -> None:
        self.written.append(("state", group, term, vote, commit))

    def write_floor(
        self, group: int, index: int, term: int, voters: Sequence[int], learners: Sequence[int], anew: bool
    ) -> None:
        self.written.append(("floor", group, index, term, anew))

    def release(self, places: Sequence[int]) -> None:
        self.released += places

    def read(self, group: int, index: int, term: int, place: int, length: int) -> bytes | None:
        return self.on_disk[place] if self.reads else None

    def sync(self, ticket: int) -> None:
        raise NotImplementedError


def log_with(count: int, size: int = 10, cache: int = 1000) -> tuple[EntryLog, Store]:
    store = Store()
    log = EntryLog(store, cache)
    log.open_group(GROUP, (1, 1), [], 1)
    for index in range(2, 2 + count):
        log.append(GROUP, index, 1, 0, b"d", b"%d" % (index % 10) * size)
    return log, store


def test_a_later_entry_voids_what_follows() -> None:
    log, store = log_with(4)
    log.append(GROUP, 3, 2, 0, b"d", b"new")
    group = log.groups[GROUP]
    assert (group.last, group.term(3), group.term(4), group.octets) == (3, 2, 0, 13)
    assert log.payload(GROUP, 3, 2) == b"new" and log.payload(GROUP, 3, 1) is None and log.payload(GROUP, 4, 1) is None
    assert log.cached_bytes == 13
    assert store.released == [200, 300, 400]


def test_applied_entries_are_never_replaced() -> None:
    log, _ = log_with(3)
    log.applied(GROUP, 3)
    with pytest.raises(AssertionError, match="is applied"):
        log.append(GROUP, 3, 2, 0, b"d", b"new")
    with pytest.raises(AssertionError, match="after 4"):
        log.append(GROUP, 6, 2, 0, b"d", b"new")


def test_the_cache_keeps_what_no_machine_has_seen() -> None:
    log, store = log_with(10, cache=30)
    log.trim_cache()
    assert log.cached_bytes == 100
    log.applied(GROUP, 6)
    log.trim_cache()
    assert log.cached_bytes == 50 and sorted(log.groups[GROUP].payloads) == [7, 8, 9, 10, 11]
    assert log.payload(GROUP, 2, 1) == b"2" * 10
    store.reads = False
    assert log.payload(GROUP, 2, 1) is None
    log.keep(GROUP, 2, 1, b"2" * 10)
    assert log.payload(GROUP, 2, 1) == b"2" * 10
    log.keep(GROUP, 3, 9, b"of another term")
    assert log.payload(GROUP, 3, 1) is None


def test_floors_are_written_and_forget_entries() -> None:
    log, store = log_with(6)
    log.applied(GROUP, 5)
    group = log.groups[GROUP]
    assert log.place_floor() == 100
    assert (group.behind(0), group.behind(10), group.behind(25), group.behind(1000)) == (5, 5, 4, 1)
    log.raise_floor(GROUP, 4, 1, ([1], []))
    assert (group.floor, group.last, log.place_floor(), log.cached_bytes) == (4, 7, 400, 30)
    assert store.written[-1] == ("floor", GROUP, 4, 1, False) and group.term(4) == 1 and group.term(3) == 0
    with pytest.raises(AssertionError, match="applied 5"):
        log.raise_floor(GROUP, 6, 1, ([1], []))
    log.restart_group(GROUP, 50, 7, ([1], [2]))
    assert (group.floor, group.last, group.applied, log.cached_bytes, log.place_floor()) == (50, 50, 50, 0, None)
    assert store.written[-1] == ("floor", GROUP, 50, 7, True)


def test_a_group_opens_with_what_is_on_disk() -> None:
    log, store = log_with(2)
    entries = [StoredEntry(5, 2, 0, b"d", 100, 10), StoredEntry(6, 2, 1, b"", 200, 0)]
    log.open_group(9, (4, 2), entries, 4)
    assert log.payload(9, 5, 2) == store.on_disk[100] and log.payload(9, 6, 2) == b""
    log.close_group(GROUP)
    assert log.cached_bytes == 0
