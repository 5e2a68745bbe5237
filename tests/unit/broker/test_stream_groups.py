"""Consumer groups: who is active, how one member follows another, and members that make trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leveret.broker.stream_groups import GroupKey, StreamGroups
from leveret.broker.timer_queue import TimerQueue
from leveret.errors import SoftError
from tests.unit.broker.turns import HandClock, HandLoop

PLAIN = GroupKey("/", "orders", "billing")
DEADLINE_MS = 500


def partition(index: int, name: str = "billing") -> GroupKey:
    return GroupKey("/", f"orders-{index}", name, index)


class Reader:
    """A member that remembers what it was told, and answers when the test wants it."""

    def __init__(self, name: str = "", at_once: bool = False) -> None:
        self.name = name
        self.at_once = at_once
        self.told: list[str] = []
        self.answers: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        raise AssertionError("members are told apart by what they are, not by what they say")

    __hash__ = object.__hash__

    def activate(self) -> None:
        self.told.append("activate")

    def deactivate(self, done: Callable[[], None]) -> None:
        self.told.append("deactivate")
        self.answers.append(done)
        if self.at_once:
            done()


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.loop = HandLoop()
        self.timers = TimerQueue(self.clock.now_ms, lambda: None, lambda: None)
        self.timers.start(self.loop.as_loop())
        self.groups = StreamGroups(self.timers, self.clock.now_ms, DEADLINE_MS)

    def joined(self, key: GroupKey, *names: str) -> list[Reader]:
        readers = [Reader(name) for name in names]
        for reader in readers:
            self.groups.join(key, reader)
        return readers

    def pass_ms(self, count: int) -> None:
        self.clock.ms += count
        self.loop.turn()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.timers.stop()


# ---- whose turn it is


def test_the_first_to_come_reads_a_stream(bench: Bench) -> None:
    first, second, third = bench.joined(PLAIN, "first", "second", "third")
    assert bench.groups.active(PLAIN) is first
    assert (first.told, second.told, third.told) == (["activate"], [], [])
    assert [repr(member) for member in bench.groups.members(PLAIN)] == ["first", "second", "third"]


def test_the_next_one_follows_who_has_gone(bench: Bench) -> None:
    first, second, third = bench.joined(PLAIN, "first", "second", "third")
    bench.groups.leave(PLAIN, second)
    assert bench.groups.active(PLAIN) is first
    bench.groups.leave(PLAIN, first)
    assert bench.groups.active(PLAIN) is third
    assert (first.told, second.told, third.told) == (["activate"], [], ["activate"])


def test_a_group_ends_with_its_last_member(bench: Bench) -> None:
    (only,) = bench.joined(PLAIN, "only")
    assert len(bench.groups) == 1
    bench.groups.leave(PLAIN, only)
    assert (len(bench.groups), bench.groups.members(PLAIN), bench.groups.active(PLAIN)) == (0, [], None)


def test_groups_of_other_names_streams_and_hosts_have_nothing_to_do_with_each_other(bench: Bench) -> None:
    keys = [
        PLAIN,
        GroupKey("/", "orders", "audit"),
        GroupKey("/", "other", "billing"),
        GroupKey("v", "orders", "billing"),
    ]
    for key in keys:
        (reader,) = bench.joined(key, "reader")
        assert bench.groups.active(key) is reader
    assert bench.groups.keys("/") == keys[:3]


@pytest.mark.parametrize(("index", "expected"), [(0, 0), (1, 1), (2, 2), (3, 0), (7, 1), (999, 0)])
def test_the_number_of_a_partition_says_whose_turn_it_is(bench: Bench, index: int, expected: int) -> None:
    readers = [Reader(at_once=True) for _ in range(3)]
    for reader in readers:
        bench.groups.join(partition(index), reader)
    assert bench.groups.active(partition(index)) is readers[expected]


def test_partitions_are_spread_over_members_that_read_all(bench: Bench) -> None:
    applications = [[Reader(at_once=True) for _ in range(7)] for _ in range(3)]
    for readers in applications:
        for index, reader in enumerate(readers):
            bench.groups.join(partition(index), reader)
    active = [bench.groups.active(partition(index)) for index in range(7)]
    counts = [sum(reader is chosen for reader, chosen in zip(readers, active, strict=True)) for readers in applications]
    assert counts == [3, 2, 2]


# ---- from one to the next


def test_nobody_begins_before_the_other_has_ended(bench: Bench) -> None:
    first, second = bench.joined(partition(1), "first", "second")
    assert first.told == ["activate", "deactivate"]
    assert (second.told, bench.groups.active(partition(1))) == ([], None)
    first.answers[0]()
    assert (second.told, bench.groups.active(partition(1))) == (["activate"], second)
    assert bench.groups.handovers_total == 1
    assert len(bench.timers) == 0


def test_an_answer_at_once_is_an_answer(bench: Bench) -> None:
    first, second = Reader(at_once=True), Reader()
    bench.groups.join(partition(1), first)
    bench.groups.join(partition(1), second)
    assert bench.groups.active(partition(1)) is second


def test_who_goes_while_handing_over_is_not_waited_for(bench: Bench) -> None:
    first, second, third = bench.joined(partition(1), "first", "second", "third")
    bench.groups.leave(partition(1), first)
    # Of those who are left it is the second one's turn.
    assert bench.groups.active(partition(1)) is third
    first.answers[0]()
    assert (first.told, second.told, third.told) == (["activate", "deactivate"], [], ["activate"])


def test_the_group_may_change_while_one_hands_over(bench: Bench) -> None:
    first, second = bench.joined(partition(1), "first", "second")
    bench.groups.leave(partition(1), second)
    # It is the first one's turn again, but it is on its way out: it begins anew when it has ended.
    assert first.told == ["activate", "deactivate"]
    first.answers[0]()
    assert first.told == ["activate", "deactivate", "activate"]
    assert second.told == []


def test_a_group_that_everybody_left_begins_anew(bench: Bench) -> None:
    first, second = bench.joined(partition(1), "first", "second")
    bench.groups.leave(partition(1), first)
    bench.groups.leave(partition(1), second)
    assert second.told == ["activate"]
    (third,) = bench.joined(partition(1), "third")
    first.answers[0]()
    assert bench.groups.active(partition(1)) is third
    assert third.told == ["activate"]


def test_an_answer_counts_once(bench: Bench) -> None:
    first, second = bench.joined(partition(1), "first", "second")
    first.answers[0]()
    bench.groups.leave(partition(1), second)
    third = bench.joined(partition(1), "third")[0]
    # The first one was activated again and hands over for the second time.
    assert first.told == ["activate", "deactivate", "activate", "deactivate"]
    first.answers[0]()
    assert bench.groups.active(partition(1)) is None
    first.answers[1]()
    assert bench.groups.active(partition(1)) is third


# ---- members that make trouble


def test_who_does_not_answer_is_not_waited_for_longer_than_the_deadline(bench: Bench) -> None:
    first, second = bench.joined(partition(1), "first", "second")
    bench.pass_ms(DEADLINE_MS - 1)
    assert bench.groups.active(partition(1)) is None
    bench.pass_ms(1)
    assert bench.groups.active(partition(1)) is second
    assert (bench.groups.overdue_total, bench.loop.waiting()) == (1, [])
    # Too late to mean anything.
    first.answers[0]()
    assert (second.told, first.told) == (["activate"], ["activate", "deactivate"])
    # It is still a member, and has its turn when it comes.
    bench.groups.leave(partition(1), second)
    assert bench.groups.active(partition(1)) is first


def test_the_deadline_is_that_of_each_handover(bench: Bench) -> None:
    first, second = bench.joined(partition(1), "first", "second")
    bench.pass_ms(DEADLINE_MS - 10)
    first.answers[0]()
    bench.groups.leave(partition(1), second)
    (third,) = bench.joined(partition(1), "third")
    bench.pass_ms(DEADLINE_MS - 10)
    assert bench.groups.active(partition(1)) is None
    bench.pass_ms(10)
    assert bench.groups.active(partition(1)) is third


def test_a_ring_in_vain_does_no_harm(bench: Bench) -> None:
    first, _second = bench.joined(partition(1), "first", "second")
    group: Any = bench.groups._groups["/", "orders-1", "billing"]
    group.ring()
    assert (bench.groups.active(partition(1)), bench.groups.overdue_total) == (None, 0)
    assert len(bench.timers) == 1
    first.answers[0]()
    group.ring()
    assert bench.groups.overdue_total == 0


def test_leaving_what_one_is_not_in_does_nothing(bench: Bench) -> None:
    (first,) = bench.joined(PLAIN, "first")
    bench.groups.leave(PLAIN, Reader())
    bench.groups.leave(GroupKey("/", "nothing", "billing"), first)
    assert bench.groups.active(PLAIN) is first


def test_joining_twice_is_our_mistake(bench: Bench) -> None:
    (first,) = bench.joined(PLAIN, "first")
    with pytest.raises(AssertionError):
        bench.groups.join(PLAIN, first)


@pytest.mark.parametrize(
    ("key", "detail"),
    [
        (GroupKey("/", "orders-1", "billing", 2), "reads partition 1, and this member partition 2"),
        (GroupKey("/", "orders-1", "billing"), "reads partition 1, and this member a stream of its own"),
    ],
)
def test_members_agree_on_the_partition(bench: Bench, key: GroupKey, detail: str) -> None:
    """Else there were two opinions on whose turn it is."""
    (first,) = bench.joined(partition(1), "first")
    with pytest.raises(SoftError) as caught:
        bench.groups.join(key, Reader())
    assert caught.value.code == 406
    assert caught.value.text == f"consumer group 'billing' of stream 'orders-1' in vhost '/' {detail}"
    assert [member is first for member in bench.groups.members(partition(1))] == [True]
    # Whatever number it says, it is found by its name.
    assert bench.groups.active(key) is first


def test_one_that_leaves_as_soon_as_it_is_its_turn(bench: Bench) -> None:
    class Shy(Reader):
        def activate(self) -> None:
            super().activate()
            bench.groups.leave(PLAIN, self)

    first, shy = Reader(), Shy()
    bench.groups.join(PLAIN, first)
    bench.groups.join(PLAIN, shy)
    (third,) = bench.joined(PLAIN, "third")
    bench.groups.leave(PLAIN, first)
    assert (shy.told, bench.groups.active(PLAIN)) == (["activate"], third)


def test_one_that_comes_back_as_soon_as_it_is_told_to_stop(bench: Bench) -> None:
    class Stubborn(Reader):
        def deactivate(self, done: Callable[[], None]) -> None:
            super().deactivate(done)
            bench.groups.leave(partition(1), self)
            bench.groups.join(partition(1), self)

    stubborn = Stubborn()
    bench.groups.join(partition(1), stubborn)
    (second,) = bench.joined(partition(1), "second")
    # The second is the first now, and it is the other one's turn again.
    assert [member is stubborn for member in bench.groups.members(partition(1))] == [False, True]
    assert bench.groups.active(partition(1)) is stubborn
    assert (stubborn.told, second.told) == (["activate", "deactivate", "activate"], [])


def test_a_long_row_of_members_that_do_not_want_their_turn(bench: Bench) -> None:
    class Shy(Reader):
        def activate(self) -> None:
            bench.groups.leave(PLAIN, self)

    (first,) = bench.joined(PLAIN, "first")
    for _ in range(2000):
        bench.groups.join(PLAIN, Shy())
    (last,) = bench.joined(PLAIN, "last")
    bench.groups.leave(PLAIN, first)
    assert bench.groups.active(PLAIN) is last
