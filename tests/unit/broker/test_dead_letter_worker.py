"""Dead letters on their way: through exchanges, back into their queue, to the parking lot, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leveret.broker import dead_letter_worker
from leveret.broker.broker import Broker
from leveret.broker.dead_letter_worker import CARRIED_A_TURN, CONGESTED_S, DeadLetterWorker
from leveret.catalog import commands
from leveret.catalog.records import QueueRecord, Vhost
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import DeadLetter
from tests.unit.broker.people import LoadedDice
from tests.unit.broker.turns import NOW, HandClock, HandLoop
from tests.unit.catalog.naming import exchange, queue, to_queue
from tests.unit.core.takers import Taker, ready_bodies
from tests.unit.queues.dataplane import message


class Town:
    """A broker without a disk, in which time passes when a test says so."""

    def __init__(self) -> None:
        self.clock, self.loop, self.kicks = HandClock(), HandLoop(), 0
        self.broker = Broker(LoadedDice(), self.clock)
        self.broker.apply(commands.PutVhost(Vhost("/")))
        self.broker.start(self.loop.as_loop(), self.kick)
        self.office = self.broker.dead_letter_worker

    def kick(self) -> None:
        self.kicks += 1

    def add(self, name: str, **arguments: Any) -> ClassicQueue:
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.broker.apply(commands.DeclareQueue(queue(name, **named)))
        return self.find(name)

    def find(self, name: str) -> Any:
        return self.broker.vhosts["/"].queues[name.encode()]

    def bury(self, queue: ClassicQueue, *bodies: bytes, **properties: Any) -> None:
        """Publishes these and rejects them."""
        for body in bodies:
            one = message(body, key=queue.record.name, **properties)
            one.stamp = self.clock.ms
            queue.publish(one)
            self.reject(queue)

    def reject(self, queue: ClassicQueue) -> None:
        taker = Taker()
        assert queue.get(taker) == 1
        queue.discard(taker.held.pop())

    def later(self, after_ms: int) -> None:
        self.clock.ms += after_ms
        self.loop.turn()
        self.loop.turn()


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town()
    yield made
    made.broker.close()


def head(queue: ClassicQueue) -> Any:
    return queue.ready_entries()[0].message


# ---- to an exchange


def test_a_letter_goes_through_its_exchange_with_word_of_its_death(town: Town) -> None:
    work, dead = town.add("work", dead_letter_exchange="dlx", dead_letter_routing_key="gone"), town.add("dead")
    town.broker.apply(commands.DeclareExchange(exchange("dlx")))
    town.broker.apply(commands.Bind(to_queue("dlx", "dead")))
    town.bury(work, b"x", message_id="m")
    assert ready_bodies(dead) == []
    town.loop.turn()
    assert ready_bodies(dead) == [b"x"]
    letter = head(dead)
    assert (letter.exchange, letter.routing_key, letter.stamp) == (b"dlx", b"gone", NOW)
    (death,) = letter.properties.headers()["x-death"]
    assert (death["queue"], death["reason"], death["time"]) == ("work", "rejected", NOW // 1000)
    assert (town.office.carried_total, town.office.unroutable_total) == (1, 0)


def test_the_default_exchange_is_one_as_well(town: Town) -> None:
    work, dead = town.add("work", dead_letter_exchange="", dead_letter_routing_key="dead"), town.add("dead")
    town.bury(work, b"1", b"2")
    town.loop.turn()
    assert ready_bodies(dead) == [b"1", b"2"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_letter_that_nobody_is_bound_for_is_dropped(town: Town, exists: bool) -> None:
    work = town.add("work", dead_letter_exchange="dlx")
    if exists:
        town.broker.apply(commands.DeclareExchange(exchange("dlx")))
    town.bury(work, b"x")
    town.loop.turn()
    assert (town.office.carried_total, town.office.unroutable_total) == (0, 1)


def test_a_letter_that_would_go_in_circles_is_dropped(town: Town) -> None:
    work = town.add("work", dead_letter_exchange="", message_ttl=10)
    one = message(b"x", key="work")
    one.stamp = NOW
    work.publish(one)
    town.later(10)
    assert (ready_bodies(work), town.office.cycles_total) == ([], 1)


def test_a_full_queue_that_refuses_a_letter_is_counted(town: Town) -> None:
    work = town.add("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    town.add("dead", max_length=0, overflow="reject-publish")
    town.bury(work, b"x")
    town.loop.turn()
    assert (town.office.carried_total, town.office.refused_total) == (0, 1)


def test_a_letter_of_a_virtual_host_that_is_gone_is_forgotten(town: Town) -> None:
    work = town.add("work", dead_letter_exchange="")
    town.bury(work, b"x")
    town.broker.vhosts.pop("/")
    town.loop.turn()
    assert (town.office.carried_total, town.office.unroutable_total) == (0, 0)


# ---- retries


def test_a_rejected_message_comes_back_after_the_delay_of_its_turn(town: Town) -> None:
    work = town.add("work", retry_delays="1s, 5s")
    town.bury(work, b"x", headers={"other": 1})
    town.loop.turn()
    assert (work.delayed_count(), ready_bodies(work), town.office.retried_total) == (1, [], 1)
    town.later(999)
    assert ready_bodies(work) == []
    town.later(1)
    assert ready_bodies(work) == [b"x"]
    assert head(work).properties.headers() == {"other": 1, "x-retry-count": 1}
    town.reject(work)
    town.loop.turn()
    town.later(4999)
    assert ready_bodies(work) == []
    town.later(1)
    assert head(work).properties.headers()["x-retry-count"] == 2


def test_after_the_last_retry_a_message_goes_to_the_parking_lot_which_is_made_for_it(town: Town) -> None:
    work = town.add("work", retry_delays="1s", parking_lot="lot")
    town.bury(work, b"x", headers={"x-retry-count": 1})
    town.loop.turn()
    lot = town.find("lot")
    assert (lot.record.durable, lot.record.kind) == (True, "classic")
    assert ready_bodies(lot) == [b"x"]
    assert head(lot).properties.headers()["x-last-death-queue"] == "work"
    town.bury(work, b"y", headers={"x-retry-count": 1})
    town.loop.turn()
    assert (ready_bodies(lot), town.office.parked_total) == ([b"x", b"y"], 2)


def test_without_a_parking_lot_it_goes_the_way_of_all_others(town: Town) -> None:
    work, dead = town.add("work", retry_delays="1s", dead_letter_exchange="", dead_letter_routing_key="dead"), None
    dead = town.add("dead")
    town.bury(work, b"x", headers={"x-retry-count": 1})
    town.loop.turn()
    assert ready_bodies(dead) == [b"x"]


@pytest.mark.parametrize("count", [-1, True, "1", None, 0.5])
def test_a_count_that_a_client_made_up_starts_again(town: Town, count: Any) -> None:
    work = town.add("work", retry_delays="1s")
    town.bury(work, b"x", headers={"x-retry-count": count})
    town.loop.turn()
    town.later(1000)
    assert head(work).properties.headers()["x-retry-count"] == 1


def test_what_expired_is_not_tried_again(town: Town) -> None:
    work = town.add("work", retry_delays="1s", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = town.add("dead")
    one = message(b"x", key="work")
    one.stamp = NOW
    work.publish(one)
    town.later(10)
    assert (ready_bodies(dead), work.delayed_count()) == ([b"x"], 0)


def test_a_queue_that_was_deleted_meanwhile_gets_nothing_back(town: Town) -> None:
    work = town.add("work", retry_delays="1s")
    town.bury(work, b"x")
    town.broker.apply(commands.DeleteQueue("/", "work"))
    town.loop.turn()
    assert town.office.retried_total == 0


# ---- turns


def test_letters_are_carried_a_bounded_number_a_turn_and_in_order(town: Town) -> None:
    work, dead = town.add("work", dead_letter_exchange="", dead_letter_routing_key="dead"), town.add("dead")
    town.loop.turn()
    bodies = [b"%d" % number for number in range(CARRIED_A_TURN + 5)]
    town.bury(work, *bodies)
    town.loop.turn()
    assert dead.ready_count() == CARRIED_A_TURN
    town.loop.turn()
    assert ready_bodies(dead) == bodies
    assert town.loop.waiting() == []


def test_whoever_stopped_in_the_middle_goes_on(town: Town) -> None:
    class Worker:
        calls = 0

        def go_on(self) -> None:
            self.calls += 1

    worker = Worker()
    town.loop.turn()
    town.kicks = 0
    town.broker.office.go_on_later(worker)
    town.loop.turn()
    assert (worker.calls, town.kicks) == (1, 1)
    assert town.loop.waiting() == []


def test_a_worker_that_fails_stops_no_other(town: Town) -> None:
    calls: list[str] = []

    class Worker:
        def __init__(self, name: str, fails: bool) -> None:
            self.name, self.fails = name, fails

        def go_on(self) -> None:
            calls.append(self.name)
            if self.fails:
                raise RuntimeError("a mistake of ours")

    for worker in (Worker("one", True), Worker("two", False)):
        town.broker.office.go_on_later(worker)
    town.kicks = 0
    town.loop.turn()
    assert (calls, town.kicks) == (["one", "two"], 1)


def test_nothing_is_carried_while_the_disk_is_behind() -> None:
    class Journal:
        congested = True

    town, journal = Town(), Journal()
    town.office.stop()
    office = DeadLetterWorker(town.broker.office, journal, town.broker, town.clock.wall)  # type: ignore[arg-type]
    office.start(town.loop.as_loop(), town.kick)
    ran: list[bool] = []
    town.broker.office.go_on_later(type("Worker", (), {"go_on": lambda self: ran.append(True)})())
    town.loop.turn()
    assert (ran, town.loop.waiting()) == ([], [CONGESTED_S])
    journal.congested = False
    town.loop.turn()
    assert ran == [True]
    town.broker.close()


def test_nothing_is_carried_after_the_stop(town: Town) -> None:
    work = town.add("work", dead_letter_exchange="")
    town.bury(work, b"x")
    town.office.stop()
    town.loop.turn()
    assert len(town.broker.office.letters) == 1


def test_a_letter_that_cannot_be_carried_keeps_its_record_and_stops_no_other(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, dead = town.add("work", dead_letter_exchange="", dead_letter_routing_key="dead"), town.add("dead")
    sent: list[bytes] = []

    class Watched(ClassicQueue):
        def letter_sent(self, letter: DeadLetter) -> int:
            sent.append(letter.message.body)
            return 0

    watched = Watched(b"work", QueueRecord("/", "work", "classic", False, False, 0, {}), office=town.broker.office)
    watched.set_rules(work.rules)
    real = dead_letter_worker.died

    def failing(dying: Any, *others: Any) -> Any:
        if dying.body == b"bad":
            raise RuntimeError("a mistake of ours")
        return real(dying, *others)

    monkeypatch.setattr(dead_letter_worker, "died", failing)
    town.bury(watched, b"bad", b"good")
    town.loop.turn()
    assert (sent, ready_bodies(dead)) == ([b"good"], [b"good"])
