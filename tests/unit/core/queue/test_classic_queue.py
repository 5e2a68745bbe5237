"""The classic queue's rules: what expires, what is too much, what was handed out too often, and where it goes."""

from __future__ import annotations

import random

import pytest

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.leveled_queue import LeveledQueue
from leveret.core.queue.plain_queue import PlainQueue
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import SETTLED, FakeDisk
from tests.unit.core.rule_bench import NOW, Bench
from tests.unit.core.takers import Taker, ready_bodies
from tests.unit.queues.dataplane import message

ACCEPTED, REFUSED = 0, 1
DROP_HEAD, REJECT, REJECT_AND_BURY = 0, 1, 2
# As core.queue.classic_queue has it.
SWEPT_A_STEP = 512


# ---- without rules


def play(queue: PlainQueue, seed: int) -> list[object]:
    rolls, takers = random.Random(seed), [Taker(capacity=3) for _ in range(3)]
    for number in range(300):
        choice, taker = rolls.randrange(7), takers[rolls.randrange(3)]
        if choice < 3:
            one = message(b"%d" % number)
            one.stamp = NOW
            queue.publish(one)
        elif choice == 3 and taker not in (queue.subscribers or ()):
            queue.subscribe(taker)
        elif choice == 4 and taker.held:
            queue.settle(taker.held.pop(0))
            queue.dispatch()
        elif choice == 5 and taker.held:
            queue.requeue(taker.held.pop())
            queue.dispatch()
        elif taker in (queue.subscribers or ()):
            queue.unsubscribe(taker)
    return [ready_bodies(queue), [taker.bodies() for taker in takers], queue.unacked_count, queue.delivered_total]


@pytest.mark.parametrize("seed", range(5))
def test_without_rules_or_with_rules_that_never_bite_it_is_the_plain_queue(seed: int) -> None:
    plain = play(LeveledQueue(b"q", None, False, None, None, False, 0), seed)
    assert play(Bench().queue, seed) == plain
    assert play(Bench(features={"priority_max": 5}).queue, seed) == plain
    never = Bench(ttl_ms=10**9, length_max=10**9, bytes_max=10**9, delivery_limit=10**9)
    assert play(never.queue, seed) == plain


def test_a_queue_looks_at_its_messages_only_if_it_must() -> None:
    bench = Bench()
    bench.publish(b"1")
    assert not bench.queue.has_rules
    bench.publish(b"2", expiration="50")
    assert bench.queue.has_rules


def test_it_stops_looking_when_nothing_is_left_that_may_expire() -> None:
    bench, taker = Bench(), Taker()
    bench.publish(b"1", expiration="50")
    bench.queue.subscribe(taker)
    assert not bench.queue.has_rules
    bench.queue.requeue(taker.held.pop())
    assert bench.queue.has_rules, "what came back may expire"


def test_it_stops_looking_when_its_rules_are_taken_away() -> None:
    bench = Bench(length_max=5)
    bench.publish(b"1")
    bench.queue.set_rules(Rules())
    assert bench.queue.has_rules
    bench.queue.get(Taker())
    assert not bench.queue.has_rules


# ---- expiry


def test_a_message_expires_at_the_head_when_its_time_has_come() -> None:
    bench = Bench(ttl_ms=50)
    bench.publish(b"1")
    bench.at(49)
    assert bench.ready() == [b"1"]
    bench.at(50)
    assert (bench.ready(), bench.queue.expired_total) == ([], 1)


@pytest.mark.parametrize(("of_queue", "of_message", "expected"), [(50, "20", 20), (20, "50", 20), (-1, "30", 30)])
def test_the_shorter_time_counts(of_queue: int, of_message: str, expected: int) -> None:
    bench = Bench(ttl_ms=of_queue)
    bench.publish(b"1", expiration=of_message)
    assert bench.alarms == [NOW + expected]
    bench.at(expected - 1)
    assert bench.ready() == [b"1"]
    bench.at(expected)
    assert bench.ready() == []


def test_one_that_expired_behind_a_live_one_waits_until_it_is_next() -> None:
    bench, taker = Bench(), Taker()
    bench.publish(b"1")
    bench.publish(b"2", expiration="10")
    bench.publish(b"3")
    bench.at(20)
    assert bench.ready() == [b"1", b"2", b"3"]
    bench.queue.get(taker)
    assert (bench.ready(), bench.queue.expired_total) == ([b"3"], 1)


def test_an_expired_message_is_not_handed_out() -> None:
    bench, taker = Bench(ttl_ms=10), Taker(capacity=1)
    bench.publish(b"1", b"2")
    bench.office.now += 10
    assert bench.queue.get(taker) == 0
    bench.publish(b"3")
    bench.queue.subscribe(taker)
    assert taker.bodies() == [b"3"]


def test_a_message_that_expires_at_once_still_reaches_a_consumer_that_waits() -> None:
    bench, taker = Bench(ttl_ms=0), Taker(capacity=1)
    bench.queue.subscribe(taker)
    bench.publish(b"1", b"2")
    assert (taker.bodies(), bench.ready(), bench.queue.expired_total) == ([b"1"], [], 1)


def test_the_alarm_is_set_for_the_head_and_anew_for_the_next() -> None:
    bench = Bench(ttl_ms=50)
    bench.publish(b"1")
    bench.office.now += 10
    bench.publish(b"2")
    assert (bench.alarms, bench.queue.alarm_at) == ([NOW + 50], NOW + 50)
    bench.at(50)
    assert bench.alarms == [NOW + 50, NOW + 60]
    bench.at(60)
    assert (bench.alarms, bench.queue.alarm_at) == ([NOW + 50, NOW + 60], 0)


def test_an_earlier_expiry_at_the_head_sets_an_earlier_alarm() -> None:
    bench = Bench()
    bench.publish(b"1", expiration="50")
    bench.queue.set_rules(Rules(ttl_ms=20))
    bench.queue.set_rules(Rules(ttl_ms=30))
    assert bench.alarms == [NOW + 50, NOW + 20]


def test_a_message_that_came_back_expires_as_well() -> None:
    bench, taker = Bench(), Taker()
    bench.publish(b"1", expiration="50")
    bench.queue.get(taker)
    bench.queue.requeue(taker.held.pop())
    bench.queue.dispatch()
    bench.at(50)
    assert bench.ready() == []


def test_a_deleted_queue_that_is_rung_does_nothing() -> None:
    bench = Bench(ttl_ms=50)
    bench.publish(b"1")
    bench.queue.close()
    bench.at(50)
    bench.queue.go_on()
    assert bench.queue.expired_total == 0


# ---- limits


def test_the_oldest_leave_when_there_are_too_many() -> None:
    bench = Bench(length_max=2)
    bench.publish(b"1", b"2", b"3", b"4")
    assert (bench.ready(), bench.queue.dropped_total) == ([b"3", b"4"], 2)


def test_the_oldest_leave_when_they_are_too_large() -> None:
    bench = Bench(bytes_max=5)
    bench.publish(b"12", b"34", b"567")
    assert bench.ready() == [b"34", b"567"]
    bench.publish(b"123456")
    assert (bench.ready(), bench.queue.dropped_total) == ([], 4)


def test_what_a_consumer_holds_does_not_count() -> None:
    bench, taker = Bench(length_max=1), Taker(capacity=2)
    bench.queue.subscribe(taker)
    bench.publish(b"1", b"2", b"3")
    assert (taker.bodies(), bench.ready()) == ([b"1", b"2"], [b"3"])
    bench.queue.requeue(taker.held.pop())
    bench.queue.dispatch()
    assert (bench.ready(), bench.queue.dropped_total) == ([b"3"], 1)


def test_new_limits_hold_at_once() -> None:
    bench = Bench()
    bench.publish(b"1", b"2", b"3")
    bench.queue.set_rules(Rules(length_max=1))
    assert bench.ready() == [b"3"]


@pytest.mark.parametrize("overflow", [REJECT, REJECT_AND_BURY])
@pytest.mark.parametrize("limit", [{"length_max": 2}, {"bytes_max": 2}])
def test_a_full_queue_refuses_what_is_new(overflow: int, limit: dict[str, int]) -> None:
    bench = Bench(overflow=overflow, **limit)
    assert bench.publish(b"1", b"2") == ACCEPTED
    assert bench.publish(b"3") == REFUSED
    assert (bench.ready(), bench.queue.refused_total, bench.letters()) == ([b"1", b"2"], 1, [])
    bench.queue.get(Taker())
    assert bench.publish(b"3") == ACCEPTED


def test_what_is_refused_is_buried_only_if_the_rule_says_so() -> None:
    for overflow, expected in ((REJECT, []), (REJECT_AND_BURY, [("maxlen", b"2")])):
        bench = Bench(length_max=1, overflow=overflow, dead_letter_exchange=b"x")
        bench.publish(b"1", b"2")
        assert bench.letters() == expected
        assert bench.queue.buried_total == len(expected)
        assert [letter.position for letter in bench.office.letters] == [0] * len(expected)


def test_a_long_queue_is_shortened_in_steps() -> None:
    bench = Bench()
    bench.publish(*[b"x"] * (SWEPT_A_STEP + 10))
    bench.queue.set_rules(Rules(length_max=1))
    assert bench.queue.ready_count() == 10
    assert bench.office.take_unfinished() == [bench.queue]
    bench.queue.go_on()
    assert (bench.queue.ready_count(), bench.office.take_unfinished()) == (1, [])


def test_what_is_too_much_and_on_disk_is_dropped_unread() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"lazy": True})
    bench.keep(b"1", b"2", b"3")
    disk.commit()
    bench.queue.set_rules(Rules(length_max=1))
    assert (bench.queue.ready_count(), bench.queue.dropped_total, disk.wanting) == (1, 2, [])
    disk.commit()
    assert [note[1:3] for note in disk.noted(SETTLED)] == [(1, 2)]


def test_what_is_too_much_and_goes_on_to_somewhere_is_read_first() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"lazy": True})
    bench.keep(b"1", b"2")
    disk.commit()
    bench.queue.set_rules(Rules(length_max=1, dead_letter_exchange=b"x"))
    assert (bench.letters(), disk.wanting) == ([], [bench.queue])
    disk.load(bench.queue)
    assert bench.letters() == [("maxlen", b"1")]


# ---- letters


def test_everything_that_leaves_goes_as_a_letter_if_there_is_an_exchange_for_it() -> None:
    rules = {"ttl_ms": 50, "length_max": 2, "delivery_limit": 0, "dead_letter_exchange": b"x"}
    bench, taker = Bench(**rules), Taker()
    bench.publish(b"1", b"2", b"3")
    bench.queue.get(taker)
    bench.queue.requeue(taker.held.pop())
    bench.queue.get(taker)
    bench.queue.discard(taker.held.pop())
    bench.publish(b"4")
    bench.at(50)
    assert bench.letters() == [("maxlen", b"1"), ("delivery_limit", b"2"), ("rejected", b"3"), ("expired", b"4")]
    assert (bench.queue.buried_total, bench.queue.discarded_total, bench.queue.limited_total) == (4, 1, 1)


def test_a_letter_keeps_its_record_until_it_was_sent() -> None:
    disk = FakeDisk()
    bench = Bench(disk, ttl_ms=10, dead_letter_exchange=b"x")
    bench.keep(b"1")
    bench.at(10)
    (letter,) = bench.office.letters
    assert (letter.position, letter.rules.dead_letter_exchange, disk.live()) == (1, b"x", 1)
    bench.queue.letter_sent(letter)
    assert disk.live() == 0
    disk.commit()
    assert len(disk.noted(SETTLED)) == 1


def test_a_letter_of_a_transient_message_has_no_record_to_keep() -> None:
    disk = FakeDisk()
    bench = Bench(disk, ttl_ms=10, dead_letter_exchange=b"x")
    bench.publish(b"1")
    bench.at(10)
    (letter,) = bench.office.letters
    assert letter.position == 0
    bench.queue.letter_sent(letter)
    assert bench.queue.queue_log.live == 0


def test_what_leaves_for_good_is_settled_at_once() -> None:
    disk = FakeDisk()
    bench = Bench(disk, ttl_ms=10)
    bench.keep(b"1")
    bench.at(10)
    assert (bench.letters(), disk.live()) == ([], 0)


def test_with_retries_alone_only_what_a_client_gave_back_is_a_letter() -> None:
    bench, taker = Bench(ttl_ms=10, retry_delays=(5,)), Taker()
    bench.publish(b"1", b"2")
    bench.queue.get(taker)
    bench.queue.discard(taker.held.pop())
    bench.at(10)
    assert (bench.letters(), bench.queue.expired_total) == ([("rejected", b"1")], 1)


def test_a_deleted_queue_writes_no_letters() -> None:
    bench, taker = Bench(dead_letter_exchange=b"x"), Taker()
    bench.publish(b"1", b"2")
    bench.queue.get(taker)
    bench.queue.close()
    bench.queue.discard(taker.held.pop())
    assert bench.letters() == []


# ---- delivery limit


def test_a_message_that_came_back_too_often_leaves() -> None:
    bench, taker = Bench(delivery_limit=2), Taker()
    bench.publish(b"1")
    for _ in range(2):
        bench.queue.get(taker)
        bench.queue.requeue(taker.held.pop())
        assert bench.ready() == [b"1"]
    bench.queue.get(taker)
    bench.queue.requeue(taker.held.pop())
    assert (bench.ready(), bench.queue.limited_total, bench.queue.unacked_count) == ([], 1, 0)


def test_a_limit_that_comes_later_counts_what_was_before() -> None:
    bench, taker = Bench(), Taker()
    bench.publish(b"1")
    for _ in range(3):
        bench.queue.get(taker)
        bench.queue.requeue(taker.held.pop())
    bench.queue.set_rules(Rules(delivery_limit=2, dead_letter_exchange=b"x"))
    assert bench.letters() == [("delivery_limit", b"1")]
    assert bench.office.letters[0].deliveries == 3


# ---- bodies that only the disk has


def given_back(bench: Bench, disk: FakeDisk, reject: bool = True) -> None:
    """A consumer gives back a message whose body memory did not keep."""
    taker = Taker()
    bench.keep(b"1")
    disk.commit()
    disk.load(bench.queue)
    disk.paging_context.pressed = True
    bench.queue.get(taker)
    assert taker.bodies() == [None]
    entry = taker.held.pop()
    if reject:
        bench.queue.discard(entry)
    else:
        bench.queue.requeue(entry)
        bench.queue.dispatch()


def test_a_rejected_message_that_only_the_disk_has_is_read_before_it_leaves() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"lazy": True}, dead_letter_exchange=b"x")
    given_back(bench, disk)
    assert (bench.letters(), disk.wanting) == ([], [bench.queue])
    disk.load(bench.queue)
    assert (bench.letters(), bench.queue.ready_count()) == ([("rejected", b"1")], 0)
    assert bench.queue.discarded_total == 1


@pytest.mark.parametrize(("reject", "reason"), [(True, "rejected"), (False, "delivery_limit")])
def test_one_that_must_leave_anyway_is_not_taken_for_too_much(reject: bool, reason: str) -> None:
    """It stands in the full queue only until it was read; as one too many it would not be tried again."""
    disk = FakeDisk()
    bench = Bench(disk, {"lazy": True}, length_max=0, delivery_limit=0, retry_delays=(5,))
    bench.queue.set_rules(Rules(length_max=1, delivery_limit=0, retry_delays=(5,)))
    given_back(bench, disk, reject)
    bench.queue.set_rules(Rules(length_max=0, delivery_limit=0, retry_delays=(5,)))
    disk.load(bench.queue)
    assert (bench.letters(), bench.queue.dropped_total) == ([(reason, b"1")], 0)


def test_purged_messages_are_forgotten_even_if_they_were_rejected() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"lazy": True}, dead_letter_exchange=b"x")
    given_back(bench, disk)
    assert bench.queue.purge() == 1
    assert (bench.letters(), disk.live()) == ([], 0)


def test_a_head_on_disk_is_read_to_see_whether_it_has_expired() -> None:
    disk = FakeDisk()
    bench = Bench(disk, {"lazy": True}, ttl_ms=10)
    bench.keep(b"1")
    disk.commit()
    assert disk.wanting == [bench.queue]
    disk.load(bench.queue)
    assert bench.alarms == [NOW + 10]


def test_a_queue_whose_rules_are_gone_is_a_plain_one_again() -> None:
    for bodies in ((), (b"1",)):
        queue = ClassicQueue(b"q", None)
        queue.set_rules(Rules(ttl_ms=50), 5)
        assert queue.has_rules
        for body in bodies:
            queue.publish(message(body))
        queue.set_rules(Rules(), 10)
        taker = Taker()
        queue.subscribe(taker)
        for entry in list(taker.held):
            queue.settle(entry)
        queue.dispatch()
        assert (queue.has_rules, queue.rules.eras) == (False, ())
