"""Super streams and the catalog's log on disk: wherever a crash cuts it, there is a whole super stream or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from leveret.broker.broker import Broker
from leveret.broker.recovery import recover
from leveret.broker.super_streams import SuperStreams
from leveret.catalog.snapshot import snapshot
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.store import Store, StoreSettings
from tests.unit.broker.people import Person


@contextmanager
def started(root: Path) -> Iterator[Broker]:
    store = Store(root, StoreSettings(segment_bytes=1 << 20), lambda: 1)
    broker = Broker(Dice(), Clock(), store)
    try:
        recover(broker)
        yield broker
    finally:
        broker.close()
        store.abandon()


def written(broker: Broker) -> int:
    """Does what a commit does to the catalog's log; where its end is now."""
    assert broker.store is not None
    data, offset = broker.store.catalog.take()
    assert data
    os.pwrite(broker.store.catalog.fd, data, offset)
    broker.store.catalog.synced()
    return offset + len(data)


def check_whole(broker: Broker) -> dict[str, int]:
    """The super streams that are there, each with all that belongs to it, and nothing that belongs to none."""
    found = {}
    topology = broker.catalog.topologies["/"]
    super_streams = SuperStreams(broker)
    for super_stream in super_streams.list("/"):
        count = {"orders": 3, "invoices": 2}[super_stream.name]
        names = [f"{super_stream.name}-{number}" for number in range(count)]
        assert list(super_stream.partitions) == names
        assert broker.vhosts["/"].exchanges[super_stream.name.encode()].matcher.count == count
        found[super_stream.name] = count
    assert len(topology.queues) == len(broker.vhosts["/"].queues) == sum(found.values())
    assert len({queue.id for queue in topology.queues.values()} - {0}) == len(topology.queues)
    assert all(queue.id < broker.catalog.next_queue_id for queue in topology.queues.values())
    return found


def cuts(ends: list[int]) -> list[int]:
    """Where a crash may end the log: behind a record, and in its head, its middle and close to its end."""
    within = [(start + 40, (start + end) // 2, end - 16) for start, end in pairwise(ends)]
    return sorted({*ends, *(cut for group in within for cut in group)})


def test_a_log_that_was_cut_anywhere(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with started(root) as broker:
        guest = Person(broker, "guest", 1)
        super_streams = SuperStreams(broker)
        (log,) = (root / "catalog").iterdir()
        ends = [log.stat().st_size]
        super_streams.create(guest, "orders", 3)
        ends.append(written(broker))
        super_streams.create(guest, "invoices", 2, {"x-max-age": "1h"}, "x-super-stream")
        ends.append(written(broker))
        super_streams.delete(guest, "orders")
        ends.append(written(broker))
    expected = [{}, {"orders": 3}, {"orders": 3, "invoices": 2}, {"invoices": 2}]
    assert log.stat().st_size == ends[-1]
    for cut in cuts(ends):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(root, copy)
        os.truncate(copy / log.relative_to(root), cut)
        with started(copy) as broker:
            assert check_whole(broker) == expected[sum(cut >= end for end in ends) - 1]
        shutil.rmtree(copy)


def test_the_largest_of_them_is_read_back(tmp_path: Path) -> None:
    """Half a mebibyte of names in one record."""
    keys = [f"{number}".rjust(253, "k") for number in range(1000)]
    with started(tmp_path) as broker:
        names = SuperStreams(broker).create(Person(broker, "guest", 1), "s", keys, {}, "x-super-stream")
        before = snapshot(broker.catalog)
        written(broker)
    with started(tmp_path) as broker:
        assert SuperStreams(broker).partitions("/", "s") == names
        assert snapshot(broker.catalog) == before
    # And from the file that this start has written.
    with started(tmp_path) as broker:
        assert snapshot(broker.catalog) == before
