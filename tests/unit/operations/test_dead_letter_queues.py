"""Which queues are there for dead letters: by rules, with waiting rooms of retries left out."""

import asyncio
from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import BindingRecord, ExchangeRecord, QueueRecord
from leveret.operations import dead_letter_queues
from leveret.operations.dead_letter_queues import OTHERS, SOURCES_MAX, DeadLetterQueues
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.runtime.time_slice import TimeSlice


class House:
    def __init__(self) -> None:
        self.broker = Broker(Dice(), Clock())
        self.broker.create_defaults()

    def queue(self, name: str, **arguments: Any) -> None:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.broker.apply(commands.DeclareQueue(QueueRecord("/", name, "classic", False, False, 0, given, 0)))

    def dead(self, name: str, to: str, **more: Any) -> None:
        """A queue whose dead letters go to another by the default exchange."""
        self.queue(name, x_dead_letter_exchange="", x_dead_letter_routing_key=to, **more)

    def exchange(self, name: str, kind: str, bindings: dict[str, str]) -> None:
        record = ExchangeRecord("/", name, kind, False, False, False, {})
        self.broker.apply(commands.DeclareExchange(record))
        for queue, key in bindings.items():
            self.broker.apply(commands.Bind(BindingRecord("/", name, True, queue, key, {})))

    def found(self) -> dict[str, list[str]]:
        async def ask() -> dict[Any, list[str]]:
            return await DeadLetterQueues(self.broker, self.broker.vhosts["/"]).sources(TimeSlice())

        return {queue.record.name: names for queue, names in asyncio.run(ask()).items()}


@pytest.fixture
def house() -> House:
    return House()


def test_a_queue_that_dead_letters_lead_to_is_one(house: House) -> None:
    house.queue("plain")
    house.queue("orders.dead")
    house.dead("orders", "orders.dead")
    house.dead("refunds", "orders.dead")
    house.dead("lost", "nowhere")
    assert house.found() == {"orders.dead": ["orders", "refunds"]}


def test_a_parking_lot_is_one(house: House) -> None:
    house.queue("parked")
    house.queue("payments", x_retry_delays="1s", x_parking_lot="parked")
    assert house.found() == {"parked": ["payments"]}


def test_a_key_chooses_among_the_bindings_of_an_exchange(house: House) -> None:
    for name in ("dead", "other", "everything"):
        house.queue(name)
    house.exchange("dlx", "direct", {"dead": "failed", "other": "else"})
    house.exchange("all", "topic", {"everything": "#"})
    house.queue("by key", x_dead_letter_exchange="dlx", x_dead_letter_routing_key="failed")
    house.queue("by its own key", x_dead_letter_exchange="all")
    assert house.found() == {"dead": ["by key"], "everything": ["by its own key"]}


def test_a_queue_of_dead_letters_may_have_one_of_its_own(house: House) -> None:
    house.queue("archive")
    house.dead("orders.dead", "archive", x_message_ttl=1000)
    house.dead("orders", "orders.dead")
    assert house.found() == {"orders.dead": ["orders"], "archive": ["orders.dead"]}


def test_waiting_rooms_are_none(house: House) -> None:
    """Retries by hand: the consumer publishes to retry-1s, which expires into the queue of work."""
    house.queue("work.dead")
    house.dead("work", "work.dead")
    house.dead("retry-1s", "work", x_message_ttl=1000)
    assert house.found() == {"work.dead": ["work"]}


@pytest.mark.parametrize("rooms", [1, 3])
def test_circles_are_none(house: House, rooms: int) -> None:
    """Retries by dead-lettering alone: work goes to a room, that to the next, the last back to work."""
    names = ["work", *(f"room {number}" for number in range(rooms))]
    for name, to in zip(names, [*names[1:], "work"], strict=True):
        house.dead(name, to)
    assert house.found() == {}


def test_sources_are_bounded(house: House) -> None:
    house.queue("dead")
    for number in range(SOURCES_MAX + 5):
        house.dead(f"queue {number}", "dead")
    names = house.found()["dead"]
    assert names == [*(f"queue {number}" for number in range(SOURCES_MAX)), OTHERS]


def test_many_queues_with_retries_on_one_exchange_are_not_looked_at_in_pairs(house: House) -> None:
    """Each has a room of its own on the exchange of all, from which messages go back to it: nothing is dead there."""
    count = 300
    house.queue("failed")
    house.exchange("dlx", "topic", {"failed": "#"})
    for number in range(count):
        house.dead(f"room {number}", f"work {number}", x_message_ttl=1000)
        house.queue(f"work {number}", x_dead_letter_exchange="dlx")
        house.broker.apply(commands.Bind(BindingRecord("/", "dlx", True, f"room {number}", f"work {number}", {})))
    rests = 0

    class Counting(TimeSlice):
        async def rest(self) -> None:
            nonlocal rests
            rests += 1

    async def ask() -> dict[Any, list[str]]:
        return await DeadLetterQueues(house.broker, house.broker.vhosts["/"]).sources(Counting())

    found = {queue.record.name: names for queue, names in asyncio.run(ask()).items()}
    assert found.keys() == {"failed"}
    assert len(found["failed"]) == SOURCES_MAX + 1
    # It rests at each step: a few for each queue and binding, far from one for each pair.
    assert rests < 20 * count


def test_places_beyond_a_number_are_left_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_queues, "TARGETS_MAX", 2)
    for number in range(4):
        house.queue(f"dead {number}")
        house.dead(f"work {number}", f"dead {number}")
    assert house.found() == {"dead 0": ["work 0"], "dead 1": ["work 1"]}
