"""Delayed messages: they wait in the order of their time, in memory or on disk, and go on when it has come."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.core.codec.message import Message
from leveret.core.log.compaction import append_copy
from leveret.core.queue.contract import Queue
from leveret.core.queue.delays import Delays, due_of, first_at
from leveret.core.queue.office import Office
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import PLACED, SETTLED, FakeDisk, persistent
from tests.unit.queues.dataplane import message

NOW = 1_700_000_000_000
DELAYED = 1 << 63
# As core.queue.delays and core.queue.office have them.
RELEASED_A_STEP = 256
LETTERS_MAX = 1024


class Owner(Queue):
    """Gets what is due, and logs it if there is a queue log."""

    def __init__(self, queue_log: Any = None) -> None:
        Queue.__init__(self, b"owner", None, False, queue_log)
        self.arrived: list[Message] = []
        self.doubted: list[bytes] = []

    def arrive(self, message: Message) -> int:
        self.arrived.append(message)
        return 0

    def arrive_again(self, message: Message) -> int:
        self.doubted.append(message.body)
        return self.arrive(message)

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.arrived]


class Bench:
    """Delays of one owner, with or without a disk, and an office whose alarms are noted."""

    def __init__(self, disk: FakeDisk | None = None) -> None:
        self.disk = disk
        self.alarms: list[int] = []
        self.office = Office(NOW, alarm=lambda _who, due: self.alarms.append(due))
        self.queue_log = None if disk is None else disk.queue_log()
        self.owner = Owner(self.queue_log)
        paging_context = None if disk is None else disk.paging_context
        self.delays = Delays(self.owner, paging_context, self.queue_log, self.office)

    def add(self, body: bytes, after_ms: int, durable: bool = False) -> int:
        """The position it got."""
        one = persistent(body) if durable else message(body)
        one.stamp = NOW + after_ms
        before = {position for position, _, _ in self.delays.waiting(0, 100_000)}
        self.delays.add(one)
        (position,) = {position for position, _, _ in self.delays.waiting(0, 100_000)} - before
        return position

    def ring(self, after_ms: int) -> list[bytes]:
        """Rings at this moment: what arrived by that."""
        self.office.now = NOW + after_ms
        self.owner.arrived.clear()
        self.delays.ring()
        return self.owner.bodies()

    def restarted(self, crashed_at_ms: int | None = None) -> Bench:
        """After a stop in good order, or after a crash that is over at this moment."""
        assert self.disk is not None
        again = Bench(self.disk)
        again.office.now += crashed_at_ms or 0
        book = self.disk.book()
        assert again.queue_log is not None
        again.queue_log.live = book.count
        again.delays.restore(book.slots, 0, book.count, book.delay_sequence, crashed_at_ms is not None)
        return again


@pytest.fixture(params=["memory", "disk"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield Bench(FakeDisk() if request.param == "disk" else None)


# ---- positions


@pytest.mark.parametrize("due", [NOW, NOW + 1, 1_577_836_800_000, 1_577_836_800_000 + (1 << 41) - 1])
def test_a_position_says_when_it_is_due(due: int) -> None:
    assert due_of(first_at(due)) == due_of(first_at(due) | (1 << 22) - 1) == due
    assert first_at(due) >= DELAYED


def test_positions_are_in_the_order_of_time() -> None:
    assert first_at(NOW) | (1 << 22) - 1 < first_at(NOW + 1)


def test_what_was_due_before_2020_is_due_then() -> None:
    assert first_at(5) == DELAYED


# ---- in and out


def test_nothing_arrives_before_its_time(bench: Bench) -> None:
    bench.add(b"later", 20)
    assert bench.ring(19) == []
    assert bench.ring(20) == [b"later"]
    assert (bench.delays.count, bench.delays.bytes, bench.delays.released_total) == (0, 0, 1)


def test_messages_arrive_in_the_order_of_their_time(bench: Bench) -> None:
    for body, after_ms in ((b"3", 30), (b"1", 10), (b"2", 20), (b"4", 40)):
        bench.add(body, after_ms)
    assert bench.ring(35) == [b"1", b"2", b"3"]
    assert bench.delays.count == 1


def test_messages_of_one_moment_arrive_as_they_came(bench: Bench) -> None:
    bodies = [b"%d" % number for number in range(50)]
    for body in bodies:
        bench.add(body, 10)
    assert bench.ring(10) == bodies


# As core.queue.delays has it.
LAST_SEQUENCE = (1 << 22) - 1


def slot(position: int) -> bytearray:
    return bytearray(struct.pack(">QQIIII", position, 0, 0, 1, 0, 0))


def taken(bench: Bench, *positions: int) -> None:
    """As if messages were at these positions already, given as (milliseconds from now, number of the moment)."""
    slots = b"".join(bytes(slot(position)) for position in positions)
    bench.delays.restore(bytearray(slots), 0, len(positions), 0, False)


def test_when_the_numbers_of_a_moment_start_again_a_message_still_goes_behind_the_others(bench: Bench) -> None:
    taken(bench, first_at(NOW + 10) | 5, first_at(NOW + 11) | LAST_SEQUENCE)
    assert bench.add(b"later", 10) == first_at(NOW + 10) | 6


def test_a_moment_without_a_free_number_spills_into_the_next_millisecond_in_order(bench: Bench) -> None:
    full = [first_at(NOW + after_ms) | LAST_SEQUENCE for after_ms in (10, 11)]
    taken(bench, *full)
    added = [bench.add(b"%d" % number, 10) for number in range(3)]
    assert [due_of(position) - NOW for position in added] == [12, 12, 12]
    assert added == sorted(added)


def test_what_arrives_is_stamped_with_its_arrival_and_a_message_of_its_own(bench: Bench) -> None:
    original = persistent(b"x", app_id="a")
    original.stamp = NOW + 5
    bench.delays.add(original)
    bench.ring(7)
    (arrived,) = bench.owner.arrived
    assert arrived is not original
    assert (arrived.stamp, arrived.location, arrived.lone) == (NOW + 7, 0, True)
    assert (arrived.address, arrived.properties, arrived.body) == (original.address, original.properties, b"x")


def test_one_that_was_cancelled_does_not_arrive(bench: Bench) -> None:
    bench.add(b"1", 10)
    position = bench.add(b"22", 10)
    assert bench.delays.cancel(position)
    assert not bench.delays.cancel(position)
    assert (bench.delays.count, bench.delays.bytes, bench.delays.cancelled_total) == (1, 1, 1)
    assert bench.ring(10) == [b"1"]


def test_people_see_what_waits_page_by_page(bench: Bench) -> None:
    places = [bench.add(b"x" * size, after_ms) for size, after_ms in ((1, 30), (2, 10), (3, 20))]
    assert bench.delays.waiting(0, 2) == [(places[1], NOW + 10, 2), (places[2], NOW + 20, 3)]
    assert bench.delays.waiting(places[2] + 1, 2) == [(places[0], NOW + 30, 1)]


def test_cleared_delays_hold_nothing(bench: Bench) -> None:
    bench.add(b"1", 10)
    bench.add(b"2", 10, durable=True)
    bench.delays.clear()
    assert (bench.delays.count, bench.delays.bytes, bench.ring(10)) == (0, 0, [])
    if bench.disk is not None:
        assert bench.disk.live() == 0


# ---- alarms


def test_the_alarm_is_set_for_the_first_and_again_only_for_an_earlier_one(bench: Bench) -> None:
    for after_ms in (30, 40, 30, 10, 20):
        bench.add(b"x", after_ms)
    assert bench.alarms == [NOW + 30, NOW + 10]
    assert bench.delays.alarm_at == NOW + 10


def test_after_ringing_the_alarm_is_set_for_the_next(bench: Bench) -> None:
    bench.add(b"1", 10)
    bench.add(b"2", 20)
    bench.ring(10)
    assert bench.alarms == [NOW + 10, NOW + 20]
    bench.ring(20)
    assert (bench.alarms, bench.delays.alarm_at) == ([NOW + 10, NOW + 20], 0)


def test_one_that_is_rung_too_early_asks_again(bench: Bench) -> None:
    bench.add(b"1", 10)
    assert bench.ring(5) == []
    assert bench.alarms == [NOW + 10, NOW + 10]


# ---- a bounded step at a time


def test_a_long_line_goes_on_in_steps(bench: Bench) -> None:
    for number in range(RELEASED_A_STEP + 10):
        bench.add(b"%d" % number, 10)
    assert len(bench.ring(10)) == RELEASED_A_STEP
    assert bench.office.take_unfinished() == [bench.delays]
    bench.delays.go_on()
    assert bench.owner.bodies() == [b"%d" % number for number in range(RELEASED_A_STEP + 10)]
    assert bench.office.take_unfinished() == []


def test_nothing_is_released_while_too_many_letters_wait(bench: Bench) -> None:
    bench.add(b"1", 10)
    for _ in range(LETTERS_MAX):
        bench.office.post(bench.owner, Rules(), message(), 0, 1, 0)
    assert bench.ring(10) == []
    assert bench.office.take_unfinished() == [bench.delays]
    bench.office.take_letters()
    bench.delays.go_on()
    assert bench.owner.bodies() == [b"1"]


# ---- on disk


def test_a_persistent_one_is_logged_at_its_position_and_settled_when_it_was_released() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    position = bench.add(b"x", 10, durable=True)
    disk.commit()
    assert [(note.queue, note.first) for note in disk.noted(PLACED)] == [(1, position)]
    bench.ring(10)
    disk.commit()
    assert [(note.first, note.a) for note in disk.noted(SETTLED)] == [(position, 1)]
    assert disk.live() == 0


def test_the_new_place_is_logged_before_the_old_one_is_settled() -> None:
    """Both are in one batch, and whoever reads it from its start never finds neither."""
    disk = FakeDisk()
    bench = Bench(disk)
    live: list[int] = []

    class Watching(Owner):
        def arrive(self, message: Message) -> int:
            live.append(disk.live())
            return 0

    bench.delays = Delays(Watching(bench.queue_log), disk.paging_context, bench.queue_log, bench.office)
    bench.add(b"x", 10, durable=True)
    bench.ring(10)
    assert (live, disk.live()) == ([1], 0)


def test_what_is_due_has_room_for_one_target_whatever_was_published_before() -> None:
    disk = FakeDisk()
    office = Office(NOW, journal=disk.journal)
    queue = disk.queue(office=office)
    office.deliver_later(persistent(b"x"), queue, 10)
    office.deliver(persistent(b"y"), [disk.queue(2), disk.queue(3)])
    office.now += 10
    queue.delays.ring()
    disk.commit()
    first, *_, last = disk.noted(PLACED)
    assert (last.queue, last.b) == (first.queue, first.b), "it is as long as when it had one target before"


def test_a_cancelled_one_is_settled() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    position = bench.add(b"x", 10, durable=True)
    bench.delays.cancel(position)
    disk.commit()
    assert [note.first for note in disk.noted(SETTLED)] == [position]


def test_a_transient_one_is_not_logged() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.add(b"x", 10)
    disk.commit()
    assert (disk.notes(), disk.live()) == ([], 0)


def test_bodies_beyond_the_window_are_read_when_they_are_due() -> None:
    disk = FakeDisk(window_bytes=4)
    bench = Bench(disk)
    for number in range(6):
        bench.add(b"%d" % number * 2, 10 + number, durable=True)
    disk.commit()
    assert bench.ring(13) == [b"00", b"11"], "the window had room for two"
    assert disk.wanting == [bench.delays]
    assert bench.delays.lacks_next() and not bench.delays.has_load()
    assert disk.load(bench.delays)
    assert bench.owner.bodies() == [b"00", b"11", b"22", b"33"]
    assert not bench.delays.lacks_next(), "what is not due is not read"
    assert not disk.load(bench.delays)
    bench.ring(15)
    disk.load(bench.delays)
    assert bench.owner.bodies() == [b"44", b"55"]
    assert disk.live() == 0


def test_what_is_not_written_yet_is_not_read() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk)
    bench.add(b"x", 10, durable=True)
    bench.ring(10)
    assert not disk.load(bench.delays)
    assert bench.delays.lacks_next()
    disk.commit()
    assert disk.load(bench.delays)
    assert bench.owner.bodies() == [b"x"]


def test_a_load_is_wanted_once_and_one_that_was_cleared_not_at_all() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk)
    bench.add(b"x", 10, durable=True)
    disk.commit()
    bench.ring(10)
    load = bench.delays.take_load(disk.journal)
    assert bench.delays.is_loading(load) and bench.delays.has_load() and not bench.delays.lacks_next()
    disk.wanting.clear()
    bench.delays.go_on()
    assert disk.wanting == []
    bench.delays.clear()
    assert not bench.delays.is_loading(load)
    disk.read(load)
    bench.delays.finish_load(load)
    assert bench.owner.bodies() == []


def test_one_that_is_cancelled_while_it_is_read_does_not_arrive() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk)
    position = bench.add(b"1", 10, durable=True)
    bench.add(b"2", 10, durable=True)
    disk.commit()
    bench.ring(10)
    load = bench.delays.take_load(disk.journal)
    bench.delays.cancel(position)
    disk.read(load)
    bench.delays.finish_load(load)
    assert bench.owner.bodies() == [b"2"]


def test_one_that_cannot_be_read_is_let_go_and_the_others_arrive() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk)
    bench.add(b"damaged", 10, durable=True)
    bench.add(b"whole", 10, durable=True)
    disk.commit()
    disk.images[1][100] ^= 1
    bench.ring(10)
    disk.load(bench.delays)
    assert bench.owner.bodies() == [b"whole"]
    assert (bench.delays.count, disk.live()) == (0, 0)


# ---- memory is short


def test_bodies_are_let_go_up_to_what_is_asked_for() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    for number in range(4):
        bench.add(b"12345", 10 + number, durable=number % 2 == 0)
    assert bench.delays.page_out(128 + 8) == 2 * (128 + 5)
    assert bench.delays.page_out(1000) == 2 * (128 + 5)
    assert bench.delays.page_out(1000) == 0
    assert disk.live(paging=True) == 2, "those without a record got one"
    disk.commit()
    bench.ring(20)
    disk.load(bench.delays)
    assert bench.owner.bodies() == [b"12345"] * 4
    assert (disk.live(), disk.live(paging=True)) == (0, 0)


def test_nothing_is_let_go_while_a_load_is_on_its_way() -> None:
    disk = FakeDisk(window_bytes=1)
    bench = Bench(disk)
    bench.add(b"kept", 20, durable=True)
    bench.add(b"cold", 10, durable=True)
    disk.commit()
    bench.ring(10)
    assert bench.delays.take_load(disk.journal) is not None
    assert bench.delays.page_out(1000) == 0


# ---- a new start


def test_a_start_finds_them_with_their_time() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    for body, after_ms in ((b"2", 20), (b"1", 10), (b"333", 30)):
        bench.add(body, after_ms, durable=True)
    disk.commit()
    again = bench.restarted()
    assert (again.delays.count, again.delays.bytes) == (3, 5)
    assert [due for _, due, _ in again.delays.waiting(0, 10)] == [NOW + 10, NOW + 20, NOW + 30]
    assert again.alarms == [NOW + 10]
    again.ring(30)
    disk.load(again.delays)
    assert again.owner.bodies() == [b"1", b"2", b"333"]
    assert disk.live() == 0


@pytest.mark.parametrize(("crashed_at_ms", "doubted"), [(None, []), (9, []), (10, [b"1"]), (25, [b"1", b"2"])])
def test_after_a_crash_what_was_due_may_have_been_sent_on_before(
    crashed_at_ms: int | None, doubted: list[bytes]
) -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    for number in (1, 2, 3):
        bench.add(b"%d" % number, number * 10, durable=True)
    disk.commit()
    again = bench.restarted(crashed_at_ms)
    again.ring(30)
    disk.load(again.delays)
    assert (again.owner.bodies(), again.owner.doubted) == ([b"1", b"2", b"3"], doubted)


def test_a_crash_with_nothing_that_waits_leaves_no_doubt() -> None:
    disk = FakeDisk()
    again = Bench(disk)
    again.delays.restore(bytearray(), 0, 0, 5, True)
    again.add(b"1", 10, durable=True)
    assert (again.ring(10), again.owner.doubted) == ([b"1"], [])


def test_a_start_takes_the_slots_from_where_it_is_told() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    for number in range(3):
        bench.add(b"x", 10 + number, durable=True)
    disk.commit()
    again = Bench(disk)
    again.delays.restore(disk.book().slots, 1, 2, 0, False)
    assert [due for _, due, _ in again.delays.waiting(0, 10)] == [NOW + 11, NOW + 12]


def test_no_position_is_given_again_by_a_later_start() -> None:
    """The log says that the message at that position is done with, and so the new one would be."""
    disk = FakeDisk()
    bench = Bench(disk)
    cancelled = bench.add(b"1", 10, durable=True)
    bench.delays.cancel(cancelled)
    disk.commit()
    again = bench.restarted()
    assert again.add(b"2", 10, durable=True) > cancelled
    disk.commit()
    assert again.restarted().delays.count == 1


# ---- compaction


def test_a_record_that_moves_is_found_at_its_new_place() -> None:
    disk = FakeDisk(window_bytes=2)
    bench = Bench(disk)
    for body in (b"in memory", b"on disk"):
        position = bench.add(body, 10, durable=True)
        location = bench.delays.slots.location_of(position)
        assert bench.delays.find_stored(position, location)
        assert not bench.delays.find_stored(position, location + 8)
        assert not bench.delays.find_stored(position + 1, location)
        disk.commit()
        to = append_copy(disk.journal, bytes(disk.images[1]), location & 0xFFFFFFFF, [(1, position)])
        assert bench.delays.move_stored(position, to, disk.journal.copied_length) == 0
        disk.segments[1].live -= 1
        assert bench.delays.find_stored(position, to)
        assert not bench.delays.find_stored(position, location)
    disk.commit()
    bench.ring(10)
    disk.load(bench.delays)
    assert bench.owner.bodies() == [b"in memory", b"on disk"]
    assert disk.live() == 0
