"""What an exchange keeps: messages wait with it, survive with it, and go with it."""

from __future__ import annotations

from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.message import Message
from leveret.core.queue.office import Office
from leveret.queues.dedup import make_window
from leveret.queues.holder import ExchangeHolder
from tests.unit.core.fake_disk import KEY, PLACED, SETTLED, FakeDisk
from tests.unit.queues.dataplane import message

NOW = 1_700_000_000_000


class Bench:
    def __init__(self, disk: FakeDisk | None = None, id: int = 4) -> None:
        self.office = Office(NOW)
        self.routed: list[bytes] = []
        self.doubted: list[bytes] = []
        record = ExchangeRecord("/", "größe", "x-delayed-message", True, False, False, {}, id)
        self.window = make_window({}, id, disk)
        self.holder = ExchangeHolder(record, disk, self.office, self.window, self.route)

    def route(self, due: Message, again: bool) -> None:
        self.routed.append(due.body)
        if again:
            self.doubted.append(due.body)

    def publish(self, body: bytes, after_ms: int, **properties: int) -> int:
        one = message(body, **properties)
        one.stamp = NOW + after_ms
        return self.holder.publish(one)

    def at(self, after_ms: int) -> list[bytes]:
        self.office.now = NOW + after_ms
        self.holder.delays.ring()
        return self.routed


def test_it_is_named_for_its_exchange_and_has_nothing_ready() -> None:
    bench = Bench()
    assert bench.publish(b"x", 10) == 0
    assert (bench.holder.name, bench.holder.record, bench.holder.ready_count()) == ("größe".encode(), None, 0)
    assert bench.holder.delays.count == 1


def test_what_is_due_is_routed_and_nothing_else() -> None:
    bench = Bench()
    bench.publish(b"2", 20)
    bench.publish(b"1", 10)
    assert bench.at(9) == []
    assert bench.at(10) == [b"1"]
    assert bench.at(20) == [b"1", b"2"]


def test_what_waits_survives_under_the_id_of_the_exchange() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.publish(b"x", 10, delivery_mode=2)
    disk.commit()
    assert [note.queue for note in disk.noted(PLACED)] == [4]
    again = Bench(disk)
    again.holder.restore(disk.book(4), True)
    assert (again.holder.delays.count, again.holder.queue_log.live) == (1, 1)
    again.at(10)
    assert not again.holder.has_load()
    load = again.holder.delays.take_load(disk.journal)
    assert again.holder.has_load()
    disk.read(load)
    again.holder.delays.finish_load(load)
    # It was not due when the start found it.
    assert (again.routed, again.doubted) == ([b"x"], [])
    disk.commit()
    assert len(disk.noted(SETTLED)) == 1


def test_what_was_due_when_a_crash_was_over_may_have_been_routed_before() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.publish(b"x", 10, delivery_mode=2)
    disk.commit()
    again = Bench(disk)
    again.office.now = NOW + 10
    again.holder.restore(disk.book(4), True)
    again.at(10)
    disk.load(again.holder.delays)
    assert (again.routed, again.doubted) == ([b"x"], [b"x"])


def test_without_an_id_nothing_survives() -> None:
    disk = FakeDisk()
    bench = Bench(disk, id=0)
    bench.publish(b"x", 10, delivery_mode=2)
    disk.commit()
    assert (bench.holder.queue_log, disk.notes()) == (None, [])


def test_compaction_finds_and_moves_what_waits() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.publish(b"x", 10, delivery_mode=2)
    ((position, _, _),) = bench.holder.delays.waiting(0, 10)
    location = bench.holder.delays.slots.location_of(position)
    assert bench.holder.find_stored(position, location)
    assert bench.holder.move_stored(position, location, location + 800, 50) == 0
    assert bench.holder.find_stored(position, location + 800)
    assert not bench.holder.find_stored(position, location)


def test_memory_can_be_taken_back() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.publish(b"12345", 10)
    assert (bench.holder.page_out(100), disk.live(paging=True)) == (128 + 5, 1)


def test_with_the_exchange_everything_goes() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.publish(b"x", 10, delivery_mode=2)
    bench.window.remember(b"0123456789abcdef", NOW, 0, True)
    bench.holder.close()
    disk.commit()
    assert (bench.holder.deleted, bench.holder.delays.count, disk.live()) == (True, 0, 0)
    assert disk.noted(KEY, SETTLED) == [], "the catalog says so, the log need not"
    assert bench.at(10) == []
