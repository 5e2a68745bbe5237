"""The consumer ring: round robin among those of the highest priority who can take; the full are parked until woken."""

from __future__ import annotations

from leveret.core.connection.channel import Channel
from leveret.core.connection.consumer import Consumer
from leveret.core.queue.consumer_ring import ConsumerRing
from leveret.core.queue.contract import Subscriber
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


def rota_of(*subscribers: Subscriber) -> ConsumerRing:
    consumer_ring = ConsumerRing()
    for subscriber in subscribers:
        consumer_ring.add(subscriber)
    return consumer_ring


def consumers(*priorities: int) -> tuple[Channel, list[Consumer]]:
    bench = Workbench()
    channel, queue = bench.open_channel(), bench.add_queue()
    return channel, [new_consumer(channel, queue, f"c{i}", priority=p) for i, p in enumerate(priorities)]


def test_nobody_is_next_in_an_empty_rota() -> None:
    assert ConsumerRing().next() is None


def test_turns_go_round() -> None:
    a, b, c = people = [Person(), Person(), Person()]
    consumer_ring = rota_of(*people)
    assert [consumer_ring.next() for _ in range(7)] == [a, b, c, a, b, c, a]


def test_one_alone_has_every_turn() -> None:
    alone = Person()
    consumer_ring = rota_of(alone)
    assert [consumer_ring.next(), consumer_ring.next()] == [alone, alone]


def test_the_highest_priority_goes_first_and_shares_only_among_its_own() -> None:
    _, (low, high, middle, high_too) = consumers(-1, 5, 0, 5)
    consumer_ring = rota_of(low, high, middle, high_too)
    assert [consumer_ring.next() for _ in range(4)] == [high, high_too, high, high_too]


def test_lower_priorities_have_their_turn_when_the_higher_are_gone() -> None:
    _, (low, high, middle) = consumers(-1, 5, 0)
    consumer_ring = rota_of(low, high, middle)
    consumer_ring.remove(high)
    assert consumer_ring.next() is middle
    consumer_ring.remove(middle)
    assert consumer_ring.next() is low
    consumer_ring.remove(low)
    assert consumer_ring.next() is None


def test_the_full_are_parked_and_asked_only_once() -> None:
    full, free = Person(capacity=0), Person()
    consumer_ring = rota_of(full, free)
    assert [consumer_ring.next() for _ in range(5)] == [free] * 5
    assert (full.asked, full.parkings) == (1, 1)


def test_all_full_is_nobody_and_everybody_is_parked() -> None:
    people = [Person(capacity=0) for _ in range(3)]
    consumer_ring = rota_of(*people)
    assert consumer_ring.next() is None
    assert [person.parkings for person in people] == [1, 1, 1]
    assert consumer_ring.next() is None
    assert [person.asked for person in people] == [1, 1, 1]


def test_one_added_again_after_parking_has_turns_again() -> None:
    back, other = Person(capacity=0), Person()
    consumer_ring = rota_of(back, other)
    assert consumer_ring.next() is other
    back.capacity = 1
    consumer_ring.add(back)
    assert {consumer_ring.next(), consumer_ring.next()} == {back, other}


def test_removing_the_one_whose_turn_it_is_passes_the_turn_on() -> None:
    a, b, c = people = [Person(), Person(), Person()]
    consumer_ring = rota_of(*people)
    assert consumer_ring.next() is a
    consumer_ring.remove(b)
    assert [consumer_ring.next(), consumer_ring.next(), consumer_ring.next()] == [c, a, c]


def test_removing_one_that_is_parked_or_unknown_is_no_error() -> None:
    parked, other = Person(capacity=0), Person()
    consumer_ring = rota_of(parked, other)
    consumer_ring.next()
    consumer_ring.remove(parked)
    consumer_ring.remove(Person())
    assert consumer_ring.next() is other


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
    consumer_ring = rota_of(a, b)
    assert consumer_ring.next() is a
    consumer_ring.pause(True)
    consumer_ring.add(c)
    assert consumer_ring.next() is None
    assert (b.asked, b.parkings, c.asked) == (0, 0, 0)
    consumer_ring.pause(False)
    assert [consumer_ring.next() for _ in range(3)] == [b, a, c]


def test_one_alone_is_paused_and_has_every_turn_afterwards() -> None:
    alone = Person()
    consumer_ring = rota_of(alone)
    consumer_ring.pause(True)
    assert consumer_ring.next() is None
    consumer_ring.pause(False)
    assert [consumer_ring.next(), consumer_ring.next()] == [alone, alone]
    late = ConsumerRing(True)
    late.add(alone)
    assert late.next() is None
