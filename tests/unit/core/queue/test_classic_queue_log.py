"""The classic queue over time and restarts: delayed messages, keys it has seen, and what a start makes of its rules."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.queue.contract import Queue
from leveret.core.queue.dedup import DedupWindow
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import KEY, PLACED, FakeDisk, persistent
from tests.unit.core.rule_bench import NOW, Bench
from tests.unit.core.takers import Taker
from tests.unit.queues.dataplane import message

ACCEPTED, REFUSED, KNOWN = 0, 1, 2
DELAYED = 1 << 63


def delayed(body: bytes, after_ms: int, **properties: Any) -> Any:
    """As the publish path makes one that asks for a delay."""
    one = message(body, headers={"x-delay": -after_ms}, **properties)
    one.stamp = NOW + after_ms
    return one


def due(bench: Bench, after_ms: int) -> None:
    bench.office.now = NOW + after_ms
    bench.queue.delays.ring()


def restarted(disk: FakeDisk, features: dict[str, Any] | None = None, all_seen: bool = True, **rules: Any) -> Bench:
    disk.commit()
    disk.wanting.clear()
    bench = Bench(disk, features, **rules)
    bench.queue.restore(disk.book(), all_seen)
    return bench


def load_all(disk: FakeDisk, queue: Queue) -> None:
    while disk.load(queue):
        pass


# ---- delays


def test_a_delayed_message_is_not_ready_before_its_time() -> None:
    bench, taker = Bench(), Taker()
    bench.queue.subscribe(taker)
    assert bench.queue.publish(delayed(b"later", 10)) == ACCEPTED
    bench.publish(b"now")
    assert (taker.bodies(), bench.queue.delayed_count(), bench.queue.ready_count()) == ([b"now"], 1, 0)
    due(bench, 10)
    assert (taker.bodies(), bench.queue.delayed_count()) == ([b"now", b"later"], 0)


def test_a_queue_without_delayed_messages_counts_none() -> None:
    assert Bench().queue.delayed_count() == 0


def test_a_delay_that_is_over_already_is_none() -> None:
    bench = Bench()
    bench.queue.publish(delayed(b"1", 0))
    assert (bench.ready(), bench.queue.delayed_count()) == ([b"1"], 0)


def test_a_delayed_message_begins_to_expire_when_it_is_due() -> None:
    bench = Bench(ttl_ms=5)
    bench.queue.publish(delayed(b"1", 10))
    due(bench, 12)
    assert (bench.ready(), bench.alarms) == ([b"1"], [NOW + 10, NOW + 17])


def test_no_more_messages_wait_than_the_queue_may_have() -> None:
    bench = Bench(length_max=1)
    for body in (b"1", b"2"):
        assert bench.queue.publish(delayed(body, 10)) == 0
    assert (bench.queue.delayed_count(), bench.queue.dropped_total) == (1, 1)
    due(bench, 10)
    assert (bench.ready(), bench.queue.dropped_total) == ([b"1"], 1)


def test_a_delayed_message_too_many_is_in_the_log_until_its_letter_is() -> None:
    """It is confirmed: a crash in between finds it."""
    disk = FakeDisk()
    bench = Bench(disk, length_max=1, dead_letter_exchange=b"dlx")
    for body in (b"1", b"2"):
        assert bench.queue.publish(delayed(body, 10, delivery_mode=2)) == 0
    disk.commit()
    assert disk.live() == 2
    (letter,) = bench.queue.office.take_letters()
    assert letter.message.body == b"2"
    bench.queue.letter_sent(letter)
    disk.commit()
    assert disk.live() == 1


def test_octets_of_delayed_messages_count_too() -> None:
    bench = Bench(bytes_max=10)
    for body in (b"12345678", b"1234"):
        bench.queue.publish(delayed(body, 10))
    assert (bench.queue.delayed_count(), bench.queue.dropped_total) == (1, 1)


def test_a_message_that_is_due_gets_a_new_place_in_the_log() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.keep(b"first")
    bench.queue.publish(delayed(b"later", 10, delivery_mode=2))
    due(bench, 10)
    disk.commit()
    assert [note.first < DELAYED for note in disk.noted(PLACED)] == [True, False, True]
    assert (disk.live(), disk.book().count) == (2, 2)


def test_a_start_knows_what_is_ready_and_what_waits() -> None:
    disk, taker = FakeDisk(), Taker()
    bench = Bench(disk)
    bench.keep(b"ready")
    bench.queue.publish(delayed(b"later", 10, delivery_mode=2))
    again = restarted(disk)
    assert (again.queue.ready_count(), again.queue.delayed_count()) == (1, 1)
    assert (again.alarms, again.queue.queue_log.live) == ([NOW + 10], 2)
    again.queue.subscribe(taker)
    load_all(disk, again.queue)
    due(again, 10)
    assert disk.wanting[-1] is again.queue.delays
    disk.load(again.queue.delays)
    assert taker.bodies() == [b"ready", b"later"]
    assert [entry.position for entry in taker.held] == [1, 2]


def test_compaction_asks_for_delayed_messages_by_their_positions() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    assert not bench.queue.find_stored(DELAYED, 64)
    bench.queue.publish(delayed(b"x", 10, delivery_mode=2))
    ((position, _, _),) = bench.queue.delays.waiting(0, 10)
    location = bench.queue.delays.slots.location_of(position)
    assert bench.queue.find_stored(position, location)
    assert bench.queue.move_stored(position, location, location + 800, 50) == 0
    assert bench.queue.find_stored(position, location + 800)


def test_what_is_delayed_gives_back_memory_as_well() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.queue.publish(delayed(b"12345", 10))
    assert bench.queue.page_out(100) == 128 + 5


def test_a_purge_leaves_what_is_delayed_and_a_deletion_does_not() -> None:
    disk = FakeDisk()
    bench = Bench(disk)
    bench.queue.publish(delayed(b"x", 10, delivery_mode=2))
    assert (bench.queue.purge(), bench.queue.delayed_count(), disk.live()) == (0, 1, 1)
    bench.queue.close()
    assert (bench.queue.delayed_count(), disk.live()) == (0, 0)


def test_a_load_of_delayed_messages_is_one_of_the_queue() -> None:
    disk = FakeDisk(window_bytes=0)
    bench = Bench(disk)
    bench.queue.publish(delayed(b"x", 10, delivery_mode=2))
    disk.commit()
    due(bench, 10)
    assert not bench.queue.has_load()
    assert bench.queue.delays.take_load(disk.journal) is not None
    assert bench.queue.has_load(), "its segment must stay where it is"


# ---- keys


def keyed(**rules: Any) -> Bench:
    return Bench(features={"window": DedupWindow(0, None, 10, 1000)}, **rules)


def test_a_message_with_a_key_that_was_seen_is_known_and_not_taken_again() -> None:
    bench = keyed()
    assert bench.publish(b"1", message_id="m") == ACCEPTED
    assert bench.publish(b"2", message_id="m") == KNOWN
    assert bench.publish(b"3", message_id="other") == ACCEPTED
    assert bench.publish(b"4") == bench.publish(b"5") == ACCEPTED
    assert bench.ready() == [b"1", b"3", b"4", b"5"]


def test_a_key_may_come_again_when_its_time_is_over() -> None:
    bench = keyed()
    bench.publish(b"1", message_id="m")
    bench.office.now += 1000
    assert bench.publish(b"2", message_id="m") == ACCEPTED


def test_a_key_may_have_its_own_time() -> None:
    bench = keyed()
    bench.publish(b"1", message_id="m", headers={"x-cache-ttl": 200})
    bench.office.now += 200
    assert bench.publish(b"2", message_id="m") == ACCEPTED


def test_the_key_of_a_message_that_was_refused_is_not_remembered() -> None:
    bench = keyed(length_max=1, overflow=1)
    bench.publish(b"1")
    assert bench.publish(b"2", message_id="m") == REFUSED
    bench.queue.get(Taker())
    assert bench.publish(b"2", message_id="m") == ACCEPTED


def test_what_the_broker_sends_on_is_never_a_duplicate() -> None:
    bench = keyed()
    bench.publish(b"1", message_id="m")
    assert bench.queue.receive(message(b"2", message_id="m")) == ACCEPTED


def test_a_message_and_its_key_are_in_one_batch() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"window": DedupWindow(1, disk.journal, 10, 0)})
    bench.keep(b"1", message_id="m")
    disk.commit()
    assert [note.kind & 0xFF for note in disk.notes()] == [PLACED, KEY]


def test_a_deleted_queue_forgets_its_keys() -> None:
    bench = keyed()
    bench.publish(b"1", message_id="m")
    bench.queue.close()
    assert bench.queue.window.keys == {}


# ---- a start


def test_after_a_start_what_expires_of_its_own_is_looked_at() -> None:
    disk = FakeDisk()
    Bench(disk).keep(b"1", expiration="10")
    again = restarted(disk)
    assert again.queue.has_rules
    assert again.office.take_unfinished() == [again.queue]
    again.queue.go_on()
    load_all(disk, again.queue)
    assert again.alarms == [NOW + 10]
    again.at(10)
    assert again.queue.expired_total == 1


def test_after_a_start_rules_hold_for_what_was_there() -> None:
    disk = FakeDisk()
    Bench(disk).keep(b"1", b"2", b"3")
    again = restarted(disk, length_max=1)
    again.queue.go_on()
    assert (again.queue.ready_count(), again.queue.dropped_total) == (1, 2)


@pytest.mark.parametrize("rules", [{}, {"length_max": 5}])
def test_a_start_without_messages_or_rules_has_nothing_to_look_at(rules: dict[str, int]) -> None:
    disk = FakeDisk()
    if not rules:
        Bench(disk).keep(b"1")
    again = restarted(disk, **rules)
    assert again.office.take_unfinished() == []


def test_deliveries_before_a_start_count_for_the_limit() -> None:
    disk, taker = FakeDisk(), Taker()
    bench = Bench(disk)
    bench.keep(b"1")
    for _ in range(3):
        bench.queue.get(taker)
        bench.queue.requeue(taker.held.pop())
    again = restarted(disk, delivery_limit=2, dead_letter_exchange=b"x")
    again.queue.go_on()
    load_all(disk, again.queue)
    assert again.letters() == [("delivery_limit", b"1")]


def test_priorities_survive_a_start() -> None:
    disk, taker = FakeDisk(), Taker()
    bench = Bench(disk, {"priority_max": 5})
    for body, priority in ((b"a", 0), (b"b", 5), (b"c", 3), (b"d", 5)):
        bench.keep(body, priority=priority)
    again = restarted(disk, {"priority_max": 5})
    assert (again.queue.ready_count(), again.queue.ready_bytes()) == (4, 4)
    again.queue.subscribe(taker)
    load_all(disk, again.queue)
    assert taker.bodies() == [b"b", b"d", b"c", b"a"]
    again.keep(b"e")
    assert taker.held[-1].position == 5


def test_compaction_finds_messages_of_every_priority() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"priority_max": 5})
    for priority in (0, 5):
        bench.keep(b"x", priority=priority)
    again = restarted(disk, {"priority_max": 5})
    for note in disk.noted(PLACED):
        location = 1 << 32 | note.a
        assert again.queue.find_stored(note.first, location)
        assert again.queue.move_stored(note.first, location, location + 800, 50) == 0
        assert again.queue.find_stored(note.first, location + 800)


def test_messages_of_every_priority_in_memory_are_found_by_their_segment() -> None:
    disk, found = FakeDisk(), dict[tuple[int, int], object]()
    bench = Bench(disk, {"priority_max": 5})
    for priority in (0, 5):
        bench.queue.publish(persistent(priority=priority))
    bench.queue.collect_located(1, found)
    assert sorted(found) == [(1, 1), (1, 2)]


def test_new_rules_after_a_start_are_kept_while_loads_are_on_their_way() -> None:
    disk = FakeDisk()
    Bench(disk).keep(b"1", b"2", b"3")
    again = restarted(disk)
    load = again.queue.take_load(disk.journal)
    again.queue.set_rules(Rules(length_max=1))
    assert again.queue.ready_count() == 3, "what is being read cannot be dropped"
    disk.read(load)
    again.queue.finish_load(load)
    assert (again.queue.ready_count(), again.ready()) == (1, [b"3"])
