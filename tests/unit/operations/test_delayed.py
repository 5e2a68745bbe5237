"""The service for delayed messages: what it counts, how it pages, what it cancels, what it says of unknown names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import ExchangeRecord, QueueRecord, Vhost
from leveret.errors import SoftError
from leveret.operations.delayed import LIMIT_MAX, Delayed, Summary, Waiting
from tests.unit.broker.people import LoadedDice
from tests.unit.broker.turns import NOW, HandClock
from tests.unit.queues.dataplane import message

NOTHING = Summary(0, 0, None)
DELAYED_TYPE = {"x-delayed-type": "direct"}


def add_queue(broker: Broker, name: str) -> Any:
    broker.apply(commands.DeclareQueue(QueueRecord("/", name, "classic", False, False, 0, {})))
    return broker.vhosts["/"].queues[name.encode()]


def add_exchange(broker: Broker, name: str, kind: str, arguments: dict[str, Any]) -> Any:
    broker.apply(commands.DeclareExchange(ExchangeRecord("/", name, kind, False, False, False, arguments)))
    return broker.vhosts["/"].exchanges[name.encode()]


def postponed(queue: Any, delay_ms: int, body: bytes = b"body") -> None:
    letter: Any = message(body, headers={"x-delay": -delay_ms})
    letter.stamp = NOW + delay_ms
    queue.publish(letter)


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker(LoadedDice(), HandClock())
    broker.apply(commands.PutVhost(Vhost("/")))
    yield broker
    broker.close()


@pytest.fixture
def delayed(broker: Broker) -> Delayed:
    return Delayed(broker)


@pytest.fixture
def queue(broker: Broker) -> Any:
    return add_queue(broker, "q")


@pytest.fixture
def held(broker: Broker) -> Any:
    return add_exchange(broker, "later", "x-delayed-message", DELAYED_TYPE)


def test_what_delays_nothing_has_nothing(broker: Broker, delayed: Delayed, queue: Any, held: Any) -> None:
    assert delayed.of_queue("/", "q") == NOTHING
    assert delayed.list("/", queue="q") == []
    assert not delayed.cancel("/", "1", queue="q")
    assert delayed.of_exchange("/", "later") == NOTHING
    assert delayed.list("/", exchange="later") == []
    add_exchange(broker, "plain", "fanout", {})
    assert delayed.of_exchange("/", "plain") == NOTHING
    assert delayed.list("/", exchange="plain") == []
    assert not delayed.cancel("/", "1", exchange="plain")


def test_what_waits_in_a_queue(delayed: Delayed, queue: Any) -> None:
    postponed(queue, 500, b"later")
    postponed(queue, 100, b"soon")
    assert delayed.of_queue("/", "q") == Summary(2, 9, NOW + 100)
    soon, later = delayed.list("/", queue="q")
    assert (soon.due_ms, soon.bytes, later.due_ms, later.bytes) == (NOW + 100, 4, NOW + 500, 5)
    assert soon.id.isdigit()
    assert int(soon.id) < int(later.id)


def test_what_waits_in_an_exchange(delayed: Delayed, held: Any) -> None:
    postponed(held.holder, 100)
    assert delayed.of_exchange("/", "later") == Summary(1, 4, NOW + 100)
    (waiting,) = delayed.list("/", exchange="later")
    assert (waiting.due_ms, waiting.bytes) == (NOW + 100, 4)
    assert delayed.cancel("/", waiting.id, exchange="later")
    assert delayed.of_exchange("/", "later") == NOTHING


def test_pages(delayed: Delayed, queue: Any) -> None:
    # Three of each moment: a page may end between them.
    for delay_ms in range(100, 110):
        for _ in range(3):
            postponed(queue, delay_ms)
    every = delayed.list("/", queue="q")
    assert len(every) == 30
    assert [one.due_ms for one in every] == sorted(one.due_ms for one in every)
    paged: list[Waiting] = []
    after = None
    while page := delayed.list("/", queue="q", after=after, limit=7):
        assert len(page) <= 7
        paged += page
        after = page[-1].id
    assert paged == every


def test_a_page_goes_on_behind_one_that_has_gone(delayed: Delayed, queue: Any) -> None:
    for delay_ms in (100, 200, 300):
        postponed(queue, delay_ms)
    every = delayed.list("/", queue="q")
    assert delayed.cancel("/", every[1].id, queue="q")
    assert delayed.list("/", queue="q", after=every[1].id) == every[2:]
    assert delayed.list("/", queue="q", after=str(2**64 - 1)) == []


def test_cancelling(broker: Broker, delayed: Delayed, queue: Any) -> None:
    for delay_ms in (100, 200):
        postponed(queue, delay_ms, b"%d" % delay_ms)
    first, second = delayed.list("/", queue="q")
    assert delayed.cancel("/", first.id, queue="q")
    assert not delayed.cancel("/", first.id, queue="q")
    assert delayed.list("/", queue="q") == [second]
    assert delayed.of_queue("/", "q") == Summary(1, 3, NOW + 200)
    clock: Any = broker.clock
    clock.ms += 300
    broker.tick()
    queue.delays.ring()
    assert (queue.ready_count(), queue.delayed_count()) == (1, 0)
    assert not delayed.cancel("/", second.id, queue="q")


@pytest.mark.parametrize("id", ["", "x", "-1", "1.5", "٣", str(2**64), "9" * 5000])
def test_what_cannot_be_an_id(delayed: Delayed, queue: Any, id: str) -> None:
    postponed(queue, 100)
    assert not delayed.cancel("/", id, queue="q")
    with pytest.raises(SoftError, match="not the id of a delayed message") as raised:
        delayed.list("/", queue="q", after=id)
    assert raised.value.code == 406


def test_unknown_names(delayed: Delayed, queue: Any, held: Any) -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: delayed.of_queue("/", "later"), "404 NOT_FOUND - no queue 'later' in vhost '/'"),
        (lambda: delayed.of_exchange("/", "q"), "404 NOT_FOUND - no exchange 'q' in vhost '/'"),
        (lambda: delayed.of_queue("other", "q"), "404 NOT_FOUND - no vhost 'other'"),
        (lambda: delayed.list("/", queue="x"), "404 NOT_FOUND - no queue 'x' in vhost '/'"),
        (lambda: delayed.cancel("/", "1", exchange="x"), "404 NOT_FOUND - no exchange 'x' in vhost '/'"),
    ]
    for call, text in cases:
        with pytest.raises(SoftError) as raised:
            call()
        assert str(raised.value) == text


@pytest.mark.parametrize("names", [{}, {"queue": "q", "exchange": "later"}])
def test_one_of_queue_and_exchange_is_named(delayed: Delayed, queue: Any, held: Any, names: dict[str, str]) -> None:
    with pytest.raises(SoftError, match="name one of the two"):
        delayed.list("/", **names)
    with pytest.raises(SoftError, match="name one of the two"):
        delayed.cancel("/", "1", **names)


@pytest.mark.parametrize("limit", [0, -1, LIMIT_MAX + 1])
def test_a_page_has_a_limit(delayed: Delayed, queue: Any, limit: int) -> None:
    with pytest.raises(SoftError, match=f"a page has 1 to {LIMIT_MAX} messages, not {limit}"):
        delayed.list("/", queue="q", limit=limit)
