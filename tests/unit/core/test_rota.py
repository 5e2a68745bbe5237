"""The rota: round robin among those of the highest priority who can take; the full are parked until woken."""

from __future__ import annotations

from leveret.core.channel import Channel
from leveret.core.consumer import Consumer
from leveret.core.contract import Subscriber
from leveret.core.rota import Rota
from tests.unit.queues.dataplane import Workbench, message, new_consumer


class Person(Subscriber):
    """Takes while it has capacity and counts how often it was asked."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        super().__init__()
        self.capacity = capacity
        self.asked = 0
        self.parkings = 0

    def can_take(self) -> bool:
        self.asked += 1
        return self.capacity > 0

    def park(self) -> int:
        self.parkings += 1
        return 0


def rota_of(*subscribers: Subscriber) -> Rota:
    rota = Rota()
    for subscriber in subscribers:
        rota.add(subscriber)
    return rota


def consumers(*priorities: int) -> tuple[Channel, list[Consumer]]:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    return channel, [new_consumer(channel, queue, f"c{i}", priority=p) for i, p in enumerate(priorities)]


def test_nobody_is_next_in_an_empty_rota() -> None:
    assert Rota().next() is None


def test_turns_go_round() -> None:
    a, b, c = people = [Person(), Person(), Person()]
    rota = rota_of(*people)
    assert [rota.next() for _ in range(7)] == [a, b, c, a, b, c, a]


def test_one_alone_has_every_turn() -> None:
    alone = Person()
    rota = rota_of(alone)
    assert [rota.next(), rota.next()] == [alone, alone]


def test_the_highest_priority_goes_first_and_shares_only_among_its_own() -> None:
    _, (low, high, middle, high_too) = consumers(-1, 5, 0, 5)
    rota = rota_of(low, high, middle, high_too)
    assert [rota.next() for _ in range(4)] == [high, high_too, high, high_too]


def test_lower_priorities_have_their_turn_when_the_higher_are_gone() -> None:
    _, (low, high, middle) = consumers(-1, 5, 0)
    rota = rota_of(low, high, middle)
    rota.remove(high)
    assert rota.next() is middle
    rota.remove(middle)
    assert rota.next() is low
    rota.remove(low)
    assert rota.next() is None


def test_the_full_are_parked_and_asked_only_once() -> None:
    full, free = Person(capacity=0), Person()
    rota = rota_of(full, free)
    assert [rota.next() for _ in range(5)] == [free] * 5
    assert (full.asked, full.parkings) == (1, 1)


def test_all_full_is_nobody_and_everybody_is_parked() -> None:
    people = [Person(capacity=0) for _ in range(3)]
    rota = rota_of(*people)
    assert rota.next() is None
    assert [person.parkings for person in people] == [1, 1, 1]
    assert rota.next() is None
    assert [person.asked for person in people] == [1, 1, 1]


def test_one_added_again_after_parking_has_turns_again() -> None:
    back, other = Person(capacity=0), Person()
    rota = rota_of(back, other)
    assert rota.next() is other
    back.capacity = 1
    rota.add(back)
    assert {rota.next(), rota.next()} == {back, other}


def test_removing_the_one_whose_turn_it_is_passes_the_turn_on() -> None:
    a, b, c = people = [Person(), Person(), Person()]
    rota = rota_of(*people)
    assert rota.next() is a
    rota.remove(b)
    assert [rota.next(), rota.next(), rota.next()] == [c, a, c]


def test_removing_one_that_is_parked_or_unknown_is_no_error() -> None:
    parked, other = Person(capacity=0), Person()
    rota = rota_of(parked, other)
    rota.next()
    rota.remove(parked)
    rota.remove(Person())
    assert rota.next() is other


def test_a_full_consumer_of_high_priority_leaves_the_turn_to_the_lower() -> None:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    bench.consume(channel, queue, "high", priority=9, prefetch_count=1)
    bench.consume(channel, queue, "low")
    for _ in range(3):
        queue.publish(message())
    assert [sent.fields["consumer_tag"] for sent in bench.sent()] == ["high", "low", "low"]


def test_nobody_has_a_turn_while_it_is_paused_and_everybody_keeps_his_place() -> None:
    a, b, c = Person(), Person(), Person()
    rota = rota_of(a, b)
    assert rota.next() is a
    rota.pause(True)
    rota.add(c)
    assert rota.next() is None
    assert (b.asked, b.parkings, c.asked) == (0, 0, 0)
    rota.pause(False)
    assert [rota.next() for _ in range(3)] == [b, a, c]


def test_one_alone_is_paused_and_has_every_turn_afterwards() -> None:
    alone = Person()
    rota = rota_of(alone)
    rota.pause(True)
    assert rota.next() is None
    rota.pause(False)
    assert [rota.next(), rota.next()] == [alone, alone]
    late = Rota(True)
    late.add(alone)
    assert late.next() is None
