"""Loads: few long reads for many records, messages as they were, and damage that hits only what is damaged."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.log.load import Load
from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import message

LOAD_BYTES, LOAD_MESSAGES, LOAD_READS, GAP_BYTES_MAX = 1048576, 4096, 48, 32768


def lazy_queue(disk: FakeDisk, bodies: list[bytes], **properties: Any) -> ClassicQueue:
    """A durable queue with these on disk and nothing in memory."""
    queue = disk.queue(lazy=True)
    for body in bodies:
        queue.publish(message(body, delivery_mode=2, **properties))
    disk.commit()
    return queue


def planned(queue: ClassicQueue, disk: FakeDisk) -> Load:
    load = queue.take_load(disk.journal)
    assert load is not None
    return load


def test_nothing_cold_is_nothing_to_read() -> None:
    disk = FakeDisk()
    queue = disk.queue()
    queue.publish(message(b"in memory", delivery_mode=2))
    disk.commit()
    assert queue.take_load(disk.journal) is None


def test_nothing_is_read_before_it_is_written() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    queue.publish(message(b"x", delivery_mode=2))
    assert queue.take_load(disk.journal) is None
    disk.commit(sync=False)
    assert planned(queue, disk).count == 1


def test_neighbours_are_read_in_one_go() -> None:
    disk = FakeDisk()
    load = planned(lazy_queue(disk, [b"%d" % number * 50 for number in range(100)]), disk)
    ((number, offset, size, place),) = load.extents
    assert (load.count, number, offset, place, size) == (100, 1, 64, 0, load.size)


def test_a_small_gap_is_read_along_and_a_large_one_is_not() -> None:
    for gap, reads in ((GAP_BYTES_MAX - 1000, 1), (GAP_BYTES_MAX + 1000, 2)):
        disk = FakeDisk()
        queue, other = disk.queue(1, lazy=True), disk.queue(2, lazy=True)
        queue.publish(message(b"before", delivery_mode=2))
        other.publish(message(bytes(gap), delivery_mode=2))
        queue.publish(message(b"behind", delivery_mode=2))
        disk.commit()
        load = planned(queue, disk)
        assert (load.count, len(load.extents)) == (2, reads)
        disk.read(load)
        assert [one.body for one in load.messages] == [b"before", b"behind"]


def test_a_load_ends_when_it_is_large_enough() -> None:
    disk = FakeDisk(segment_bytes=1 << 30)
    by_bytes = planned(lazy_queue(disk, [bytes(100_000)] * 30), disk)
    assert LOAD_BYTES <= by_bytes.size < LOAD_BYTES + 101_000
    by_count = planned(lazy_queue(disk, [b""] * (LOAD_MESSAGES + 10)), disk)
    assert by_count.count == LOAD_MESSAGES


def test_a_load_has_only_so_many_reads() -> None:
    disk = FakeDisk()
    queue, other = disk.queue(1, lazy=True), disk.queue(2, lazy=True)
    for _ in range(LOAD_READS + 20):
        queue.publish(message(b"x", delivery_mode=2))
        other.publish(message(bytes(GAP_BYTES_MAX + 100), delivery_mode=2))
    disk.commit()
    load = planned(queue, disk)
    assert LOAD_READS <= len(load.extents) <= LOAD_READS + 1
    assert load.count == len(load.extents)


def test_messages_come_back_as_they_were() -> None:
    disk = FakeDisk()
    queue = disk.queue(lazy=True)
    sent = [
        message(b"one", "key", "exchange", delivery_mode=2, app_id="a"),
        message(b"", "key", "exchange", delivery_mode=2, app_id="a"),
        message(b"three" * 100, "other", "", delivery_mode=2, headers={"x": [1, "y"]}, priority=3),
    ]
    for one in sent:
        queue.publish(one)
    disk.commit()
    load = planned(queue, disk)
    disk.read(load)
    assert load.lost == {}
    for one, back in zip(sent, load.messages, strict=True):
        assert back is not one
        assert (back.address, back.body, back.body_size) == (one.address, one.body, one.body_size)
        assert back.properties.raw == one.properties.raw and back.properties.persistent
        assert (back.location, back.length, back.lone) == (one.location, one.length, True)


def test_equal_addresses_and_properties_are_shared() -> None:
    disk = FakeDisk()
    load = planned(lazy_queue(disk, [b"1", b"2"], app_id="a"), disk)
    disk.read(load)
    one, two = load.messages
    assert one.address is two.address and one.properties is two.properties


def test_a_record_that_is_damaged_costs_only_itself() -> None:
    disk = FakeDisk()
    queue = lazy_queue(disk, [b"1", b"2" * 40, b"3"])
    at = disk.images[1].index(b"2" * 40)
    disk.images[1][at + 5] ^= 1
    load = planned(queue, disk)
    disk.read(load)
    assert [one and one.body for one in load.messages] == [b"1", None, b"3"]
    assert load.lost == {1: False} and load.slot(1)[1] >> 32 == 1
    queue.finish_load(load)
    assert (queue.ready_count(), queue.ready_bytes(), disk.live()) == (2, 2, 2)


def test_records_of_a_segment_that_is_gone_are_not_lost() -> None:
    """Whoever wanted them is gone as well; a queue that still waits for them must not settle them."""
    disk = FakeDisk()
    queue = lazy_queue(disk, [b"1", b"2"])
    load = planned(queue, disk)
    load.was_read(0)
    load.finish(bytearray(load.size), {})
    assert (load.messages, load.lost, load.gone_count) == ([None, None], {}, 2)
    with pytest.raises(AssertionError, match="nothing says that they are lost"):
        queue.finish_load(load)
    assert (queue.ready_count(), disk.live()) == (2, 2)


def test_what_was_not_read_is_never_judged() -> None:
    """Zeros in place of octets that nobody has read are no proof of anything."""
    disk = FakeDisk()
    queue = lazy_queue(disk, [b"1", b"2"])
    load = planned(queue, disk)
    with pytest.raises(AssertionError, match="before its octets were read"):
        load.finish(bytearray(load.size), disk.segments)
    assert (load.lost, queue.ready_count(), disk.live()) == ({}, 2, 2)


def test_a_file_that_really_ends_early_is_damage() -> None:
    disk = FakeDisk()
    load = planned(lazy_queue(disk, [b"1", b"2"]), disk)
    load.was_read(0)
    load.finish(bytearray(load.size), disk.segments)
    assert load.lost == {0: False, 1: False}


def test_a_record_that_the_disk_cannot_read_is_given_up_alone() -> None:
    disk = FakeDisk()
    queue = lazy_queue(disk, [b"1", b"2" * 40, b"3"])
    load = planned(queue, disk)
    records = load.records_of(0)
    assert [(i, length) for i, _, _, length, _ in records] == [(i, load.slot(i)[2]) for i in range(3)]
    assert [offset for _, _, offset, _, _ in records] == [load.slot(i)[1] & 0xFFFFFFFF for i in range(3)]
    load.give_up(1)
    disk.read(load)
    assert [one and one.body for one in load.messages] == [b"1", None, b"3"]
    assert load.lost == {1: True}
    queue.finish_load(load)
    assert (queue.ready_count(), queue.quarantined_total, disk.live()) == (2, 1, 2)
