"""The ready list: every message is handed out from its original place, from memory or disk; the counts are right."""

from __future__ import annotations

import random
import struct

import pytest

from leveret.core.queue.contract import Entry, Subscriber
from leveret.core.queue.ready import ReadyList
from leveret.core.queue.release import clear
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.queues.dataplane import message

# See core.queue.ready
MESSAGE_BYTES = 128


def filled(count: int) -> ReadyList:
    ready = ReadyList()
    for _ in range(count):
        ready.push(message(b"x"))
    return ready


def positions(ready: ReadyList) -> list[int]:
    return [waiting.position for waiting in ready.entries()]


def test_an_empty_list_gives_nothing() -> None:
    ready = ReadyList()
    assert ready.pop() is None
    assert ready.pop_message() is None
    assert (ready.count, ready.bytes, ready.entries()) == (0, 0, [])


def test_messages_leave_in_order_of_arrival() -> None:
    ready, notes = ReadyList(), [message(b"%d" % number) for number in range(10)]
    for note in notes:
        ready.push(note)
    taken = [ready.pop() for _ in range(10)]
    assert [entry.message for entry in taken] == notes
    assert [entry.position for entry in taken] == list(range(1, 11))


def test_a_message_that_nobody_will_acknowledge_needs_no_entry() -> None:
    ready, note = ReadyList(), message(b"12")
    ready.push(note)
    ready.push(message())
    assert ready.pop_message() is note
    assert (ready.count, ready.bytes) == (1, 0)
    assert ready.pop().position == 2


def test_what_came_back_is_not_skipped_for_want_of_an_entry() -> None:
    ready = filled(2)
    first = ready.pop()
    ready.put_back(first)
    assert ready.pop_message() is None
    assert ready.count == 2
    assert ready.pop() is first
    assert ready.pop_message() is not None


def test_a_message_that_went_past_the_list_leaves_its_position_out() -> None:
    ready = filled(1)
    ready.pop()
    assert ready.skip() == 2
    ready.push(message())
    assert positions(ready) == [3]


def test_what_comes_back_goes_before_what_never_left() -> None:
    ready = filled(3)
    first = ready.pop()
    ready.put_back(first)
    assert positions(ready) == [1, 2, 3]
    assert ready.pop() is first


def test_what_comes_back_in_any_order_leaves_in_order_of_position() -> None:
    ready = filled(200)
    away = [ready.pop() for _ in range(150)]
    random.Random(3).shuffle(away)
    for returned in away:
        ready.put_back(returned)
    assert positions(ready) == list(range(1, 201))
    assert [ready.pop().position for _ in range(200)] == list(range(1, 201))


def test_comings_and_goings_keep_the_lowest_position_first() -> None:
    ready, away = filled(60), list[Entry]()
    rolls = random.Random(11)
    for _ in range(2000):
        if away and rolls.random() < 0.5:
            ready.put_back(away.pop(rolls.randrange(len(away))))
        elif ready.count:
            lowest = min(positions(ready))
            taken = ready.pop()
            assert taken.position == lowest
            away.append(taken)
        if rolls.random() < 0.05:
            ready.push(message())


def test_count_and_bytes_follow_every_move() -> None:
    ready = ReadyList()
    ready.push(message(bytes(10)))
    ready.push(message(bytes(5)))
    assert (ready.count, ready.bytes) == (2, 15)
    first = ready.pop()
    assert (ready.count, ready.bytes) == (1, 5)
    ready.put_back(first)
    assert (ready.count, ready.bytes) == (2, 15)
    clear(ready)
    assert (ready.count, ready.bytes, ready.pop()) == (0, 0, None)


def test_clear_also_drops_what_came_back_and_counts_positions_on() -> None:
    ready = filled(2)
    ready.put_back(ready.pop())
    clear(ready)
    ready.push(message())
    assert positions(ready) == [3]


def test_entries_is_a_copy() -> None:
    ready = filled(2)
    ready.entries().clear()
    assert positions(ready) == [1, 2]


# ---- on disk


def on_disk(count: int, window_bytes: int = 50, lazy: bool = False, durable: bool = True) -> tuple[FakeDisk, ReadyList]:
    """So many messages of ten octets; what is beyond the window waits on disk."""
    disk = FakeDisk(window_bytes=window_bytes)
    queue_log = disk.queue_log() if durable else None
    ready = ReadyList(disk.paging_context, queue_log, lazy)
    for number in range(1, count + 1):
        one = message(b"%010d" % number, delivery_mode=2 if durable else 1)
        if queue_log is not None:
            disk.journal.keep(queue_log, one, ready.next_position)
        ready.push(one)
    disk.commit()
    return disk, ready


def fetch(disk: FakeDisk, ready: ReadyList) -> None:
    load = ready.take_load(disk.journal)
    disk.read(load)
    assert ready.finish_load(load)


def numbers(ready: ReadyList) -> list[int]:
    return [int(entry.message.body) for entry in ready.entries()]


def drained(disk: FakeDisk, ready: ReadyList) -> list[int]:
    found = []
    while ready.count:
        if not ready.has_next():
            ready.warm_up()
        if not ready.has_next():
            fetch(disk, ready)
        found.append(int(ready.pop().message.body))
    return found


def count_out(disk: FakeDisk, ready: ReadyList) -> int:
    """The same for messages without bodies."""
    count = 0
    while ready.count:
        if not ready.has_next():
            ready.warm_up()
        if not ready.has_next():
            fetch(disk, ready)
        ready.pop()
        count += 1
    return count


def paged(count: int, octets: int) -> int:
    """What paging so many messages with so many octets of bodies counts."""
    return octets + count * MESSAGE_BYTES


def test_what_is_beyond_the_window_waits_on_disk() -> None:
    disk, ready = on_disk(20)
    assert (ready.count, ready.bytes) == (20, 200)
    assert numbers(ready) == [1, 2, 3, 4, 5]
    assert drained(disk, ready) == list(range(1, 21))
    assert (ready.count, ready.bytes) == (0, 0)


def test_a_lazy_list_keeps_nothing_in_memory() -> None:
    for durable in (True, False):
        disk, ready = on_disk(5, lazy=True, durable=durable)
        assert (ready.count, numbers(ready), ready.has_next()) == (5, [], False)
        assert disk.live(paging=not durable) == 5
        assert drained(disk, ready) == [1, 2, 3, 4, 5]


def test_transient_messages_stay_in_memory_until_it_is_short() -> None:
    disk, ready = on_disk(20, durable=False)
    assert disk.live(paging=True) == 0
    assert ready.page_out(3 * MESSAGE_BYTES + 35) == paged(4, 40), "it stops after the one that was enough"
    assert disk.live(paging=True) == 4
    assert ready.page_out(10_000) == paged(11, 110)
    disk.commit()
    assert disk.live(paging=True) == 15
    assert drained(disk, ready) == list(range(1, 21))
    assert disk.live(paging=True) == 0, "their pages go as they come back"


def test_a_smaller_window_lets_the_newest_go() -> None:
    disk, ready = on_disk(5, window_bytes=100)
    assert ready.page_out(1000) == 0
    disk.paging_context.window_bytes = 20
    assert ready.page_out(1000) == paged(3, 30)
    assert numbers(ready) == [1, 2]
    assert drained(disk, ready) == [1, 2, 3, 4, 5]


def test_one_message_stays_however_small_the_window() -> None:
    disk, ready = on_disk(3, window_bytes=100)
    disk.paging_context.window_bytes = 0
    assert ready.page_out(1000) == paged(2, 20)
    assert numbers(ready) == [1]


def test_messages_without_bodies_are_let_go_for_their_headers() -> None:
    disk, ready = on_disk(0, durable=False)
    for number in range(5):
        ready.push(message(headers={"h": "x" * 2000 + str(number)}))
    assert ready.bytes == 0 and disk.live(paging=True) == 0
    assert ready.page_out(1_000_000) > 4 * 2000
    assert disk.live(paging=True) == 4, "one stays"
    disk.commit()
    assert count_out(disk, ready) == 5


def test_empty_messages_are_let_go_by_their_number_when_memory_is_short() -> None:
    disk, ready = on_disk(0, durable=False)
    for _ in range(100):
        ready.push(message())
    assert ready.page_out(1_000_000) == 0, "in peace their number does not count"
    disk.paging_context.window_count = 10
    assert ready.page_out(50 * MESSAGE_BYTES) == paged(50, 0), "a step is bounded although there are no bodies"
    assert ready.page_out(1_000_000) == paged(40, 0)
    disk.commit()
    assert count_out(disk, ready) == 100
    assert disk.live(paging=True) == 0


@pytest.mark.parametrize("durable", [True, False])
def test_a_body_that_somebody_holds_is_let_go_and_comes_back(durable: bool) -> None:
    disk = FakeDisk()
    queue_log = disk.queue_log() if durable else None
    ready = ReadyList(disk.paging_context, queue_log)
    body = b"held" * 100
    one = message(body, delivery_mode=2 if durable else 1)
    if queue_log is not None:
        disk.journal.keep(queue_log, one, ready.next_position)
    ready.push(one)
    entry = ready.pop()
    assert ready.page_entry(entry) == len(body)
    assert entry.message.body is None and entry.message.body_size == len(body)
    assert ready.page_entry(entry) == 0, "it is away"
    disk.commit()
    ready.put_back(entry)
    assert ready.wants_load() and not ready.has_next()
    load = ready.take_load(disk.journal)
    disk.read(load)
    assert ready.finish_load(load)
    assert ready.pop().message.body == body
    assert disk.live(paging=True) == 0, "its page goes as it comes back"


def test_nothing_is_paged_out_while_something_is_loaded() -> None:
    disk, ready = on_disk(20)
    for _ in range(5):
        ready.pop()
    load = ready.take_load(disk.journal)
    assert ready.has_load() and ready.is_loading(load)
    assert ready.page_out(1000) == 0
    disk.read(load)
    assert ready.finish_load(load)
    assert not ready.has_load()


def test_what_comes_while_something_is_loaded_goes_behind_it() -> None:
    disk, ready = on_disk(3, lazy=True)
    load = ready.take_load(disk.journal)
    ready.push(message(b"4"))
    disk.read(load)
    assert ready.finish_load(load)
    disk.commit()
    assert drained(disk, ready) == [1, 2, 3, 4]


def test_what_waits_in_memory_does_not_overtake_what_is_being_loaded() -> None:
    disk, ready = on_disk(2, window_bytes=10)
    ready.push(message(b"3"))
    assert ready.pop().position == 1
    load = ready.take_load(disk.journal)
    ready.warm_up()
    assert not ready.has_next()
    disk.read(load)
    ready.finish_load(load)
    assert drained(disk, ready) == [2, 3]


def test_a_load_is_wanted_when_memory_runs_low() -> None:
    disk, ready = on_disk(20)
    assert not ready.wants_load()
    for _ in range(3):
        ready.pop()
    assert ready.wants_load(), "half of the window is free"
    ready.take_load(disk.journal)
    assert not ready.wants_load(), "one at a time"


def test_a_load_that_waits_for_another_try_is_not_replaced_by_a_second_one() -> None:
    disk, ready = on_disk(6, lazy=True)
    load = ready.take_load(disk.journal)
    ready.push(message(b"7"))
    disk.commit()
    assert ready.take_load(disk.journal) is None
    disk.read(load)
    assert ready.finish_load(load)
    assert drained(disk, ready) == [1, 2, 3, 4, 5, 6, 7]


def test_what_came_back_without_its_body_is_loaded_first() -> None:
    """Under memory pressure a queue lets the bodies of what it has lent go."""
    disk = FakeDisk()
    queue, taker = disk.queue(lazy=True), Holder()
    for number in (1, 2, 3):
        queue.publish(message(b"%d" % number, delivery_mode=2))
    queue.publish(message(b"4"))
    disk.commit()
    disk.load(queue)
    disk.paging_context.pressed = True
    for _ in range(4):
        assert queue.get(taker) == 1
    assert [entry.message.body for entry in taker.held] == [None, None, None, b"4"]
    for entry in reversed(taker.held):
        queue.requeue(entry)
    assert not queue.ready.has_next() and queue.ready.wants_load()
    disk.paging_context.pressed = False
    assert disk.load(queue)
    taker.held.clear()
    for _ in range(4):
        assert queue.get(taker) == 1
    assert [entry.message.body for entry in taker.held] == [b"1", b"2", b"3", b"4"]


def test_clear_tells_the_log_wherever_a_message_is() -> None:
    disk, ready = on_disk(20)
    away = [ready.pop() for _ in range(5)]
    fetch(disk, ready)
    ready.put_back(away[0])
    clear(ready)
    assert (ready.count, disk.live()) == (0, 4), "only what is away remains"
    disk, ready = on_disk(6, lazy=True)
    load = ready.take_load(disk.journal)
    clear(ready)
    assert (disk.live(), ready.is_loading(load)) == (0, False)
    assert not ready.finish_load(load), "what nobody wants any more is dropped"


def test_clear_frees_pages() -> None:
    disk, ready = on_disk(20, durable=False)
    ready.page_out(100)
    clear(ready)
    assert disk.live(paging=True) == 0


def test_a_restored_list_goes_on_where_the_log_ended() -> None:
    disk, slots = FakeDisk(), bytearray()
    for position, deliveries in ((1, 2), (3, 0)):
        one = message(b"%d" % position, delivery_mode=2)
        disk.journal.keep(disk.queue_log(), one, position)
        slots += struct.pack(">QQIIII", position, one.location, one.length, 1, deliveries, 0)
    disk.commit()
    restored = ReadyList(disk.paging_context, disk.queue_log())
    restored.restore(slots, 2, 10)
    assert (restored.count, restored.bytes, restored.next_position) == (2, 2, 10)
    fetch(disk, restored)
    back = [restored.pop(), restored.pop()]
    assert [(entry.position, entry.delivery_count, entry.message.body) for entry in back] == [
        (1, 2, b"1"),
        (3, 0, b"3"),
    ]


def test_messages_in_memory_and_cold_ones_are_found_for_compaction() -> None:
    _, ready = on_disk(8)
    back = ready.pop()
    ready.put_back(back)
    found: dict[tuple[int, int], object] = {}
    ready.collect_located(1, found)
    assert sorted(found) == [(1, position) for position in range(1, 6)]
    ready.collect_located(2, found)
    assert len(found) == 5
    location = back.message.location
    assert ready.find_cold(1, location) == -1
    assert ready.find_cold(8, location) == -1, "it is elsewhere"
    ready.move_cold(2, 77 << 32, 40)
    assert ready.find_cold(8, 77 << 32) == 2


class Holder(Subscriber):
    """Holds what it is given, without a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Entry] = []

    def take(self, entry: Entry) -> int:
        self.held.append(entry)
        return 0
